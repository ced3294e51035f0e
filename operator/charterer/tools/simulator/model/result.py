"""The result of a simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from operator import add

from charterer.domain.ids import PoolId
from charterer.domain.money import ZERO, Money, total
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of one job. Times are seconds of the virtual clock, or None if something did not happen.

    ``restarts``: number of starts of a run after the first one.
    ``pool_gpu_seconds``: for each pool, the GPU time that the job held.
    ``widths``: (second, GPUs held from then on) at each change. The time from a start to the first step is included.
    ``gpu_types``: (second, type of the job's GPUs from then on) at each run's start.
    ``cell_waits``: for each cell of an interactive job, the seconds that the cell waited for a GPU.
    """

    name: str
    application: str
    submitted: float
    started: float | None
    finished: float | None
    restarts: int
    pool_gpu_seconds: Mapping[PoolId, float]
    widths: tuple[tuple[float, int], ...] = ()
    gpu_types: tuple[tuple[float, str], ...] = ()
    cell_waits: tuple[float, ...] = ()

    @property
    def gpu_seconds(self) -> float:
        """GPU time held in all pools."""
        return sum(self.pool_gpu_seconds.values())

    @property
    def completion_seconds(self) -> float | None:
        """Seconds from submission to completion, or None if the job did not complete."""
        return None if self.finished is None else self.finished - self.submitted


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Number of events of each kind.

    ``starts``: starts of runs, whether for the first time, at another width or after a loss.
    ``machines``, ``machine_ends``: rented and ended machines.
    ``instants``: all instants at which the clock stopped. They include instants at which only the policy wanted to be
    asked again, and instants whose event no longer meant anything.
    """

    arrivals: int
    starts: int
    interruptions: int
    reports: int
    completions: int
    machines: int
    machine_ends: int
    instants: int

    @property
    def job_events(self) -> int:
        """Number of events in the lives of jobs."""
        return self.arrivals + self.starts + self.interruptions + self.reports + self.completions

    def __add__(self, other: EventCounts) -> EventCounts:
        return EventCounts(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(EventCounts)))


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What happened in a simulation.

    ``rented_gpu_hours``, ``spent_in``: GPU-hours and dollars of each pool.
    ``periods``: (begin, spend) of each budget period that is over.
    ``rented_nodes``, ``rented_gpus``: (second, number from then on) at each change.
    ``hourly``: (second, dollars an hour of the rented nodes from then on) at each change.
    ``ended_at``: the second at which it ended.
    """

    jobs: tuple[JobResult, ...]
    rented_gpu_hours: Mapping[PoolId, float]
    spent_in: Mapping[PoolId, Money]
    periods: tuple[tuple[Instant, Money], ...]
    rented_nodes: tuple[tuple[float, int], ...]
    rented_gpus: tuple[tuple[float, int], ...]
    hourly: tuple[tuple[float, float], ...]
    counts: EventCounts
    ended_at: float

    @property
    def spent(self) -> Money:
        """Dollars in all pools."""
        return total(self.spent_in.values())

    @property
    def completion_seconds(self) -> list[float]:
        """Completion times in seconds of the jobs that completed, ascending."""
        return sorted(time for job in self.jobs if (time := job.completion_seconds) is not None)

    @property
    def mean_completion_seconds(self) -> float:
        """Mean completion time in seconds of the jobs that completed, or nan if none did."""
        times = self.completion_seconds
        return sum(times) / len(times) if times else float("nan")

    @property
    def total_gpu_hours(self) -> float:
        """GPU-hours rented in all pools."""
        return sum(self.rented_gpu_hours.values())

    @property
    def used_gpu_hours(self) -> float:
        """GPU-hours that jobs held."""
        return sum(job.gpu_seconds for job in self.jobs) / 3600.0

    @property
    def never_completed(self) -> tuple[str, ...]:
        """The names of the jobs that did not complete, in order of submission."""
        left = sorted((job for job in self.jobs if job.finished is None), key=lambda job: (job.submitted, job.name))
        return tuple(job.name for job in left)

    @property
    def restarts(self) -> int:
        """Number of restarts of all jobs. First starts do not count."""
        return sum(job.restarts for job in self.jobs)

    def quantile(self, fraction: float) -> float:
        """The completion time that the fraction ``fraction`` of the jobs does not exceed, or nan if no job
        completed.
        """
        times = self.completion_seconds
        return times[min(int(fraction * len(times)), len(times) - 1)] if times else float("nan")


def merge_results(results: Sequence[SimulationResult]) -> SimulationResult:
    """Merge the results of at least one simulation into one. No two simulations share a pool. Nodes over time are
    summed.
    """
    if len(results) == 1:
        return results[0]
    hours: dict[PoolId, float] = {}
    spent_in: dict[PoolId, Money] = {}
    periods: dict[Instant, Money] = {}
    for result in results:
        hours |= result.rented_gpu_hours
        spent_in |= result.spent_in
        for start, spent in result.periods:
            periods[start] = periods.get(start, ZERO) + spent
    return SimulationResult(
        jobs=tuple(job for result in results for job in result.jobs),
        rented_gpu_hours=hours,
        spent_in=spent_in,
        periods=tuple(sorted(periods.items())),
        rented_nodes=_summed([result.rented_nodes for result in results]),
        rented_gpus=_summed([result.rented_gpus for result in results]),
        hourly=sum_of_steps([(result.hourly, 1.0) for result in results]),
        counts=reduce(add, (result.counts for result in results)),
        ended_at=max(result.ended_at for result in results),
    )


def _summed(counts: Sequence[Sequence[tuple[float, int]]]) -> tuple[tuple[float, int], ...]:
    return tuple((at, int(count)) for at, count in sum_of_steps([(steps, 1.0) for steps in counts]))


def sum_of_steps(series: Sequence[tuple[Sequence[tuple[float, float]], float]]) -> tuple[tuple[float, float], ...]:
    """The sum of step functions, each given as (steps, factor): (second, value from then on).

    All of them start at 0.
    """
    changes: list[tuple[float, float]] = []
    for steps, factor in series:
        before = 0.0
        for at, value in steps:
            changes.append((at, (value - before) * factor))
            before = value
    summed: list[tuple[float, float]] = []
    height = 0.0
    for at, change in sorted(changes, key=lambda step: step[0]):
        height += change
        if summed and summed[-1][0] == at:
            summed.pop()
        summed.append((at, height))
    return tuple(summed)
