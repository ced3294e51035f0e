"""What a job's own record tells: its cost run by run, its sessions, and failures that it shares with another job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from charterer.domain.budget import JobTime
from charterer.domain.cost_row import WHOLE, Parts
from charterer.domain.ids import RentalId
from charterer.domain.interactive import Usage
from charterer.domain.job import Allocation, Job, RunOutcome, RunRecord, Stretch
from charterer.domain.money import Money, Price, apportion, total
from charterer.domain.option import Option
from charterer.domain.rental import Rental
from charterer.domain.reports import BottleneckKind, Progress
from charterer.domain.time import Instant, seconds_between

# The cost of a job: the GPUs that it held, run by run, from its own record.


def spans(job: Job, now: Instant) -> Iterable[tuple[RunRecord | Allocation, Instant, Instant]]:
    """The job's runs in order, each from when it held its GPUs to when it left them.

    One at a time: a run that replaces another begins when the other has ended.
    """
    current = () if job.allocation is None else (job.allocation,)
    runs: dict[int, RunRecord | Allocation] = {item.run: item for item in (*job.replaced, *current)}
    runs |= {record.number: record for record in job.records}
    free_from = Instant(0)
    for _, run in sorted(runs.items()):
        start = max(run.since, free_from)
        end = min(run.until, now) if isinstance(run, RunRecord) else now
        if start < end:
            yield run, start, end
        free_from = max(free_from, end)


def job_cost(job: Job, rentals: Mapping[RentalId, Rental], now: Instant) -> Money:
    """The cost of the GPUs that the job held, at the price of each run's option.

    Starting, idle and ending nodes are not included. The job's own record gives it, so it stays the same when the
    rentals are gone; while they exist, a machine that ended before its run was recorded is counted to its end.
    """
    costs = [
        run.cost if isinstance(run, RunRecord) and run.cost is not None else _run_cost(run, start, end, rentals)
        for run, start, end in spans(job, now)
    ]
    return job.earlier_cost + total(costs)


def costed(job: Job, record: RunRecord, rentals: Mapping[RentalId, Rental]) -> RunRecord:
    """The record of one of the job's runs that has ended, with its cost."""
    recorded = replace(job, records=(*job.records, record))
    costs = [_run_cost(run, start, end, rentals) for run, start, end in spans(recorded, record.until) if run is record]
    return replace(record, cost=total(costs))


def with_allocation(job: Job, allocation: Allocation, rentals: Mapping[RentalId, Rental]) -> Job:
    """The job when its run is to be resized in place to ``allocation``: what it held so far has cost what it did.

    Until the run's group has been formed, its width is the one that it has now (``Job.trains_on``).
    """
    held = job.allocation
    costs = [_run_cost(run, start, end, rentals) for run, start, end in spans(job, allocation.since) if run is held]
    return replace(
        job,
        allocation=allocation,
        resized_from=job.trains_on,
        earlier_cost=job.earlier_cost + total(costs),
    )


def resized(job: Job, rentals: Mapping[RentalId, Rental], now: Instant) -> Job:
    """The job when the width of its allocation begins to count: its group has been formed, or nobody will say so."""
    if job.allocation is None or job.resized_from is None:
        return job
    counted = with_allocation(job, replace(job.allocation, since=now), rentals)
    return without_resize(replace(counted, resized_from=job.resized_from), now)


def without_resize(job: Job, until: Instant) -> Job:
    """The job when its run has no longer the width from which it was resized: how long it had it is kept."""
    former = job.resized_from
    if former is None:
        return job
    seconds = max(seconds_between(former.since, until), 0.0)
    same = [stretch for stretch in job.stretches if _alike(stretch.option, former.option)]
    others = [stretch for stretch in job.stretches if not _alike(stretch.option, former.option)]
    longer = Stretch(former.option, seconds + sum(stretch.seconds for stretch in same))
    return replace(job, resized_from=None, stretches=(*others, longer))


def _alike(one: Option, other: Option) -> bool:
    return (one.pool, one.gpus, one.resource, one.variant) == (other.pool, other.gpus, other.resource, other.variant)


def _run_cost(run: RunRecord | Allocation, start: Instant, end: Instant, rentals: Mapping[RentalId, Rental]) -> Money:
    costs = []
    for place in run.placements:
        rental = rentals.get(place.rental)
        until = end if rental is None or rental.ended is None else min(end, rental.ended)
        seconds = max(until - start, 0) // 1_000_000
        costs.append(run.option.price.for_gpus(place.takes, run.option.takes).cost(seconds))
    return total(costs)


# Sessions of interactive jobs: what is recorded when a worker reports, when its GPUs are given back, when it ends.


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
    """The job with a later report on record: the cost since the last report is split into busy and idle by its seconds.

    Recording one report twice adds nothing, because the dollars are whole seconds of the run's price.
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


# What the GPUs of a job's present run do.


_LOST_TO: Final[Mapping[BottleneckKind, JobTime]] = {
    BottleneckKind.SLOW_WORKER: JobTime.SLOW,
    BottleneckKind.SLOW_NODE: JobTime.SLOW,
    BottleneckKind.INPUT_STARVED: JobTime.STARVED,
    BottleneckKind.SYNC_BOUND: JobTime.WAITING_FOR_PEERS,
}


def doing(job: Job) -> Parts:
    """What the GPUs of its present run do, as its pods and their last report tell; empty where that is not known."""
    progress, allocation = job.progress, job.allocation
    if allocation is None:
        return ()
    did: JobTime | None = None
    reports = job.interactive is None and progress is not None and progress.moves
    if job.interactive is not None:
        state = session_state(job)
        did = {SessionState.BUSY: JobTime.TRAINED, SessionState.IDLE: JobTime.NO_CELL}.get(state) if state else None
    elif reports and progress is not None and progress.run == allocation.run:
        did = JobTime.REDONE if progress.behind else JobTime.TRAINED
    if did is None:
        return ((JobTime.RUN_START, WHOLE),) if reports or not job.has_begun else ()
    return _held_up(job) if did is JobTime.TRAINED else ((did, WHOLE),)


def _held_up(job: Job) -> Parts:
    """What of the time is lost to what holds the run up; it trains in the rest."""
    lost: dict[JobTime, int] = {}
    for found in job.bottlenecks:
        if (kind := _LOST_TO.get(found.kind)) is not None:
            lost[kind] = max(lost.get(kind, 0), round(found.lost * WHOLE))
    trained = max(WHOLE - sum(lost.values()), 0)  # findings of different pods may overlap
    return _divided(WHOLE, {**lost, JobTime.TRAINED: trained})


def beside_empty(parts: Parts, empty: int, takes: int) -> Parts:
    """The same of ``takes`` GPUs, of which ``empty`` stay empty."""
    if not empty:
        return parts
    kept = WHOLE * empty // takes
    others = _divided(WHOLE - kept, dict(parts)) if parts else ()
    return (*others, (JobTime.KEPT_EMPTY, kept))


def _divided(whole: int, weights: Mapping[JobTime, int]) -> Parts:
    return tuple([(kind, part.micros) for kind, part in apportion(Money(whole), weights).items()])


# That two jobs failed together on a GPU of both, as their records say it.


_WORDS: Final = ", with which it shares GPUs by MPS, failed in the same moment"
_MOST: Final = 2
"""Times that two jobs may end each other: the first may be chance, or the fault of what one of them has mended."""


def told_of(other: Job) -> str:
    """What the record of a run says that failed together with a run of the other job."""
    return f"{other.namespace}/{other.name}{_WORDS}"


def end_each_other(one: Job, other: Job) -> bool:
    """Whether the two have ended each other so often that they share no GPU any more."""
    return _times(one, other) >= _MOST or _times(other, one) >= _MOST


def has_partners_to_avoid(job: Job) -> bool:
    """Whether any of its runs failed together with another job's: for most jobs the only question."""
    return any(record.message.endswith(_WORDS) for record in job.records)


def _times(job: Job, other: Job) -> int:
    told = told_of(other)
    return sum([record.outcome is RunOutcome.INTERRUPTED and record.message == told for record in job.records])
