"""Decisions: one budget's commands and verdicts, from its solution, its jobs and the free nodes.

Decisions say which jobs start, move or stop, and which nodes are rented or released. ``policy.budgets`` says what money
allows.
"""
