"""How often a budget's jobs come, from its first job on: a rate that no exchange rate changes.

Finished jobs are in the budget's history (``ledger.class_history``), all others are in sight; each counts once. A
Poisson process whose rate drifts: counts fade, and what they say is a Gamma posterior (discounted conjugate updating:
Harvey and Fernandes 1989). The prior is what the owner's amount was made for. A weight that halves in a month tells
what is usual, and that in turn is the prior of the count whose weights halve in a week:

    λ₀ = max(amount / (R₀·m) − opening, a quarter of that) / 30 days      m: mean dollars of a job
    λ_m = (a₀·s + S_m) / (a₀·s / λ₀ + E_m)
    λ = (n₀·s + S_w) / (n₀·s / λ_m + E_w) after the first day, λ_m before

m is at the cheapest width and, as what a job's time is worth, in no cheaper a pool than usual (``options.ceiling``): a
cheap pool that is added does not mean that more jobs come.

S are faded counts and E the faded time since the budget was made. The jobs of its first hour are its opening: a stock
that waited for it, in no count. Jobs that come together are one event: e batches were seen, of s jobs each. So a sweep
of twenty jobs is no load of twenty jobs an hour.

Each class has the part of λ that it has of the jobs seen, whatever became of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, log

from charterer.domain.budget import (
    HISTORY_HALF_LIFE_SECONDS,
    OPENING_SECONDS,
    WEEK_SECONDS,
    ClassHistory,
    decay,
)
from charterer.domain.ids import ClassId
from charterer.domain.time import Instant, seconds_between
from charterer.incremental import Remember, directly

PRIOR_BATCHES = 5.0
"""a₀ = n₀: batches that the owner's amount is worth, and the usual rate beside the last week's."""
AMOUNT_FACTOR = 2.0
"""R₀: the owner's amount divided by what the load that it was made for usually costs at the least. In simulated months
1.5 and 4 lose as little; an owner who knows better says how many jobs come (``arrivalsPerHour``)."""
BATCH_SECONDS = 3_600.0
"""Jobs that come within this time of a batch's first are of that batch."""
HISTORY_BATCHES = 10
"""Batches from which on, after a day, a rate counts as counted."""
_DAY = 86_400.0
_MONTH = 30 * _DAY
_LEAST_PART = 0.25
"""Part of λ₀ that an opening, however large, leaves."""


@dataclass(frozen=True)
class SeenJobs:
    """The jobs of one class that were seen: those in the history, and when those came that are not in it."""

    known: ClassHistory | None
    created: Sequence[Instant]

    def count(self, now: Instant) -> float:
        """How many, with weights that halve in a month."""
        before = 0.0 if self.known is None else self.known.aged(now).arrivals
        if not self.created:
            return before
        if now < max(self.created):
            return before + _faded(_ages(self.created, now), HISTORY_HALF_LIFE_SECONDS)
        last, count = self._at_last
        return before + count * decay(seconds_between(last, now), HISTORY_HALF_LIFE_SECONDS)

    @cached_property
    def _at_last(self) -> tuple[Instant, float]:
        """When the last one came, and how many there were then, faded so: all fade alike after that."""
        last = max(self.created)
        return last, _faded(_ages(self.created, last), HISTORY_HALF_LIFE_SECONDS)


@dataclass(frozen=True, slots=True)
class Came:
    """The jobs of all classes that came after a budget's opening, as of when the ``last`` of all came.

    ``opening``: jobs before. ``month``, ``week``: jobs with weights that halve in that time. ``batches``: in how many
    they came.
    """

    last: Instant
    opening: int
    jobs: int
    month: float
    week: float
    batches: int

    @classmethod
    def of(cls, opened: Instant, seen: Sequence[SeenJobs], now: Instant | None = None) -> Came:
        """The jobs of a budget that was made at ``opened``; with ``now``, what came after that came then."""
        created = sorted([at if now is None else min(at, now) for jobs in seen for at in jobs.created])
        came = [at for at in created if seconds_between(opened, at) > OPENING_SECONDS]
        last = created[-1] if created else opened
        ages = _ages(came, last)
        month, week = _faded(ages, HISTORY_HALF_LIFE_SECONDS), _faded(ages, WEEK_SECONDS)
        return cls(last, len(created) - len(came), len(came), month, week, _batches(ages))


@dataclass(frozen=True, slots=True)
class Arrivals:
    """``rate``: jobs a second of all classes. ``parts``: of it by class. ``batches``: how many were seen.

    ``jobs``: number of jobs that the rate rests on, the prior's included. ``counted``: whether it is a history and no
    assumption. ``opening``: jobs in sight of the budget's first hour. ``seen``: jobs a second of the last week, by what
    was seen alone.
    """

    rate: float
    parts: Mapping[ClassId, float]
    batches: float
    jobs: float
    counted: bool
    opening: int
    seen: float

    def of(self, class_id: ClassId) -> float:
        """Jobs a second of one class."""
        return self.rate * self.parts.get(class_id, 0.0)


@dataclass(frozen=True, slots=True)
class SeenLately:
    """``jobs`` seen, with weights that halve in a week; ``elapsed``: seconds since the first of them."""

    jobs: float
    elapsed: float

    def rate(self, least_seconds: float) -> float:
        """Jobs a second, if they are taken to have come within ``least_seconds`` at least, and within a second."""
        return self.jobs / _exposure(max(self.elapsed, least_seconds, 1.0), WEEK_SECONDS)


def expected_arrivals(
    amount: float,
    opened: Instant,
    seen: Mapping[ClassId, SeenJobs],
    usual: float,
    now: Instant,
    remember: Remember = directly,
) -> Arrivals:
    """The arrivals of a budget's classes. ``amount``: dollars a month, 0 where it says nothing of the load.

    ``opened``: when the budget was made. ``usual``: m, dollars.
    """
    age = max(seconds_between(opened, now), 1.0)
    came = remember(Came.of, opened, tuple(seen.values()))
    if now < came.last:
        came = Came.of(opened, tuple(seen.values()), now)
    since = seconds_between(came.last, now)
    histories = [jobs.known.aged(now) for jobs in seen.values() if jobs.known is not None]
    month = came.month * decay(since, HISTORY_HALF_LIFE_SECONDS) + sum(history.arrivals for history in histories)
    week = came.week * decay(since, WEEK_SECONDS) + sum(history.recent_arrivals for history in histories)
    size = came.jobs / came.batches if came.jobs else 1.0
    batches = max(float(came.batches), month / size)
    prior = PRIOR_BATCHES * size
    owner = _owners_rate(amount, usual, came.opening)
    monthly = _posterior(prior, owner, month, _exposure(age, HISTORY_HALF_LIFE_SECONDS))
    rate = monthly if age < _DAY else _posterior(prior, monthly, week, _exposure(age, WEEK_SECONDS))
    counts = {class_id: jobs.count(now) for class_id, jobs in seen.items()}
    whole = sum(counts.values())
    return Arrivals(
        rate=rate,
        parts={class_id: count / whole for class_id, count in counts.items()} if whole else {},
        batches=batches,
        jobs=PRIOR_BATCHES + batches,
        counted=batches >= HISTORY_BATCHES and age >= _DAY,
        opening=came.opening,
        seen=week / _exposure(age, WEEK_SECONDS),
    )


def seen_lately(known: ClassHistory | None, created: Sequence[Instant], now: Instant) -> SeenLately | None:
    """The arrivals seen of a class; None where no job ever was."""
    begun = [*created] if known is None or not known.arrivals else [known.since, *created]
    if not begun:
        return None
    week = _faded(_ages(created, now), WEEK_SECONDS) + (0.0 if known is None else known.aged(now).recent_arrivals)
    return SeenLately(week, max(seconds_between(min(begun), now), 0.0))


def _batches(ages: Sequence[float]) -> int:
    """Number of batches of jobs of these ages, the oldest first."""
    number, first = 0, inf
    for age in ages:
        if first - age > BATCH_SECONDS:
            number, first = number + 1, age
    return number


def _owners_rate(amount: float, usual: float, opening: int) -> float:
    """λ₀."""
    if usual <= 0.0:
        return 0.0
    meant = max(amount, 0.0) / (AMOUNT_FACTOR * usual)
    return max(meant - opening, _LEAST_PART * meant) / _MONTH


def _posterior(prior_jobs: float, prior_rate: float, jobs: float, seconds: float) -> float:
    """Jobs a second, by ``jobs`` seen in that time, and a prior; by what was seen alone where the prior is silent."""
    if prior_rate <= 0.0:
        return jobs / seconds
    return (prior_jobs + jobs) / (prior_jobs / prior_rate + seconds)


def _ages(created: Sequence[Instant], now: Instant) -> list[float]:
    return [max(seconds_between(at, now), 0.0) for at in created]


def _faded(ages: Sequence[float], half_life: float) -> float:
    return sum([decay(age, half_life) for age in ages])


def _exposure(elapsed: float, half_life: float) -> float:
    """Seconds that passed in ``elapsed``, faded as counts are."""
    return half_life / log(2.0) * (1.0 - decay(elapsed, half_life))
