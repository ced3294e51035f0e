"""When a run is expected to end, by what its job or its class says."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from charterer.domain.interactive import Interactive
from charterer.domain.job import Job
from charterer.domain.reports import Progress
from charterer.domain.time import after
from charterer.policy.jobs.groups import seconds_left
from tests.worlds import World

HOUR = 3600.0


def running(hours_left: float | None) -> tuple[World, Job]:
    world = World()
    world.budget()
    world.pool()
    world.rental()
    world.job("train", gpus=8, hours_left=hours_left)
    return world, world.runs_on("train", "a100-1", gpus=8, speed=2.0)


def left(world: World, job: Job, *, sized: bool = False) -> float:
    return seconds_left(job, 4.0 * HOUR, sized=sized, now=world.now)


@pytest.mark.parametrize(("passed", "expected"), [(0.0, 1.0), (0.75, 0.25), (1.5, 0.5), (3.0, 2.0)])
def test_what_it_had_left_is_counted_down_and_an_overdue_run_is_overdue_for_as_long_again(
    passed: float, expected: float
) -> None:
    world, job = running(2.0)
    world.passes(passed * HOUR)
    assert left(world, job) == expected * HOUR


def test_what_it_reports_is_counted_down_from_the_report_on() -> None:
    world, job = running(2.0)
    world.passes(0.75 * HOUR)
    assert job.allocation is not None
    told = Progress(job.allocation.run, 0.5, None, None, after(world.now, -0.25 * HOUR))
    assert left(world, replace(job, progress=told)) == 0.75 * HOUR


def test_a_run_that_goes_on_never_ends_at_once() -> None:
    world, job = running(2.0)
    world.passes(1.0 * HOUR)
    assert left(world, job) == 1.0


def test_without_any_word_of_its_size_its_end_is_not_known() -> None:
    world, job = running(None)
    assert left(world, job) == inf
    assert left(world, job, sized=True) == 2.0 * HOUR


def test_an_interactive_job_has_no_end_and_one_without_gpus_no_run() -> None:
    world, job = running(2.0)
    assert left(world, replace(job, interactive=Interactive())) == inf
    assert left(world, replace(job, allocation=None)) == inf
