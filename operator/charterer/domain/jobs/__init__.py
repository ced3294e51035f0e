"""What is known of a job beside its present runs: its end, its cost, its group, doubts about its record."""
