"""What came of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from purser.domain.ids import PoolId
from purser.domain.money import Money
from purser.domain.time import Instant


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
class Result:
    """``periods``: what each budget period that is over spent, by its begin. ``rented``: nodes after each change."""

    jobs: tuple[JobResult, ...]
    rented_gpu_hours: Mapping[PoolId, float]
    spent: Money
    periods: tuple[tuple[Instant, Money], ...]
    rented: tuple[tuple[float, int], ...]
    events: int
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
