"""Learning from the reports of jobs. Reports go into a learner, and its results into SpeedupProfile.status and into
plans.

The status is the only memory, which the plan, the command line and the next operator read. ``estimate`` has the
estimation.
"""
