"""The demo: a measured hour of submissions, replayed on a real control plane in a few minutes.

It drives the programs as a user would (kubectl, helm, `charterer`), and simulates the training that kwok's pods do not
do. The demo and the operator meet at Kubernetes and HTTP only; `demo.simulated` alone imports charterer, for its
simulator.
"""
