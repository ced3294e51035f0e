"""Learning from the reports of running jobs: speed, gradient noise, batch sizes and job sizes, with uncertainty.

The package is pure and deterministic, without clock or random numbers. docs/theory/estimation.md explains equations
and constants. Nothing here decides what to rent, and nothing here reads or writes objects.
"""
