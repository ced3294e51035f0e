"""The operator's HTTP server: health, metrics, and the progress endpoint for training pods.

Kubernetes access comes in as callables. The package imports no client, controller or metrics.
"""
