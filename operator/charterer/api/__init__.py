"""Charterer's Kubernetes API: the models of its kinds, CRDs and reference made from them, decoding, and manifests.

Raw JSON becomes domain values here and nowhere else, and back. Nothing here talks to a cluster or keeps state.
"""
