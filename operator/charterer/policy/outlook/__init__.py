"""One judgement of what a job's options mean for it now, from the budget's exchange rate and the nodes that there are.

The queue, moves, full pools and ``explain`` share it.
"""
