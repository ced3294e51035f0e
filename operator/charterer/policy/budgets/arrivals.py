"""The arrival rate of a class: each job counts once, finished or not, still there or deleted long ago.

Finished jobs are in the budget's history (``ledger.class_history``), all others are in sight. A Poisson process whose
rate drifts: counts fade, and what they say is a Gamma posterior (discounted conjugate updating: Harvey and Fernandes
1989). A weight that halves in a month tells what is usual; that is the prior, worth ``PRIOR_JOBS`` jobs, of the count
whose weights halve in a week:

    λ = (n₀ + S_w) / (n₀ / λ_m + E_w)        λ_m = S_m / E_m

S are the faded counts without the first job, since a clock that starts with an arrival would see one too many; E is
the time since then, faded alike. So a class of many jobs follows a changing load within a week, and one of few is not
at the mercy of the last week's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp2, log, sqrt

from charterer.domain.budget import HISTORY_HALF_LIFE_SECONDS, WEEK_SECONDS, ClassHistory, decay
from charterer.domain.time import Instant, seconds_between

LEAST_SECONDS = 86_400.0
"""Seconds of history below which nothing is counted: a cycle of hours."""
LEAST_JOBS = 5.0
"""Jobs of a faded month below which nothing is counted: the jobs in sight say more of those to come."""
PRIOR_JOBS = LEAST_JOBS


@dataclass(frozen=True, slots=True)
class Arrivals:
    """``rate``: jobs a second. ``jobs``: number of jobs it rests on; its relative standard error is 1 / √jobs."""

    rate: float
    jobs: float


@dataclass(frozen=True, slots=True)
class SeenLately:
    """``jobs`` seen, with weights that halve in a week; ``elapsed``: seconds since the first of them."""

    jobs: float
    elapsed: float

    def rate(self, least_seconds: float) -> float:
        """Jobs a second, if they are taken to have come within ``least_seconds`` at least."""
        return self.jobs / _Count(0.0, max(self.elapsed, least_seconds), WEEK_SECONDS).seconds


def arrivals(known: ClassHistory | None, created: Sequence[Instant], now: Instant) -> Arrivals | None:
    """From the history, and ``created`` of the jobs that are not in it; None for too few, or not for long enough."""
    return _counted(known, created, now, LEAST_SECONDS, LEAST_JOBS)


def first_arrivals(known: ClassHistory | None, now: Instant) -> Arrivals | None:
    """From the history alone, however little it is: from the second job on."""
    return _counted(known, (), now, 1.0, 1.0)


def seen_lately(known: ClassHistory | None, created: Sequence[Instant], now: Instant) -> SeenLately | None:
    """The arrivals seen of a class; None where no job ever was."""
    first = _first(known, created)
    if first is None:
        return None
    week = _week(_ages(created, now), None if known is None else known.aged(now))
    return SeenLately(week, max(seconds_between(first, now), 0.0))


def _counted(
    known: ClassHistory | None, created: Sequence[Instant], now: Instant, least_seconds: float, least_jobs: float
) -> Arrivals | None:
    first = _first(known, created)
    if first is None:
        return None
    elapsed = seconds_between(first, now)
    if elapsed < least_seconds:
        return None
    before = None if known is None else known.aged(now)
    ages = _ages(created, now)
    month = _faded(ages, HISTORY_HALF_LIFE_SECONDS) + (0.0 if before is None else before.arrivals)
    if month < least_jobs:
        return None
    usual = _Count(month, elapsed, HISTORY_HALF_LIFE_SECONDS)
    lately = _Count(_week(ages, before), elapsed, WEEK_SECONDS)
    if not usual.jobs:
        return None
    usually = usual.jobs / usual.seconds
    rate = (PRIOR_JOBS + lately.jobs) / (PRIOR_JOBS / usually + lately.seconds)
    shrunk = PRIOR_JOBS / (PRIOR_JOBS + usually * lately.seconds)
    error = shrunk / sqrt(rate * usual.memory) + (1.0 - shrunk) / sqrt(rate * lately.memory)
    return Arrivals(rate, 1.0 / error**2)


def _first(known: ClassHistory | None, created: Sequence[Instant]) -> Instant | None:
    """When the first job was seen, in the history or since; None where none was."""
    begun = [*created] if known is None or not known.arrivals else [known.since, *created]
    return min(begun, default=None)


def _ages(created: Sequence[Instant], now: Instant) -> list[float]:
    return [max(seconds_between(at, now), 0.0) for at in created]


def _week(ages: Sequence[float], before: ClassHistory | None) -> float:
    """The jobs of these ages and of the history, aged to now, with weights that halve in a week."""
    return _faded(ages, WEEK_SECONDS) + (0.0 if before is None else before.recent_arrivals)


def _faded(ages: Sequence[float], half_life: float) -> float:
    per_second = -1.0 / half_life
    return sum(exp2(age * per_second) for age in ages)


class _Count:
    """A faded count without its first job: ``jobs`` in ``seconds``, as sure as one that never fades of ``memory``."""

    def __init__(self, count: float, elapsed: float, half_life: float) -> None:
        mean_life = half_life / log(2.0)
        gone = decay(elapsed, half_life)
        self.jobs = max(count - gone, 0.0)
        self.seconds = mean_life * (1.0 - gone)
        self.memory = 2.0 * mean_life * (1.0 - gone) / (1.0 + gone)
