"""Makes a simulator history from the cluster's TrainingJobs and Jobs, and counts jobs that cannot be simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from charterer.api.decode import ForeignJob
from charterer.controller.snapshot.jobs import total_work
from charterer.controller.snapshot.offline import OtherJobs
from charterer.domain.budget import Budget
from charterer.domain.ids import ClassId, PoolId
from charterer.domain.job import FinishKind, Job, ResizePolicy, SpotPolicy, Widths
from charterer.domain.node_demands import NodeDemands, misfits
from charterer.domain.offered_node import offered_node
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.profile import DEFAULT_RESTART_SECONDS, Phase, Profile
from charterer.domain.reports import TRUSTED_FRACTION
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, seconds_between
from charterer.gpu_types import may_use
from charterer.policy.options.sources import offered_widths
from charterer.policy.options.speeds import speed
from charterer.tools.simulator.history.history import (
    History,
    PastJob,
    PastPool,
    covers,
    joined_curves,
    placeable_width,
    pool_models,
    tabulated,
    widest_point,
)
from charterer.tools.simulator.model.node_market import PoolModel

_SHORTEST_SECONDS = 1.0
"""Minimum training time of a job, which is the resolution of the API's timestamps."""


@dataclass(frozen=True, slots=True)
class ClusterHistory:
    """The history of a cluster between ``began`` and ``ended``. ``history`` is None if no job can be simulated.

    ``gaps`` has pairs of a count and a sentence on what the history omits or simplifies.
    """

    history: History | None
    began: Instant
    ended: Instant
    gaps: tuple[tuple[int, str], ...]


class _NotModelled(Exception):
    """A job cannot be simulated. The message says why."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Selects jobs submitted at or after ``since``, in ``namespace``, paid by ``budget``. Of these, the last ``most``
    are taken.

    A field that is None selects all.
    """

    since: Instant | None = None
    namespace: str | None = None
    budget: Budget | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class _FinishedRun:
    """A job with its course. ``took`` is the seconds from submission to completion, or None if unknown.

    A TrainingJob has its size in ``work``, in seconds of its class's reference option. A Job has its size in
    ``trained``, in seconds at its own width. The other field is None.
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
    gpu_types: tuple[str, ...] = ()
    spot: SpotPolicy = SpotPolicy.NEVER


def cluster_history(
    snapshot: Snapshot, foreign: OtherJobs, payers: Mapping[str, Budget], job_filter: JobFilter
) -> ClusterHistory:
    """Make a history of the jobs that still exist in the cluster. ``payers`` maps each namespace to its budget."""
    builder = _HistoryBuilder(snapshot, payers, job_filter)
    runs = [*builder.training_jobs(), *builder.jobs(foreign)]
    return builder.history(sorted(runs, key=lambda run: (run.submitted, run.name)))


class _HistoryBuilder:
    """Collects jobs and counts gaps. ``_gaps`` maps a sentence to its count."""

    def __init__(self, snapshot: Snapshot, payers: Mapping[str, Budget], job_filter: JobFilter) -> None:
        self._snapshot = snapshot
        self._payers = payers
        self._filter = job_filter
        self._models = pool_models(snapshot)
        self._nodes = {name: offered_node(snapshot.pools[name]) for name in self._models}
        self._gaps: Counter[str] = Counter()

    # --- TrainingJobs -------------------------------------------------------------------------------------------------

    def training_jobs(self) -> Iterable[_FinishedRun]:
        """Yield complete TrainingJobs, and running ones that have reported enough progress to estimate their size."""
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
        pool = self._models.get(options[-1].pool)
        if pool is None:
            raise _NotModelled(
                f"TrainingJobs that ran in GPUPool {options[-1].pool}, whose nodes or price are not known now"
            )
        if job.variants:
            self._gap("TrainingJobs with variants: simulated as their templates alone")
        profile = self._snapshot.profiles.get(job.class_id)
        fraction = 1.0 if finish is not None else (job.progress.fraction or 0.0) if job.progress is not None else 0.0
        trusted = fraction >= TRUSTED_FRACTION
        until = now if finish is None else finish.at
        profiles = [self._snapshot.profiles.get(class_id) for class_id in job.classes]
        work = total_work(job, profiles, self._snapshot.gpu_types, fraction, until) if trusted else 0.0
        if finish is None:
            if not work:
                raise _NotModelled(
                    "TrainingJobs that have neither ended nor reported enough progress: how long they take is not known"
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
            gpu_types=self._types(self._models_for(job.demands, job.gpu_types, self._payers.get(job.namespace))),
            spot=job.spot,
        )

    def _forgotten(self) -> None:
        """Count finished jobs that budgets remember but that were deleted.

        The count is a lower bound, because budgets remember only the latest jobs.
        """
        budget, now = self._filter.budget, self._snapshot.now
        budgets = self._snapshot.budgets if budget is None else {budget.id: budget}
        balances = [budget.balance for budget in budgets.values() if budget.balance is not None]
        remembered = sum(history.aged(now).jobs for balance in balances for history in balance.class_history.values())
        there = sum(job.finish is not None and job.budget in budgets for job in self._snapshot.jobs.values())
        if (gone := round(remembered - there)) > 0:
            gap = "finished TrainingJobs (about) that the ledger remembers and that are gone (ttlSecondsAfterFinished)"
            self._gaps[gap] = gone

    # --- Jobs of batch/v1 ---------------------------------------------------------------------------------------------

    def jobs(self, foreign: OtherJobs) -> Iterable[_FinishedRun]:
        """Yield complete Jobs that are not part of a larger object."""
        uids = {job.uid for job in foreign.jobs}
        trained_from: dict[str, Instant] = {}
        for worker in foreign.workers:
            if worker.owner not in uids:
                if worker.live and self._chosen(worker.namespace, self._snapshot.now):
                    gap = f"GPUs held by pods of {worker.owner_kind or 'no controller'}: only Jobs can be simulated"
                    self._gaps[gap] += worker.gpus
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
            raise _NotModelled(f"Jobs that are parts of a {job.part_of}: only Jobs that stand alone can be simulated")
        if job.failed is not None:
            raise _NotModelled("Jobs that failed: when they would have failed under another policy is not known")
        begin = trained_from or job.started
        if job.complete is None or begin is None:
            raise _NotModelled("Jobs that have not ended: how long they take is not known")
        payer = self._payers.get(job.namespace)
        types = (job.gpu_type,) if job.gpu_type else ()
        fits = self._models_for(job.demands, types, payer)
        if not fits:
            gpu_type = job.gpu_type or "GPUs"
            raise _NotModelled(f"Jobs on {gpu_type}, which no GPUPool that may be rented at a known price offers")
        if len(fits) > 1:
            self._gap("Jobs whose GPU type several GPUPools offer: assumed to run in the cheapest")
        if trained_from is None:
            self._gap("Jobs whose pods are gone: their wait for nodes counts as training")
        profile = self._snapshot.profiles.get(ClassId(job.namespace, job.profile)) if job.profile else None
        return _FinishedRun(
            f"{job.namespace}/job/{job.name}",
            job.created,
            min(fits, key=lambda model: (model.hourly.micros_per_hour / model.gpus_per_node, model.name)),
            Widths(1, job.gpus, job.gpus if profile is None else max(profile.widest, job.gpus)),
            profile,
            ResizePolicy.NEVER,
            1.0 if payer is None else dict(payer.weights).get(job.priority_class, 1.0),
            _took(job.created, job.complete),
            trained=seconds_between(begin, job.complete) - _restart(profile),
            gpu_types=self._types(fits),
        )

    def _models_for(self, demands: NodeDemands, types: Sequence[str], payer: Budget | None) -> Sequence[PoolModel]:
        """Return the pools of these GPU ``types`` (empty means any) whose nodes meet the template's ``demands``.

        If no pool's nodes meet the demands, return all pools of the types. The job did run somewhere, so its owner
        would have to change the template for Charterer.
        """
        open_to = self._pools_of(payer)
        of_types = [
            model
            for name, model in self._models.items()
            if name in open_to and may_use(model.gpu_type, types, slices=())
        ]
        nodes = self._nodes
        fits = [m for m in of_types if (node := nodes[PoolId(m.name)]) is None or not misfits(demands, node)]
        if of_types and not fits:
            self._gap(
                "jobs whose templates ask for nodes that no GPUPool is known to give: simulated by their GPU type"
            )
        elif {m.gpu_type for m in of_types if m not in fits} & {m.gpu_type for m in fits}:
            self._gap("jobs that may use some pools of a GPU type only, as of one zone: simulated on all of that type")
        return fits or of_types

    def _types(self, models: Sequence[PoolModel]) -> tuple[str, ...]:
        """Return the pools' GPU types, or an empty tuple if these are the types of all pools."""
        types = {model.gpu_type for model in models}
        return () if types == {model.gpu_type for model in self._models.values()} else tuple(sorted(types))

    def _pools_of(self, payer: Budget | None) -> Mapping[PoolId, Pool]:
        """Return the pools that the budget may rent, or all pools if there is no budget."""
        return self._snapshot.pools if payer is None else self._snapshot.pools_of(payer)

    # --- all of them --------------------------------------------------------------------------------------------------

    def history(self, runs: Sequence[_FinishedRun]) -> ClusterHistory:
        """Make the history of these runs, which must be in order of submission."""
        now, most = self._snapshot.now, self._filter.most
        if most is not None and len(runs) > most:
            self._gaps["earlier jobs, left out to save time"] = len(runs) - most
            runs = runs[-most:]
        began = runs[0].submitted if runs else self._filter.since or now
        by_pool: dict[PoolId, list[_ModelledJob]] = {}
        for run in runs:
            modelled = _modelled_job(run, seconds_between(began, run.submitted), tuple(self._models.values()))
            if self._fits(run, modelled.job):
                by_pool.setdefault(PoolId(run.pool.name), []).append(modelled)
        payer = self._filter.budget
        open_to = self._models.keys() & self._pools_of(payer).keys()
        history = History(
            tuple(_past_pool(self._models[pool], jobs) for pool, jobs in sorted(by_pool.items())),
            tuple(self._models[pool] for pool in sorted(open_to) if pool not in by_pool),
        )
        if len(history.parts) > 1:
            self._gaps["groups of GPUPools that no job can have in common: simulated one by one"] = len(history.parts)
        for name in sorted(self._pools_of(payer)):
            if self._snapshot.pools[name].lacks_price:
                self._gap(f"GPUPool {name}, of which no price is known: left out; set its spec.price.hourly")
        gaps = tuple((count, gap) for gap, count in self._gaps.items())
        return ClusterHistory(history if history.pools else None, began, now, gaps)

    def _fits(self, run: _FinishedRun, job: PastJob) -> bool:
        """Return whether the simulator can run the job, and count what the history simplifies or omits."""
        pool = run.pool
        if job.gpus > pool.max_nodes * pool.gpus_per_node:
            self._gap(f"jobs that asked for more GPUs than GPUPool {pool.name} may have")
            return False
        if not job.kind:
            self._gap("jobs without a known curve: they run only at the width that was asked for")
        if pool.capacity_type is CapacityType.SPOT:
            self._gap("jobs on spot nodes: interruptions are not simulated")
        if job.gpus != run.widths.preferred:
            self._gap("jobs that asked for a fraction of nodes: they are given whole nodes")
        return True

    def _chosen(self, namespace: str, submitted: Instant) -> bool:
        job_filter, payer = self._filter, self._payers.get(namespace)
        return (
            (job_filter.since is None or submitted >= job_filter.since)
            and job_filter.namespace in (None, namespace)
            and (job_filter.budget is None or (payer is not None and payer.id == job_filter.budget.id))
        )

    def _gap(self, gap: str) -> None:
        self._gaps[gap] += 1


@dataclass(frozen=True, slots=True)
class _ModelledJob:
    """A job of the history, the speed curve of its class on its pool, and the restart time of its class.

    ``phases`` is empty if the curve is unknown.
    """

    job: PastJob
    phases: tuple[Phase, ...]
    restart_seconds: float


def _modelled_job(run: _FinishedRun, submitted: float, pools: Sequence[PoolModel]) -> _ModelledJob:
    """Model the job at its preferred width, rounded to a width that its pool can place.

    ``pools`` are all pools for rent.
    """
    pool, profile = run.pool, run.profile
    gpus = placeable_width(run.widths.preferred, pool.gpus_per_node)
    phases: tuple[Phase, ...] = ()
    if profile is not None:
        widths = Widths(1, gpus, max(gpus, profile.widest))
        placeable: dict[str, set[int]] = {}
        for other in (pool, *pools):
            offered = offered_widths(other.gpu_type, other.gpus_per_node, widths, other.max_nodes)
            placeable.setdefault(other.gpu_type, set()).update(offered)
        phases = tabulated(profile.phases, pool.gpu_type, placeable.pop(pool.gpu_type))
        elsewhere = (tabulated(profile.phases, gpu_type, placeable[gpu_type]) for gpu_type in sorted(placeable))
        phases = joined_curves(phases, elsewhere)
    has_curve = bool(phases) and covers(phases, gpus)
    seconds = run.trained
    if seconds is None:
        assert run.work is not None
        per_work = _seconds_per_work(profile, pool.gpu_type, gpus) if profile is not None and has_curve else 1.0
        seconds = run.work * per_work
    job = PastJob(
        name=run.name,
        submitted=submitted,
        gpus=gpus,
        seconds=max(seconds, _SHORTEST_SECONDS),
        kind=str(profile.id) if profile is not None and has_curve else "",
        least=min(run.widths.min, gpus) if has_curve else gpus,
        most=max(min(run.widths.max, widest_point(phases)), gpus) if has_curve else gpus,
        resize=run.resize,
        weight=run.weight,
        took=run.took,
        gpu_types=run.gpu_types,
        spot=run.spot,
        slices=run.widths.slices,
    )
    return _ModelledJob(job, phases if has_curve else (), _restart(profile))


def _seconds_per_work(profile: Profile, gpu_type: str, gpus: int) -> float:
    """Return the mean seconds on ``gpus`` GPUs for one second of work on the reference option.

    All speeds must be known.
    """
    total, begin = 0.0, 0.0
    for number, phase in enumerate(profile.phases):
        total += (phase.until - begin) / (speed(profile, number, gpu_type, gpus) or 1.0)
        begin = phase.until
    return total


def _past_pool(pool: PoolModel, modelled: Sequence[_ModelledJob]) -> PastPool:
    """Join a pool with its jobs. The restart time is the mean over the jobs' classes."""
    jobs = tuple(sorted((job.job for job in modelled), key=lambda job: (job.submitted, job.name)))
    curves = {job.job.kind: job.phases for job in modelled if job.phases}
    return PastPool(pool, jobs, curves, fmean(job.restart_seconds for job in modelled))


def _took(submitted: Instant, ended: Instant) -> float | None:
    """Return the seconds from submission to end.

    None if the end is before the submission, which can happen because the clocks of machines differ.
    """
    return seconds_between(submitted, ended) if ended > submitted else None


def _restart(profile: Profile | None) -> float:
    return DEFAULT_RESTART_SECONDS if profile is None else profile.restart_seconds
