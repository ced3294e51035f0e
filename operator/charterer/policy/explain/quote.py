"""The quote of a job: its expected cost and end, each with the 90 % interval.

The figures are those of ``alternatives``. The errors of these figures are learned from the budget's completed jobs,
by the logarithm of actual ÷ predicted, for dollars and for seconds from creation to end. Let m be the mean and s² the
variance of this logarithm over n jobs of the class. m and s² are shrunk, with the weight of three jobs, towards the
values of the budget's other classes. Those values are shrunk with the same weight towards a mean of 0 and an assumed
variance of jobs within a class (``assignment``). With k = 3 + n degrees of freedom, the next job's logarithm has
Student's distribution around m, with the variance

    s²·(1 + 1/k) + variance of interruptions + (for seconds) variance of waits

The number of interruptions is Poisson. Each interruption loses a start and half the work between two checkpoints. The
standard deviation of a wait is its length. Changes by the owner after submission, and changes of budgets and pools,
are included only as far as such changes also affected the earlier jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp, log, sqrt
from statistics import NormalDist

from charterer.domain.budget import ClassHistory
from charterer.domain.job import Job
from charterer.domain.job_quote import JobQuote
from charterer.domain.money import Money
from charterer.domain.plan import ReasonCode, Verdict
from charterer.domain.time import Instant, after
from charterer.policy.budgets.assignment import PRIOR_SQUARED_CV, PSEUDO_JOBS
from charterer.policy.budgets.forecast import student
from charterer.policy.explain.alternatives import Alternative, Comparison, Rank, extremes

_NORMAL = NormalDist()
_BEGINS = frozenset(
    (
        *(ReasonCode.BUDGET_OPTIMAL, ReasonCode.RIGID, ReasonCode.NO_CURVE, ReasonCode.CHEAPEST_OVER_BUDGET),
        *(ReasonCode.WAITING_FOR_NODE, ReasonCode.WAITING_FOR_FREE_GPUS),
    )
)
"""Reason codes of a job that begins now, or as soon as its nodes are ready or left by other jobs."""
_FOR_MONEY = frozenset(
    (
        *(ReasonCode.WAITING_FOR_BUDGET, ReasonCode.HARD_LIMIT, ReasonCode.HOURLY_LIMIT, ReasonCode.OPERATOR_LIMIT),
        *(ReasonCode.STOPPED, ReasonCode.PARENT_UNKNOWN),
    )
)
"""Reason codes of a job that would wait on any option."""


@dataclass(frozen=True, slots=True)
class LogSums:
    """Sums of log(actual ÷ predicted) and of its square, over ``jobs`` jobs."""

    jobs: float
    logs: float
    squares: float

    @property
    def about_mean(self) -> float:
        """The sum of squared deviations from the mean."""
        return max(self.squares - self.logs**2 / self.jobs, 0.0) if self.jobs else 0.0


def cost_sums(history: ClassHistory) -> LogSums:
    """The sums for dollars."""
    return LogSums(history.complete, history.cost_logs, history.cost_log_squares)


def life_sums(history: ClassHistory) -> LogSums:
    """The sums for seconds from creation to end."""
    return LogSums(history.complete, history.life_logs, history.life_log_squares)


@dataclass(frozen=True, slots=True)
class NextLog:
    """The distribution of the next job's logarithm: Student's with ``degrees`` of freedom, around ``mean``."""

    mean: float
    variance: float
    degrees: float

    def with_more(self, variance: float) -> NextLog:
        """The distribution with an additional variance."""
        return NextLog(self.mean, self.variance + variance, self.degrees)

    def of(self, figure: float) -> Range:
        """The 90 % interval and median of a figure that is predicted as ``figure``."""
        middle, factor = figure * exp(self.mean), exp(student(self.degrees) * sqrt(self.variance))
        return Range(middle / factor, middle, middle * factor)

    def below(self, log_ratio: float) -> float:
        """The probability that the logarithm is at most ``log_ratio`` (Abramowitz and Stegun 26.7.8)."""
        if self.variance <= 0.0:
            return float(log_ratio >= self.mean)
        at = (log_ratio - self.mean) / sqrt(self.variance)
        return _NORMAL.cdf(at * (1.0 - 1.0 / (4.0 * self.degrees)) / sqrt(1.0 + at * at / (2.0 * self.degrees)))


def next_log(own: LogSums, others: Iterable[LogSums]) -> NextLog:
    """The distribution for the next job, from completed jobs of its class and of the budget's other classes."""
    all_others = list(others)
    degrees = PSEUDO_JOBS - 2.0 + sum(max(each.jobs - 1.0, 0.0) for each in all_others)
    assumed = (PSEUDO_JOBS - 2.0) * log(1.0 + PRIOR_SQUARED_CV)
    usual = (assumed + sum(each.about_mean for each in all_others)) / degrees
    usual_mean = sum(each.logs for each in all_others) / (PSEUDO_JOBS + sum(each.jobs for each in all_others))
    known = PSEUDO_JOBS + own.jobs
    mean = (PSEUDO_JOBS * usual_mean + own.logs) / known
    off = (own.logs / own.jobs - usual_mean) ** 2 * PSEUDO_JOBS * own.jobs / known if own.jobs else 0.0
    variance = ((PSEUDO_JOBS - 2.0) * usual + own.about_mean + off) / known
    return NextLog(mean, variance * (1.0 + 1.0 / known), known)


class Choice(StrEnum):
    """The preference between cost and time."""

    CHEAPEST = "cheapest"
    BUDGET = "as the budget pays"
    FASTEST = "fastest"


@dataclass(frozen=True, slots=True)
class Range:
    """The 90 % interval from ``low`` to ``high``, and the median ``middle``."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate for one choice: dollars as the job's cost is counted, and seconds from now to its end.

    ``starts``: whether the time of its start is known; otherwise the seconds count from its start. ``jobs``: the
    weighted number of completed jobs of the class behind the intervals. ``others``: the weighted number of completed
    jobs of the budget's other classes. ``life``: the distribution behind the interval of seconds. ``size``, ``spot``,
    ``queue``: the variances of which this distribution's variance consists.
    """

    choice: Choice
    way: Alternative
    dollars: Range
    seconds: Range
    starts: bool
    jobs: float
    others: float
    life: NextLog
    size: float
    spot: float
    queue: float

    def chance_within(self, seconds: float) -> float:
        """The probability that the job ends within ``seconds``."""
        return self.life.below(log(seconds / self.way.seconds)) if seconds > 0.0 and self.way.seconds > 0.0 else 0.0

    def told(self, now: Instant) -> JobQuote:
        """The estimate as it is recorded with the job."""
        low, high = Money.of(self.dollars.low), Money.of(self.dollars.high)
        if not self.starts:
            return JobQuote(now, low, high)
        return JobQuote(now, low, high, after(now, self.seconds.low), after(now, self.seconds.high))


def estimates(job: Job, verdict: Verdict, budget: Comparison) -> Sequence[Estimate]:
    """The estimates for the three choices, in the order of ``Choice``; empty for a job without options."""
    ways = extremes(job, verdict, budget)
    if ways is None:
        return ()
    return [_estimate(choice, way, job, verdict, budget) for choice, way in zip(Choice, ways, strict=True)]


def _starts(way: Alternative, verdict: Verdict) -> bool:
    """Whether it is known when the job starts. If a plan holds the job back for money, the start is unknown."""
    code = verdict.reason.code
    if way.rank is Rank.CHOSEN:
        return code in _BEGINS or way.launch_delay > 0.0 or way.room_wait > 0.0
    return way.can_begin and code not in _FOR_MONEY


def _estimate(choice: Choice, way: Alternative, job: Job, verdict: Verdict, budget: Comparison) -> Estimate:
    now, balance = budget.solution.now, budget.solution.budget.balance
    histories = {} if balance is None else {name: each.aged(now) for name, each in balance.class_history.items()}
    own = histories.pop(job.statistics, None) or ClassHistory(0.0, 0.0, 0.0, 0.0, now, now)
    spot, queue = _of_interruptions(way), _of_waits(way)
    cost = next_log(cost_sums(own), map(cost_sums, histories.values())).with_more(spot)
    life = next_log(life_sums(own), map(life_sums, histories.values()))
    option, all_of_life = way.option, life.with_more(spot + queue)
    paid = option.paid_price.dollars_per_second - option.price.dollars_per_second
    return Estimate(
        choice,
        way,
        cost.of(max(way.dollars + paid * way.seconds, 0.0)),
        all_of_life.of(max(way.seconds, 0.0)),
        _starts(way, verdict),
        own.complete,
        sum([each.complete for each in histories.values()]),
        all_of_life,
        life.variance,
        spot,
        queue,
    )


def _of_interruptions(way: Alternative) -> float:
    """The variance of a job's logarithm that is due to interruptions."""
    lost = way.option.interruptions
    if lost is None or way.seconds <= 0.0:
        return 0.0
    number = lost.per_hour * way.seconds / 3600.0
    return number * ((way.option.entry_seconds + lost.interval / 2.0) / way.seconds) ** 2


def _of_waits(way: Alternative) -> float:
    """The variance of a job's logarithm that is due to waits for a node and for GPUs of other jobs."""
    if way.seconds <= 0.0:
        return 0.0
    return (way.launch_delay**2 + way.room_wait**2) / way.seconds**2
