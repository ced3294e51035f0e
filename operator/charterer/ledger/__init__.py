"""The ledger: how a step changes a balance, the purpose of each dollar, and the statistics of finished jobs.

All functions are pure. Amounts are whole micro-dollars, and parts add up exactly to their whole. This package makes no
decisions and carries nothing out.
"""
