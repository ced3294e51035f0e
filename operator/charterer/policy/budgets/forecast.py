"""The forecast of a period's spending, and the dollars a second that a budget may plan with from now on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, exp, inf, log, sqrt
from statistics import NormalDist

from charterer.domain.billing import opening_in
from charterer.domain.budget import COMMITTED_AHEAD_SECONDS, Budget, ClassHistory
from charterer.domain.money import Money
from charterer.domain.pool import Pool
from charterer.domain.time import Calendar, Instant, seconds_between

# The dollars a second that a budget may plan with from now on (docs/theory/budgets.md has the reasoning).
#
#   allowed = M / h,    M = aim − spent + b·(h − left) = b·h + B,    B = b·(time since it opened) − spent
#
# b is the period's aim divided by the length of the period, and ``left`` is the time until the period's end. The
# horizon h is the same time, but at least two days. M is all the money for the horizon, including the money for the
# remaining cost of running jobs. The load (``demand``) includes the running jobs too, so the exchange rate does not
# depend on which jobs already run.
#
# Commitments are nodes that are paid for whether they are used or not. Their cost within h is subtracted from M,
# because no decision can change that cost any more. Jobs on such nodes cost almost nothing, so they are no load (ADR
# 6).


LEAST_HORIZON_SECONDS = 2 * 86_400.0
"""Seconds below which the horizon does not shrink: the last jobs of a period would bear all of the correction."""


@dataclass(frozen=True, slots=True)
class PacingState:
    """One budget's money at one instant, in dollars and seconds.

    ``aim`` is to be spent over ``seconds``. ``elapsed`` of these seconds are over, and ``spent`` dollars are spent.
    ``rate``: dollars a second that are being spent now. ``left``: the remaining cost of running jobs.
    ``carried_fraction``: the fraction of the balance that is carried over at the period's end. ``opening``: dollars
    spent in the period before the budget existed; they are part of neither ``aim`` nor ``spent``. ``unavoidable``:
    dollars of ``left`` that will be spent in the period whatever is planned. ``commitments``: for each commitment,
    its dollars a second and its remaining seconds.
    ``carried_horizon``: seconds for which carried-over money has to last, which is the length of a whole period.
    """

    aim: float
    seconds: float
    elapsed: float
    spent: float
    rate: float = 0.0
    left: float = 0.0
    carried_fraction: float = 0.0
    opening: float = 0.0
    unavoidable: float = 0.0
    commitments: tuple[tuple[float, float], ...] = ()
    carried_horizon: float = Calendar("UTC").usual_seconds

    def committed(self, seconds: float) -> float:
        """Dollars that commitments cost within the next ``seconds``."""
        return sum([rate * min(left, seconds) for rate, left in self.commitments])

    @property
    def still_committed(self) -> float:
        """Dollars that commitments cost until the period's end."""
        return self.committed(max(self.seconds - self.elapsed, 0.0))

    def without_commitments(self) -> PacingState:
        """The state without commitments. Their remaining cost is subtracted from the aim, so that the rest is for
        jobs."""
        return replace(self, aim=max(self.aim - self.still_committed, 0.0), commitments=())

    @property
    def target_rate(self) -> float:
        """b: dollars a second that spend the aim evenly."""
        return self.aim / self.seconds

    @property
    def horizon(self) -> float:
        """h, now."""
        return self.horizon_at(self.seconds - self.elapsed)

    def horizon_at(self, time_left: float) -> float:
        """h when ``time_left`` seconds of the period are left.

        Money that will be carried over may last longer than the period. Money that is lost at the period's end may
        not.
        """
        until_the_end = max(time_left, LEAST_HORIZON_SECONDS)
        if not self.carried_fraction:
            return until_the_end
        return 1.0 / (self.carried_fraction / self.carried_horizon + (1.0 - self.carried_fraction) / until_the_end)

    @property
    def balance(self) -> float:
        """B: dollars of even spending up to now, minus the dollars spent."""
        return self.target_rate * self.elapsed - self.spent

    @property
    def coming(self) -> float:
        """The number of seconds ahead whose money may be committed to jobs now: the rest of the period, but at most
        ten days."""
        return min(max(self.seconds - self.elapsed, 0.0), COMMITTED_AHEAD_SECONDS)

    @property
    def committable(self) -> float:
        """Dollars that may be committed to jobs, including running jobs: the even spending up to the end of
        ``coming``, minus the dollars spent and the cost of commitments until then."""
        target = self.target_rate * (self.elapsed + self.coming)
        return max(target - self.spent - self.committed(self.coming), 0.0)


def pacing_state(budget: Budget, spent: Money, period: tuple[Instant, Instant], now: Instant) -> PacingState:
    """The pacing of a budget that has spent ``spent`` in the period, as if no jobs ran.

    A budget that was created within the period spreads its aim, minus its opening spend, over the rest of the period
    after its creation. If the opening spend is not known, the aim is the amount in proportion to that rest, so that
    the dollars a second are those of a whole period.
    """
    start, end = max(period[0], min(budget.created, now)), period[1]
    before = opening_in(budget, period[0]).dollars
    return PacingState(
        aim=max(budget.aim.dollars - before, 0.0),
        seconds=seconds_between(start, end),
        elapsed=seconds_between(start, now),
        spent=spent.dollars - before,
        carried_fraction=budget.carry_over_percent / 100,
        opening=before,
        carried_horizon=max(budget.calendar.usual_seconds, LEAST_HORIZON_SECONDS),
    )


def commitments_of(pools: Iterable[Pool], now: Instant) -> tuple[tuple[float, float], ...]:
    """For each committed pool, the dollars a second that all its nodes cost, and the seconds until its end."""
    return tuple(
        [
            (pool.price_override.dollars_per_second * pool.max_nodes, _seconds_until(pool.committed.until, now))
            for pool in pools
            if pool.committed is not None and pool.price_override is not None
        ]
    )


def _seconds_until(end: Instant | None, now: Instant) -> float:
    return inf if end is None else seconds_between(now, end)


def allowed_rate(pacing: PacingState) -> float:
    """The dollars a second that may be committed to jobs; never negative."""
    committed = pacing.committed(pacing.horizon) / pacing.horizon
    return max(pacing.target_rate + pacing.balance / pacing.horizon - committed, 0.0)


# The forecast of a period's spending: the expected amount, and an interval that holds as often as it claims.
#
# The planner keeps correcting (``PacingState``). If a dollar too much is spent x seconds before the end, only the
# fraction
#
#   D(x) = exp(−∫ dy / (h(y) + lag(y))), y from 0 to x,    lag = max(life − h/2, 0)
#
# of it is left at the end. Money is counted as soon as it is committed, but no further ahead than half a horizon. The
# cost of a longer job beyond half a horizon is corrected as it is spent. So the correction is slowed by the life of a
# job, which is the mean time over which a dollar of the job is spent (E S² / (ρ·E S)). S is the dollars of a job, and
# ρ its dollars a second. A job that arrives x seconds before the end has spent min(S, ρx) by then. Let jobs of a
# class arrive at the rate λ (compound Poisson), and cost κm dollars with squared coefficient of variation c². Then
# the variance is the sum of
#
#   Σ λ · ∫ E[min(S, ρx)²] · D² dx                           the jobs to come: nobody can know how many and how large
#   Σ (λκm)² (1/n + e²) · (∫ E[min(S, ρx)] / E S · D dx)²    λ counted from n batches, and the standard error e of κ
#   spread² · D(time left)²                                  what running jobs that are silent still cost
#
# S is taken to be lognormal, for which the limited moments are known (Klugman, Panjer and Willmot, Loss Models).
#
# Past periods show whether this variance is large enough. A factor on the variance follows from their deviations, in
# standard deviations as they are expected now, and from ``PRIOR_PERIODS`` imagined periods that deviated as expected.
# Because a variance estimated from ν periods is itself uncertain, quantiles are those of Student's distribution with
# ν degrees of freedom. So an effect that the model does not know (weekends, a changing load, sizes more unequal than
# was seen) widens the interval once it has shown in a period.
#
# The interval is that of a gamma distribution, which is positive and skewed like the spending still to come. Its
# quantiles are those of Wilson and Hilferty (1931). The interval begins no lower than the spending so far plus the
# spending that running jobs cannot avoid, by their own reports.


HOLDS = 0.9
"""Fraction of periods in which the interval should hold. In one of twenty periods the spending is below the interval,
and in one of twenty above it."""
_NORMAL = NormalDist()
_Z = _NORMAL.inv_cdf((1.0 + HOLDS) / 2.0)
"""The normal distribution's quantile at the interval's upper end."""
_LEAST_STEPS = 48
"""Least number of steps into which the remaining time is divided. At the beginning of a month a step is fifteen hours
long. No step is longer than the shortest horizon, so that no step corrects more than the whole deviation."""
PRIOR_PERIODS = 4.0
"""Weight of the modelled variance, in periods, before any period is over. The model is believed to within a factor of
about two."""
_ALIKE = 1e-9
"""Least squared coefficient of variation. Jobs that all cost the same have this one."""


@dataclass(frozen=True, slots=True)
class JobStream:
    """The jobs of one class to come.

    ``arrivals``: jobs a second.
    ``dollars``, ``seconds``: the expected cost and length of a job, with κ applied.
    ``squared_cv``: squared coefficient of variation of a job's dollars.
    ``counted``: number of batches from which ``arrivals`` was counted; infinite if it is declared.
    ``cost_factor_error``: relative standard error of κ.
    """

    arrivals: float
    dollars: float
    seconds: float
    squared_cv: float
    counted: float
    cost_factor_error: float

    @property
    def spends(self) -> float:
        """Dollars a second that the jobs spend."""
        return self.arrivals * self.dollars


def remembered(known: ClassHistory, squared_cv: float, overhead: float, arrivals: float, counted: float) -> JobStream:
    """The jobs to come of a class without jobs in sight. Each is expected to cost as much as the class's past jobs
    did on average."""
    dollars = overhead * known.actual / known.jobs if known.jobs else 0.0
    return JobStream(arrivals, dollars, 0.0, squared_cv, counted, sqrt(squared_cv / max(known.jobs, 1.0)))


@dataclass(frozen=True, slots=True)
class SpendBounds:
    """Bounds of the spending in dollars a second.

    ``most``: the spending of all jobs on their fastest options. ``least``: the spending that no decision can avoid.
    """

    most: float
    least: float = 0.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """Dollars that will have been spent at the period's end: the expected amount, and an interval that holds with the
    probability ``HOLDS``."""

    expected: float
    low: float
    high: float


class CompoundPoisson:
    """The jobs to come as one stream.

    ``rate``: jobs a second.
    ``mean``: mean dollars of a job.
    ``square``: mean square of the dollars of a job.
    ``pace``: dollars a second that a job costs; infinite if the whole cost arises at once.
    ``guessed``: variance of the jobs' spending a second that is due to errors of their rate and of κ.
    """

    def __init__(self, streams: Sequence[JobStream]) -> None:
        spends = sum(stream.spends for stream in streams)
        self.rate = sum(stream.arrivals for stream in streams)
        self.mean = spends / self.rate if self.rate else 0.0
        squares = sum(stream.spends * stream.dollars * (1.0 + stream.squared_cv) for stream in streams)
        self.square = squares / self.rate if self.rate else 0.0
        known = [stream for stream in streams if stream.seconds and stream.spends]
        paces = sum(stream.spends * stream.dollars / stream.seconds for stream in known)
        self.pace = paces / sum(stream.spends for stream in known) if known else inf
        self.guessed = sum(
            stream.spends**2 * (1.0 / stream.counted + stream.cost_factor_error**2)
            for stream in streams
            if stream.counted
        )

    @cached_property
    def _logarithms(self) -> tuple[float, float]:
        """Variance and standard deviation of the logarithm of a job's dollars."""
        variance = log(max(self.square / self.mean**2, 1.0 + _ALIKE))
        return variance, sqrt(variance)

    @property
    def life(self) -> float:
        """Mean seconds over which a dollar of a job is spent."""
        return self.square / self.mean / self.pace if self.mean else 0.0

    def spent(self, seconds: float) -> tuple[float, float]:
        """Mean and mean square of the dollars that a job spends within ``seconds``."""
        if not self.mean or self.pace == inf:
            return self.mean, self.square
        most, variance, deviation = self.pace * seconds, *self._logarithms
        at = (log(most / self.mean) + variance / 2) / deviation
        beyond = 1.0 - _NORMAL.cdf(at)
        first = self.mean * _NORMAL.cdf(at - deviation) + most * beyond
        return first, self.square * _NORMAL.cdf(at - 2 * deviation) + most * most * beyond


def forecast(
    pacing: PacingState,
    streams: Sequence[JobStream],
    bounds: SpendBounds,
    spread: float = 0.0,
    past: Sequence[float] = (),
) -> Forecast:
    """The forecast of the spending at the end of the period, which is the cost of jobs plus the cost of commitments.

    ``spread``: standard deviation of the remaining cost of running jobs.
    ``past``: the spending of earlier periods, as fractions of their aims.
    """
    if pacing.commitments:
        told, more = forecast(pacing.without_commitments(), streams, bounds, spread, past), pacing.still_committed
        return Forecast(expected=told.expected + more, low=told.low + more, high=told.high + more)
    left, coming = max(pacing.seconds - pacing.elapsed, 0.0), CompoundPoisson(streams)
    path = _path(pacing, left, bounds)
    variance = _variance(path, left, coming, spread)
    factor, quantile = _by_past_periods(pacing, bounds, coming, past)
    to_come = max(_to_come(pacing, left, path), _of_running(pacing, left), pacing.unavoidable)
    told = _interval(pacing.spent, to_come, variance * factor, quantile)
    least = pacing.spent + pacing.unavoidable
    return replace(told, low=max(told.low, least), high=max(told.high, least))


def _variance(path: Sequence[tuple[float, float]], left: float, coming: CompoundPoisson, spread: float) -> float:
    """The variance of the spend at the period's end."""
    step, life = left / len(path), coming.life
    uncorrected, square, line = 1.0, 0.0, 0.0
    for number, (_, gain) in enumerate(reversed(path)):
        slow = gain / (1.0 + gain * max(life - 0.5 / gain, 0.0)) if gain else 0.0
        middle = uncorrected * exp(-slow * step / 2)
        first, second = coming.spent((number + 0.5) * step) if step else (0.0, 0.0)
        square += second * middle**2 * step
        line += first * middle * step
        uncorrected *= exp(-slow * step)
    known = line / coming.mean if coming.mean else 0.0
    return coming.rate * square + coming.guessed * known**2 + (spread * uncorrected) ** 2


def _by_past_periods(
    pacing: PacingState, bounds: SpendBounds, coming: CompoundPoisson, past: Sequence[float]
) -> tuple[float, float]:
    """The factor on the variance that follows from past periods, and the quantile to use with it.

    ``past``: the spending of each period, as a fraction of its aim. If a period spent less than its aim, only the
    part of the difference counts that could have been spent.
    """
    if not past:
        return 1.0, student(PRIOR_PERIODS)
    whole = replace(pacing, elapsed=0.0, spent=0.0, rate=pacing.target_rate, left=0.0, unavoidable=0.0)
    path = _path(whole, pacing.seconds, bounds)
    variance = _variance(path, pacing.seconds, coming, 0.0)
    periods = PRIOR_PERIODS + (len(past) if variance else 0)
    could = min(_to_come(whole, pacing.seconds, path), pacing.aim)
    off = [max(spent * pacing.aim - pacing.aim, could - spent * pacing.aim, 0.0) for spent in past]
    squares = sum(miss**2 for miss in off) / variance if variance else 0.0
    return (PRIOR_PERIODS + squares) / periods, student(periods)


def student(degrees: float) -> float:
    """The quantile of Student's distribution at the probability at which ``_Z`` is the normal distribution's
    (Abramowitz and Stegun 26.7.5)."""
    return _Z + (_Z**3 + _Z) / (4 * degrees) + (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * degrees**2)


def _path(pacing: PacingState, left: float, bounds: SpendBounds) -> list[tuple[float, float]]:
    """For equal steps from now to the period's end: the dollars a second that are committed, and the rate at which a
    deviation is corrected."""
    steps = max(ceil(left / LEAST_HORIZON_SECONDS), _LEAST_STEPS)
    step, balance, target = left / steps, pacing.balance, pacing.target_rate
    path = []
    for number in range(steps):
        pays_back = pacing.horizon_at(left - (number + 0.5) * step)
        wanted = target + balance / pays_back
        commits = max(min(wanted, bounds.most), bounds.least)
        path.append((commits, 1.0 / pays_back if commits == wanted else 0.0))
        balance += (target - commits) * step
    return path


def _to_come(pacing: PacingState, left: float, path: Sequence[tuple[float, float]]) -> float:
    """Dollars spent from now to the period's end, if all money on ``path`` is spent as planned."""
    return sum(commits for commits, _ in path) * left / len(path)


def _of_running(pacing: PacingState, left: float) -> float:
    """Dollars that running jobs will still spend. Their rate falls evenly to 0 in twice their mean time left."""
    if not pacing.left or not pacing.rate:
        return 0.0
    ends = 2.0 * pacing.left / pacing.rate
    return pacing.left * (1.0 - max(1.0 - left / ends, 0.0) ** 2)


def _interval(spent: float, to_come: float, variance: float, quantile: float) -> Forecast:
    expected = spent + to_come
    if to_come <= 0.0 or variance <= 0.0:
        return Forecast(expected, expected, expected)
    ninth = variance / to_come**2 / 9.0  # 1 / 9k of a gamma distribution of shape k
    low = to_come * max(1.0 - ninth - quantile * sqrt(ninth), 0.0) ** 3
    # Below a shape of about a tenth, the approximation would fall as the variance grows, although the true quantile
    # hardly changes.
    wide = min(ninth, (quantile / 2.0) ** 2)
    high = to_come * (1.0 - wide + quantile * sqrt(wide)) ** 3
    return Forecast(expected, spent + low, spent + high)
