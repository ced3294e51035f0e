"""Values computed from a job's own record: its cost by run, its sessions, and failures shared with another job."""

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

# The cost of a job: the cost of the GPUs of each of its runs.


def spans(job: Job, now: Instant) -> Iterable[tuple[RunRecord | Allocation, Instant, Instant]]:
    """The job's runs in order, each with the first instant of holding GPUs and the instant of leaving them.

    Runs do not overlap: a run that replaces another begins when the other has ended.
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

    The cost of starting, idle and ending nodes is not included. The cost follows from the job's own record, so it does
    not change when rentals are deleted. If a rental still exists and its machine ended before the run's end was
    recorded, the run's cost counts to the machine's end.
    """
    costs = [
        run.cost if isinstance(run, RunRecord) and run.cost is not None else _run_cost(run, start, end, rentals)
        for run, start, end in spans(job, now)
    ]
    return job.earlier_cost + total(costs)


def costed(job: Job, record: RunRecord, rentals: Mapping[RentalId, Rental]) -> RunRecord:
    """The record of an ended run, with its cost."""
    recorded = replace(job, records=(*job.records, record))
    costs = [_run_cost(run, start, end, rentals) for run, start, end in spans(recorded, record.until) if run is record]
    return replace(record, cost=total(costs))


def with_allocation(job: Job, allocation: Allocation, rentals: Mapping[RentalId, Rental]) -> Job:
    """The job at the moment when its run is to be resized in place to ``allocation``, with the cost so far recorded.

    Until the new group has formed, the run keeps its present width (``Job.trains_on``).
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
    """The job at the moment when the width of its allocation begins to count, because the new group has formed or
    because no report will ever say so."""
    if job.allocation is None or job.resized_from is None:
        return job
    counted = with_allocation(job, replace(job.allocation, since=now), rentals)
    return without_resize(replace(counted, resized_from=job.resized_from), now)


def without_resize(job: Job, until: Instant) -> Job:
    """The job after its run left the width before a resize. The time at that width is added to ``stretches``."""
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


# Sessions of interactive jobs: changes of the record when a worker reports, when GPUs are given back, and when it ends.


def usage_of_run(job: Job) -> Usage | None:
    """The usage that the worker of the job's present run reported; None without a report or a run."""
    progress, allocation = job.progress, job.allocation
    if job.interactive is None or progress is None or allocation is None or progress.run != allocation.run:
        return None
    return progress.usage


def idle_since(job: Job) -> Instant | None:
    """When the present run became idle (no cell runs, and no request came since); None while it is busy or unknown."""
    usage = usage_of_run(job)
    return None if usage is None else usage.idle_since


class SessionState(StrEnum):
    """The state of an interactive job's GPUs: a cell runs, no cell runs, or the worker has not reported yet."""

    BUSY = "busy"
    IDLE = "idle"
    UNKNOWN = "unknown"


def session_state(job: Job) -> SessionState | None:
    """The state of the job's GPUs; None without an allocation."""
    if job.allocation is None:
        return None
    if usage_of_run(job) is None:
        return SessionState.UNKNOWN
    return SessionState.BUSY if idle_since(job) is None else SessionState.IDLE


def with_report(job: Job, progress: Progress | None) -> Job:
    """The job with a later report. The cost since the last one is split by the reported busy and idle seconds.

    Recording a report twice adds nothing, because the cost counts the whole seconds since the last report.
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
    """The job when a new run gets GPUs: the run serves every request so far."""
    told = job.interactive
    return job if told is None else replace(job, interactive=replace(told, served=told.asks))


def with_session_over(job: Job) -> Job:
    """The job when its session is over. The requests that its run served are answered; later requests are not."""
    told = job.interactive
    return job if told is None else replace(job, interactive=replace(told, answered=max(told.answered, told.served)))


def ends_session(job: Job, record: RunRecord) -> bool:
    """Whether the end of the job's present run also ends its session, so that no new run is needed.

    A worker that stopped by itself ends the session. A worker that was lost while no cell ran ends the session too.
    """
    if job.interactive is None or job.allocation is None or job.allocation.run != record.number:
        return False
    if record.outcome is RunOutcome.STOPPED:
        return True
    return record.outcome.counts_as_restart and idle_since(job) is not None


# The activity of the GPUs of a job's present run.


_LOST_TO: Final[Mapping[BottleneckKind, JobTime]] = {
    BottleneckKind.SLOW_WORKER: JobTime.SLOW,
    BottleneckKind.SLOW_NODE: JobTime.SLOW,
    BottleneckKind.INPUT_STARVED: JobTime.STARVED,
    BottleneckKind.SYNC_BOUND: JobTime.WAITING_FOR_PEERS,
}


def doing(job: Job) -> Parts:
    """The activity of the GPUs of the job's present run, by its pods and their last report; empty if unknown."""
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
    """The parts of the time that bottlenecks take. The remaining time is training."""
    lost: dict[JobTime, int] = {}
    for found in job.bottlenecks:
        if (kind := _LOST_TO.get(found.kind)) is not None:
            lost[kind] = max(lost.get(kind, 0), round(found.lost * WHOLE))
    trained = max(WHOLE - sum(lost.values()), 0)  # Findings about different pods may overlap.
    return _divided(WHOLE, {**lost, JobTime.TRAINED: trained})


def beside_empty(parts: Parts, empty: int, takes: int) -> Parts:
    """The activity of ``takes`` GPUs, of which ``empty`` stay empty and the rest have the activity ``parts``."""
    if not empty:
        return parts
    kept = WHOLE * empty // takes
    others = _divided(WHOLE - kept, dict(parts)) if parts else ()
    return (*others, (JobTime.KEPT_EMPTY, kept))


def _divided(whole: int, weights: Mapping[JobTime, int]) -> Parts:
    return tuple([(kind, part.micros) for kind, part in apportion(Money(whole), weights).items()])


# Records of two jobs that failed together on a GPU that they shared.


_WORDS: Final = ", with which it shares GPUs by MPS, failed in the same moment"
_MOST: Final = 2
"""Number of times that two jobs may end each other. The first time may have been chance, or the fault may have been
fixed since."""


def told_of(other: Job) -> str:
    """The message of a run that failed together with a run of the other job."""
    return f"{other.namespace}/{other.name}{_WORDS}"


def end_each_other(one: Job, other: Job) -> bool:
    """Whether the two jobs ended each other so often that they may not share a GPU any more."""
    return _times(one, other) >= _MOST or _times(other, one) >= _MOST


def has_partners_to_avoid(job: Job) -> bool:
    """Whether any run of the job failed together with another job's. Most jobs need no further check."""
    return any(record.message.endswith(_WORDS) for record in job.records)


def _times(job: Job, other: Job) -> int:
    told = told_of(other)
    return sum([record.outcome is RunOutcome.INTERRUPTED and record.message == told for record in job.records])
