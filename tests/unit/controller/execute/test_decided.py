"""A decision about a job rests on its spec and its record, and on nothing that is joined to them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from charterer.controller.execute.context import DecidedObjects, Stale
from charterer.controller.snapshot.observe import observe
from charterer.domain.ids import JobId
from charterer.domain.job import Job
from charterer.domain.reports import Bottleneck, BottleneckKind, Findings, Progress
from tests.unit.cli.worlds import seen_of
from tests.worlds import World

TRAIN = JobId("train")


def stored_and_decided() -> tuple[Job, DecidedObjects, dict[str, Job]]:
    """A job as it is stored, and what was decided on: with runs, reports and what holds it up."""
    world = World()
    world.budget(amount="40000")
    world.pool(gpus=8, price="16")
    world.rental()
    world.job("train", gpus=8, profile="sft", hours_left=20.0)
    world.runs_on("train", "a100-1", gpus=8, speed=1.0)
    world.passes(600.0)
    seen = seen_of(world)
    ((key, decoded),) = seen.jobs.items()
    stored = replace(decoded.job, runs=(), budget=None, remaining=None, progress=None, bottlenecks=())
    allocation = stored.allocation
    assert allocation is not None
    found = Bottleneck(BottleneckKind.SLOW_WORKER, allocation.run, 1.4, 0.3, 0.3, 0, allocation.placements[0].rental)
    reported = {TRAIN: Progress(allocation.run, 0.5, 1, None, world.now)}
    state = replace(
        seen,
        jobs={key: replace(decoded, job=stored)},
        findings=Findings({TRAIN: (found,)}),
        progress=reported,
    )
    snapshot = observe(state, world.now)
    objects = {"train": stored}
    store = SimpleNamespace(get=lambda kind, name, namespace="": SimpleNamespace(job=objects[name]))
    return stored, DecidedObjects(cast(Any, store), lambda: snapshot), objects


def test_a_job_that_something_holds_up_is_not_taken_for_a_changed_one() -> None:
    stored, decided, _ = stored_and_decided()
    joined = decided.decided_job(TRAIN)
    assert joined.bottlenecks
    assert joined.progress
    assert decided.job(TRAIN) == stored


def test_a_decision_about_a_job_whose_record_changed_since_is_stale() -> None:
    stored, decided, objects = stored_and_decided()
    objects["train"] = replace(stored, last_run=stored.last_run + 1)
    with pytest.raises(Stale):
        decided.job(TRAIN)
