"""A budget: what may be spent on which namespaces, and what its ledger has recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from math import exp2
from typing import Final

from charterer.domain.ids import BudgetId, ClassId, PoolId, Rate
from charterer.domain.money import ZERO, Money, Price, apportion, total
from charterer.domain.time import Calendar, Instant, QuietHours, moment, seconds_between

# The currency in which a budget's owner writes amounts, where that is not the dollar of the clouds' bills.
#
# The ledger stays in dollars. The owner says what a dollar costs, and since when that holds: nothing asks a bank.


DAYS_CURRENT: Final = 35
"""Days for which a rate is taken for current: one that is set anew every month is."""
_MICROS: Final = 1_000_000


def _rounded(dividend: int, divisor: int) -> int:
    """The nearest whole number, half rounded up."""
    return (2 * dividend + divisor) // (2 * divisor)


@dataclass(frozen=True, slots=True)
class Currency:
    """``code`` as in ISO 4217. A dollar costs ``per_dollar`` millionths of a unit, as of ``as_of``."""

    code: str
    per_dollar: int
    as_of: date

    def dollars(self, amount: Money) -> Money:
        """The dollars of an amount that counts units of this currency, to the micro-dollar."""
        return Money(_rounded(amount.micros * _MICROS, self.per_dollar))

    def dollars_hourly(self, price: Price) -> Price:
        """The same of an amount an hour."""
        return Price(self.dollars(Money(price.micros_per_hour)).micros)

    def units(self, dollars: Money) -> Money:
        """The amount in millionths of a unit that so many dollars are."""
        return Money(_rounded(dollars.micros * self.per_dollar, _MICROS))

    def days_old(self, now: Instant) -> int:
        """Days since the rate was set; below 0 where that is still to come."""
        return (moment(now).date() - self.as_of).days

    def amount(self, dollars: Money) -> str:
        """``18,400.00 EUR``."""
        return f"{str(self.units(dollars)).replace('$', '')} {self.code}"

    def __str__(self) -> str:
        return f"{Money(self.per_dollar).decimal()} {self.code} a dollar, as of {self.as_of.isoformat()}"


# Loans between budgets of one parent: what some are not forecast to need in a period, others may spend (ADR 5).
#
# Nothing is recorded of a loan. It follows from what each has spent and is forecast to spend, anew in every plan.


@dataclass(frozen=True, slots=True)
class Loan:
    """Dollars by which the lender aims at less in this period, and the borrower at more."""

    lender: BudgetId
    borrower: BudgetId
    amount: Money


@dataclass(frozen=True, slots=True)
class Need:
    """A budget's period, as it is without loans.

    ``aim``: what it is to spend; ``spent`` of it is. ``high``: the upper end of the forecast; None if there is none.
    ``short``: more money would make its jobs faster. ``most``: what it may aim at whatever is lent; None for no limit.
    """

    budget: BudgetId
    aim: Money
    spent: Money
    high: Money | None
    short: bool
    most: Money | None = None

    @property
    def over(self) -> Money:
        """What it has spent of others' money."""
        return max(self.spent - self.aim, ZERO)

    @property
    def unspent(self) -> Money:
        """What it has not spent of its own."""
        return max(self.aim - self.spent, ZERO)

    @property
    def spare(self) -> Money:
        """What it is not forecast to spend of that."""
        return ZERO if self.short or self.high is None else max(self.aim - max(self.high, self.spent), ZERO)

    @property
    def room(self) -> Money | None:
        """What it may still borrow beyond what it has spent."""
        return None if self.most is None else max(self.most - max(self.aim, self.spent), ZERO)


def loans(family: Sequence[Need]) -> tuple[Loan, ...]:
    """What the budgets lend each other: all that is spare, to those that are short, in proportion to their aims.

    What one has spent beyond its aim comes first. The others bear it, out of what they have to spare, and if that is
    too little, out of what they have not spent, in proportion. No budget lends more than it has not spent, and none
    lends and borrows at once. So the aims with loans add up to those without, whatever is spent and forecast.
    """
    used = {each.budget: each.over for each in family if each.over > ZERO}
    spare = {each.budget: each.spare for each in family}
    unspent = {each.budget: each.unspent for each in family}
    if (missing := total(used.values()) - total(spare.values())) > ZERO:
        rest = {name: unspent[name] - spare[name] for name in unspent}
        more = _in_proportion(min(missing, total(rest.values())), rest)
        lent = {name: spare[name] + more.get(name, ZERO) for name in spare}
        return _pairs(lent, _in_proportion(total(lent.values()), used))
    short = {each.budget: max(each.aim, Money(1)) for each in family if each.short}
    offered = _in_proportion(total(spare.values()) - total(used.values()), short)
    rooms = {each.budget: each.room for each in family}
    granted = {name: money if (room := rooms[name]) is None else min(money, room) for name, money in offered.items()}
    borrowed = {name: used.get(name, ZERO) + granted.get(name, ZERO) for name in {**used, **granted}}
    return _pairs(_in_proportion(total(borrowed.values()), spare), borrowed)


def _in_proportion(amount: Money, weights: Mapping[BudgetId, Money]) -> Mapping[BudgetId, Money]:
    return apportion(amount, {name: each.micros for name, each in weights.items()}) if amount > ZERO else {}


def _pairs(lent: Mapping[BudgetId, Money], borrowed: Mapping[BudgetId, Money]) -> tuple[Loan, ...]:
    """Who lends whom: each in turn, until the amounts are used up. Both add up to the same."""
    found, lenders = list[Loan](), [(name, money) for name, money in lent.items() if money > ZERO]
    for borrower, wanted in borrowed.items():
        while wanted > ZERO:
            lender, there = lenders.pop(0)
            amount = min(wanted, there)
            found.append(Loan(lender, borrower, amount))
            wanted = wanted - amount
            if there > amount:
                lenders.insert(0, (lender, there - amount))
    return tuple(found)


def net_loan(budget: BudgetId, of: Iterable[Loan]) -> Money:
    """What the budget aims at more, or less, because of the loans."""
    given = total(each.amount for each in of if each.lender == budget)
    return total(each.amount for each in of if each.borrower == budget) - given


# Selectors of labels, by which a budget says which namespaces it pays for and in which pools it rents.


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector; an empty one selects all. Each expression is (key, operator, values).

    ``nothing``: no object is selected, whatever the terms are.
    """

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected: all terms must hold."""
        if self.nothing:
            return False
        return all(labels.get(key) == value for key, value in self.match_labels) and all(
            _holds(operator, values, labels.get(key)) for key, operator, values in self.match_expressions
        )

    def __str__(self) -> str:
        """The selector as ``kubectl get -l`` takes it."""
        terms = [f"{key}={value}" for key, value in self.match_labels]
        return ",".join([*terms, *(_as_text(*expression) for expression in self.match_expressions)])


def _holds(operator: str, values: tuple[str, ...], value: str | None) -> bool:
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            raise ValueError(f"no selector operator: {operator}")


def _as_text(key: str, operator: str, values: tuple[str, ...]) -> str:
    match operator:
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case _:
            return f"{key} {operator.lower()} ({', '.join(values)})"


EVERYTHING = Selector()
"""Selects every object."""
NOTHING = Selector(nothing=True)
"""Selects no object."""


class Mode(StrEnum):
    """Enforce: rent nodes and run jobs. Observe: only decide, and report what would be done."""

    ENFORCE = "Enforce"
    OBSERVE = "Observe"


HISTORY_HALF_LIFE_SECONDS = 30 * 86_400.0
"""Half life of class statistics, in seconds: a month, because what jobs cost drifts with their code."""
WEEK_SECONDS = 7 * 86_400.0
"""Half life of recent arrivals, in seconds: a week, the shortest span with a whole cycle of work days and week ends."""

PERIODS_KEPT = 120
"""Past periods that a balance keeps: ten years of months, and two of weeks."""
LENDERS_KEPT = 10
"""Lenders that a past period keeps, those of most."""
LENDING_KEPT = 12
"""Past periods that keep their lenders."""
FOLDED_KEPT = 10_000
"""Most rentals whose cost is in a balance and whose uid it keeps, because their objects may still exist: the ledger's
size is bounded, and none is left out. Further ones are folded as soon as others are gone."""


def decay(seconds: float, half_life: float) -> float:
    """The weight in (0, 1] of something ``seconds`` old: it halves every ``half_life`` seconds; 1 for the future."""
    return exp2(-max(seconds, 0.0) / half_life)


@dataclass(frozen=True, slots=True)
class ClassHistory:
    """The cost of one class's finished jobs compared with the predictions; a job's weight halves in a month.

    Sums over jobs with their weights at ``at``: ``jobs`` (their number), ``predicted`` and ``actual`` dollars of their
    GPUs, and ``squares``, actual² / predicted. ``arrivals`` counts the same jobs by their age since creation,
    ``recent_arrivals`` with a weight that halves in a week. ``since``: when the first of them was created. Of
    the jobs that completed, ``complete`` in number, the sums of the logarithms of actual ÷ predicted and of their
    squares: ``cost_logs`` and ``cost_log_squares`` of dollars, ``life_logs`` and ``life_log_squares`` of the seconds
    since creation. Floats, because these are statistics that forget, not accounts.
    """

    jobs: float
    predicted: float
    actual: float
    squares: float
    since: Instant
    at: Instant
    arrivals: float = 0.0
    recent_arrivals: float = 0.0
    complete: float = 0.0
    cost_logs: float = 0.0
    cost_log_squares: float = 0.0
    life_logs: float = 0.0
    life_log_squares: float = 0.0

    def aged(self, at: Instant) -> ClassHistory:
        """The same sums with the weights of a later instant ``at``; unchanged if it is an earlier one."""
        passed = seconds_between(self.at, at)
        weight = decay(passed, HISTORY_HALF_LIFE_SECONDS)
        return ClassHistory(
            self.jobs * weight,
            self.predicted * weight,
            self.actual * weight,
            self.squares * weight,
            self.since,
            max(self.at, at),
            self.arrivals * weight,
            self.recent_arrivals * decay(passed, WEEK_SECONDS),
            self.complete * weight,
            self.cost_logs * weight,
            self.cost_log_squares * weight,
            self.life_logs * weight,
            self.life_log_squares * weight,
        )


@dataclass(frozen=True, slots=True)
class PastPeriod:
    """A period that is over: its start, what was spent, and the ``aim`` (None in records from before it was kept).

    ``borrowed``: what of the spent dollars others lent, beyond the aim, by lender.
    """

    start: Instant
    spent: Money
    aim: Money | None = None
    borrowed: Mapping[BudgetId, Money] = field(default_factory=dict)

    @property
    def spent_fraction(self) -> float | None:
        """Spent ÷ aim, with what was borrowed; None without an aim or with one of zero."""
        if self.aim is None or self.aim.micros <= 0:
            return None
        return self.spent.micros / (self.aim + total(self.borrowed.values())).micros


@dataclass(frozen=True, slots=True)
class MoveLimits:
    """When running jobs may be resized: at most ``per_job_and_day`` times (None: no limit), never in quiet hours."""

    per_job_and_day: int | None = None
    quiet_hours: tuple[QuietHours, ...] = ()

    @property
    def unlimited(self) -> bool:
        """Whether running jobs may be resized at any time."""
        return self.per_job_and_day is None and not self.quiet_hours


class Cause(StrEnum):
    """The use that a node's time was paid for.

    JOB: GPUs that a job held. STARTING: from the launch until the node took pods. IDLE: GPUs of a ready node that no
    job held. ENDING: nodes without a job, from the decision to end them to their end. INCOMPLETE_GANG: nodes that no
    job held yet, while too few of the gang had come for the job that needs all of them.
    """

    JOB = "job"
    STARTING = "starting"
    IDLE = "idle"
    ENDING = "ending"
    INCOMPLETE_GANG = "incomplete_gang"


class JobTime(StrEnum):
    """What a part of a job's GPU-time was. Time that is none of these is not known: nothing is reported of it.

    TRAINED: the job advanced. RUN_START: a run held GPUs and had not trained yet. REDONE: it was not yet as far as a
    run had been before. SLOW, STARVED and WAITING_FOR_PEERS: the part of its steps that a slow node, waiting for input
    or waiting for other ranks took (``estimate.bottlenecks``). NO_CELL: no cell ran in an interactive job. KEPT_EMPTY:
    GPUs that nobody else could have beside it (``Option.empty``).
    """

    TRAINED = "trained"
    RUN_START = "run_start"
    REDONE = "redone"
    SLOW = "slow"
    STARVED = "starved"
    WAITING_FOR_PEERS = "waiting_for_peers"
    NO_CELL = "no_cell"
    KEPT_EMPTY = "kept_empty"

    @property
    def lost(self) -> bool:
        """Whether the GPUs were paid for and the job was no farther for it."""
        return self is not JobTime.TRAINED


DAYS_KEPT = 62
"""Days that a balance keeps with their causes: two months, in which somebody looks at a bill."""


@dataclass(frozen=True, slots=True)
class DayCosts:
    """What was added to ``Costs`` in the day that began at ``start``: by cause, of jobs by namespace, and what is known
    of the dollars of all jobs (``went_to``)."""

    start: Instant
    by_cause: Mapping[Cause, Money]
    by_namespace: Mapping[str, Money]
    went_to: Mapping[JobTime, Money] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Costs:
    """All that a budget's rentals ever cost, by cause and by namespace, as of ``through``; no amount ever falls.

    ``by_pool``: dollars by pool and cause. ``by_namespace``: of them, those with the cause JOB, by the job's namespace.
    ``lifetime``: that of the balance then, which tells what was folded since. ``before``: the sums by cause when the
    present period began. ``days``: the last days on which something was added, in order. ``went_to``: what is known of
    the dollars of jobs, by namespace; the rest of them is not known.
    """

    by_pool: Mapping[tuple[PoolId, Cause], Money] = field(default_factory=dict)
    by_namespace: Mapping[str, Money] = field(default_factory=dict)
    through: Instant | None = None
    lifetime: Money = ZERO
    before: Mapping[Cause, Money] = field(default_factory=dict)
    days: tuple[DayCosts, ...] = ()
    went_to: Mapping[tuple[str, JobTime], Money] = field(default_factory=dict)

    @property
    def total(self) -> Money:
        """The sum over pools and causes."""
        return total(self.by_pool.values())

    @property
    def by_cause(self) -> Mapping[Cause, Money]:
        """The sums over pools; only of causes that cost anything."""
        sums: dict[Cause, Money] = {}
        for (_, cause), amount in self.by_pool.items():
            sums[cause] = sums.get(cause, ZERO) + amount
        return sums


@dataclass(frozen=True, slots=True)
class Balance:
    """The ledger's record for one budget, read back from its status.

    ``settled``: the cost of folded rentals within the period that began at ``period_start``. ``lifetime``: the whole
    cost of every folded rental ever. ``folded``: uids of rentals that are in both sums and whose objects may still
    exist (each is counted once, however often its step is repeated). ``history``: past periods, oldest first.
    ``carried``: what the period before this one left over (negative: overspent) and handed on.

    ``class_history``: statistics of finished jobs by class (``Job.statistics``). ``jobs_cost``: their whole cost. Both
    hold the jobs that finished up to ``counted_through`` and those in ``counted`` (uid → when it finished).

    ``costs``: what the dollars of folded and running rentals were for, since the budget exists.
    """

    period_start: Instant
    settled: Money
    lifetime: Money
    folded: frozenset[str]
    history: tuple[PastPeriod, ...]
    carried: Money = ZERO
    class_history: Mapping[ClassId, ClassHistory] = field(default_factory=dict)
    jobs_cost: Money = ZERO
    counted: Mapping[str, Instant] = field(default_factory=dict)
    counted_through: Instant | None = None
    costs: Costs = Costs()

    def counts(self, job_uid: str, finished: Instant) -> bool:
        """Whether the job that finished at ``finished`` is in the sums already."""
        through = self.counted_through
        return job_uid in self.counted or (through is not None and finished <= through)


@dataclass(frozen=True, slots=True)
class AmountShare:
    """The amount of a budget that has a parent or is one (``domain.budget_tree``).

    ``declared``: its ``spec.amount``. ``in_all``: what it and all below it may aim at together. ``below``: what those
    directly below it declare. ``siblings``: what it declares together with those that have the same parent, and
    ``given``: what that parent may give them; ``given`` is None without a parent.
    """

    declared: Money
    in_all: Money
    below: Money
    siblings: Money
    given: Money | None

    @property
    def own(self) -> Money:
        """What is left for the namespaces that it pays for itself."""
        return max(self.in_all - self.below, ZERO)

    @property
    def scaled(self) -> bool:
        """Whether it has less than it declares."""
        return self.in_all < self.declared


OPENING_SECONDS = 3_600.0
"""The jobs that come up to this age of a budget waited for it: they say nothing of how often jobs come."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A GPUBudget with its balance. ``balance`` is None until the first period has been opened in status.

    ``calendar``: its periods. ``selector``: of the namespaces that it pays for. ``pool_selector``: of the pools that
    its money may rent.
    ``opening_spend``: spent by other means in the period in which the budget was created; None where its owner does not
    say, and the amount then counts in proportion (``counted``).
    ``weights``: (priorityClassName, weight) pairs; 1 for all others. ``fixed_rate``: an exchange rate that is used
    whatever is spent, for what-ifs and simulations. ``guarded``: it has the finalizer ``charterer.dev/in-use``, which
    keeps it while rentals name it. ``carry_over_percent``: percentage of a period's surplus or deficit that goes into
    the next. ``exploration_percent``: percentage of the amount that may be spent on measuring curves. ``moves``:
    limits on resizing running jobs. ``rate_ceiling``: dollars that a second of a job of weight 1 may cost at most, None
    for a multiple of what its cheapest option costs. ``unreadable``: what is wrong with the statistics in its status,
    empty if nothing; they are learned anew then. ``currency``: in which its owner writes amounts, None for dollars;
    all amounts here are dollars. ``parent``: the budget whose limits hold for this one too. ``share``: where ``amount``
    comes from, if the budget has a parent or is one. ``lends``: it and those directly below it lend each other what
    they are not forecast to need. ``loans``: those of this period, while a plan is made.
    """

    id: BudgetId
    uid: str
    resource_version: str
    generation: int
    created: Instant
    amount: Money
    calendar: Calendar
    selector: Selector
    mode: Mode
    hard_limit: Money | None
    max_hourly_rate: Price | None
    opening_spend: Money | None
    weights: tuple[tuple[str, float], ...]
    balance: Balance | None
    deleting: bool
    guarded: bool = False
    fixed_rate: Rate | None = None
    carry_over_percent: int = 0
    exploration_percent: int = 2
    moves: MoveLimits = MoveLimits()
    rate_ceiling: Rate | None = None
    unreadable: str = ""
    pool_selector: Selector = EVERYTHING
    currency: Currency | None = None
    parent: BudgetId | None = None
    share: AmountShare | None = None
    lends: bool = False
    loans: tuple[Loan, ...] = ()

    @property
    def penniless(self) -> bool:
        """Whether it has no dollar for the namespaces that it pays for; not if it pays for none itself."""
        return self.amount <= ZERO and not self.selector.nothing

    @property
    def declared_amount(self) -> Money:
        """Its ``spec.amount``."""
        return self.amount if self.share is None else self.share.declared

    def begins_after(self, now: Instant) -> bool:
        """Whether its period has not begun by this clock, so that what is spent now could not be accounted for."""
        return self.balance is not None and now < self.balance.period_start

    def dollars(self, amount: Money) -> Money:
        """The dollars of an amount that its owner writes."""
        return amount if self.currency is None else self.currency.dollars(amount)

    def is_opening(self, created: Instant) -> bool:
        """Whether a job that was created then waited for the budget."""
        return seconds_between(self.created, created) <= OPENING_SECONDS

    @property
    def aim(self) -> Money:
        """The target of the current period's spending: its own, more by what it borrows, less by what it lends."""
        return self.own_aim + net_loan(self.id, self.loans) if self.loans else self.own_aim

    @property
    def period(self) -> tuple[Instant, Instant]:
        """The begin and end of its period: of the one in which it was created, until its first one is opened."""
        if self.balance is None:
            return self.calendar.bounds(self.created)
        return self.balance.period_start, self.calendar.end(self.balance.period_start)

    def in_period_of(self, now: Instant) -> Budget:
        """The budget with an empty balance of the present period, if it has none or that of a period that is over.

        That is so for moments, until the new one is opened. Otherwise what was spent in the last period would count
        against the new one, and jobs would be moved for it.
        """
        if self.balance is not None and now < self.period[1]:
            return self
        start = self.calendar.bounds(now)[0]
        return replace(self, balance=Balance(start, settled=ZERO, lifetime=ZERO, folded=frozenset(), history=()))

    @property
    def closed(self) -> bool:
        """Whether its period lies before its grant or after it, so that it may spend nothing."""
        return self.calendar.grant is not None and not self.calendar.is_open(self.period[0])

    def closed_at(self, now: Instant) -> bool:
        """The same of the period that ``now`` is in."""
        return self.calendar.grant is not None and self.in_period_of(now).closed

    @property
    def limit(self) -> Money | None:
        """The hard limit of its period: nothing may be spent outside its grant."""
        return ZERO if self.closed else self.hard_limit

    @property
    def prorated(self) -> bool:
        """Whether only a part of its amount counts: it was created within its period, and nobody says what was spent
        before."""
        return self.opening_spend is None and self.created > self.period[0] and not self.closed

    @property
    def counted(self) -> Money:
        """The part of the amount that counts in its period: all of it, or what falls on the time after its creation.

        Nothing counts outside a grant.
        """
        if self.closed:
            return ZERO
        if not self.prorated:
            return self.amount
        start, end = self.period
        return Money(self.amount.micros * max(end - self.created, 0) // (end - start))

    @property
    def own_aim(self) -> Money:
        """The target without loans: what counts of the amount, plus what was carried over, at least zero.

        A surplus carried over never lifts it above the hard limit, which is the same in every period.
        """
        carried = ZERO if self.balance is None else self.balance.carried
        wanted = max(self.counted + carried, ZERO)
        return wanted if self.hard_limit is None else min(wanted, max(self.hard_limit, self.amount))

    def carries(self, used: Money) -> Money:
        """The amount carried into the next period when ``used`` was spent in this one (negative: a deficit)."""
        left = self.own_aim.micros - used.micros
        carried = abs(left) * self.carry_over_percent // 100
        return Money(carried if left > 0 else -carried)
