"""The values that all other packages use: money, time, jobs, pools, rentals, budgets, snapshots, plans and steps.

All values are frozen and need only the standard library. This package does no I/O, does not log, reads no clock and
does not import Kubernetes.
"""
