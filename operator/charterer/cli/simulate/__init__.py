"""``charterer simulate``: the command with its groups of options, and the files or history that it simulates."""
