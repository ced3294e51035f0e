"""A budget: how much may be spent, for which namespaces, and what its ledger has recorded."""

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

# The currency in which a budget's owner writes amounts, if it is not the dollar of the clouds' bills.
#
# The ledger stays in dollars. The owner gives the exchange rate of the currency and its date; Charterer queries no
# bank.


COMMITTED_AHEAD_SECONDS: Final = 10 * 86_400
"""Seconds ahead whose money may be committed to jobs, if the money is too little for all of them, and whose GPU-hours
may be used."""
DAYS_CURRENT: Final = 35
"""Days for which an exchange rate is considered current. A rate that is updated every month stays current."""
_MICROS: Final = 1_000_000


def _rounded(dividend: int, divisor: int) -> int:
    """The quotient rounded to the nearest whole number, half up."""
    return (2 * dividend + divisor) // (2 * divisor)


@dataclass(frozen=True, slots=True)
class Currency:
    """A currency. ``code``: as in ISO 4217. ``per_dollar``: millionths of a unit that a dollar costs on the day
    ``as_of``."""

    code: str
    per_dollar: int
    as_of: date

    def dollars(self, amount: Money) -> Money:
        """The dollars, to the micro-dollar, that ``amount`` units of this currency are worth."""
        return Money(_rounded(amount.micros * _MICROS, self.per_dollar))

    def dollars_hourly(self, price: Price) -> Price:
        """The price in dollars per hour; ``price`` counts units of this currency per hour."""
        return Price(self.dollars(Money(price.micros_per_hour)).micros)

    def units(self, dollars: Money) -> Money:
        """The units of this currency that ``dollars`` are worth, to a millionth of a unit."""
        return Money(_rounded(dollars.micros * self.per_dollar, _MICROS))

    def days_old(self, now: Instant) -> int:
        """Days since the date of the exchange rate; negative if that date lies in the future."""
        return (moment(now).date() - self.as_of).days

    def amount(self, dollars: Money) -> str:
        """The dollars in this currency for a person: ``18,400.00 EUR``."""
        return f"{str(self.units(dollars)).replace('$', '')} {self.code}"

    def __str__(self) -> str:
        return f"{Money(self.per_dollar).decimal()} {self.code} a dollar, as of {self.as_of.isoformat()}"


# Loans between budgets of one parent: a budget may spend what another is not forecast to need in a period (ADR 5).
#
# No loan is recorded. Every plan computes loans anew from what each budget has spent and is forecast to spend.


@dataclass(frozen=True, slots=True)
class Loan:
    """Dollars by which the lender's target in this period is lower, and the borrower's higher."""

    lender: BudgetId
    borrower: BudgetId
    amount: Money


@dataclass(frozen=True, slots=True)
class Need:
    """The spending of a budget in its period, without loans.

    ``aim``: the target of the budget. ``spent``: dollars spent so far. ``high``: the upper end of the forecast; None
    without a forecast. ``short``: more money would make the budget's jobs faster. ``most``: the highest target that
    loans may lead to; None for no limit.
    """

    budget: BudgetId
    aim: Money
    spent: Money
    high: Money | None
    short: bool
    most: Money | None = None

    @property
    def over(self) -> Money:
        """Dollars spent beyond the budget's own target."""
        return max(self.spent - self.aim, ZERO)

    @property
    def unspent(self) -> Money:
        """Dollars of the budget's own target that are not spent."""
        return max(self.aim - self.spent, ZERO)

    @property
    def spare(self) -> Money:
        """Dollars of the budget's own target that it will probably not spend; zero if short or without a forecast."""
        return ZERO if self.short or self.high is None else max(self.aim - max(self.high, self.spent), ZERO)

    @property
    def room(self) -> Money | None:
        """Dollars that the budget may still borrow beyond what it has spent; None for no limit."""
        return None if self.most is None else max(self.most - max(self.aim, self.spent), ZERO)


def loans(family: Sequence[Need]) -> tuple[Loan, ...]:
    """The loans between the budgets: all spare money goes to budgets that are short, in proportion to targets.

    Money that a budget has spent beyond its target is lent first. The other budgets lend this money from their spare
    money and, if that is too little, from their unspent money in proportion. No budget lends more than it has not
    spent, and no budget both lends and borrows. So the targets with loans add up to the targets without loans.
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
    """The loans that match lenders with borrowers, each in turn. Both mappings must add up to the same amount."""
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
    """Dollars that the loans add to the budget's target; negative if the budget lends."""
    given = total(each.amount for each in of if each.lender == budget)
    return total(each.amount for each in of if each.borrower == budget) - given


# Label selectors, by which a budget selects the namespaces that it pays for and the pools that it rents from.


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector; an empty one selects all objects. Each expression is (key, operator, values).

    ``nothing``: the selector selects no object, whatever its terms are.
    """

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the selector selects an object with these labels: all terms must hold. ValueError for an unknown
        operator."""
        if self.nothing:
            return False
        return all(labels.get(key) == value for key, value in self.match_labels) and all(
            _holds(operator, values, labels.get(key)) for key, operator, values in self.match_expressions
        )

    def __str__(self) -> str:
        """The selector in the syntax of ``kubectl get -l``."""
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
NOTHING = Selector(nothing=True)


# Shares of one budget's money. Each share is guaranteed to some of the budget's jobs while they have work (ADR 29).


@dataclass(frozen=True, slots=True)
class JobShare:
    """A part of a budget's money for some of its jobs.

    ``part``: the fraction of the money, above 0 and up to 1. ``user``, ``namespace``, ``label`` (a key and a value):
    conditions for the jobs of the share. A condition of None is ignored, and all other conditions must hold.
    """

    name: str
    part: float
    user: str | None = None
    namespace: str | None = None
    label: tuple[str, str] | None = None

    def has(self, user: str, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a job of that user in that namespace, with those labels, belongs to the share."""
        return (
            self.user in (None, user)
            and self.namespace in (None, namespace)
            and (self.label is None or labels.get(self.label[0]) == self.label[1])
        )


GPU_HOUR: Final = 3_600_000_000
"""GPU-microseconds of a GPU-hour."""


@dataclass(frozen=True, slots=True)
class GpuHours:
    """GPU-time that the jobs of a budget may use in each period (ADR 30). ``amount``: GPU-microseconds."""

    gpu_type: str
    amount: int

    def released(self, start: Instant, end: Instant, now: Instant) -> int:
        """GPU-microseconds of the amount that are for the time up to ``now`` and the next ten days, in the period from
        ``start`` to ``end``: what is beyond is kept for later."""
        passed = min(max(now - start, 0) + COMMITTED_AHEAD_SECONDS * _MICROS, end - start)
        return self.amount * passed // max(end - start, 1)

    def released_at(self, used: int, start: Instant, end: Instant) -> Instant:
        """When more than ``used`` GPU-microseconds are released; the period's end if never before."""
        if used >= self.amount:
            return end
        passed = (used + 1) * (end - start) // max(self.amount, 1) - COMMITTED_AHEAD_SECONDS * _MICROS
        return Instant(min(start + max(passed, 0) + 1_000_000, end))


NO_SHARE: Final = ""
"""The name under which the jobs that belong to no share are counted, together with the rest of the money."""


OTHERS: Final = "(others)"
"""The words for NO_SHARE in messages to people."""


def share_of(shares: Iterable[JobShare], user: str, namespace: str, labels: Mapping[str, str]) -> str:
    """The name of the first share to which the job belongs; NO_SHARE if it belongs to none."""
    return next((share.name for share in shares if share.has(user, namespace, labels)), NO_SHARE)


def parts_of(shares: Iterable[JobShare]) -> Mapping[str, float]:
    """The parts of the money by share. NO_SHARE has the rest, so that the parts add up to 1."""
    parts = {share.name: share.part for share in shares}
    return {**parts, NO_SHARE: max(1.0 - sum(parts.values()), 0.0)}


class Mode(StrEnum):
    """What a budget does. ENFORCE: rent nodes and run jobs. OBSERVE: only plan, and report what would be done."""

    ENFORCE = "Enforce"
    OBSERVE = "Observe"


HISTORY_HALF_LIFE_SECONDS = 30 * 86_400.0
"""Half life of class statistics, in seconds. It is a month, because the costs of jobs drift as their code changes."""
WEEK_SECONDS = 7 * 86_400.0
"""Half life of recent arrivals, in seconds. It is a week, the shortest span with a whole cycle of work days and
weekends."""

PERIODS_KEPT = 120
"""Number of past periods that a balance keeps. It suffices for ten years of months, or two years of weeks."""
LENDERS_KEPT = 10
"""Number of lenders that a past period keeps. They are the lenders of the largest amounts."""
LENDING_KEPT = 12
"""Number of past periods that keep their lenders."""
FOLDED_KEPT = 10_000
"""Maximum number of folded rentals whose uids a balance keeps while their objects may still exist. The limit bounds
the ledger's size. Further rentals are folded as soon as the objects of folded rentals are deleted, so that no rental
is left out."""


def decay(seconds: float, half_life: float) -> float:
    """The weight in (0, 1] of a sample that is ``seconds`` old; it halves every ``half_life`` seconds. 1 for negative
    ages."""
    return exp2(-max(seconds, 0.0) / half_life)


@dataclass(frozen=True, slots=True)
class ClassHistory:
    """Statistics of one class's finished jobs: costs compared with predictions. A job's weight halves in a month.

    The fields are sums over jobs, each multiplied by the job's weight at the instant ``at``. ``jobs``: the number of
    jobs. ``predicted``, ``actual``: dollars of their GPUs. ``squares``: actual² / predicted. ``arrivals``: the number
    of these jobs, weighted by age since creation. ``recent_arrivals``: the number of these jobs, with weights that
    halve in a week. ``since``: the creation of the earliest job. ``complete``: the number of jobs that completed.
    ``cost_logs``, ``cost_log_squares``: sums, over completed jobs, of log(actual ÷ predicted) of dollars and of its
    square. ``life_logs``, ``life_log_squares``: sums of log(actual ÷ predicted) of the seconds since creation, and of
    its square. All sums are floats, because they are decaying statistics and not accounts.
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
        """The same sums with the weights that the jobs have at ``at``. If ``at`` is earlier than that of these sums,
        they do not change.
        """
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
    """A period that is over. ``aim``: its target, None in records from before targets were recorded.

    ``borrowed``: dollars of ``spent`` that other budgets lent, by lender. ``gpu_time``: GPU-microseconds that runs
    held, by GPU type.
    """

    start: Instant
    spent: Money
    aim: Money | None = None
    borrowed: Mapping[BudgetId, Money] = field(default_factory=dict)
    gpu_time: Mapping[str, int] = field(default_factory=dict)

    @property
    def spent_fraction(self) -> float | None:
        """Spent ÷ (target + borrowed dollars); None without a target or with a target of zero."""
        if self.aim is None or self.aim.micros <= 0:
            return None
        return self.spent.micros / (self.aim + total(self.borrowed.values())).micros


@dataclass(frozen=True, slots=True)
class MoveLimits:
    """Limits on resizing running jobs: at most ``per_job_and_day`` times (None: no limit), and never in quiet hours."""

    per_job_and_day: int | None = None
    quiet_hours: tuple[QuietHours, ...] = ()

    @property
    def unlimited(self) -> bool:
        return self.per_job_and_day is None and not self.quiet_hours


class Cause(StrEnum):
    """The use that a node's time was paid for.

    JOB: a job held the GPUs. STARTING: from the launch until the node took pods. IDLE: no job held the GPUs of a ready
    node. ENDING: the node had no job, from the decision to end it to its end. INCOMPLETE_GANG: no job held the node
    yet, because too few nodes of its gang had come for the job that needs all of them.
    """

    JOB = "job"
    STARTING = "starting"
    IDLE = "idle"
    ENDING = "ending"
    INCOMPLETE_GANG = "incomplete_gang"


class JobTime(StrEnum):
    """The use of a part of a job's GPU-time. Time for which no use was reported is unknown and has no value here.

    TRAINED: the job advanced. RUN_START: a run held GPUs and had not trained yet. REDONE: the run repeated work that an
    earlier run had done. SLOW, STARVED, WAITING_FOR_PEERS: the part of its steps that was lost to a slow node, to
    waiting for input, or to waiting for other ranks (``estimate.bottlenecks``). NO_CELL: no cell ran in an interactive
    job. KEPT_EMPTY: GPUs beside the job that no other job could use (``Option.empty``).
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
        """Whether the GPUs were paid for while the job did not advance."""
        return self is not JobTime.TRAINED


DAYS_KEPT = 62
"""Days for which a balance keeps costs by cause: two months, in which people usually check a bill."""


@dataclass(frozen=True, slots=True)
class DayCosts:
    """The amounts added to ``Costs`` in the day that began at ``start``: by cause, for jobs by namespace, and for the
    dollars of all jobs by known use (``went_to``)."""

    start: Instant
    by_cause: Mapping[Cause, Money]
    by_namespace: Mapping[str, Money]
    went_to: Mapping[JobTime, Money] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Costs:
    """Everything that a budget's rentals ever cost, as of ``through``. No amount ever decreases.

    ``by_pool``: dollars by pool and cause. ``by_namespace``: the dollars of cause JOB by the job's namespace.
    ``lifetime``: the balance's ``lifetime`` at ``through``. Its difference from the present ``lifetime`` is the cost
    that was folded since. ``before``: the sums by cause at the beginning of the present period. ``days``: the last
    days with additions, in order. ``went_to``: the dollars of jobs whose use is known, by namespace and use.
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
        return total(self.by_pool.values())

    @property
    def by_cause(self) -> Mapping[Cause, Money]:
        """The sums over pools by cause; causes without costs are absent."""
        sums: dict[Cause, Money] = {}
        for (_, cause), amount in self.by_pool.items():
            sums[cause] = sums.get(cause, ZERO) + amount
        return sums


@dataclass(frozen=True, slots=True)
class Balance:
    """The ledger's record for one budget, as read from its status.

    ``settled``: the cost of folded rentals within the period that began at ``period_start``. ``lifetime``: the whole
    cost of every rental ever folded. ``folded``: uids of rentals that are in both sums and whose objects may still
    exist, so that repeating a fold does not count a rental twice. ``history``: past periods, oldest first. ``carried``:
    dollars carried over from the previous period; negative if it was overspent.

    ``class_history``: statistics of finished jobs by class (``Job.statistics``). ``jobs_cost``: the whole cost of these
    jobs. Both include the jobs that finished up to ``counted_through`` and the jobs in ``counted`` (uid → time of
    finishing).

    ``costs``: the uses of all dollars of folded and running rentals since the budget was created.

    ``gpu_time``: GPU-microseconds that runs held of folded rentals in the period, by GPU type.
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
    gpu_time: Mapping[str, int] = field(default_factory=dict)

    def counts(self, job_uid: str, finished: Instant) -> bool:
        """Whether the sums already include the job that finished at ``finished``."""
        through = self.counted_through
        return job_uid in self.counted or (through is not None and finished <= through)


@dataclass(frozen=True, slots=True)
class AmountShare:
    """The amount of a budget that has a parent or children (``domain.budget_tree``).

    ``declared``: its ``spec.amount``. ``in_all``: the target of this budget and all its descendants together.
    ``below``: the sum that its children declare. ``siblings``: the sum that this budget and the other children of its
    parent declare. ``given``: the amount that the parent may give them together; None without a parent.
    """

    declared: Money
    in_all: Money
    below: Money
    siblings: Money
    given: Money | None

    @property
    def own(self) -> Money:
        """The amount left for the namespaces that the budget pays for itself."""
        return max(self.in_all - self.below, ZERO)

    @property
    def scaled(self) -> bool:
        """Whether the budget may spend less than it declares."""
        return self.in_all < self.declared


OPENING_SECONDS = 3_600.0
"""Age of a budget in seconds up to which new jobs are assumed to have waited for it. Such jobs do not count as
arrivals."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A GPUBudget. ``balance``: None until the first period has been opened in status. Amounts are dollars.

    ``calendar``: its periods. ``selector``: selects the namespaces that the budget pays for. ``pool_selector``: selects
    the pools that the budget may rent from. ``opening_spend``: dollars spent by other means in the period of the
    budget's creation; if it is None, the amount counts in proportion (``counted``). ``weights``: (priorityClassName,
    weight) pairs; other jobs have weight 1. ``fixed_rate``: an exchange rate that is used whatever is spent, for
    what-ifs and simulations. ``guarded``: the budget has the finalizer ``charterer.dev/in-use``, which prevents its
    deletion while rentals name the budget. ``carry_over_percent``: percentage of a period's surplus or deficit that is
    carried into the next. ``exploration_percent``: percentage of the amount that may be spent on measuring curves.
    ``moves``: limits on resizing running jobs. ``rate_ceiling``: the most dollars that a second of a job of weight 1
    may cost; None for a multiple of the cost of its cheapest option. ``unreadable``: the error in the statistics of its
    status, which are then learned anew; empty without an error. ``currency``: the currency of its owner's amounts; None
    for dollars. ``parent``: the budget whose limits hold for this one too. ``share``: how ``amount`` was computed if
    the budget has a parent or children; otherwise None. ``lends``: this budget and its children lend each other money
    that they are not forecast to need. ``loans``: the loans of this period; set only while planning. ``job_max_cost``:
    the limit of the cost of a job without a limit of its own. ``job_shares``: parts of its money for some of its jobs.
    ``gpu_hours``: GPU-time by type that its jobs and those of its descendants may use in each period.
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
    job_max_cost: Money | None = None
    job_shares: tuple[JobShare, ...] = ()
    gpu_hours: tuple[GpuHours, ...] = ()

    @property
    def penniless(self) -> bool:
        """Whether the budget has no money for the namespaces that it pays for. False if the budget selects no
        namespace."""
        return self.amount <= ZERO and not self.selector.nothing

    @property
    def declared_amount(self) -> Money:
        """The budget's ``spec.amount`` in dollars."""
        return self.amount if self.share is None else self.share.declared

    def begins_after(self, now: Instant) -> bool:
        """Whether ``now`` lies before the recorded period, so that money spent now could not be accounted for."""
        return self.balance is not None and now < self.balance.period_start

    def dollars(self, amount: Money) -> Money:
        """The dollars of an amount in the owner's currency."""
        return amount if self.currency is None else self.currency.dollars(amount)

    def is_opening(self, created: Instant) -> bool:
        """Whether a job created at ``created`` counts as one that waited for the budget (``OPENING_SECONDS``)."""
        return seconds_between(self.created, created) <= OPENING_SECONDS

    @property
    def aim(self) -> Money:
        """The target of the current period's spending: its own target, plus what it borrows, minus what it lends."""
        return self.own_aim + net_loan(self.id, self.loans) if self.loans else self.own_aim

    @property
    def period(self) -> tuple[Instant, Instant]:
        """The first instant of the budget's period and the first instant of the next period. Before the first period
        is opened, the budget's period is that of its creation."""
        if self.balance is None:
            return self.calendar.bounds(self.created)
        return self.balance.period_start, self.calendar.end(self.balance.period_start)

    def in_period_of(self, now: Instant) -> Budget:
        """The budget with an empty balance for the present period, if it has no balance or one of a past period.

        The empty balance is used only until the new period is opened. Without the empty balance, the spending of the
        past period would count against the new period, and jobs would be moved for that reason.
        """
        if self.balance is not None and now < self.period[1]:
            return self
        start = self.calendar.bounds(now)[0]
        return replace(self, balance=Balance(start, settled=ZERO, lifetime=ZERO, folded=frozenset(), history=()))

    @property
    def closed(self) -> bool:
        """Whether the budget's period lies outside its grant, so that the budget may spend nothing."""
        return self.calendar.grant is not None and not self.calendar.is_open(self.period[0])

    def closed_at(self, now: Instant) -> bool:
        """As ``closed``, but for the period that contains ``now``."""
        return self.calendar.grant is not None and self.in_period_of(now).closed

    @property
    def limit(self) -> Money | None:
        """The hard limit of its period: zero outside its grant, None without a limit."""
        return ZERO if self.closed else self.hard_limit

    @property
    def prorated(self) -> bool:
        """Whether only a part of its amount counts: it was created within its period, and its owner gave no opening
        spend."""
        return self.opening_spend is None and self.created > self.period[0] and not self.closed

    @property
    def counted(self) -> Money:
        """The part of the amount that counts in its period: all, or the part for the time after the budget's creation.

        Outside a grant, nothing counts.
        """
        if self.closed:
            return ZERO
        if not self.prorated:
            return self.amount
        start, end = self.period
        return Money(self.amount.micros * max(end - self.created, 0) // (end - start))

    @property
    def own_aim(self) -> Money:
        """The target without loans: the counted amount plus the carried amount, at least zero.

        A carried surplus never lifts the target above the hard limit, which is the same in every period.
        """
        carried = ZERO if self.balance is None else self.balance.carried
        wanted = max(self.counted + carried, ZERO)
        return wanted if self.hard_limit is None else min(wanted, max(self.hard_limit, self.amount))

    def carries(self, used: Money) -> Money:
        """The amount carried into the next period if ``used`` was spent in this period; negative for a deficit."""
        left = self.own_aim.micros - used.micros
        carried = abs(left) * self.carry_over_percent // 100
        return Money(carried if left > 0 else -carried)
