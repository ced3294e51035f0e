"""Snapshots: the store's objects, surveys, dry runs and reports (cluster_state) are joined into one value (observe).

``source`` does it for the operator, ``offline`` for a command that may only read. Nothing here decides or writes.
"""
