"""Discrete events on a virtual clock: jobs, nodes and money as in the world, driving the operator's own planner.

Pure values and events: no wall clock, no threads, no files (the command line reads and writes them). The same seed
gives the same result.
"""
