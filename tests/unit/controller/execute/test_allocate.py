"""What an allocation writes into the job's record: why it was given, and why one ended that nothing follows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from charterer.controller.execute import ExecutionContext
from charterer.controller.execute.run_steps import allocate
from charterer.domain.job import Allocation, Job, ResizePolicy
from charterer.domain.plan import Allocate, ReasonCode
from charterer.domain.reasons import jobs as of
from charterer.policy.jobs.job_facts import reason
from tests import factory

SUSPENDED = reason(ReasonCode.SUSPENDED, of.JobSuspended(queued=False))
STALLED = reason(ReasonCode.STALLED, of.Stalls(1, 60.0))
ONE, TWO = factory.allocation(), factory.allocation("a100-2", run=2)


class Written:
    """Holds what is written of one job."""

    def __init__(self, job: Job) -> None:
        self.job = job

    async def record_job(self, job: Job) -> None:
        self.job = job


async def after(job: Job, given: Allocation | None, why: Any) -> Job:
    written = Written(job)
    decided = SimpleNamespace(
        job=lambda _: job, decided_job=lambda _: job, snapshot=lambda: factory.snapshot(job, factory.rental())
    )
    context = cast(ExecutionContext, SimpleNamespace(decided=decided, objects=written))
    await allocate(context, Allocate(job.id, given, why))
    return written.job


async def test_what_a_job_is_given_has_the_reason() -> None:
    job = await after(factory.job(), ONE, SUSPENDED)
    assert job.allocation == replace(ONE, because=SUSPENDED.message)


async def test_a_run_that_moves_has_its_reason_with_the_next_one_and_one_that_stops_its_own() -> None:
    running = factory.job(allocation=ONE, last_run=1)
    moved = await after(running, TWO, SUSPENDED)
    assert (moved.allocation, moved.replaced) == (replace(TWO, because=SUSPENDED.message), (ONE,))
    stopped = await after(running, None, SUSPENDED)
    assert (stopped.allocation, stopped.replaced) == (None, (replace(ONE, stopped_because=SUSPENDED.message),))


async def test_a_run_that_stalled_has_one_reason() -> None:
    job = await after(factory.job(allocation=ONE, last_run=1), None, STALLED)
    assert job.replaced == (replace(ONE, stalled_because=STALLED.message),)


async def test_a_run_that_is_resized_in_place_has_the_reason_of_its_present_width() -> None:
    running = factory.job(resize=ResizePolicy.IN_PLACE, allocation=replace(ONE, because="4 at first"), last_run=1)
    wider = factory.allocation("a100-1", "a100-2")
    job = await after(running, wider, SUSPENDED)
    assert job.allocation is not None
    assert (job.allocation.because, job.allocation.run) == (SUSPENDED.message, 1)
