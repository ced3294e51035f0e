"""Jobs by themselves: the facts of each, groups of jobs that choose alike, their costs, and the gain of a move.

The package reads no clock (``now`` is an argument). It knows pools only by their offers, and budgets only by name.
"""
