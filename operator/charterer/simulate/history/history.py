"""Jobs that really ran, as input of a simulation: how long each trains, at which widths, on which pool.

A history has one part for each pool. A job stays in its pool under every policy, because a class's curves on other
GPUs, and the right to use them, are seldom on record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.profile import Phase, SpeedCurve, ThroughputTable
from charterer.policy.options.sources import offered_widths
from charterer.policy.options.speedup import throughput
from charterer.simulate.model.ground_truth import Application
from charterer.simulate.model.node_market import PoolModel


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job that was submitted ``submitted`` seconds after the history's beginning.

    ``seconds``: its training time on ``gpus``, the width that its owner asked for, without waiting and restarts.
    ``kind``: the name of its class, empty where no curve is known; then it runs on ``gpus`` only, otherwise on
    ``least`` to ``most``. ``took``: measured seconds from submission to completion; None where unknown.
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


@dataclass(frozen=True)
class PastPool:
    """A pool with the jobs that ran on it, by time of submission.

    ``curves``: by kind the phases of its throughput, each a table at the pool's widths (any unit, one for each kind).
    ``restart_seconds``: from a run's begin to its first step.
    """

    pool: PoolModel
    jobs: tuple[PastJob, ...]
    curves: Mapping[str, tuple[Phase, ...]]
    restart_seconds: float = 30.0

    def application(self, job: PastJob) -> Application:
        """The job as an application: the fraction of it done a second, by phase and width."""
        phases = self.curves.get(job.kind, ())
        if not phases:
            return Application(job.name, (1.0,), {self.pool.gpu_type: ({job.gpus: 1.0 / job.seconds},)})
        scale = _seconds_per_unit(phases, job.gpus) / job.seconds
        placeable = offered_widths(self.pool.gpus_per_node, self.bounds(job), self.pool.max_nodes)
        widths = [gpus for gpus in placeable if covers(phases, gpus)]
        rates = tuple({gpus: _rate(phase, gpus) * scale for gpus in widths} for phase in phases)
        return Application(job.name, tuple(phase.until for phase in phases), {self.pool.gpu_type: rates})

    def bounds(self, job: PastJob) -> Widths:
        """The job's own bounds, or the only width at which its speed is known."""
        if job.kind not in self.curves:
            return Widths(job.gpus, job.gpus, job.gpus)
        return Widths(min(job.least, job.gpus), job.gpus, max(job.most, job.gpus))

    def work(self, job: PastJob) -> float:
        """The job's work in seconds of its class's reference option; the kind must be known."""
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
class History:
    """All pools; each has at least one job, and no job name occurs twice."""

    pools: tuple[PastPool, ...]

    @property
    def jobs(self) -> tuple[PastJob, ...]:
        """The jobs of all pools by time of submission."""
        jobs = (job for pool in self.pools for job in pool.jobs)
        return tuple(sorted(jobs, key=lambda job: (job.submitted, job.name)))

    @property
    def jobs_with_curve(self) -> int:
        """The number of jobs whose class has a curve."""
        return sum(job.kind in pool.curves for pool in self.pools for job in pool.jobs)


def placeable_width(gpus: int, gpus_per_node: int) -> int:
    """The least width from ``gpus`` on that can be placed: below a node any, otherwise whole nodes."""
    return gpus if gpus < gpus_per_node else -(-gpus // gpus_per_node) * gpus_per_node


def tabulated(phases: Iterable[Phase], gpu_type: str, widths: Iterable[int]) -> tuple[Phase, ...]:
    """The phases with their curve for ``gpu_type`` only, as a table at those of ``widths`` that it covers.

    Empty where a phase has no such curve, or its curve covers none of the widths.
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
    """Seconds that one unit of work takes on ``gpus``, spread over the phases. The curve must cover the width."""
    begins = (0.0, *(phase.until for phase in phases))
    return sum((phase.until - begin) / _rate(phase, gpus) for phase, begin in zip(phases, begins, strict=False))


def _rate(phase: Phase, gpus: int) -> float:
    rate = throughput(phase.curves[0].form, gpus)
    assert rate, f"the curve says nothing of {gpus} GPUs"
    return rate
