"""The demo: a measured hour of submissions replayed on a real control plane, in minutes, for whoever has just cloned.

It drives the programs as a user would (kubectl, helm, `charterer`) and stands in for what kwok's pods do not run.
Nothing here is imported by the operator, and nothing here imports it: the two meet at Kubernetes and HTTP.
"""
