"""Decisions: one budget's commands and verdicts, from its solution, its jobs and the nodes that are free.

Which jobs start, go elsewhere or stop, which nodes are rented or released. What money allows is ``policy.budgets``."""
