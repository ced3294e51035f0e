"""The GPU type of which a report tells, where jobs share GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from charterer.controller.learning.report_collector import JobsOnNodes
from charterer.domain.ids import ClassId
from charterer.domain.job import Job
from charterer.domain.pool import Offering
from charterer.domain.profile import SpeedCurve, ThroughputTable
from charterer.domain.reports import Progress
from charterer.domain.snapshot import Snapshot
from charterer.gpu_types import slice_type
from charterer.policy import plan
from tests.worlds import World

V100 = "Tesla-V100-SXM2-16GB"
PLACE = slice_type(V100, "mps-2")


def full_node(gpus: int, jobs: int, cut: str = "mps-2") -> World:
    """So many jobs on one node of so many GPUs."""
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
    assert len(world.rentals) == 1
    return world


def types_told(gpus: int, jobs: int, cut: str = "mps-2") -> Sequence[str]:
    """What the report of each of so many jobs tells, which run on one node of so many GPUs."""
    snapshot, told = full_node(gpus, jobs, cut).snapshot(), JobsOnNodes()
    return [told.measured_type(job, offering(snapshot), snapshot) for job in snapshot.jobs.values()]


def partners(world: World) -> Sequence[ClassId | None]:
    """The class of each job's partner."""
    snapshot, told = world.snapshot(), JobsOnNodes()
    return [told.partner(job, offering(snapshot), snapshot) for job in snapshot.jobs.values()]


def offering(snapshot: Snapshot) -> Offering:
    """That of the only pool."""
    (pool,) = snapshot.pools.values()
    assert pool.offering is not None
    return pool.offering


def reporting(job: Job) -> Job:
    """The job after the first report of its run."""
    assert job.allocation is not None
    return replace(job, progress=Progress(job.allocation.run, 0.1, None, None, job.allocation.since))


@pytest.mark.parametrize(
    ("gpus", "jobs", "told"), [(1, 1, V100), (1, 2, PLACE), (4, 1, V100), (4, 3, ""), (4, 8, PLACE)]
)
def test_a_full_node_tells_of_places_and_a_lone_job_of_whole_gpus(gpus: int, jobs: int, told: str) -> None:
    assert types_told(gpus, jobs) == [told] * jobs


def test_a_gpu_of_ones_own_tells_of_itself() -> None:
    assert types_told(4, 3, cut="") == [V100] * 3


def test_the_partner_is_known_where_a_node_is_one_gpu_and_the_other_job_trains() -> None:
    world = full_node(1, 2)
    assert partners(world) == [None, None]  # both still start
    (job, other) = world.jobs.values()
    world.jobs[other.id] = reporting(other)
    assert partners(world) == [other.class_id, None]
    world.jobs[other.id] = replace(reporting(other), class_id=ClassId.of_job(other.id))
    assert partners(world) == [None, None]
    world.jobs[job.id] = reporting(job)
    assert partners(world) == [None, job.class_id]


def test_nobody_knows_who_is_on_which_of_several_gpus() -> None:
    world = full_node(2, 4)
    for job in list(world.jobs.values()):
        world.jobs[job.id] = reporting(job)
    assert partners(world) == [None] * 4
