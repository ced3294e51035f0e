"""The values that all other packages use: money, time, jobs, pools, rentals, budgets, snapshots, plans and steps.

They are frozen and need only the standard library. Nothing here awaits, logs, reads a clock or knows Kubernetes.
"""
