"""What came of a simulation."""

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
    """One job; times are seconds of the virtual clock, None for what did not come. ``gpu_seconds``: of GPUs held."""

    name: str
    application: str
    submitted: float
    started: float | None
    finished: float | None
    restarts: int
    gpu_seconds: float

    @property
    def completion_seconds(self) -> float | None:
        """From submission to completion."""
        return None if self.finished is None else self.finished - self.submitted


@dataclass(frozen=True, slots=True)
class Tally:
    """How often something happened. ``starts``: of runs, be it the first, at another width or after an interruption.

    ``machines`` that were rented, and ``machine_ends``. ``instants`` at which anything happened, also if it was only
    that the policy wanted to be asked again, or an event that meanwhile meant nothing.
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
        """Events in the life of jobs."""
        return self.arrivals + self.starts + self.interruptions + self.reports + self.completions

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(Tally)))


@dataclass(frozen=True, slots=True)
class Result:
    """``periods``: what each budget period that is over spent, by its begin. ``rented``: nodes after each change."""

    jobs: tuple[JobResult, ...]
    rented_gpu_hours: Mapping[PoolId, float]
    spent: Money
    periods: tuple[tuple[Instant, Money], ...]
    rented: tuple[tuple[float, int], ...]
    tally: Tally
    ended: float

    @property
    def completion_seconds(self) -> list[float]:
        """Of the jobs that completed, ascending."""
        return sorted(time for job in self.jobs if (time := job.completion_seconds) is not None)

    @property
    def mean_completion_seconds(self) -> float:
        """Of the jobs that completed; nan where none did."""
        times = self.completion_seconds
        return sum(times) / len(times) if times else float("nan")

    @property
    def total_gpu_hours(self) -> float:
        """GPU-hours rented, of all pools."""
        return sum(self.rented_gpu_hours.values())

    @property
    def restarts(self) -> int:
        """Restarts of all jobs, first starts not counted."""
        return sum(job.restarts for job in self.jobs)

    def quantile(self, part: float) -> float:
        """The completion time that the part ``part`` of the jobs does not exceed."""
        times = self.completion_seconds
        return times[min(int(part * len(times)), len(times) - 1)] if times else float("nan")


def merged(results: Sequence[Result]) -> Result:
    """Simulations of several pools as one; at least one. Nodes over time are those of all."""
    if len(results) == 1:
        return results[0]
    hours: dict[PoolId, float] = {}
    periods: dict[Instant, Money] = {}
    for result in results:
        hours |= result.rented_gpu_hours
        for start, spent in result.periods:
            periods[start] = periods.get(start, ZERO) + spent
    return Result(
        jobs=tuple(job for result in results for job in result.jobs),
        rented_gpu_hours=hours,
        spent=total(result.spent for result in results),
        periods=tuple(sorted(periods.items())),
        rented=tuple((at, int(nodes)) for at, nodes in summed([(result.rented, 1.0) for result in results])),
        tally=reduce(add, (result.tally for result in results)),
        ended=max(result.ended for result in results),
    )


def summed(series: Sequence[tuple[Sequence[tuple[float, int]], float]]) -> tuple[tuple[float, float], ...]:
    """Of step functions (instant, value from then on) with a factor each, the sum after each change, from 0 on."""
    changes: list[tuple[float, float]] = []
    for steps, factor in series:
        before = 0
        for at, value in steps:
            changes.append((at, (value - before) * factor))
            before = value
    found: list[tuple[float, float]] = []
    height = 0.0
    for at, change in sorted(changes, key=lambda one: one[0]):
        height += change
        if found and found[-1][0] == at:
            found.pop()
        found.append((at, height))
    return tuple(found)
