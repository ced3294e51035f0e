"""What follows for one job from its options, the budget's exchange rate and the nodes that there are: the one judgement
that the queue, moves, full pools and ``explain`` share.
"""
