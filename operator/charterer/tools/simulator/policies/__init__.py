"""Policies: the operator's planner, which gets snapshots of the world, and the baselines with which it is compared.

They implement the interfaces of ``tools.simulator.engine.world``. Nothing here knows where jobs and profiles come from.
"""

from __future__ import annotations
