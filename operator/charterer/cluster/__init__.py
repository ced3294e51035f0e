"""Access to the Kubernetes API: calls, the store of decoded objects, the watch, the repair list, the Lease, Events.

Only ``watch`` imports kopf. Nothing here decides what should be done: no planning, no life cycles, no clouds.
"""
