"""Learning from what jobs report: reports into a learner, what it says into SpeedupProfile.status, plans from there.

The status is the only memory: the plan, the command line and the next operator all read what stands there.
"""
