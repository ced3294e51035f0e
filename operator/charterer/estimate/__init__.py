"""What is learned from the reports of running jobs: speed, gradient noise, batch sizes, load, each with how sure it is.

Pure and deterministic: the standard library, no clock, no random numbers; equations and constants are explained in
docs/theory/estimation.md. Nothing here decides what to rent.
"""
