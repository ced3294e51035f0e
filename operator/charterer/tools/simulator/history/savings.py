"""The savings of Charterer on a history: for the same money, in the same mean completion time, and for more money.

Charterer at several exchange rates gives a set of points (dollars, mean completion time). The lower envelope of the
points is interpolated on logarithmic scales. The envelope is read at the dollars and at the mean time of the history as
it was, and at multiples of the dollars that are spent today.

The intervals come from a circular block bootstrap over the jobs in order of submission (Politis and Romano 1992).
Blocks of jobs are drawn instead of single jobs, because jobs that come together share nodes. A block has N^(1/3) jobs,
the order of length that is best for a variance (Hall, Horowitz and Jing 1995). Each resample takes the same jobs under
all policies. Percentiles of few blocks are too narrow, so the tails are those of Student's t (expanded percentile
interval, Hesterberg 2015, What Teachers Should Know About the Bootstrap, §5.2). The intervals cover the variation
between jobs like these. They do not cover errors of the curves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from math import exp, log, sqrt
from statistics import NormalDist
from typing import NamedTuple

from charterer.tools.simulator.history.history import History

LEAST_JOBS = 32
"""Jobs needed for an estimate: ten blocks of 32^(1/3). With n blocks the spread is too small by √((n−1)/n)."""
LEVEL = 0.9
"""Probability with which the interval should contain the number."""
RESAMPLES = 1000
"""Number of resamples. With this number, an interval's end is about the 30th to 50th value from its side."""


@dataclass(frozen=True, slots=True)
class SavingsReplay:
    """A history under one policy.

    ``rate``: dollars per job-hour saved, or None for the policy that Charterer is compared with.
    ``seconds``, ``dollars``: seconds to completion and dollars of each job, in order of submission.
    """

    rate: float | None
    seconds: Sequence[float]
    dollars: Sequence[float]

    @property
    def point(self) -> tuple[float, float]:
        """Dollars of all jobs, and their mean completion time in seconds."""
        return sum(self.dollars), sum(self.seconds) / len(self.seconds)


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A number with an interval that contains it in nine cases of ten. An end is None if it cannot be reached."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class MoreMoney:
    """What more money would buy. ``now`` and ``then`` are dollars and mean seconds.

    ``now``: Charterer at the dollars of today. ``then``: Charterer at ``factor`` times these dollars.
    ``sooner``: the fraction by which the mean completion time falls. It is negative if the time rises.
    """

    factor: float
    now: tuple[float, float]
    then: tuple[float, float]
    sooner: IntervalEstimate


@dataclass(frozen=True, slots=True)
class Savings:
    """The savings of Charterer on a history.

    ``jobs``: number of jobs.
    ``block``: jobs in a block of the bootstrap.
    ``asked``: dollars and mean seconds of the policy with which Charterer is compared.
    ``hours``: job-hours saved, of all jobs together, for at most the same dollars. None if Charterer cannot spend that
    little.
    ``dollars``: dollars saved with at most the same mean completion time. None if Charterer cannot be that fast.
    ``at_money``, ``at_time``: Charterer's dollars and mean seconds in these two cases.
    ``more``: what more money would buy, for each factor that can be reached.
    """

    jobs: int
    block: int
    asked: tuple[float, float]
    hours: IntervalEstimate | None
    dollars: IntervalEstimate | None
    at_money: tuple[float, float] | None
    at_time: tuple[float, float] | None
    more: tuple[MoreMoney, ...] = ()


@dataclass(frozen=True, slots=True)
class LowerEnvelope:
    """The points (dollars, seconds) that no other point beats in both values.

    From one point to the next, dollars rise and seconds fall.
    """

    points: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, points: Sequence[tuple[float, float]]) -> LowerEnvelope:
        """The lower envelope of points (dollars, seconds)."""
        kept: list[tuple[float, float]] = []
        for point in sorted(points):
            if not kept or point[1] < kept[-1][1]:
                kept.append(point)
        return cls(tuple(kept))

    def at_dollars(self, dollars: float) -> tuple[float, float] | None:
        """The point that is reached with at most ``dollars``, or None if even the cheapest point costs more."""
        return _reached(self.points, dollars)

    def at_seconds(self, seconds: float) -> tuple[float, float] | None:
        """The cheapest point with at most ``seconds``, or None if no point is that fast."""
        reached = _reached([(time, money) for money, time in reversed(self.points)], seconds)
        return None if reached is None else (reached[1], reached[0])


def _reached(points: Sequence[tuple[float, float]], most: float) -> tuple[float, float] | None:
    """The lowest point of a falling curve up to ``most``, interpolated log-log, or None if the curve begins beyond
    it.
    """
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
    fraction = (log(most) - log(low)) / (log(high) - log(low))
    return most, exp((1.0 - fraction) * log(high_value) + fraction * log(low_value))


def rates_around(history: History, factor: float) -> tuple[float, ...]:
    """Exchange rates in dollars per job-hour, from 1/16 to 16 times the cost of a job-hour at the width asked for.

    ``factor``: ratio of neighbouring rates.
    """
    hourly = [
        job.gpus * past.pool.hourly.dollars_per_hour / past.pool.gpus_per_node
        for past in history.pools
        for job in past.jobs
    ]
    mean = sum(hourly) / len(hourly) or 1.0
    steps = round(log(16.0) / log(factor))
    return tuple(float(f"{mean * factor**step:.2g}") for step in range(-steps, steps + 1))


def next_rates(
    asked: SavingsReplay, paying: Sequence[SavingsReplay], dollars: Sequence[float] = ()
) -> tuple[float, ...]:
    """Exchange rates to try next: one between each two neighbours in ``paying`` that enclose a wanted value.

    Wanted are the dollars and mean time of ``asked``, and ``dollars``.
    """
    ascending = sorted((replay for replay in paying if replay.rate is not None), key=lambda replay: replay.rate or 0.0)
    rates = set()
    for axis, wanted in ((0, [asked.point[0], *dollars]), (1, [asked.point[1]])):
        for lower, higher in pairwise(ascending):
            low, high = sorted((lower.point[axis], higher.point[axis]))
            if any(low < value < high for value in wanted) and lower.rate and higher.rate:
                rates.add(float(f"{sqrt(lower.rate * higher.rate):.3g}"))
    return tuple(sorted(rates))


class _Outcome(NamedTuple):
    """Points (dollars, mean seconds) of the history, or of one resample.

    ``asked``: the policy with which Charterer is compared. ``today``: at the dollars paid today. ``envelope``: the
    points that Charterer can reach.
    """

    asked: tuple[float, float]
    today: tuple[float, float]
    envelope: LowerEnvelope

    @classmethod
    def of(cls, points: Sequence[tuple[float, float]]) -> _Outcome:
        """The outcome of points in this order: as asked, today, and Charterer at each rate."""
        asked, today, *paying = points
        return cls(asked, today, LowerEnvelope.of(paying))


def savings(
    asked: SavingsReplay,
    paying: Sequence[SavingsReplay],
    draw: Callable[[], float],
    resamples: int = RESAMPLES,
    today: SavingsReplay | None = None,
    factors: Sequence[float] = (),
) -> Savings | None:
    """The savings with their intervals, or None with fewer than LEAST_JOBS jobs.

    ``draw``: draws a number uniformly from [0, 1).
    ``today``: the replay at what is paid today, or None if that is ``asked``.
    ``factors``: multiples of today's dollars. For each, the savings say what these dollars would buy.
    """
    count = len(asked.seconds)
    if count < LEAST_JOBS:
        return None
    policies = [asked, asked if today is None else today, *paying]
    whole = _Outcome.of([policy.point for policy in policies])
    block = round(count ** (1.0 / 3.0))
    tail = _tail(-(-count // block))
    resampled = [_Outcome.of(points) for points in _resampled(policies, block, draw, resamples)]

    def estimate(statistic: Callable[[_Outcome], float | None]) -> IntervalEstimate | None:
        value = statistic(whole)
        return None if value is None else _estimate(value, [statistic(drawn) for drawn in resampled], tail)

    more = []
    for factor in factors:
        now, then = (whole.envelope.at_dollars(whole.today[0] * times) for times in (1.0, factor))
        sooner = estimate(partial(_sooner, factor=factor))
        if now is not None and then is not None and sooner is not None:
            more.append(MoreMoney(factor, now, then, sooner))
    return Savings(
        count,
        block,
        whole.asked,
        estimate(partial(_hours_saved, count=count)),
        estimate(_dollars_saved),
        whole.envelope.at_dollars(whole.asked[0]),
        whole.envelope.at_seconds(whole.asked[1]),
        tuple(more),
    )


def _hours_saved(outcome: _Outcome, count: int) -> float | None:
    """Job-hours saved over all jobs, for the dollars of the policy that Charterer is compared with."""
    reached = outcome.envelope.at_dollars(outcome.asked[0])
    return None if reached is None else (outcome.asked[1] - reached[1]) * count / 3600.0


def _dollars_saved(outcome: _Outcome) -> float | None:
    reached = outcome.envelope.at_seconds(outcome.asked[1])
    return None if reached is None else outcome.asked[0] - reached[0]


def _sooner(outcome: _Outcome, factor: float) -> float | None:
    """The fraction by which the mean completion time falls if ``factor`` times the dollars of today are spent."""
    now, then = (outcome.envelope.at_dollars(outcome.today[0] * times) for times in (1.0, factor))
    return None if now is None or then is None or not now[1] else 1.0 - then[1] / now[1]


def _tail(blocks: int) -> float:
    """The fraction of the resamples beyond each end of the interval. For many blocks the fraction is (1 - LEVEL) / 2.

    The function uses Student's quantile by its expansion in 1 / degrees of freedom (Abramowitz and Stegun, 26.7.5).
    """
    normal, free = NormalDist(), blocks - 1
    z = normal.inv_cdf((1.0 + LEVEL) / 2.0)
    student = z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    return normal.cdf(-sqrt(blocks / free) * student)


def _estimate(value: float, resampled: Sequence[float | None], tail: float) -> IntervalEstimate:
    """The interval that leaves the fraction ``tail`` of the resamples beyond each end. A resample that is None counts
    as the least value.
    """
    ascending = sorted(resampled, key=lambda saved: (saved is not None, saved or 0.0))
    beyond = round(tail * len(ascending))
    return IntervalEstimate(value, ascending[beyond], ascending[-1 - beyond])


def _resampled(
    policies: Sequence[SavingsReplay], block: int, draw: Callable[[], float], resamples: int
) -> Iterator[list[tuple[float, float]]]:
    """For each resample, the point of each policy."""
    count = len(policies[0].seconds)
    blocks = -(-count // block)
    sums = [(_block_sums(policy.dollars, block), _block_sums(policy.seconds, block)) for policy in policies]
    drawn = blocks * block
    for _ in range(resamples):
        starts = [int(draw() * count) for _ in range(blocks)]
        yield [
            (sum(map(money.__getitem__, starts)) * count / drawn, sum(map(time.__getitem__, starts)) / drawn)
            for money, time in sums
        ]


def _block_sums(values: Sequence[float], block: int) -> list[float]:
    """The sum over each block of jobs, by the block's first job. A block at the end wraps around to the beginning."""
    sums = [0.0, *accumulate((*values, *values[:block]))]
    return [sums[at + block] - sums[at] for at in range(len(values))]


def savings_replay(
    history: History, rate: float | None, seconds: Mapping[str, float], dollars: Mapping[str, float]
) -> SavingsReplay:
    """A SavingsReplay from seconds and dollars by job name."""
    names = [job.name for job in history.jobs]
    return SavingsReplay(rate, [seconds[name] for name in names], [dollars[name] for name in names])
