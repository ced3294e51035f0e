"""Nodes, whoever rents them: how long they live, how long one waits for them, and sets of pools that have them."""
