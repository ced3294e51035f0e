"""Learning from the reports of running jobs: speed, gradient noise, batch and job sizes, with uncertainty.

Pure and deterministic, without clock or random numbers; equations and constants are explained in
docs/theory/estimation.md. Nothing here decides what to rent, and nothing here reads or writes objects.
"""
