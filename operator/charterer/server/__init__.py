"""The operator's HTTP server: health, metrics, and the progress endpoint that training pods talk to.

Everything of Kubernetes comes in as a callable; nothing here imports a client, the controller or the metrics.
"""
