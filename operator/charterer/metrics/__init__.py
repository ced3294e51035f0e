"""Metrics under ``charterer_``: names (catalogue), values of a snapshot (view), counters of events (instruments).

Values come in through ``instruments.Metrics``. The package calls no cloud, Kubernetes or planner.
"""
