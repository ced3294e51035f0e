"""Facts of one job, whatever the time and the other jobs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from charterer.domain.ids import ClassId, JobId, NodeName, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.money import Price
from charterer.domain.nodes.demands import NO_OFFERS, NodeOffers
from charterer.domain.option import Option
from charterer.domain.plan import Reason
from charterer.domain.reports.progress import TRUSTED_FRACTION
from charterer.domain.time import Instant, seconds_between
from charterer.policy.jobs.back_off import backs_off_until
from charterer.policy.jobs.group_key import GroupKey, group_key
from charterer.policy.jobs.predicates import not_wanted, ready_by, settled
from charterer.policy.jobs.stalls import replaced_when_stalled, stalls_at
from charterer.policy.options.option_value import JobPosition


@dataclass(frozen=True, slots=True, eq=False)
class JobFacts:
    """A job and what follows from it alone.

    ``order``: of creation. ``key``: of its group; ``statistics``: the class that it counts in. ``refused``: why no GPUs
    are looked for. ``settled``: whether all of its run runs, so that moving it is a question of gain; ``ready_by``: by
    when it must, if it does not. ``stalls_at``: when it is stopped if it does not advance before. ``backs_off_until``:
    when it may have its next run.

    ``rentals``: of its allocation. ``nodes``: where its pods live. ``terminating``: pods that are to end, each with its
    node and by when it must have. ``unrecorded``: nodes with pods of runs that have ended and are not on record, each
    with the run's name and its end. ``trials``: runs on widths that had never been measured, from when until when.

    Its GPUs cost ``recorded_cost`` dollars in the runs on record, and at widths from which runs were resized in place.
    Those of its allocation cost ``price`` dollars a second, or ``micros`` micro-dollars an hour, from ``since`` on.
    ``meters``: these micro-dollars and instants of every run that is not on record. ``predicted``: dollars of the whole
    job, as of its first start; 0 before that. ``reported``: dollars that it will still cost by its own progress.
    ``prepaid``: whether the nodes of its allocation are paid for whether it uses them or not.
    """

    job: Job
    order: tuple[Instant, JobId]
    key: GroupKey
    statistics: ClassId
    refused: Reason | None
    settled: bool
    ready_by: Instant | None
    stalls_at: Instant | None
    backs_off_until: Instant | None
    rentals: frozenset[RentalId]
    nodes: tuple[NodeName, ...]
    terminating: tuple[tuple[NodeName, str, Instant], ...]
    unrecorded: tuple[tuple[NodeName, str, Instant], ...]
    recorded_cost: float
    price: float
    micros: int
    since: Instant | None
    meters: tuple[tuple[int, Instant], ...]
    predicted: float
    reported: float | None
    trials: tuple[tuple[Option, Instant, Instant | None], ...]
    prepaid: bool = False

    def spent(self, now: Instant) -> float:
        """Dollars that the GPUs it held have cost, by its own record."""
        return self.recorded_cost + sum(
            [Price(micros).dollars_per_second * max(seconds_between(since, now), 0.0) for micros, since in self.meters]
        )


def job_facts(
    job: Job,
    classes: frozenset[ClassId],
    trying: frozenset[JobId] = frozenset(),
    committed: frozenset[PoolId] = frozenset(),
    offers: NodeOffers = NO_OFFERS,
) -> JobFacts:
    """The facts of a job; ``classes``: those that have a profile; ``trying``: see ``trying_jobs``.

    ``committed``: pools whose nodes are paid for whether they are used or not. ``offers``: what their nodes would be.
    """
    allocation = job.allocation
    return JobFacts(
        job=job,
        order=(job.created, job.id),
        key=group_key(job, classes, job.id in trying, offers),
        statistics=job.statistics,
        refused=not_wanted(job),
        settled=settled(job),
        ready_by=None if allocation is None else ready_by(job, allocation),
        stalls_at=stalls_at(job) if replaced_when_stalled(job) else None,
        backs_off_until=backs_off_until(job),
        rentals=frozenset() if allocation is None else frozenset(place.rental for place in allocation.placements),
        nodes=tuple(pod.node for run in job.runs for pod in run.pods if pod.node is not None and pod.live),
        terminating=tuple(
            (pod.node, pod.name, pod.must_end_by)
            for run in job.runs
            for pod in run.pods
            if pod.node is not None and pod.live and pod.must_end_by is not None
        ),
        unrecorded=_unrecorded(job),
        recorded_cost=sum(
            record.option.price.dollars_per_second * max(seconds_between(record.since, record.until), 0.0)
            for record in job.records
        )
        + sum([stretch.option.price.dollars_per_second * stretch.seconds for stretch in job.stretches]),
        price=0.0 if allocation is None else allocation.option.price.dollars_per_second,
        micros=0 if allocation is None else allocation.option.price.micros_per_hour,
        since=None if allocation is None else allocation.since,
        meters=tuple(
            (given.option.price.micros_per_hour, given.since)
            for given in (*job.replaced, allocation)
            if given is not None
        ),
        predicted=0.0 if job.predicted is None else job.predicted.dollars,
        reported=_reported(job),
        trials=_trials(job),
        prepaid=allocation is not None and allocation.option.pool in committed,
    )


def _unrecorded(job: Job) -> tuple[tuple[NodeName, str, Instant], ...]:
    recorded = {record.number for record in job.records}
    return tuple(
        (pod.node, job.run_title(run.number), max([pod.finished or ended for pod in run.pods]))
        for run in job.runs
        if (ended := run.ended) is not None and run.number not in recorded
        if not any(pod.live for pod in run.pods)
        for pod in run.pods
        if pod.node is not None
    )


_ALL_BUT = 1.0 - 1e-9
"""The largest fraction of its work that a job which has not ended is taken to have done."""


def job_position(job: Job, mean_work: float) -> JobPosition:
    """Where the job is by what it reported; ``mean_work`` (seconds of the reference option) where it says nothing."""
    done = 0.0 if job.progress is None or job.progress.fraction is None else min(job.progress.fraction, _ALL_BUT)
    return JobPosition(mean_work if job.remaining is None else job.remaining / (1.0 - done), done)


def told_to_stop(job: Job) -> Job:
    """The job when its run has been told to stop: the run holds its GPUs until it is on record."""
    return job if job.allocation is None else replace(job, allocation=None, replaced=(*job.replaced, job.allocation))


def least_worth(job: Job) -> float:
    """Dollars that a second of the job's waiting is worth at least, as its owner says of an interactive job."""
    told = job.interactive
    return 0.0 if told is None or told.hourly is None else told.hourly.dollars_per_second


def waited_seconds(job: Job, now: Instant) -> float:
    """Seconds for which a job without GPUs has waited for them; 0 for one that has some."""
    if job.allocation is not None:
        return 0.0
    since = max([job.created, *(run.until for run in job.records[-1:])])
    return max(seconds_between(since, now), 0.0)


def next_run(job: Job) -> int:
    """The number of a new run."""
    return max(job.last_run, 0 if job.allocation is None else job.allocation.run) + 1


def last_option(job: Job) -> Option | None:
    """The option that the job has, or had last; None before its first run."""
    if job.allocation is not None:
        return job.allocation.option
    if job.replaced:
        return job.replaced[-1].option
    return job.records[-1].option if job.records else None


def _trials(job: Job) -> tuple[tuple[Option, Instant, Instant | None], ...]:
    ended = [(record.option, record.since, record.until) for record in job.records if record.option.trial]
    if job.allocation is not None and job.allocation.option.trial:
        return (*ended, (job.allocation.option, job.allocation.since, None))
    return tuple(ended)


def _reported(job: Job) -> float | None:
    fraction = None if job.progress is None else job.progress.fraction
    option = last_option(job)
    if option is None or job.remaining is None or (fraction or 0.0) < TRUSTED_FRACTION:
        return None
    return job.remaining / option.speed * option.price.dollars_per_second
