"""What may still be rented or started under the limits: the hard and hourly limits of budgets, spec.maxCost, and the
operator's own limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from charterer.domain.billing import accrued
from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId, RentalId
from charterer.domain.job import Job
from charterer.domain.job_records import job_cost
from charterer.domain.money import ZERO, Money, Price, total
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.pool import InstanceState, Pool, acting_pool
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.jobs import TooDear
from charterer.domain.reasons.waits import (
    GrantAhead,
    GrantEndsSoon,
    GrantOver,
    OperatorFact,
    OperatorHourlyUsed,
    OperatorNodesUsed,
)
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import NO_LIMITS, OperatorLimits, Snapshot
from charterer.domain.time import Instant, after
from charterer.policy.jobs.job_facts import reason
from charterer.policy.options.option_value import Projection
from charterer.sentences import count

# The hard limit and the hourly limit hold even if everything rented costs as much as it ever can.
#
# At every plan, spent + Σ exposure(rental) ≤ hard limit holds for every budget. A rental's exposure is the most that
# it can still cost if the next plan orders its release: its worst price over the time that an orderly end takes (the
# grace of the jobs on it, and a margin for the operator and the cloud). The exposure of a node that still boots is at
# least the rest of the reserve with which it was rented. Spending reduces the slack between the two sides no faster
# than the sum of worst prices, so the instant at which everything must be released is known in advance
# (docs/theory/policy.md, section 4).
#
# The limits of a parent budget hold for itself and all its descendants together. So a parent has a purse from which
# the purses of all these budgets draw (``Purse.draws_on``).


MARGIN_SECONDS = 180
"""Seconds from the end of the last pod to the end of billing; without a pod, from the release. They cover the time
between plans, calls to the cloud, and lists that lag behind."""
LOOK_AHEAD_SECONDS = 60
"""Seconds before the last possible moment at which everything is released, in case a plan comes late."""
USEFUL_SECONDS = 600
"""Seconds that a node must be usable. No node is rented that would have to be released sooner after it becomes
ready."""
START_BOUND_FACTOR = 3
"""The start-up time that a reserve covers, as a multiple of the pool's start-up time. The operator does not wait for
slower nodes."""

_CENT = 10_000
"""Number of micro-dollars in a cent."""
_BOOTING = (RentalPhase.REQUESTED, RentalPhase.STARTING)


def reserve(pool: Pool, grace_seconds: int) -> Money:
    """The worst-case cost of a node that is rented now and released, with its jobs' grace, as soon as it is ready.

    The reserve is the worst price times a number of seconds, rounded up to the cent. The seconds are the billing
    minimum or the bound on start-up, whichever is longer, plus the time to drain. Raises ValueError if the pool has
    no quote.
    """
    if pool.quote is None:
        raise ValueError(f"GPUPool {pool.id} has no quote: nothing can be reserved for a node of an unknown price")
    start = max(pool.quote.billing_minimum_seconds, START_BOUND_FACTOR * ceil(pool.start_seconds))
    worst = pool.quote.worst.cost(start + grace_seconds + MARGIN_SECONDS)
    return Money(-(-worst.micros // _CENT) * _CENT)


def exposure(rental: Rental, grace_seconds: int, lag_seconds: float, now: Instant) -> Money:
    """The most that the rental can cost beyond what has accrued, if it is released at the next plan.

    The accrued cost includes the billing minimum.
    """
    if rental.phase is RentalPhase.ENDED:
        return ZERO
    leaving = rental.dearest.cost(grace_seconds + MARGIN_SECONDS + ceil(lag_seconds))
    if rental.phase in _BOOTING:
        raised = rental.reserved.micros * rental.dearest.micros_per_hour // max(rental.worst.micros_per_hour, 1)
        return max(leaving, Money(raised) - accrued(rental, now))
    return leaving


@dataclass(frozen=True, slots=True)
class Exposed:
    """The most that rentals can still cost, and their worst prices.

    ``each``: dollars for each rental. ``micros``: the sum of these dollars, in micro-dollars.
    ``worst``: worst price of each rental. ``worst_micros``: the sum of these prices, in micro-dollars an hour.
    """

    each: Mapping[RentalId, Money]
    worst: Mapping[RentalId, Price]
    micros: int
    worst_micros: int


class Purse:
    """The room under one budget's limits while a plan is made. Renting nodes and hosting jobs use up the room.

    ``parent``: the parent whose limits these are, if they hold for it and all its descendants together; otherwise
    None.
    """

    def __init__(
        self, hard_limit: Money | None, max_hourly: Price | None, spent: Money, parent: BudgetId | None = None
    ) -> None:
        self.spent = spent
        self.hard_limit = hard_limit
        self.max_hourly = max_hourly
        self.parent = parent
        self._above: Sequence[Purse] = ()
        self._exposed: dict[RentalId, Money] = {}
        self._worst: dict[RentalId, Price] = {}
        self._exposed_micros = 0
        self._worst_micros = 0

    def hold(self, rental: RentalId, worst: Price, exposed: Money) -> None:
        """Count a rental. If it was counted before, the new exposure replaces the old one."""
        self._exposed_micros += exposed.micros - self._exposed.get(rental, ZERO).micros
        self._worst_micros += worst.micros_per_hour - self._worst.get(rental, Price(0)).micros_per_hour
        self._exposed[rental] = exposed
        self._worst[rental] = worst
        for purse in self._above:
            purse.hold(rental, worst, exposed)

    def draws_on(self, above: Sequence[Purse]) -> None:
        """From now on, count each rental in the purses ``above`` too. These purses have already counted the present
        rentals."""
        self._above = above

    def hold_all(self, exposed: Exposed) -> None:
        """Count rentals that were not counted before."""
        self._exposed |= exposed.each
        self._worst |= exposed.worst
        self._exposed_micros += exposed.micros
        self._worst_micros += exposed.worst_micros

    @property
    def committed(self) -> Money:
        """Dollars spent, plus the most that all rentals can still cost until an orderly end."""
        return self.spent + Money(self._exposed_micros)

    @property
    def hourly(self) -> Price:
        """The sum of the worst prices of all rentals."""
        return Price(self._worst_micros)

    @property
    def slack(self) -> Money | None:
        """Dollars left under the purse's own hard limit; None without a hard limit."""
        return None if self.hard_limit is None else self.hard_limit - self.committed

    @property
    def tightest(self) -> Purse | None:
        """The purse with the least slack among this purse and those above it; None if none of them has a hard
        limit."""
        limited = [purse for purse in (self, *self._above) if purse.hard_limit is not None]
        return min(limited, key=lambda purse: purse.slack or ZERO, default=None)

    @property
    def tightest_hourly(self) -> Purse | None:
        """The purse with the least room under its hourly limit, among this purse and those above it; None if none of
        them has an hourly limit."""
        limited = [
            (purse.max_hourly.micros_per_hour - purse.hourly.micros_per_hour, level, purse)
            for level, purse in enumerate((self, *self._above))
            if purse.max_hourly is not None
        ]
        return min(limited)[2] if limited else None

    @property
    def must_release(self) -> Purse | None:
        """The purse whose hard limit holds only if everything is released now; None if there is no such purse."""
        return next((purse for purse in (self, *self._above) if purse._is_used_up), None)

    @property
    def _is_used_up(self) -> bool:
        slack = self.slack
        return slack is not None and bool(self._exposed) and slack < self.hourly.cost(LOOK_AHEAD_SECONDS)

    def release_at(self, now: Instant) -> Instant | None:
        """The earliest instant at which ``must_release`` names a purse if nothing else changes; None if never."""
        seconds = [
            slack.micros * 3600 / purse._worst_micros - LOOK_AHEAD_SECONDS
            for purse in (self, *self._above)
            if (slack := purse.slack) is not None and purse._worst_micros
        ]
        return after(now, max(min(seconds), 1.0)) if seconds else None

    def over_hourly(self, leaving: Iterable[RentalId] = ()) -> bool:
        """Whether the rentals that are not ``leaving`` exceed the purse's own hourly limit, for example after the
        limit was lowered."""
        gone = sum(self._worst[rental].micros_per_hour for rental in leaving if rental in self._worst)
        return self.max_hourly is not None and self._worst_micros - gone > self.max_hourly.micros_per_hour

    def refusal(self, worst: Price, reserved: Money, nodes: int) -> ReasonCode | None:
        """The limit that forbids ``nodes`` more rentals, each with this worst price and reserve; None if no limit
        forbids them."""
        hourly = self._worst_micros + nodes * worst.micros_per_hour
        if self.max_hourly is not None and hourly > self.max_hourly.micros_per_hour:
            return ReasonCode.HOURLY_LIMIT
        slack = self.slack
        needed = nodes * reserved.micros + Price(hourly).cost(LOOK_AHEAD_SECONDS + USEFUL_SECONDS).micros
        if slack is not None and needed > slack.micros:
            return ReasonCode.HARD_LIMIT
        return next(filter(None, [purse.refusal(worst, reserved, nodes) for purse in self._above]), None)

    def host(self, rentals: Iterable[tuple[RentalId, Money]]) -> bool:
        """Raise these rentals to at least these exposures, as for a job with a long grace, if hard limits allow it."""
        raised = [(name, exposed) for name, exposed in rentals if exposed > self._exposed.get(name, ZERO)]
        more = total(exposed - self._exposed.get(name, ZERO) for name, exposed in raised)
        for purse in (self, *self._above):
            slack = purse.slack
            if slack is not None and more + purse.hourly.cost(LOOK_AHEAD_SECONDS) > slack:
                return not raised
        for name, exposed in raised:
            self.hold(name, self._worst[name], exposed)
        return True


# A grant: nothing is spent before its first day or after its last day, even if everything takes as long as it can.
#
# All nodes are released so early that an orderly end (grace of the jobs on them, and the same margins as above) is
# over before the grant ends. So the hard limit after the grant, which is zero, holds like any other hard limit.


class GrantWindow:
    """The remaining time of a budget's grant while a plan is being made. The time of a budget without a grant is
    unlimited.

    ``closed``: why nothing may be spent now; None while the grant lasts.
    """

    def __init__(self, budget: Budget, grace_seconds: int, lag_seconds: float, now: Instant) -> None:
        """``grace_seconds``: the longest grace of the jobs on its nodes. ``lag_seconds``: seconds by which the
        clouds' lists lag behind."""
        self._grant, self._now = budget.calendar.grant, now
        self._leaving = MARGIN_SECONDS + LOOK_AHEAD_SECONDS + ceil(lag_seconds)
        self._grace = grace_seconds
        self._end: Instant | None = None
        self.closed: Fact | None = None
        bounds = budget.calendar.grant_bounds
        if self._grant is None or bounds is None:
            return
        begins, self._end = bounds
        present = budget.in_period_of(now)
        if present.closed:
            over = present.calendar.number(present.period[0]) > 0
            self.closed = GrantOver(self._grant, self._end) if over else GrantAhead(self._grant, begins)

    def refuses(self, seconds: float) -> Fact | None:
        """Why nothing may begin that runs for ``seconds`` before it can be told to end; None if it may begin."""
        if self.closed is not None or self._grant is None or self._end is None:
            return self.closed
        return GrantEndsSoon(self._grant, self._end) if after(self._now, seconds + self._leaving) > self._end else None

    def refuses_node(self, pool: Pool, grace_seconds: int) -> Fact | None:
        """Why no node of the pool may be rented for jobs with that grace."""
        return self.refuses(START_BOUND_FACTOR * ceil(pool.start_seconds) + USEFUL_SECONDS + grace_seconds)

    def refuses_job(self, grace_seconds: int) -> Fact | None:
        """Why no job with that grace may begin on a ready node."""
        return self.refuses(USEFUL_SECONDS + grace_seconds)

    @property
    def must_release(self) -> Fact | None:
        """Why all nodes must be released now; None if they need not."""
        return self.refuses(self._grace)

    @property
    def release_at(self) -> Instant | None:
        """When ``must_release`` begins to give a reason; None without a grant, or if it gives one already."""
        if self._end is None or self.must_release is not None:
            return None
        return max(after(self._end, -float(self._grace + self._leaving)), after(self._now, 1.0))


# The most that a job may cost (spec.maxCost, or spec.jobDefaults of its budget). A job takes no option that would
# cost more.
#
# A run is stopped while the dollars that are left still pay for its grace period:
#
#   spent + price·(grace + margins) ≤ maxCost
#
# So an option fits only if the job is expected to end on the option before it would be stopped. The rule is the same
# for a size that the job reports and for a size that is expected from its class, and for every source of its speed.
# If nothing is known about the job's work, its end cannot be predicted. Such a job is started if it can train for a
# useful time before it would be stopped, and its condition WithinMaxCost says that its cost is not known.
#
# The margins cover a restart of the operator. A job can cost more than its limit only if no operator runs for longer
# than the margins.


def max_cost_left(job: Job, snapshot: Snapshot) -> float | None:
    """Dollars that the job may still cost; None if it has no maxCost."""
    limit = job.cost_limit
    return None if limit is None else (limit.amount - job_cost(job, snapshot.rentals, snapshot.now)).dollars


def stop_cost(job: Job, option: Option) -> float:
    """The most dollars that the job's GPUs can cost between the decision to stop the job and the time when the job
    has left them."""
    return option.paid_price.dollars_per_second * (job.grace_seconds + MARGIN_SECONDS + LOOK_AHEAD_SECONDS)


def within_max_cost(job: Job, option: Option, dollars: float, left: float | None) -> bool:
    """Whether an option that costs ``dollars`` until the job's end, at the price that is really paid, stays within
    ``left`` dollars."""
    return left is None or dollars + stop_cost(job, option) <= left


def needs(job: Job, projection: Projection, *, sized: bool) -> float:
    """Dollars that must be left so that a job may enter an option, including an orderly stop.

    ``sized``: whether the job's work is known. If it is not known, the projection to the job's end means nothing, and
    the dollars are those of a useful time instead.
    """
    dollars = projection.paid_dollars
    if not sized:
        entered = projection.option.as_paid
        dollars = entered.entry_cost.dollars + entered.price.dollars_per_second * USEFUL_SECONDS
    return dollars + stop_cost(job, projection.option)


def affordable(job: Job, projections: Sequence[Projection], snapshot: Snapshot, *, sized: bool) -> Sequence[Projection]:
    """The projections that stay within the job's maxCost, in the same order."""
    left = max_cost_left(job, snapshot)
    return projections if left is None else [way for way in projections if needs(job, way, sized=sized) <= left]


def too_dear(job: Job, projections: Sequence[Projection], snapshot: Snapshot, *, sized: bool) -> Reason | None:
    """The reason why a job is not started, which is that each of its options would cost more than its maxCost. None
    if an option fits."""
    limit = job.cost_limit
    if limit is None or affordable(job, projections, snapshot, sized=sized):
        return None
    spent = job_cost(job, snapshot.rentals, snapshot.now)
    cheapest = min(projections, key=lambda projection: needs(job, projection, sized=sized))
    seconds = None if sized else USEFUL_SECONDS
    facts = TooDear(limit, spent, cheapest.option, needs(job, cheapest, sized=sized), seconds)
    return reason(ReasonCode.MAX_COST, facts)


# Room under the operator's own limits: how many more nodes all pools and budgets together may have.
#
# Every rental that has not ended counts from its intent on, at the most that it can cost an hour. Every machine that
# a cloud lists and no rental names counts too. ``providers.guarded`` counts again before it sends a request to a
# cloud.


def in_words(limits: OperatorLimits) -> str:
    """The limits in words, such as ``40 nodes and $500.00/h``."""
    nodes = "" if limits.nodes is None else count(limits.nodes, "node")
    return " and ".join(filter(None, [nodes, "" if limits.hourly is None else str(limits.hourly)]))


class OperatorRoom:
    """The rented nodes of all pools and their worst prices, compared with the operator's limits. Renting uses up the
    rest."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._limits = snapshot.limits
        self.nodes, self._micros = 0, 0
        if self._limits == NO_LIMITS:
            return
        named = {(acting_pool(rental.pool, snapshot.pools), rental.instance) for rental in snapshot.rentals.values()}
        for rental in snapshot.rentals.values():
            if rental.phase is not RentalPhase.ENDED and rental.cloud.rents:
                self._add(rental.dearest)
        for name, survey in snapshot.surveys.items():
            for instance in survey.instances:
                key = acting_pool(name, snapshot.pools), instance.id
                if instance.state is not InstanceState.ENDED and key not in named:
                    named.add(key)
                    prices = (segment.price for segment in instance.segments)
                    self._add(max(_worst(snapshot.pools.get(name)), *prices, Price(0)))

    @property
    def hourly(self) -> Price:
        """The sum of the worst prices of all nodes."""
        return Price(self._micros)

    def take(self, pool: Pool) -> None:
        """Count one more node of the pool."""
        if pool.cloud.rents:
            self._add(_worst(pool))

    def allows(self, pool: Pool, more: int) -> bool:
        """Whether the limits allow ``more`` further nodes of the pool."""
        return self.why_not(pool, more) is None

    def why_not(self, pool: Pool, more: int = 1) -> OperatorFact | None:
        """The limit that forbids ``more`` further nodes of the pool; None if no limit forbids them, as for nodes that
        are in the cluster anyway."""
        limits, worst = self._limits, _worst(pool)
        if not pool.cloud.rents:
            return None
        if limits.nodes is not None and self.nodes + more > limits.nodes:
            return OperatorNodesUsed(limits.nodes, self.nodes)
        if limits.hourly is not None and self._micros + more * worst.micros_per_hour > limits.hourly.micros_per_hour:
            return OperatorHourlyUsed(worst, limits.hourly, self.hourly)
        return None

    def _add(self, price: Price) -> None:
        self.nodes += 1
        self._micros += price.micros_per_hour


def _worst(pool: Pool | None) -> Price:
    """The most that a node of the pool can cost an hour."""
    return Price(0) if pool is None or pool.quote is None else pool.quote.worst
