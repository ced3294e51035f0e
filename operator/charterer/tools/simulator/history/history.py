"""Jobs that really ran, as input of a simulation: how long each trains, at which widths, and in which pool.

A policy that chooses no pool runs each job in the pool where it ran. Charterer may also run the job in other pools of
its GPU type, in pools of types for which its class has a curve, and on spot nodes if its owner allows them. Groups of
pools that have no job in common are simulated separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from charterer.domain.ids import PoolId
from charterer.domain.job import ResizePolicy, SpotPolicy, Widths
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.profile import Phase, SpeedCurve, ThroughputTable
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import seconds_between
from charterer.gpu_types import may_use, slice_profile
from charterer.policy.options.sources import offered_widths
from charterer.policy.options.speeds import throughput
from charterer.tools.simulator.model.ground_truth import Application
from charterer.tools.simulator.model.node_market import PoolModel

# The cluster's GPUPools as a simulation has them.


_FEWEST_STARTS = 3
"""Number of rentals from which on a pool's start-up time is the median of their start-up times. With fewer rentals the
GPUPool's value counts.
"""


def pool_models(snapshot: Snapshot) -> Mapping[PoolId, PoolModel]:
    """Models of the pools whose nodes can be rented, with a known offering and price."""
    models = {}
    for name, pool in snapshot.pools.items():
        offering, quote = pool.offering, pool.quote
        if offering is None or quote is None:
            continue
        models[name] = PoolModel(
            name=name,
            gpus_per_node=offering.gpus_per_node,
            hourly=quote.price,
            gpu_type=offering.gpu_type,
            start_seconds=_start_seconds(pool, snapshot.rentals.values()),
            max_nodes=pool.max_nodes,
            billing_minimum_seconds=quote.billing_minimum_seconds,
            capacity_type=pool.capacity_type,
        )
    return models


def _start_seconds(pool: Pool, rentals: Iterable[Rental]) -> float:
    took = [
        seconds_between(rental.created, rental.ready)
        for rental in rentals
        if rental.pool == pool.id and rental.ready is not None
    ]
    return max(median(took), 0.0) if len(took) >= _FEWEST_STARTS else pool.start_seconds


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job that ran.

    ``submitted``: seconds from the history's beginning to the job's submission.
    ``gpus``: the width that its owner asked for.
    ``seconds``: its training time on ``gpus``, without waiting and restarts.
    ``kind``: the name of its class, or empty if no curve is known.
    ``least``, ``most``: its widths if a curve is known. Otherwise the job runs only on ``gpus``.
    ``took``: measured seconds from submission to completion, or None if unknown.
    ``gpu_types``: GPU types that its owner permits, or empty for all.
    ``spot``: whether spot nodes are allowed. They are allowed if the job ran on one.
    ``slices``: MIG profiles that its owner permits. The profile of its pool is among them.
    """

    name: str
    submitted: float
    gpus: int
    seconds: float
    kind: str = ""
    least: int = 1
    most: int = 1
    resize: ResizePolicy = ResizePolicy.NEVER
    weight: float = 1.0
    took: float | None = None
    gpu_types: tuple[str, ...] = ()
    spot: SpotPolicy = SpotPolicy.NEVER
    slices: tuple[str, ...] = ()


@dataclass(frozen=True)
class PastPool:
    """A pool with the jobs that ran on it, by time of submission.

    ``curves``: for each kind the phases of its throughput, all in one unit. Each phase has first a table for the pool's
    GPU type, and then a table for each other type for which a curve is known.
    ``restart_seconds``: seconds from a run's start to its first step.
    """

    pool: PoolModel
    jobs: tuple[PastJob, ...]
    curves: Mapping[str, tuple[Phase, ...]]
    restart_seconds: float = 30.0

    def application(self, job: PastJob, others: Sequence[PoolModel] = ()) -> Application:
        """The job as an application. It has, for each GPU type, phase and width, the fraction of the job that is done
        in a second.

        ``others``: other pools that the job may use.
        """
        phases = self.curves.get(job.kind, ())
        if not phases:
            return Application(job.name, (1.0,), {self.pool.gpu_type: ({job.gpus: 1.0 / job.seconds},)})
        scale = _seconds_per_unit(phases, job.gpus) / job.seconds
        rates = {}
        for gpu_type in self.types_of(job):
            pools = [pool for pool in (self.pool, *others) if pool.gpu_type == gpu_type]
            placeable = sorted({gpus for pool in pools for gpus in self._widths(job, pool)})
            tables = [(phase, _form(phase, gpu_type)) for phase in phases]
            widths = [gpus for gpus in placeable if all(throughput(form, gpus) for _, form in tables)]
            if widths:
                rates[gpu_type] = tuple(
                    {gpus: (throughput(form, gpus) or 0.0) * scale for gpus in widths} for _, form in tables
                )
        return Application(job.name, tuple(phase.until for phase in phases), rates)

    def types_of(self, job: PastJob) -> tuple[str, ...]:
        """The GPU types on which the job can run, that of its pool first."""
        phases = self.curves.get(job.kind)
        if not phases:
            return (self.pool.gpu_type,)
        known = [{curve.gpu_type for curve in phase.curves} for phase in phases]
        return (
            self.pool.gpu_type,
            *(
                curve.gpu_type
                for curve in phases[0].curves[1:]
                if all(curve.gpu_type in types for types in known)
                and may_use(curve.gpu_type, job.gpu_types, self.slices(job))
            ),
        )

    def may_use(self, pool: PoolModel) -> bool:
        """Whether any of the jobs may run in that pool."""
        return pool.name == self.pool.name or any(
            pool.gpu_type in self.types_of(job) and (pool.capacity_type is not CapacityType.SPOT or self.spot(job))
            for job in self.jobs
        )

    def spot(self, job: PastJob) -> bool:
        """Whether the job may run on spot nodes."""
        return job.spot is SpotPolicy.ALLOWED or self.pool.capacity_type is CapacityType.SPOT

    def slices(self, job: PastJob) -> tuple[str, ...]:
        """The MIG profiles that the job may use."""
        own = slice_profile(self.pool.gpu_type)
        return (*job.slices, own) if own and own not in job.slices else job.slices

    def _widths(self, job: PastJob, pool: PoolModel) -> list[int]:
        return offered_widths(pool.gpu_type, pool.gpus_per_node, self.bounds(job), pool.max_nodes)

    def bounds(self, job: PastJob) -> Widths:
        """The job's own bounds, or the only width at which its speed is known."""
        if job.kind not in self.curves:
            return Widths(job.gpus, job.gpus, job.gpus, self.slices(job))
        return Widths(min(job.least, job.gpus), job.gpus, max(job.most, job.gpus), self.slices(job))

    def work(self, job: PastJob) -> float:
        """The job's work in seconds of its class's reference option. Its kind must be known."""
        phases = self.curves[job.kind]
        return job.seconds / (reference_throughput(phases) * _seconds_per_unit(phases, job.gpus))

    @cached_property
    def mean_work(self) -> Mapping[str, float]:
        """The mean work of each kind's jobs."""
        works: dict[str, list[float]] = {}
        for job in self.jobs:
            if job.kind in self.curves:
                works.setdefault(job.kind, []).append(self.work(job))
        return {kind: sum(work) / len(work) for kind, work in works.items()}


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """Pools in which jobs ran, and other pools on sale, among which Charterer chooses."""

    pasts: tuple[PastPool, ...]
    others: tuple[PoolModel, ...] = ()

    @property
    def pools(self) -> tuple[PoolModel, ...]:
        """All pools of the part."""
        return (*(past.pool for past in self.pasts), *self.others)


@dataclass(frozen=True)
class History:
    """All pools in which jobs ran. Each pool has at least one job, and no two jobs have the same name.

    ``others``: pools on sale in which no job ran. ``gaps``: sentences on what a file has in addition to these jobs.
    """

    pools: tuple[PastPool, ...]
    others: tuple[PoolModel, ...] = ()
    gaps: tuple[str, ...] = ()

    @cached_property
    def parts(self) -> tuple[HistoryPart, ...]:
        """The pools in groups that share no job."""
        groups: list[tuple[list[PastPool], list[PoolModel]]] = []
        for past in self.pools:
            mine: tuple[list[PastPool], list[PoolModel]] = (
                [past],
                [pool for pool in self.others if past.may_use(pool)],
            )
            kept = []
            for group in groups:
                if _connected(mine, group):
                    mine = ([*group[0], *mine[0]], list(dict.fromkeys([*group[1], *mine[1]])))
                else:
                    kept.append(group)
            groups = [*kept, mine]
        return tuple(HistoryPart(tuple(pasts), tuple(others)) for pasts, others in groups)

    @property
    def jobs(self) -> tuple[PastJob, ...]:
        """The jobs of all pools by time of submission."""
        jobs = (job for pool in self.pools for job in pool.jobs)
        return tuple(sorted(jobs, key=lambda job: (job.submitted, job.name)))

    @property
    def jobs_with_curve(self) -> int:
        """The number of jobs whose class has a curve."""
        return sum(job.kind in pool.curves for pool in self.pools for job in pool.jobs)


def _connected(one: tuple[list[PastPool], list[PoolModel]], other: tuple[list[PastPool], list[PoolModel]]) -> bool:
    """Whether jobs of both groups may use the same pool."""
    if {pool.name for pool in one[1]} & {pool.name for pool in other[1]}:
        return True
    return any(first.may_use(second.pool) or second.may_use(first.pool) for first in one[0] for second in other[0])


def placeable_width(gpus: int, gpus_per_node: int) -> int:
    """The least width that can be placed and is at least ``gpus``. Below a node any width can be placed, otherwise only
    whole nodes.
    """
    return gpus if gpus < gpus_per_node else -(-gpus // gpus_per_node) * gpus_per_node


def joined_curves(home: tuple[Phase, ...], others: Iterable[tuple[Phase, ...]]) -> tuple[Phase, ...]:
    """The phases of ``home`` with the curves of ``others`` added. Each element of ``others`` has the same phases as
    ``home``, or no phase.
    """
    known = [phases for phases in others if phases]
    return tuple(
        replace(phase, curves=(*phase.curves, *(curve for phases in known for curve in phases[at].curves)))
        for at, phase in enumerate(home)
    )


def tabulated(phases: Iterable[Phase], gpu_type: str, widths: Iterable[int]) -> tuple[Phase, ...]:
    """The phases with only their curve for ``gpu_type``, as a table of those ``widths`` that the curve covers.

    Empty if a phase has no such curve, or if its curve covers none of the widths.
    """
    forms = [
        (phase.until, next((curve.form for curve in phase.curves if curve.gpu_type == gpu_type), None))
        for phase in phases
    ]
    tables = []
    for until, form in forms:
        rates = [] if form is None else [(gpus, throughput(form, gpus)) for gpus in sorted(set(widths))]
        points = tuple((gpus, rate) for gpus, rate in rates if rate)
        if not points:
            return ()
        tables.append(Phase(until, (SpeedCurve(gpu_type, ThroughputTable(points)),)))
    return tuple(tables)


def covers(phases: Iterable[Phase], gpus: int) -> bool:
    """Whether the curve of every phase covers that width."""
    return all(throughput(phase.curves[0].form, gpus) for phase in phases)


def curve_points(phase: Phase) -> tuple[tuple[int, float], ...]:
    """The table of a phase: (GPUs, throughput), ascending."""
    form = phase.curves[0].form
    assert isinstance(form, ThroughputTable)
    return form.points


def widest_point(phases: tuple[Phase, ...]) -> int:
    """The largest width of a curve."""
    return curve_points(phases[0])[-1][0]


def reference_throughput(phases: tuple[Phase, ...]) -> float:
    """Throughput of the reference option: the first phase at its smallest width."""
    return curve_points(phases[0])[0][1]


def _seconds_per_unit(phases: tuple[Phase, ...], gpus: int) -> float:
    """Seconds that one unit of work takes on ``gpus`` GPUs, spread over the phases. The curve must cover the width."""
    begins = (0.0, *(phase.until for phase in phases))
    return sum((phase.until - begin) / _rate(phase, gpus) for phase, begin in zip(phases, begins, strict=False))


def _form(phase: Phase, gpu_type: str) -> ThroughputTable:
    form = next(curve.form for curve in phase.curves if curve.gpu_type == gpu_type)
    assert isinstance(form, ThroughputTable)
    return form


def _rate(phase: Phase, gpus: int) -> float:
    rate = throughput(phase.curves[0].form, gpus)
    assert rate, f"the curve says nothing of {gpus} GPUs"
    return rate
