"""The controller: it makes snapshots, carries out single mutations, and writes status and learned profiles.

``policy`` and ``lifecycle`` make the decisions. This package observes, orders, carries out and publishes.
"""
