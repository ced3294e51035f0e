"""``charterer run``: a TrainingJob of a command line."""
