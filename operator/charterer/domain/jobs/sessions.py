"""Sessions of interactive jobs: what is recorded when a worker reports, when its GPUs are given back, when it ends."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from charterer.domain.job import Allocation, Job, RunOutcome, RunRecord
from charterer.domain.jobs.interactive import Usage
from charterer.domain.money import Money, Price
from charterer.domain.reports.progress import Progress
from charterer.domain.time import Instant


def usage_of_run(job: Job) -> Usage | None:
    """What the worker of the job's present run has reported; None where it has not, or is none."""
    progress, allocation = job.progress, job.allocation
    if job.interactive is None or progress is None or allocation is None or progress.run != allocation.run:
        return None
    return progress.usage


def idle_since(job: Job) -> Instant | None:
    """Since when no cell runs in the job's present run, and nobody asked; None while one does, or nothing is known."""
    usage = usage_of_run(job)
    return None if usage is None else usage.idle_since


class SessionState(StrEnum):
    """What the GPUs of an interactive job do: a cell runs, none does, or its worker has not said so far."""

    BUSY = "busy"
    IDLE = "idle"
    UNKNOWN = "unknown"


def session_state(job: Job) -> SessionState | None:
    """What the job's GPUs do; None where it has none."""
    if job.allocation is None:
        return None
    if usage_of_run(job) is None:
        return SessionState.UNKNOWN
    return SessionState.BUSY if idle_since(job) is None else SessionState.IDLE


def with_report(job: Job, progress: Progress | None) -> Job:
    """The job with a later report on record. What its GPUs cost since the former one is split by what it says.

    The dollars are whole seconds of the run's price: repeated for the same report, nothing is added.
    """
    before, reported = job.progress, replace(job, progress=progress)
    usage = None if progress is None else progress.usage
    if job.interactive is None or progress is None or usage is None:
        return reported
    given: list[Allocation] = [*job.replaced, *([] if job.allocation is None else [job.allocation])]
    runs = {allocation.run: allocation for allocation in given}
    if progress.run not in runs:
        return reported
    former = Usage(0) if before is None or before.usage is None else before.usage
    price = runs[progress.run].option.price
    current = job.allocation is not None and progress.run == job.allocation.run
    told = replace(
        job.interactive,
        served=max(job.interactive.served, usage.asks) if current else job.interactive.served,
        busy_cost=job.interactive.busy_cost + _cost(price, former.busy_seconds, usage.busy_seconds),
        idle_cost=job.interactive.idle_cost + _cost(price, former.idle_seconds, usage.idle_seconds),
    )
    return replace(reported, interactive=told)


def _cost(price: Price, before: float, now: float) -> Money:
    return price.cost(max(int(now), int(before))) - price.cost(int(before))


def with_run_given(job: Job) -> Job:
    """The job when a new run is given GPUs: it is there for every ask so far."""
    told = job.interactive
    return job if told is None else replace(job, interactive=replace(told, served=told.asks))


def with_session_over(job: Job) -> Job:
    """The job when its session is over: what its run was there for is answered; a later ask is not."""
    told = job.interactive
    return job if told is None else replace(job, interactive=replace(told, answered=max(told.answered, told.served)))


def ends_session(job: Job, record: RunRecord) -> bool:
    """Whether the end of the job's present run by itself ends its session, so that nobody waits for the next one.

    A worker that stopped has done so; one that was lost while no cell ran is missed by nobody.
    """
    if job.interactive is None or job.allocation is None or job.allocation.run != record.number:
        return False
    if record.outcome is RunOutcome.STOPPED:
        return True
    return record.outcome.counts_as_restart and idle_since(job) is not None
