"""Discrete-event simulation on a virtual clock: the operator's own planner, and others, on modelled jobs and nodes.

The packages, each of which imports only those after it, are: replay, policy_registry, simulation; policies/, history/,
knowledge; engine/; model/. There is no wall clock, thread or file here (the command line reads and writes files), so a
seed gives one result.
"""

from __future__ import annotations
