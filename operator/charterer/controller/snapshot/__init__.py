"""Snapshots: ``observe`` joins the ``cluster_state`` (objects of the store, surveys, dry runs, reports) into one value.

``source`` makes snapshots for the operator, ``offline`` for a command with read access. No module decides or writes.
"""
