"""The operator's HTTP server: health, metrics, and the progress endpoint for training pods.

The callers pass in functions that access Kubernetes. The package imports no client, controller or metrics.
"""
