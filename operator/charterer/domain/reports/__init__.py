"""What the pods of runs report, and what is found by it."""
