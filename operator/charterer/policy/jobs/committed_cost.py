"""Past and future cost of the jobs under way, at any time.

What they have cost includes runs that were told to stop and still hold their GPUs. A job that reports says what it
still costs. A silent one is taken to cost what was predicted of it times its class's κ: what that leaves falls as it
spends, until nothing is left. All of that is at the price that is paid. A job on nodes that are paid for whether it
uses them or not leaves nothing to be paid (``pacing`` counts them).
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

    __slots__ = ("_begun", "_last", "_price", "_recorded", "_runs")

    def __init__(self, jobs: Iterable[JobFacts]) -> None:
        self._recorded = 0.0
        self._runs: list[tuple[int, Instant]] = []
        for facts in jobs:
            self._recorded += facts.recorded_cost
            self._runs += facts.meters
        self._price = sum([micros for micros, _ in self._runs])
        self._begun = sum([micros * since for micros, since in self._runs])
        self._last = max([since for _, since in self._runs], default=Instant(0))

    def at(self, now: Instant) -> float:
        """Dollars up to ``now``; a run that begins later (clocks differ) has cost nothing."""
        if now >= self._last:
            return self._recorded + (self._price * now - self._begun) / _UNIT
        return self._recorded + sum([micros * max(now - since, 0) for micros, since in self._runs]) / _UNIT


@dataclass(frozen=True, slots=True)
class CommittedCost:
    """Sums over unfinished jobs, in dollars.

    ``jobs``: how many have a prediction, which means that they have been started. ``predicted``: of those.
    ``actual``: what they have cost and will, whether they hold GPUs at the moment or wait for others. ``left``: what
    jobs that hold GPUs will still cost beside what is paid anyway, with or without a prediction; ``squares``: Σ left²
    of those among them that have not reported yet, so that it is uncertain.
    """

    jobs: int = 0
    predicted: float = 0.0
    actual: float = 0.0
    left: float = 0.0
    squares: float = 0.0

    def __add__(self, other: CommittedCost) -> CommittedCost:
        return CommittedCost(
            self.jobs + other.jobs,
            self.predicted + other.predicted,
            self.actual + other.actual,
            self.left + other.left,
            self.squares + other.squares,
        )


NOTHING = CommittedCost()


class ClassInProgress:
    """Unfinished jobs of one class. ``started``: whether any holds GPUs or did."""

    __slots__ = ("_counted", "_jobs", "_predicted", "_reported", "_silent", "_spent", "started")

    def __init__(self, jobs: Iterable[JobFacts]) -> None:
        everyone = list(jobs)
        counted = [facts for facts in everyone if facts.predicted > 0.0]
        self.started = bool(counted) or any([facts.since is not None for facts in everyone])
        self._spent = CostMeter(everyone)
        self._counted = CostMeter(counted)
        self._jobs = len(counted)
        self._predicted = sum([facts.predicted for facts in counted])
        self._reported = [
            (facts.reported, facts.predicted > 0.0, _is_billed(facts))
            for facts in everyone
            if facts.reported is not None
        ]
        self._silent = [
            (facts.predicted, facts.recorded_cost, *_line(facts), _is_billed(facts))
            for facts in counted
            if facts.reported is None
        ]

    def spent(self, now: Instant) -> float:
        """Dollars of the GPUs that they held."""
        return self._spent.at(now)

    def committed(self, now: Instant, factor: float) -> CommittedCost:
        """The sums at ``now``. ``factor``: dollars that a job which reports nothing costs for each dollar predicted."""
        silent = [
            (left, billed)
            for predicted, recorded, price, since, billed in self._silent
            if (left := predicted * factor - recorded - (price * (now - since) if now > since else 0.0)) > 0.0
        ]
        counted = [left for left, _ in silent] + [left for left, has_prediction, _ in self._reported if has_prediction]
        lefts = [left for left, billed in silent if billed] + [left for left, _, billed in self._reported if billed]
        return CommittedCost(
            jobs=self._jobs,
            predicted=self._predicted,
            actual=self._counted.at(now) + sum(counted),
            left=sum(lefts),
            squares=sum([left * left for left, billed in silent if billed]),
        )


def _is_billed(facts: JobFacts) -> bool:
    """Whether the job holds GPUs whose bill ends with it."""
    return facts.since is not None and not facts.prepaid


def _line(facts: JobFacts) -> tuple[float, float]:
    """Dollars a microsecond of the job's runs that are not on record, and the instant that they count from together."""
    micros = sum([micros for micros, _ in facts.meters])
    begun = sum([micros * since for micros, since in facts.meters])
    return micros / _UNIT, begun / micros if micros else 0.0
