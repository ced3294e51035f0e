"""What two jobs on one GPU keep, from their reports to the profile that the planner reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import JobId, Rate
from charterer.gpu_types import slice_type
from charterer.policy import plan
from tests.unit.controller.learning.classroom import CLASS, Classroom
from tests.worlds import World

V100 = "Tesla-V100-SXM2-16GB"
PLACE = slice_type(V100, "mps-2")


def shared(gpus: int = 1) -> Classroom:
    """Nodes of GPUs that two jobs share, whose owners hold that worth more than their time."""
    world = World()
    world.budget()
    world.budgets = {name: replace(budget, fixed_rate=Rate(0.3 / 3600)) for name, budget in world.budgets.items()}
    world.pool("shared", gpus=gpus, price="2.48", gpu_type=V100, cut="mps-2")
    return Classroom(world)


def comes(room: Classroom, name: str) -> JobId:
    """A job of the class comes and starts."""
    job = room.world.job(name, gpus=1, profile=CLASS.name, shared_mib=1024, hours_left=100.0)
    for _ in range(2):
        room.world.carry_out(plan(room.world.snapshot()))
        room.world.everything_starts()
    return job.id


def test_what_both_keep_is_learned_recorded_and_read_back() -> None:
    room = shared()
    first = comes(room, "first")
    room.says(first, step_seconds=0.1, times=20)
    room.learn()
    second = comes(room, "second")
    assert len(room.world.rentals) == 1
    for _ in range(8):  # each beside the other, which has reported before
        room.says(first, step_seconds=0.16, times=3)
        room.says(second, step_seconds=0.16, times=3)
    (pair,) = room.learn().pairs
    assert (pair.gpu_type, pair.beside) == (PLACE, CLASS)
    assert pair.kept == pytest.approx(0.1 / 0.16, rel=0.05)
    assert pair.reports > 20


def test_nothing_is_learned_of_pairs_where_a_node_has_several_gpus() -> None:
    room = shared(gpus=2)
    jobs = [comes(room, f"j{number}") for number in range(4)]
    for job in jobs * 3:
        room.says(job, step_seconds=0.2, times=3)
    assert len(room.world.rentals) == 1
    assert room.learn().pairs == ()


def test_a_partner_that_has_not_reported_yet_is_not_blamed() -> None:
    room = shared()
    first = comes(room, "first")
    room.says(first, step_seconds=0.1, times=5)
    room.learn()
    comes(room, "second")
    room.says(first, step_seconds=0.1, times=5)
    assert room.learn().pairs == ()


def test_a_recorded_pair_that_is_no_fraction_is_no_knowledge() -> None:
    room = shared()
    room.says(comes(room, "first"), step_seconds=0.1, times=5)
    room.learn()
    room.status["pairs"] = [{"gpuType": PLACE, "beside": "team/other", "kept": 1.5, "reports": 3}]
    profile = room.read()
    assert profile is not None
    assert "pairs" in profile.unreadable
    assert profile.pairs == ()
