"""What a job's options mean for the job now, from the budget's exchange rate and the existing nodes.

The queue, moves, full pools and ``explain`` share this judgement.
"""
