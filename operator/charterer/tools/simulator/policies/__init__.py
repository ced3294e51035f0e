"""Policies: the operator's planner behind a snapshot of the world, and the baselines to compare it with.

They implement the interfaces of ``tools.simulator.engine.world``. Nothing here knows where jobs and profiles come from.
"""

from __future__ import annotations
