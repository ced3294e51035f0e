"""Who held a rental's GPUs: what the jobs say of it goes onto the rental, where it outlives them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from charterer.domain.ids import JobId, RentalId
from charterer.domain.job import Allocation, Job, RunRecord
from charterer.domain.jobs.job_cost import spans
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.spending.cost_row import Payer
from charterer.domain.spending.use import USES_KEPT, Use
from charterer.domain.time import LAST, Instant
from charterer.incremental import Memo

Held = tuple[tuple[RentalId, Use], ...]
"""The uses of one job, each with its rental."""


def held_by(job: Job, labels: Sequence[str], users: bool) -> Held:
    """The GPUs that the job's runs held and hold, as far as its own record goes back.

    ``labels``: keys of those that are recorded; ``users``: whether it is who created the job.
    A run that was resized in place has its present shape only, since its last change: what it had before is on the
    rentals already.
    """
    return tuple(
        [
            (rental, Use(_payer(job, run, labels, users), gpus, start, None if end == LAST else end))
            for run, start, end in spans(job, LAST)
            for rental, gpus in _gpus(job, run).items()
        ]
    )


def _gpus(job: Job, run: RunRecord | Allocation) -> Mapping[RentalId, int]:
    gpus: dict[RentalId, int] = defaultdict(int)
    for place in job.trusted(run) if isinstance(run, Allocation) else run.placements:
        gpus[place.rental] += place.takes
    return gpus


def _payer(job: Job, run: RunRecord | Allocation, labels: Sequence[str], users: bool) -> Payer:
    variant = job.variant(run.option.variant)
    job_class = job.class_id if variant is None else variant.class_id
    number = run.number if isinstance(run, RunRecord) else run.run
    kept = {key: job.labels[key] for key in labels if key in job.labels}
    user = job.user if users else ""
    return Payer(job.namespace, job.name, job.id, number, str(job_class.counted_in), user, kept)


def by_rental(
    jobs: Mapping[JobId, Job], labels: tuple[str, ...], users: bool, memo: Memo
) -> Mapping[RentalId, Sequence[Use]]:
    """The uses of all jobs, by their rentals; those of a rental are the same object as long as none has changed."""
    held = memo.stable(memo.each(held_by, jobs, labels, users), "held")
    return memo.each(_uses, memo.grouped(_rental_of, _order, memo(_each_of, held)))


def _each_of(held: Mapping[JobId, Held]) -> Mapping[tuple[JobId, int], tuple[RentalId, Use]]:
    return {(job, place): item for job, items in held.items() for place, item in enumerate(items)}


def _rental_of(item: tuple[RentalId, Use]) -> RentalId:
    return item[0]


def _order(item: tuple[RentalId, Use]) -> tuple[RentalId, Instant, str, int]:
    return item[0], item[1].since, item[1].payer.job_uid, item[1].payer.run


def _uses(items: tuple[tuple[RentalId, Use], ...]) -> tuple[Use, ...]:
    return tuple([use for _, use in items])


def settled(rental: Rental, held: Sequence[Use] | None) -> bool:
    """Whether the rental's uses are on record as the jobs tell of them (``held``), so that ``uses_now`` changes none.

    It does not depend on the time, and need not be asked again while neither has changed.
    """
    told, last = _by_run(held or ()), _by_run(rental.uses)
    return not _added(rental, told, last) and all(
        use.until == (told[run].until if told[run].since <= use.since else use.until)
        if run in told
        else use.until is not None
        for run, use in last.items()
    )


def uses_now(rental: Rental, held: Sequence[Use], snapshot: Snapshot) -> Rental:
    """The rental with its uses as they are now; the same object if they are on record so.

    ``held``: those that the jobs tell of, one of each run. A use that no job tells of any more has ended now, unless
    its job is there and cannot be read. Where a run has another width since, it had the former until then. The payer
    stays as it was at the beginning.
    """
    told, last = _by_run(held), _by_run(rental.uses)
    uses = [
        replace(use, until=_until(use, told.get(use.key), snapshot)) if use is last[use.key] else use
        for use in rental.uses
    ]
    uses += _added(rental, told, last)
    if tuple(uses) == rental.uses:
        return rental
    uses.sort(key=lambda use: (use.since, use.payer.job_uid))
    excess = sorted((use for use in uses if use.until is not None), key=lambda use: use.until or 0)
    dropped = excess[: max(len(uses) - USES_KEPT, 0)]
    if not dropped:
        return replace(rental, uses=tuple(uses))
    gone = {id(use) for use in dropped}
    return replace(rental, uses=tuple([use for use in uses if id(use) not in gone]), uses_since=dropped[-1].until)


def _by_run(uses: Iterable[Use]) -> Mapping[tuple[str, int], Use]:
    """The last use of each run."""
    return {use.key: use for use in sorted(uses, key=lambda use: use.since)}


def _added(rental: Rental, told: Mapping[tuple[str, int], Use], last: Mapping[tuple[str, int], Use]) -> Sequence[Use]:
    """What the jobs tell of and is not there: a run, or another width of one.

    The beginning of a run may be told earlier later on, when its job's record no longer has the run before.
    """
    return [
        use
        for run, use in told.items()
        if (run not in last or use.since > last[run].since) and (use.until is None or use.until > _settled(rental))
    ]


def _settled(rental: Rental) -> Instant:
    """Up to when nothing is added any more: it is on record, or was dropped."""
    return max(rental.uses_since or Instant(0), Instant(0) if rental.recorded is None else rental.recorded.through)


def _until(use: Use, told: Use | None, snapshot: Snapshot) -> Instant | None:
    """When the last use of a run ended, as its job tells; None while it goes on."""
    if told is not None and told.since <= use.since:
        return told.until
    if use.until is not None:
        return use.until
    if told is not None:
        return told.since
    name = (use.payer.namespace, use.payer.job)
    unread = {(problem.namespace, problem.name) for problem in snapshot.problems if problem.kind == "TrainingJob"}
    if name in unread and all((job.namespace, job.name) != name for job in snapshot.jobs.values()):
        return None
    return max(snapshot.now, use.since)
