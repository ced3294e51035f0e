"""What a policy would have saved on a history: at the same money, and at the same mean completion time.

Charterer at several exchange rates is a set of points (dollars, mean completion time). Their lower envelope is read by
log-log interpolation, at the dollars and at the mean time of the history as it was. The interval is by a circular block
bootstrap over the jobs in order of submission (Politis and Romano 1992): blocks, because jobs that come together share
nodes, of N^(1/3) jobs, the order of length that is best for a variance (Hall, Horowitz and Jing 1995). Each resample
takes the same jobs under all policies. As percentiles of few blocks are too narrow, the tails are those of Student's t
(expanded percentile interval, Hesterberg 2015, What Teachers Should Know About the Bootstrap, §5.2). It tells how much
other jobs like these would differ; not how wrong curves are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import exp, log, sqrt
from statistics import NormalDist

from charterer.simulate.history.history import History

LEAST_JOBS = 32
"""Ten blocks of 32^(1/3) jobs: with n blocks a bootstrap's spread is too small by √((n−1)/n), 5 % at ten."""
LEVEL = 0.9
RESAMPLES = 1000
"""The ends of an interval are then about the 30th to the 50th of 1000: known to a fifth of what lies beyond."""


@dataclass(frozen=True, slots=True)
class SavingsReplay:
    """A history under one policy: seconds to completion and dollars of each job, in order of submission.

    ``rate``: dollars an hour of a job's life, None for what is compared with.
    """

    rate: float | None
    seconds: Sequence[float]
    dollars: Sequence[float]

    @property
    def point(self) -> tuple[float, float]:
        """Dollars of all jobs, and their mean completion time in seconds."""
        return sum(self.dollars), sum(self.seconds) / len(self.seconds)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with the interval that holds it in nine of ten cases; an end of None: there it cannot be had at all."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Savings:
    """Against ``asked`` (dollars, mean seconds) of ``jobs`` jobs; ``block``: jobs in a block of the bootstrap.

    ``hours``: of job life, of all jobs together, at the same dollars or fewer. ``dollars``: at the same mean completion
    time or a shorter one. None: Charterer cannot spend so little, or not be so fast. ``at_money`` and ``at_time``:
    dollars and mean seconds that it would have had then.
    """

    jobs: int
    block: int
    asked: tuple[float, float]
    hours: Estimate | None
    dollars: Estimate | None
    at_money: tuple[float, float] | None
    at_time: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Envelope:
    """The points that no other beats in both, by rising dollars and falling time."""

    points: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, points: Sequence[tuple[float, float]]) -> Envelope:
        """The lower envelope of (dollars, seconds)."""
        kept: list[tuple[float, float]] = []
        for point in sorted(points):
            if not kept or point[1] < kept[-1][1]:
                kept.append(point)
        return cls(tuple(kept))

    def at_dollars(self, dollars: float) -> tuple[float, float] | None:
        """The point reached with ``dollars`` at most; None below the cheapest."""
        return _reached(self.points, dollars)

    def at_seconds(self, seconds: float) -> tuple[float, float] | None:
        """The cheapest point of ``seconds`` at most; None below the fastest."""
        found = _reached([(time, money) for money, time in reversed(self.points)], seconds)
        return None if found is None else (found[1], found[0])


def _reached(points: Sequence[tuple[float, float]], most: float) -> tuple[float, float] | None:
    """Of a falling curve, the lowest point up to ``most``, log-log between its points."""
    at = bisect_left(points, most, key=lambda point: point[0])
    if at == len(points):
        return points[-1]
    if points[at][0] == most:
        return points[at]
    if at == 0:
        return None
    (low, high_value), (high, low_value) = points[at - 1], points[at]
    if min(low, low_value) <= 0.0:
        return points[at - 1]
    part = (log(most) - log(low)) / (log(high) - log(low))
    return most, exp((1.0 - part) * log(high_value) + part * log(low_value))


def rates_around(history: History, factor: float) -> tuple[float, ...]:
    """Rates, dollars per job-hour, from a sixteenth to 16 times what an hour of a job costs at the width asked for."""
    hourly = [
        job.gpus * fleet.pool.hourly.dollars_per_hour / fleet.pool.gpus_per_node
        for fleet in history.fleets
        for job in fleet.jobs
    ]
    mean = sum(hourly) / len(hourly) or 1.0
    steps = round(log(16.0) / log(factor))
    return tuple(float(f"{mean * factor**step:.2g}") for step in range(-steps, steps + 1))


def next_rates(asked: SavingsReplay, found: Sequence[SavingsReplay]) -> tuple[float, ...]:
    """Rates between those known whose dollars or mean times have the history's between them."""
    known = sorted((one for one in found if one.rate is not None), key=lambda one: one.rate or 0.0)
    tried = set()
    for axis in (0, 1):
        for lower, higher in pairwise(known):
            ends = sorted((lower.point[axis], higher.point[axis]))
            if ends[0] < asked.point[axis] < ends[1] and lower.rate and higher.rate:
                tried.add(float(f"{sqrt(lower.rate * higher.rate):.3g}"))
    return tuple(sorted(tried))


def savings(
    asked: SavingsReplay, paying: Sequence[SavingsReplay], draw: Callable[[], float], resamples: int = RESAMPLES
) -> Savings | None:
    """What is saved, with its interval; None with fewer than LEAST_JOBS jobs. ``draw``: uniform in [0, 1)."""
    count = len(asked.seconds)
    if count < LEAST_JOBS:
        return None
    envelope = Envelope.of([one.point for one in paying])
    at_money, at_time = envelope.at_dollars(asked.point[0]), envelope.at_seconds(asked.point[1])
    block = round(count ** (1.0 / 3.0))
    tail = _tail(-(-count // block))
    hours, dollars = _resampled([asked, *paying], block, draw, resamples)
    return Savings(
        count,
        block,
        asked.point,
        None if at_money is None else _estimate((asked.point[1] - at_money[1]) * count / 3600.0, hours, tail),
        None if at_time is None else _estimate(asked.point[0] - at_time[0], dollars, tail),
        at_money,
        at_time,
    )


def _tail(blocks: int) -> float:
    """The part of the resamples beyond each end, from so many blocks; from many, (1 - LEVEL) / 2.

    Student's quantile by its expansion in 1 / degrees of freedom (Abramowitz and Stegun, 26.7.5).
    """
    normal, free = NormalDist(), blocks - 1
    z = normal.inv_cdf((1.0 + LEVEL) / 2.0)
    student = z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    return normal.cdf(-sqrt(blocks / free) * student)


def _estimate(value: float, resampled: Sequence[float | None], part: float) -> Estimate:
    """The interval with that part of the resamples beyond each end; what cannot be had counts as less than anything."""
    ascending = sorted(resampled, key=lambda one: (one is not None, one or 0.0))
    tail = round(part * len(ascending))
    return Estimate(value, ascending[tail], ascending[-1 - tail])


def _resampled(
    policies: Sequence[SavingsReplay], block: int, draw: Callable[[], float], resamples: int
) -> tuple[list[float | None], list[float | None]]:
    """Hours and dollars saved in each resample; the first policy is what is compared with."""
    count = len(policies[0].seconds)
    blocks = -(-count // block)
    sums = [(_block_sums(one.dollars, block), _block_sums(one.seconds, block)) for one in policies]
    drawn = blocks * block
    hours: list[float | None] = []
    dollars: list[float | None] = []
    for _ in range(resamples):
        starts = [int(draw() * count) for _ in range(blocks)]
        points = [
            (sum(map(money.__getitem__, starts)) * count / drawn, sum(map(time.__getitem__, starts)) / drawn)
            for money, time in sums
        ]
        (spent, mean), envelope = points[0], Envelope.of(points[1:])
        at_money, at_time = envelope.at_dollars(spent), envelope.at_seconds(mean)
        hours.append(None if at_money is None else (mean - at_money[1]) * count / 3600.0)
        dollars.append(None if at_time is None else spent - at_time[0])
    return hours, dollars


def _block_sums(values: Sequence[float], block: int) -> list[float]:
    """By its first job, the sum over each block, which goes on at the beginning where the jobs end."""
    sums = [0.0, *accumulate((*values, *values[:block]))]
    return [sums[at + block] - sums[at] for at in range(len(values))]


def in_order(
    history: History, rate: float | None, seconds: Mapping[str, float], dollars: Mapping[str, float]
) -> SavingsReplay:
    """A Replay of what is known by job name."""
    names = [job.name for job in history.jobs]
    return SavingsReplay(rate, [seconds[name] for name in names], [dollars[name] for name in names])
