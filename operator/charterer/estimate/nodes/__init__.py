"""Estimates about the nodes of a pool."""
