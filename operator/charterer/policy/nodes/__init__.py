"""Rented nodes: who holds which GPUs, what they have cost, and what limits still allow.

Nothing here chooses an option or solves a budget."""
