"""Access to the Kubernetes API: client, store of decoded objects, watch, repair list, Lease and Events.

Only ``watch`` imports kopf. No module here plans, runs a life cycle or calls a cloud.
"""
