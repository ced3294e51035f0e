"""What a period's spend will be: the expected amount, and an interval that holds as often as it says.

The planner keeps correcting (``allowance``), so of a dollar too much, x seconds before the end, only the part

    D(x) = exp(−∫ dy / h(y)),  y from 0 to x,

is left at the end; and of a job that comes x seconds before the end only w(x) = min(1, x / life) is spent by then (the
life of a dollar, in which long jobs count by what they cost: the mean of seconds times 1 + c²). With jobs of class i
coming at λ_i (compound Poisson), at κm dollars with squared coefficient of variation c², the variance is

    Σ λ (κm)² (1 + c²) · ∫ (w·D)² dx        the jobs to come: nobody can know how many and how large they will be
  + Σ (λκm)² (1/n + e²) · (∫ w·D dx)²       λ counted from n jobs, and the standard error e of κ
  + spread² · D(time left)²                 what running jobs still cost

The interval is that of a gamma distribution of what is still to be spent, which like it is positive and skewed; its
quantiles by Wilson and Hilferty (1931).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt

from purser.domain.budget import Experience
from purser.domain.time import Instant
from purser.policy.allowance import Account, horizon

HOLDS = 0.9
"""How often the interval is to hold: it fails low in one period of twenty, and high in one."""
_Z = 1.6448536269514722
_STEPS = 48
"""Of the time left: fifteen hours each at the beginning of a month, when the horizon is ten days."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Jobs of one class to come: ``arrivals`` a second, each ``dollars`` over ``seconds``, as expected with κ.

    ``squared_cv``: of its dollars. ``counted``: jobs that ``arrivals`` was counted from (infinite: declared).
    ``kappa_error``: the relative standard error of κ.
    """

    arrivals: float
    dollars: float
    seconds: float
    squared_cv: float
    counted: float
    kappa_error: float

    @property
    def spends(self) -> float:
        """Dollars a second."""
        return self.arrivals * self.dollars


def remembered(known: Experience, squared_cv: float, overhead: float, now: Instant) -> Stream:
    """The stream of a class of which no arrivals are counted: as its jobs have finished, and what they have cost."""
    seen = max(known.aged(now).jobs, 1.0)
    dollars = overhead * known.actual / known.jobs if known.jobs else 0.0
    return Stream(known.finishing(now), dollars, 0.0, squared_cv, seen, sqrt(squared_cv / seen))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Dollars a second: ``most`` that all jobs on their fastest options would spend; ``least`` that is spent anyway."""

    most: float
    least: float = 0.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """Dollars spent in the period at its end: ``expected``, and within [low, high] as often as ``HOLDS`` says."""

    expected: float
    low: float
    high: float


def forecast(money: Account, streams: Sequence[Stream], bounds: Bounds, spread: float = 0.0) -> Forecast:
    """The spend at the end of the period. ``spread``: standard deviation of what running jobs will still cost."""
    left = max(money.lasts - money.elapsed, 0.0)
    rate = sum(stream.spends for stream in streams)
    life = sum(stream.spends * stream.seconds * (1.0 + stream.squared_cv) for stream in streams) / rate if rate else 0.0
    path = _path(money, left, bounds)
    step = left / _STEPS
    uncorrected, square, line = 1.0, 0.0, 0.0
    for number, (_, gain) in enumerate(reversed(path)):
        before_end = (number + 0.5) * step
        spent = before_end / life if before_end < life else 1.0
        halfway = exp(-gain * step / 2) if gain else 1.0
        middle = uncorrected * halfway
        square += (spent * middle) ** 2 * step
        line += spent * middle * step
        uncorrected = middle * halfway
    coming = sum(one.spends * one.dollars * (1.0 + one.squared_cv) for one in streams)
    guessed = sum(one.spends**2 * (1.0 / one.counted + one.kappa_error**2) for one in streams if one.counted)
    variance = coming * square + guessed * line**2 + (spread * uncorrected) ** 2
    return _interval(money.spent, max(_to_come(money, left, path), _of_running(money, left)), variance)


def _path(money: Account, left: float, bounds: Bounds) -> list[tuple[float, float]]:
    """From now to the end in equal steps: dollars a second committed to, and how fast a deviation is corrected."""
    step, balance, even = left / _STEPS, money.balance, money.even
    path = []
    for number in range(_STEPS):
        pays_back = horizon(left - (number + 0.5) * step, money.carries)
        wanted = even + balance / pays_back
        commits = bounds.most if wanted > bounds.most else wanted
        commits = bounds.least if commits < bounds.least else commits
        path.append((commits, 1.0 / pays_back if commits == wanted else 0.0))
        balance += (even - commits) * step
    return path


def _to_come(money: Account, left: float, path: Sequence[tuple[float, float]]) -> float:
    """What is spent from now on: all that is committed to on the path and before, but for what the end finds running.

    What runs now beyond the plan (``Account.over``) is committed to already; as much runs at the end as suits its rate.
    """
    step, last = left / _STEPS, path[-1][0]
    at_end = Account(money.aim, money.lasts, money.lasts, 0.0, last, money.left * last / (money.rate or 1.0))
    return sum(commits for commits, _ in path) * step + money.over - at_end.over


def _of_running(money: Account, left: float) -> float:
    """What running jobs spend by then anyway: their rate falls evenly to nothing in twice their mean time left."""
    if not money.left or not money.rate:
        return 0.0
    ends = 2.0 * money.left / money.rate
    return money.left * (1.0 - max(1.0 - left / ends, 0.0) ** 2)


def _interval(spent: float, to_come: float, variance: float) -> Forecast:
    expected = spent + to_come
    if to_come <= 0.0 or variance <= 0.0:
        return Forecast(expected, expected, expected)
    ninth = variance / to_come**2 / 9.0  # 1 / 9k of a gamma distribution of shape k
    low, high = (to_come * max(1.0 - ninth + z * sqrt(ninth), 0.0) ** 3 for z in (-_Z, _Z))
    return Forecast(expected, spent + low, spent + high)
