"""Past and future cost of the jobs under way, at any time.

What they have cost includes runs that were told to stop and still hold their GPUs. A job that reports says what it
still costs. A silent one is taken to cost what was predicted of it times its class's κ: what that leaves falls as it
spends, until nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from charterer.domain.time import Instant
from charterer.policy.jobs.job_facts import JobFacts

_UNIT = 1e6 * 3600e6
"""Micro-dollars an hour times microseconds in a dollar."""


class CostMeter:
    """Dollars that jobs' GPUs have cost up to any instant.

    Whole numbers are summed, price times time, so that nothing depends on when the sum was made.
    """

    __slots__ = ("_begun", "_ended", "_last", "_price", "_runs")

    def __init__(self, jobs: Iterable[JobFacts]) -> None:
        self._ended = 0.0
        self._runs: list[tuple[int, Instant]] = []
        for facts in jobs:
            self._ended += facts.ended
            self._runs += facts.meters
        self._price = sum([micros for micros, _ in self._runs])
        self._begun = sum([micros * since for micros, since in self._runs])
        self._last = max([since for _, since in self._runs], default=Instant(0))

    def at(self, now: Instant) -> float:
        """Dollars up to ``now``; a run that begins later (clocks differ) has cost nothing."""
        if now >= self._last:
            return self._ended + (self._price * now - self._begun) / _UNIT
        return self._ended + sum([micros * max(now - since, 0) for micros, since in self._runs]) / _UNIT


@dataclass(frozen=True, slots=True)
class CommittedCost:
    """Sums over unfinished jobs, in dollars. ``running``: how many hold GPUs; ``left``: what those will still cost, and
    ``squares`` Σ left². ``jobs``: those with a prediction, which have been started; only they are in ``predicted`` and
    in ``actual``, what they have cost and will, whether they hold GPUs at the moment or wait for others.
    """

    running: int = 0
    jobs: int = 0
    predicted: float = 0.0
    actual: float = 0.0
    left: float = 0.0
    squares: float = 0.0

    def __add__(self, other: CommittedCost) -> CommittedCost:
        return CommittedCost(
            self.running + other.running,
            self.jobs + other.jobs,
            self.predicted + other.predicted,
            self.actual + other.actual,
            self.left + other.left,
            self.squares + other.squares,
        )


NOTHING = CommittedCost()


class ClassInProgress:
    """Unfinished jobs of one class, of which ``running`` hold GPUs."""

    __slots__ = ("_counted", "_predicted", "_reported", "_silent", "_spent", "running", "started")

    def __init__(self, jobs: Iterable[JobFacts]) -> None:
        everyone = list(jobs)
        counted = [facts for facts in everyone if facts.predicted > 0.0]
        self.running = len([facts for facts in everyone if facts.since is not None])
        self.started = self.running > 0 or bool(counted)
        self._spent = CostMeter(everyone)
        self._counted = CostMeter(counted)
        self._predicted = len(counted), sum([facts.predicted for facts in counted])
        self._reported = [
            (facts.reported, facts.predicted > 0.0, facts.since is not None)
            for facts in everyone
            if facts.reported is not None
        ]
        self._silent = [
            (facts.predicted, facts.ended, *_line(facts), facts.since is not None)
            for facts in counted
            if facts.reported is None
        ]

    def spent(self, now: Instant) -> float:
        """Dollars of the GPUs that they held."""
        return self._spent.at(now)

    def committed(self, now: Instant, factor: float) -> CommittedCost:
        """Future cost of the jobs; ``factor``: dollars of a silent job for each dollar predicted."""
        jobs, predicted = self._predicted
        silent = [
            (left, holds)
            for aim, ended, price, since, holds in self._silent
            if (left := aim * factor - ended - (price * (now - since) if now > since else 0.0)) > 0.0
        ]
        counted = [left for left, _ in silent] + [left for left, predicted, _ in self._reported if predicted]
        lefts = [left for left, holds in silent if holds] + [left for left, _, holds in self._reported if holds]
        return CommittedCost(
            running=self.running,
            jobs=jobs,
            predicted=predicted,
            actual=self._counted.at(now) + sum(counted),
            left=sum(lefts),
            squares=sum([left * left for left in lefts]),
        )


def _line(facts: JobFacts) -> tuple[float, float]:
    """Dollars a microsecond of the job's runs that are not on record, and the instant that they count from together."""
    micros = sum([micros for micros, _ in facts.meters])
    begun = sum([micros * since for micros, since in facts.meters])
    return micros / _UNIT, begun / micros if micros else 0.0
