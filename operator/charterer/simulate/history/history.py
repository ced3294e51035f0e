"""Jobs as they really were, ready to be simulated anew: how long each trains, at which widths, on which pool.

A history is one fleet for each pool: its jobs stay on it whoever plans, because a class's curves on other GPUs, and who
may use them, are seldom known of the past.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.profile import Phase, SpeedCurve, ThroughputTable
from charterer.policy.options.menu import offered_widths
from charterer.policy.options.speedup import throughput
from charterer.simulate.engine.node_market import PoolModel
from charterer.simulate.knowledge.ground_truth import Application


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job that was submitted ``submitted`` seconds after the history's beginning.

    ``seconds``: how long it trains on ``gpus``, the width its owner asked for, without waiting and restarts. ``kind``:
    the name of its class, empty where no curve is known: then it runs on ``gpus`` only, else from ``least`` to
    ``most``. ``took``: seconds from its submission to its completion as it really was; None where unknown.
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

    ``curves``: throughput by kind, phase by phase, each a table at the widths that the pool offers (any unit, one a
    kind). ``restart_seconds``: from a run's begin to its first step.
    """

    pool: PoolModel
    jobs: tuple[PastJob, ...]
    curves: Mapping[str, tuple[Phase, ...]]
    restart_seconds: float = 30.0

    def application(self, job: PastJob) -> Application:
        """What training the job is like: the part of it that is done a second, by phase and width."""
        phases = self.curves.get(job.kind, ())
        if not phases:
            return Application(job.name, (1.0,), ({job.gpus: 1.0 / job.seconds},))
        scale = _seconds_of_one(phases, job.gpus) / job.seconds
        offered = offered_widths(self.pool.gpus_per_node, self.bounds(job), self.pool.max_nodes)
        widths = [gpus for gpus in offered if covers(phases, gpus)]
        rates = tuple({gpus: _rate(phase, gpus) * scale for gpus in widths} for phase in phases)
        return Application(job.name, tuple(phase.until for phase in phases), rates)

    def bounds(self, job: PastJob) -> Widths:
        """Its own bounds, or the one width at which it is known."""
        if job.kind not in self.curves:
            return Widths(job.gpus, job.gpus, job.gpus)
        return Widths(min(job.least, job.gpus), job.gpus, max(job.most, job.gpus))

    def work(self, job: PastJob) -> float:
        """The job's work in seconds of its class's reference option; the kind must be known."""
        phases = self.curves[job.kind]
        return job.seconds * reference(phases) / _seconds_of_one(phases, job.gpus)

    @cached_property
    def mean_work(self) -> Mapping[str, float]:
        """By kind: the mean of its jobs."""
        found: dict[str, list[float]] = {}
        for job in self.jobs:
            if job.kind in self.curves:
                found.setdefault(job.kind, []).append(self.work(job))
        return {kind: sum(work) / len(work) for kind, work in found.items()}


@dataclass(frozen=True, slots=True)
class History:
    """All fleets; each has a job at least, and no name occurs twice."""

    fleets: tuple[PastPool, ...]

    @property
    def jobs(self) -> tuple[PastJob, ...]:
        """The jobs of all fleets by time of submission."""
        found = (job for fleet in self.fleets for job in fleet.jobs)
        return tuple(sorted(found, key=lambda job: (job.submitted, job.name)))

    @property
    def known(self) -> int:
        """How many jobs have a curve."""
        return sum(job.kind in fleet.curves for fleet in self.fleets for job in fleet.jobs)


def placeable(gpus: int, gpus_per_node: int) -> int:
    """The width at which so many GPUs can be placed: below a node as it is, else whole nodes."""
    return gpus if gpus < gpus_per_node else -(-gpus // gpus_per_node) * gpus_per_node


def tabled(phases: Iterable[Phase], gpu_type: str, widths: Iterable[int]) -> tuple[Phase, ...]:
    """The phases with one curve each, that for ``gpu_type``, as a table at those of ``widths`` that it covers.

    Empty where some phase has no such curve, or none of the widths is known.
    """
    forms = [
        (phase.until, next((curve.form for curve in phase.curves if curve.gpu_type == gpu_type), None))
        for phase in phases
    ]
    found = []
    for until, form in forms:
        rates = [] if form is None else [(gpus, throughput(form, gpus)) for gpus in sorted(set(widths))]
        known = tuple((gpus, rate) for gpus, rate in rates if rate)
        if not known:
            return ()
        found.append(Phase(until, (SpeedCurve(gpu_type, ThroughputTable(known)),)))
    return tuple(found)


def covers(phases: Iterable[Phase], gpus: int) -> bool:
    """Whether the curve says something of that width in every phase."""
    return all(throughput(phase.curves[0].form, gpus) for phase in phases)


def points(phase: Phase) -> tuple[tuple[int, float], ...]:
    """The table of a phase: throughput by number of GPUs."""
    form = phase.curves[0].form
    assert isinstance(form, ThroughputTable)
    return form.points


def widest(phases: tuple[Phase, ...]) -> int:
    """The largest width of a curve."""
    return points(phases[0])[-1][0]


def reference(phases: tuple[Phase, ...]) -> float:
    """Throughput of the reference option: the first phase at its smallest width."""
    return points(phases[0])[0][1]


def _seconds_of_one(phases: tuple[Phase, ...], gpus: int) -> float:
    """Seconds that one unit of work takes on ``gpus``: each phase its part of it. The curve must cover the width."""
    begins = (0.0, *(phase.until for phase in phases))
    return sum((phase.until - begin) / _rate(phase, gpus) for phase, begin in zip(phases, begins, strict=False))


def _rate(phase: Phase, gpus: int) -> float:
    rate = throughput(phase.curves[0].form, gpus)
    assert rate, f"the curve says nothing of {gpus} GPUs"
    return rate
