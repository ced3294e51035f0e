"""What jobs under way have cost and will cost, summed: worked out once for jobs that stay the same, asked at any time.

A job that reports says what it still costs. A silent one is taken to cost what was predicted of it times its class's κ:
what that leaves falls as it spends until nothing is left, so silent jobs are put in the order in which that happens.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING

from charterer.domain.time import Instant

if TYPE_CHECKING:
    from charterer.policy.jobs.job_facts import JobFacts

_UNIT = 1e6 * 3600e6
"""Micro-dollars an hour times microseconds in a dollar."""


class CostMeter:
    """Dollars that jobs' GPUs have cost up to any instant.

    Whole numbers are summed, price times time, so that nothing depends on when the sum was made.
    """

    __slots__ = ("_begun", "_ended", "_last", "_price", "_runs")

    def __init__(self, readings: Iterable[JobFacts]) -> None:
        self._ended = 0.0
        self._runs: list[tuple[int, Instant]] = []
        for one in readings:
            self._ended += one.ended
            if one.since is not None:
                self._runs.append((one.micros, one.since))
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
    """Unfinished jobs of one class, some of which hold GPUs (so many: ``running``)."""

    __slots__ = (
        "_counted",
        "_predicted",
        "_reported",
        "_reported_counted",
        "_silent",
        "_spent",
        "_squares",
        "_waning",
        "running",
    )

    def __init__(self, readings: Iterable[JobFacts]) -> None:
        everyone = list(readings)
        holding = [one for one in everyone if one.since is not None]
        counted = [one for one in holding if one.predicted > 0.0]
        told = [(one.reported, one.predicted > 0.0) for one in holding if one.reported is not None]
        self.running = len(holding)
        self._spent = CostMeter(everyone)
        self._counted = CostMeter(counted)
        self._predicted = len(counted), sum([one.predicted for one in counted])
        self._reported = sum([left for left, _ in told])
        self._reported_counted = sum([left for left, predicted in told if predicted])
        self._squares = sum([left * left for left, _ in told])
        self._silent = [one for one in counted if one.reported is None]
        self._waning: tuple[float, _RemainingCost] | None = None

    def spent(self, now: Instant) -> float:
        """Dollars of the GPUs that they held."""
        return self._spent.at(now)

    def committed(self, now: Instant, factor: float) -> CommittedCost:
        """What those that hold GPUs are committed to; ``factor``: what a silent job costs for a dollar predicted."""
        jobs, predicted = self._predicted
        if self._waning is None or self._waning[0] != factor:
            self._waning = factor, _RemainingCost(self._silent, factor)
        to_come, squares = self._waning[1].at(now)
        return CommittedCost(
            running=self.running,
            jobs=jobs,
            predicted=predicted,
            actual=self._counted.at(now) + self._reported_counted + to_come,
            left=self._reported + to_come,
            squares=self._squares + squares,
        )


class _RemainingCost:
    """Dollars that silent jobs have left, and their squares, at any instant: each has a − p·t, until that is nothing.

    Sums of a, p, a², a·p and p² over those that have something left after t are kept in the order of a/p; t counts from
    the last start of any.
    """

    __slots__ = ("_begin", "_late", "_sums", "_until")

    def __init__(self, readings: Sequence[JobFacts], factor: float) -> None:
        runs = [(one, one.since) for one in readings if one.since is not None]
        self._begin = max([since for _, since in runs], default=Instant(0))
        self._late = [(one.predicted * factor - one.ended, one.price * 1e-6, since) for one, since in runs]
        lines = [(aim - price * (self._begin - since), price) for aim, price, since in self._late]
        ordered = sorted([(left / price if price else inf, left, price) for left, price in lines if left > 0.0])
        self._until = [until for until, _, _ in ordered]
        rows = [(left, price, left * left, left * price, price * price) for _, left, price in reversed(ordered)]
        self._sums = [list(accumulate(column)) for column in zip(*rows, strict=True)]

    def at(self, now: Instant) -> tuple[float, float]:
        """Σ left and Σ left²."""
        later = now - self._begin
        if later < 0:
            left = [aim - price * max(now - since, 0) for aim, price, since in self._late]
            return sum([max(one, 0.0) for one in left]), sum([max(one, 0.0) ** 2 for one in left])
        last = len(self._until) - bisect_right(self._until, later) - 1
        if last < 0:
            return 0.0, 0.0
        left, price, squares, mixed, prices = (column[last] for column in self._sums)
        return left - price * later, max(squares - 2.0 * mixed * later + prices * later * later, 0.0)
