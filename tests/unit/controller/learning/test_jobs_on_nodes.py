"""The GPU type of which a report tells, where jobs share GPUs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from charterer.controller.learning.jobs_on_nodes import JobsOnNodes
from charterer.domain.ids import JobId
from charterer.domain.profile import SpeedCurve, ThroughputTable
from charterer.gpu_types import slice_type
from charterer.policy import plan
from tests.worlds import World

V100 = "Tesla-V100-SXM2-16GB"
PLACE = slice_type(V100, "mps-2")


def types_told(gpus: int, jobs: int, cut: str = "mps-2") -> Sequence[str]:
    """What the report of each of so many jobs tells, which run on one node of so many GPUs."""
    world = World()
    world.budget()
    world.pool("pool", gpus=gpus, price="2.48", gpu_type=V100, cut=cut)
    curve = ThroughputTable(((1, 1.0),))
    world.profile("sft", curve, gpu_type=V100, work_hours=4, others=(SpeedCurve(PLACE, curve),))
    for number in range(jobs):
        world.job(f"j{number}", gpus=1, profile="sft", shared_mib=1024)
    for _ in range(2):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    snapshot, told = world.snapshot(), JobsOnNodes()
    assert len(world.rentals) == 1
    offering = next(iter(snapshot.pools.values())).offering
    assert offering is not None
    return [told.measured_type(snapshot.jobs[JobId(f"j{number}")], offering, snapshot) for number in range(jobs)]


@pytest.mark.parametrize(
    ("gpus", "jobs", "told"), [(1, 1, V100), (1, 2, PLACE), (4, 1, V100), (4, 3, ""), (4, 8, PLACE)]
)
def test_a_full_node_tells_of_places_and_a_lone_job_of_whole_gpus(gpus: int, jobs: int, told: str) -> None:
    assert types_told(gpus, jobs) == [told] * jobs


def test_a_gpu_of_ones_own_tells_of_itself() -> None:
    assert types_told(4, 3, cut="") == [V100] * 3
