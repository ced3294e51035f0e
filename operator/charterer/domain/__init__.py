"""The words everything else is said in: money, time, jobs, pools, rentals, budgets, snapshots, plans and steps.

Frozen values of the standard library only: nothing here awaits, logs, reads a clock or knows of Kubernetes.
"""
