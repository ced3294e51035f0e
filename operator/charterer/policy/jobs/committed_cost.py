"""Past and future cost of the jobs under way, at any time.

A job that reports says what it still costs. A silent one is taken to cost what was predicted of it times its class's κ:
what that leaves falls as it spends, until nothing is left.
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
            if facts.since is not None:
                self._runs.append((facts.micros, facts.since))
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
    """Sums over jobs that hold GPUs, in dollars. ``running``: how many; ``left``: what they will still cost, and
    ``squares`` Σ left². ``jobs``: those with a prediction; only they are in ``predicted`` and in ``actual``, what they
    have cost and will.
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

    __slots__ = (
        "_counted",
        "_predicted",
        "_reported",
        "_reported_counted",
        "_silent",
        "_spent",
        "_squares",
        "running",
    )

    def __init__(self, jobs: Iterable[JobFacts]) -> None:
        everyone = list(jobs)
        holding = [facts for facts in everyone if facts.since is not None]
        counted = [facts for facts in holding if facts.predicted > 0.0]
        reported = [(facts.reported, facts.predicted > 0.0) for facts in holding if facts.reported is not None]
        self.running = len(holding)
        self._spent = CostMeter(everyone)
        self._counted = CostMeter(counted)
        self._predicted = len(counted), sum([facts.predicted for facts in counted])
        self._reported = sum([left for left, _ in reported])
        self._reported_counted = sum([left for left, predicted in reported if predicted])
        self._squares = sum([left * left for left, _ in reported])
        self._silent = [
            (facts.predicted, facts.ended, facts.price * 1e-6, facts.since)
            for facts in counted
            if facts.reported is None and facts.since is not None
        ]

    def spent(self, now: Instant) -> float:
        """Dollars of the GPUs that they held."""
        return self._spent.at(now)

    def committed(self, now: Instant, factor: float) -> CommittedCost:
        """Future cost of the jobs that hold GPUs; ``factor``: dollars of a silent job for each dollar predicted."""
        jobs, predicted = self._predicted
        silent = [
            left
            for aim, ended, price, since in self._silent
            if (left := aim * factor - ended - price * (now - since if now > since else 0)) > 0.0
        ]
        to_come = sum(silent)
        return CommittedCost(
            running=self.running,
            jobs=jobs,
            predicted=predicted,
            actual=self._counted.at(now) + self._reported_counted + to_come,
            left=self._reported + to_come,
            squares=self._squares + sum([left * left for left in silent]),
        )
