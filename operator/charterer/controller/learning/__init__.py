"""Learning from what jobs report: reports go into a learner, what it knows into SpeedupProfile.status and plans.

The status is the only memory: the plan, the command line and the next operator all read it. ``estimate``
has the estimation.
"""
