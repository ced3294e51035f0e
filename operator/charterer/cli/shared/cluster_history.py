"""The cluster's own past as a history: TrainingJobs and Jobs that ended, and what of it cannot be simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from charterer.api.decode import ForeignJob
from charterer.controller.snapshot.job_work import total_work
from charterer.controller.snapshot.offline import OtherJobs
from charterer.domain.budget import Budget
from charterer.domain.ids import ClassId, PoolId
from charterer.domain.job import TRUSTED_FRACTION, FinishKind, Job, ResizePolicy, Widths
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.profile import Phase, Profile
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, seconds_between
from charterer.policy.options.menu import DEFAULT_RESTART_SECONDS, offered_widths
from charterer.policy.options.speedup import speed
from charterer.simulate.history.history import (
    History,
    PastJob,
    PastPool,
    covers,
    placeable_width,
    tabulated,
    widest_point,
)
from charterer.simulate.model.node_market import PoolModel

_SHORTEST_SECONDS = 1.0
"""What the API's timestamps tell apart."""
_FEWEST_STARTS = 3
"""A pool's start-up is the median of so many of its rentals at least, else what the GPUPool declares."""


@dataclass(frozen=True, slots=True)
class ClusterHistory:
    """``history`` is None where no job can be simulated. ``gaps``: what is not in it or not as it was, and how many."""

    history: History | None
    began: Instant
    ended: Instant
    gaps: tuple[tuple[int, str], ...]


class _NotModelled(Exception):
    """Why one job is not simulated."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs: submitted since an instant, in a namespace, paid by a budget (None: any), the last ``most``."""

    since: Instant | None = None
    namespace: str | None = None
    budget: Budget | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class _FinishedRun:
    """How a job that has an end ran. ``work``: seconds of its class's reference option; ``trained``: on its own width.

    One of the two is known: the former of TrainingJobs, the latter of Jobs.
    """

    name: str
    submitted: Instant
    pool: PoolModel
    widths: Widths
    profile: Profile | None
    resize: ResizePolicy
    weight: float
    took: float | None
    work: float | None = None
    trained: float | None = None


def cluster_history(
    snapshot: Snapshot, foreign: OtherJobs, payers: Mapping[str, Budget], choosing: JobFilter
) -> ClusterHistory:
    """The history of what is still in the cluster; ``payers``: the budget of each namespace."""
    gathering = _HistoryBuilder(snapshot, payers, choosing)
    ran = [*gathering.training_jobs(), *gathering.jobs(foreign)]
    return gathering.past(sorted(ran, key=lambda one: (one.submitted, one.name)))


class _HistoryBuilder:
    """``_gaps``: how many there are of what a sentence says."""

    def __init__(self, snapshot: Snapshot, payers: Mapping[str, Budget], choosing: JobFilter) -> None:
        self._snapshot = snapshot
        self._payers = payers
        self._choosing = choosing
        self._sold = _sold(snapshot)
        self._gaps: Counter[str] = Counter()

    # --- TrainingJobs -------------------------------------------------------------------------------------------------

    def training_jobs(self) -> Iterable[_FinishedRun]:
        """Those that are complete, and running ones whose own progress tells their size."""
        for job in self._snapshot.jobs.values():
            if self._chosen(job.namespace, job.created):
                try:
                    yield self._training_job(job)
                except _NotModelled as why:
                    self._gap(str(why))
        self._forgotten()

    def _training_job(self, job: Job) -> _FinishedRun:
        now, finish = self._snapshot.now, job.finish
        options = [record.option for record in job.records]
        if job.allocation is not None:
            options.append(job.allocation.option)
        if not options:
            raise _NotModelled("TrainingJobs that have never run: how long they take is not known")
        if finish is not None and finish.kind is FinishKind.FAILED:
            raise _NotModelled(
                "TrainingJobs that failed: when they would have failed under another policy is not known"
            )
        pool = self._sold.get(options[-1].pool)
        if pool is None:
            raise _NotModelled(
                f"TrainingJobs that ran in GPUPool {options[-1].pool}, whose nodes or price are not known now"
            )
        profile = self._snapshot.profiles.get(job.class_id)
        fraction = 1.0 if finish is not None else (job.progress.fraction or 0.0) if job.progress is not None else 0.0
        trusted = fraction >= TRUSTED_FRACTION
        until = now if finish is None else finish.at
        work = total_work(job, profile, self._snapshot.gpu_types, fraction, until) if trusted else 0.0
        if finish is None:
            if not work:
                raise _NotModelled(
                    "TrainingJobs that have not ended nor told enough progress: how long they take is not known"
                )
            self._gap("TrainingJobs that still run: taken to be as long as their progress says")
        return _FinishedRun(
            f"{job.namespace}/{job.name}",
            job.created,
            pool,
            job.widths,
            profile,
            job.resize,
            job.weight,
            None if finish is None else _took(job.created, finish.at),
            work=work,
        )

    def _forgotten(self) -> None:
        """What the budgets remember of finished jobs that are no longer there; at least so many, since they forget."""
        budget, now = self._choosing.budget, self._snapshot.now
        budgets = self._snapshot.budgets if budget is None else {budget.id: budget}
        known = [one.balance.class_history.values() for one in budgets.values() if one.balance is not None]
        remembered = sum(one.aged(now).jobs for of in known for one in of)
        there = sum(job.finish is not None and job.budget in budgets for job in self._snapshot.jobs.values())
        if (gone := round(remembered - there)) > 0:
            told = "finished TrainingJobs (about) that the ledger remembers and that are gone (ttlSecondsAfterFinished)"
            self._gaps[told] = gone

    # --- Jobs of batch/v1 ---------------------------------------------------------------------------------------------

    def jobs(self, foreign: OtherJobs) -> Iterable[_FinishedRun]:
        """Those that are complete and stand for themselves."""
        known = {job.uid for job in foreign.jobs}
        trained_from: dict[str, Instant] = {}
        for worker in foreign.workers:
            if worker.owner not in known:
                if worker.live and self._chosen(worker.namespace, self._snapshot.now):
                    told = f"GPUs held by pods of {worker.owner_kind or 'no controller'}: only Jobs can be simulated"
                    self._gaps[told] += worker.gpus
            elif worker.succeeded and worker.started is not None:
                trained_from[worker.owner] = max(worker.started, trained_from.get(worker.owner, worker.started))
        for job in foreign.jobs:
            if self._chosen(job.namespace, job.created):
                try:
                    yield self._job(job, trained_from.get(job.uid))
                except _NotModelled as why:
                    self._gap(str(why))

    def _job(self, job: ForeignJob, trained_from: Instant | None) -> _FinishedRun:
        if job.part_of:
            raise _NotModelled(
                f"Jobs that are parts of a {job.part_of}: only Jobs that stand for themselves can be simulated"
            )
        if job.failed is not None:
            raise _NotModelled("Jobs that failed: when they would have failed under another policy is not known")
        begin = trained_from or job.started
        if job.complete is None or begin is None:
            raise _NotModelled("Jobs that have not ended: how long they take is not known")
        fits = [one for one in self._sold.values() if job.gpu_type in ("", one.gpu_type)]
        if not fits:
            wanted = job.gpu_type or "GPUs"
            raise _NotModelled(f"Jobs on {wanted}, which no GPUPool with a known price offers")
        if len(fits) > 1:
            self._gap("Jobs whose GPU type several GPUPools offer: taken to run in the cheapest")
        if trained_from is None:
            self._gap("Jobs whose pods are gone: what they waited for nodes counts as training")
        profile = self._snapshot.profiles.get(ClassId(job.namespace, job.profile)) if job.profile else None
        payer = self._payers.get(job.namespace)
        return _FinishedRun(
            f"{job.namespace}/job/{job.name}",
            job.created,
            min(fits, key=lambda one: (one.hourly.micros_per_hour / one.gpus_per_node, one.name)),
            Widths(1, job.gpus, job.gpus if profile is None else max(profile.widest, job.gpus)),
            profile,
            ResizePolicy.NEVER,
            1.0 if payer is None else dict(payer.weights).get(job.priority_class, 1.0),
            _took(job.created, job.complete),
            trained=seconds_between(begin, job.complete) - _restart(profile),
        )

    # --- all of them --------------------------------------------------------------------------------------------------

    def past(self, ran: Sequence[_FinishedRun]) -> ClusterHistory:
        """The history of these, in order of submission."""
        now, most = self._snapshot.now, self._choosing.most
        if most is not None and len(ran) > most:
            self._gaps["earlier jobs, left out to be quick"] = len(ran) - most
            ran = ran[-most:]
        began = ran[0].submitted if ran else self._choosing.since or now
        fleets: dict[PoolId, list[_ModelledJob]] = {}
        for one in ran:
            modelled = _modelled_job(one, seconds_between(began, one.submitted))
            if self._fits(one, modelled.job):
                fleets.setdefault(PoolId(one.pool.name), []).append(modelled)
        history = History(tuple(_fleet(self._sold[pool], found) for pool, found in sorted(fleets.items())))
        if len(history.pools) > 1:
            self._gaps["GPUPools in use: each job stays in its own, whoever plans"] = len(history.pools)
        gaps = tuple((count, told) for told, count in self._gaps.items())
        return ClusterHistory(history if history.pools else None, began, now, gaps)

    def _fits(self, ran: _FinishedRun, job: PastJob) -> bool:
        """Whether the job can be simulated as it was, with what is to be said of it."""
        pool = ran.pool
        if job.gpus > pool.max_nodes * pool.gpus_per_node:
            self._gap(f"jobs that asked for more GPUs than GPUPool {pool.name} may have")
            return False
        if not job.kind:
            self._gap("jobs without a known curve: they run only at the width that was asked for")
        if pool.capacity_type is CapacityType.SPOT:
            self._gap("jobs on spot nodes: that the cloud takes nodes back is not simulated")
        if job.gpus != ran.widths.preferred:
            self._gap("jobs that asked for GPUs that are no whole nodes: they are given whole nodes")
        return True

    def _chosen(self, namespace: str, submitted: Instant) -> bool:
        choosing, payer = self._choosing, self._payers.get(namespace)
        return (
            (choosing.since is None or submitted >= choosing.since)
            and choosing.namespace in (None, namespace)
            and (choosing.budget is None or (payer is not None and payer.id == choosing.budget.id))
        )

    def _gap(self, told: str) -> None:
        self._gaps[told] += 1


@dataclass(frozen=True, slots=True)
class _ModelledJob:
    """A job of the history, its class's curve on its pool (empty: unknown), and its class's restart."""

    job: PastJob
    phases: tuple[Phase, ...]
    restart_seconds: float


def _modelled_job(ran: _FinishedRun, submitted: float) -> _ModelledJob:
    """The job at the width that was asked for, where its pool can place that."""
    pool, profile = ran.pool, ran.profile
    gpus = placeable_width(ran.widths.preferred, pool.gpus_per_node)
    phases: tuple[Phase, ...] = ()
    if profile is not None:
        widths = Widths(1, gpus, max(gpus, profile.widest))
        phases = tabulated(profile.phases, pool.gpu_type, offered_widths(pool.gpus_per_node, widths, pool.max_nodes))
    known = bool(phases) and covers(phases, gpus)
    seconds = ran.trained
    if seconds is None:
        assert ran.work is not None
        seconds = ran.work * (_seconds_per_work(profile, pool.gpu_type, gpus) if profile is not None and known else 1.0)
    job = PastJob(
        name=ran.name,
        submitted=submitted,
        gpus=gpus,
        seconds=max(seconds, _SHORTEST_SECONDS),
        kind=str(profile.id) if profile is not None and known else "",
        least=min(ran.widths.min, gpus) if known else gpus,
        most=max(min(ran.widths.max, widest_point(phases)), gpus) if known else gpus,
        resize=ran.resize,
        weight=ran.weight,
        took=ran.took,
    )
    return _ModelledJob(job, phases if known else (), _restart(profile))


def _seconds_per_work(profile: Profile, gpu_type: str, gpus: int) -> float:
    """Seconds that one second of the class's reference option takes there, each phase its part; it must be known."""
    total, begin = 0.0, 0.0
    for number, phase in enumerate(profile.phases):
        total += (phase.until - begin) / (speed(profile, number, gpu_type, gpus) or 1.0)
        begin = phase.until
    return total


def _fleet(pool: PoolModel, found: Sequence[_ModelledJob]) -> PastPool:
    """The fleet; a restart takes as long as it does in the mean of its jobs' classes."""
    jobs = tuple(sorted((one.job for one in found), key=lambda job: (job.submitted, job.name)))
    curves = {one.job.kind: one.phases for one in found if one.phases}
    return PastPool(pool, jobs, curves, fmean(one.restart_seconds for one in found))


def _took(submitted: Instant, ended: Instant) -> float | None:
    """Seconds between; None where the clocks that wrote the two disagree about which came first."""
    return seconds_between(submitted, ended) if ended > submitted else None


def _restart(profile: Profile | None) -> float:
    return DEFAULT_RESTART_SECONDS if profile is None else profile.restart_seconds


def _sold(snapshot: Snapshot) -> Mapping[PoolId, PoolModel]:
    """The pools whose offering and price are known."""
    found = {}
    for name, pool in snapshot.pools.items():
        offering, quote = pool.offering, pool.quote
        if offering is None or quote is None:
            continue
        found[name] = PoolModel(
            name=name,
            gpus_per_node=offering.gpus_per_node,
            hourly=quote.price,
            gpu_type=offering.gpu_type,
            start_seconds=_start_seconds(pool, snapshot.rentals.values()),
            max_nodes=pool.max_nodes,
            billing_minimum_seconds=quote.billing_minimum_seconds,
            capacity_type=pool.capacity_type,
        )
    return found


def _start_seconds(pool: Pool, rentals: Iterable[Rental]) -> float:
    took = [
        seconds_between(rental.created, rental.ready)
        for rental in rentals
        if rental.pool == pool.id and rental.ready is not None
    ]
    return max(median(took), 0.0) if len(took) >= _FEWEST_STARTS else pool.start_seconds
