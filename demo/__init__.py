"""The demo: a measured hour of submissions, replayed on a real control plane in a few minutes.

The demo drives the programs as a user would (kubectl, helm, `charterer`). The demo simulates the training, because
kwok's pods run no containers. The demo and the operator communicate through Kubernetes and HTTP only. Only
`demo.simulated` imports charterer, for its simulator.
"""
