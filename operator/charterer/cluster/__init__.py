"""Access to the Kubernetes API: raw calls, the store of decoded objects, watch, repair list, Lease, Events.

JSON enters and leaves here and nowhere above; only ``watch`` imports kopf. Nothing here decides what should be done:
no planning, no life cycles, no clouds.
"""
