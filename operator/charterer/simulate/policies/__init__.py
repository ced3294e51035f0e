"""Policies: the operator's planner behind a snapshot of the world, and the baselines to compare it with.

Implementations of ``engine.policy``; nothing in here knows where jobs and profiles come from.
"""
