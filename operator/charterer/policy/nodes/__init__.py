"""Rented nodes: which jobs hold which GPUs, what the nodes have cost, and what limits still allow.

Nothing here chooses an option or solves a budget."""
