"""Discrete-event simulation on a virtual clock: the operator's own planner, and others, on modelled jobs and nodes.

Packages, each importing only those below: replay, policy_registry, simulation; policies/, history/, knowledge/;
engine/; model/. No wall clock, threads or files in here (the command line reads and writes them): one seed, one result.
"""

from __future__ import annotations
