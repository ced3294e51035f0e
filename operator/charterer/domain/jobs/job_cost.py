"""The cost of a job: the GPUs that it held, run by run, from its own record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from charterer.domain.ids import RentalId
from charterer.domain.job import Allocation, Job, RunRecord
from charterer.domain.jobs.group import Stretch
from charterer.domain.money import Money, total
from charterer.domain.option import Option
from charterer.domain.rental import Rental
from charterer.domain.time import Instant, seconds_between


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
