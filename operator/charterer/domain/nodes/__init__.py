"""Nodes, whoever rents them: how long they live, and how long one waits for them."""
