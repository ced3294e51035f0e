"""Charterer's Kubernetes API: models of its kinds, CRDs and reference generated from them, decoders, and manifests.

Only this package converts between raw JSON and domain values. The package calls no cluster and keeps no state.
"""
