"""Charterer's Kubernetes API: models of its kinds, the CRDs made from them, decoding, encoding and manifests.

Raw JSON becomes domain values here and nowhere else, and back. Nothing here talks to a cluster or keeps state.
"""
