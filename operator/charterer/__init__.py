"""Charterer: a Kubernetes operator that rents GPU nodes and gives them to training jobs within a money budget."""

__version__ = "0.1.0"
