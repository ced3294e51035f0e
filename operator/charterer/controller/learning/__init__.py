"""Learning from the reports of jobs. A learner computes speeds from the reports. The results go into
SpeedupProfile.status and into plans.

The status is the only stored result. The plan, the command line and the next operator read it. The package ``estimate``
has the mathematics.
"""
