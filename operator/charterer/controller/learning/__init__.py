"""Learning from what jobs report: reports go into a learner, what it knows into SpeedupProfile.status and plans.

The status is the only memory: the plan, the command line and the next operator all read it. How to estimate is no
matter of this room but of ``estimate``.
"""
