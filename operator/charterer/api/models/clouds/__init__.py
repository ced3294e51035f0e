"""Where the nodes of a pool come from: a model for each cloud."""
