"""Metrics under ``charterer_``: their names (catalogue), what a snapshot says (view), what is counted (instruments).

Values come in through ``instruments.Metrics``; nothing here asks a cloud, Kubernetes or the planner for anything.
"""
