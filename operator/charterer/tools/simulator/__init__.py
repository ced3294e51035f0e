"""Discrete-event simulation on a virtual clock. The operator's own planner and other policies act on modelled jobs and
nodes.

The packages are, in this order: replay, policy_registry, simulation; policies/, history/, knowledge; engine/; model/.
Each imports only packages after it. No package here uses a wall clock, a thread or a file, so the same seed always
gives the same result. The command line reads and writes the files.
"""

from __future__ import annotations
