"""A trainer that reports nonsense misleads the plan for as long as it does, and costs nobody a run or a node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import JobId
from charterer.domain.job import ResizePolicy
from charterer.domain.plan import Allocate, Plan, Release
from charterer.domain.reports import Progress
from charterer.domain.time import after
from charterer.policy import plan
from tests.scenarios.policy.stories import simple
from tests.worlds import World

TRAIN = JobId("train")


def running() -> World:
    world = simple()
    world.rental()
    world.job("train", gpus=8, profile="sft", hours_left=20.0)
    world.runs_on("train", "a100-1", gpus=8, speed=8**0.9)
    world.passes(7_200.0)
    return world


def says(world: World, fraction: float | None, step: int, remaining: float) -> Plan:
    """The plan once the run has said so; ``remaining``: the work that follows from it, as ``observe`` finds it."""
    progress = Progress(1, fraction, step, None, world.now, advanced=world.now)
    changed = replace(world.jobs[TRAIN], resize=ResizePolicy.RESTART, progress=progress, remaining=remaining)
    world.jobs[TRAIN] = changed
    return plan(world.snapshot())


@pytest.mark.parametrize(("fraction", "step", "left"), [(1.0, 10, 0.0), (0.0, 10**15, 72_000.0), (1e-9, 0, 1e14)])
def test_a_lie_ends_no_run_and_is_forgotten_with_the_next_report(fraction: float, step: int, left: float) -> None:
    world = running()
    honest = says(world, 0.3, 300, 50_000.0)
    lied = says(world, fraction, step, left)
    for command in lied.commands:
        assert not isinstance(command, Release)
        assert not (isinstance(command, Allocate) and command.allocation is None)
    again = says(world, 0.3, 300, 50_000.0)
    assert again.commands == honest.commands
    assert again.jobs == honest.jobs


@pytest.mark.parametrize("minutes", [-10.0, 10.0])
def test_a_clock_that_is_minutes_off_stalls_no_run_that_advances(minutes: float) -> None:
    """A former leader's clock wrote when the last report came; whether a run advances counts by this one's."""
    world = running()
    recorded = after(world.now, minutes * 60.0)
    progress = Progress(1, 0.3, 300, None, recorded, advanced=world.now, advances=3)
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], resize=ResizePolicy.RESTART, progress=progress)
    world.passes(1_799.0)
    assert plan(world.snapshot()).commands == ()
