"""Learning from the reports of jobs: reports go into a learner, and the results into SpeedupProfile.status and into
plans.

The status is the only memory. The plan, the command line and the next operator read it. ``estimate`` has the
estimation.
"""
