"""GPUBudget.status: the record (the ledger) and the view of the budget's present state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from charterer.api.models.base import (
    ATOMIC,
    Absent,
    Amount,
    ApiModel,
    Cents,
    Conditions,
    Hourly,
    Mirror,
    ObjectName,
    PartOf,
    Rule,
    ShownGpuHours,
    SignedAmount,
    SignedCents,
    Time,
    joined,
    rules,
)
from charterer.api.models.machine_state import BudgetStatistics, ClassCostStatistics, PackedStatistics, packed
from charterer.domain.budget import (
    DAYS_KEPT,
    FOLDED_KEPT,
    LENDERS_KEPT,
    PERIODS_KEPT,
    Balance,
    Cause,
    ClassHistory,
    Costs,
    Currency,
    DayCosts,
    JobTime,
    Loan,
    PastPeriod,
)
from charterer.domain.ids import BudgetId, ClassId, PoolId
from charterer.domain.money import ZERO, Money
from charterer.domain.plan import ArrivalsBasis, ArrivalsVerdict, SpendVerdict
from charterer.domain.time import after
from charterer.ledger.balance import OTHER, UIDS_KEPT_SECONDS

# The currency of a GPUBudget's amounts if it is not the dollar: the exchange rate, and amounts of the status.


_LEAST_MICROS: Final = 100_000
_MOST_MICROS: Final = 10**12


def _per_dollar(value: object) -> int:
    """Millionths of a unit. Raises ValueError for an implausible rate, which would make amounts too large."""
    if isinstance(value, int):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a string: put it in quotes")
    micros = Money.parse(value).micros
    if not _LEAST_MICROS <= micros < _MOST_MICROS:
        raise ValueError(f"{value!r} is not from 0.1 to less than a million units of a currency")
    return micros


def _day(value: object) -> date:
    return value if isinstance(value, date) else date.fromisoformat(str(value))


UnitsPerDollar = Annotated[
    int,
    PlainValidator(_per_dollar),
    PlainSerializer(lambda micros: Money(micros).decimal()),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": 13,
            **rules(
                Rule(
                    "self.matches('^(0[.][1-9][0-9]{0,5}|[1-9][0-9]{0,5}([.][0-9]{1,6})?)$')",
                    "write the units of the currency that a dollar costs, from 0.1 to less than a million, as "
                    'digits in quotes, such as "0.92"',
                )
            ),
        }
    ),
]
"""Millionths of a currency's unit that a dollar costs: a decimal string from 0.1 to below a million."""

Day = Annotated[
    date, PlainValidator(_day), PlainSerializer(date.isoformat), WithJsonSchema({"type": "string", "format": "date"})
]
"""A day as ``2026-11-01``."""


class CurrencyRate(ApiModel):
    """The exchange rate from dollars to spec.currency, and the day on which it was set."""

    per_dollar: UnitsPerDollar
    """Units of spec.currency that a dollar costs, such as "0.92"."""
    as_of: Day
    """The day of this rate, such as "2026-11-01". After 35 days the condition CurrencyRateCurrent is False."""


class InCurrency(ApiModel):
    """Amounts of the status in the currency of the spec, at its present rate and rounded to hundredths of a unit."""

    currency: Annotated[str, Field(max_length=3)]
    """The currency."""
    rate: Annotated[str, Field(max_length=64)]
    """The exchange rate, and the day on which it was set."""
    spent: Cents
    """Amount spent in the current period."""
    remaining: SignedCents
    """The rest of the amount and of the sum that was carried over."""
    forecast: Cents | None = None
    """Expected to be spent by the end of the period."""

    @classmethod
    def of(cls, currency: Currency, spent: Money, remaining: Money, forecast: Money | None) -> Self:
        """The dollar amounts, converted to the currency."""
        return cls(
            currency=currency.code,
            rate=str(currency),
            spent=currency.units(spent),
            remaining=currency.units(remaining),
            forecast=None if forecast is None else currency.units(forecast),
        )


# The dollars of a GPUBudget by cause, pool, namespace and day, as its status records them.


class CauseCosts(ApiModel):
    """Dollars that rented nodes cost, by cause."""

    job: Amount | None = None
    """GPUs that jobs held."""
    starting: Amount | None = None
    """Nodes from their launch until they took pods."""
    idle: Amount | None = None
    """GPUs of ready nodes that no job held."""
    ending: Amount | None = None
    """Nodes without a job from the decision to end them to their end."""
    incomplete_gang: Amount | None = None
    """Nodes for a job that needs several at once, while too few of them had come."""

    def by_cause(self) -> Mapping[Cause, Money]:
        """The amounts that are set."""
        amounts = ((cause, getattr(self, cause.value)) for cause in Cause)
        return {cause: amount for cause, amount in amounts if amount is not None}


class PoolCosts(CauseCosts):
    """Dollars that the rented nodes of a pool cost, by cause."""

    pool: Annotated[str, Field(max_length=253)]
    """The GPUPool."""


class KnownCosts(ApiModel):
    """Dollars of jobs by how their GPUs spent their time. How the GPUs spent the rest is unknown."""

    trained: Amount | None = None
    """Dollars of time in which the jobs advanced."""
    run_start: Amount | None = None
    """Dollars of time in which runs had not trained yet."""
    redone: Amount | None = None
    """Dollars of time in which runs repeated work of earlier runs."""
    slow: Amount | None = None
    """Dollars of time in which other workers waited for a slow node."""
    starved: Amount | None = None
    """Dollars of time in which GPUs waited for input."""
    waiting_for_peers: Amount | None = None
    """Dollars of time in which ranks waited for each other."""
    no_cell: Amount | None = None
    """Dollars of time in which no cell of an interactive job ran."""
    kept_empty: Amount | None = None
    """Dollars of GPUs that stay empty beside those of a run."""

    def went_to(self) -> Mapping[JobTime, Money]:
        """The amounts that are set."""
        amounts = ((kind, getattr(self, kind.value)) for kind in JobTime)
        return {kind: amount for kind, amount in amounts if amount is not None}


class NamespaceCosts(KnownCosts):
    """Dollars that the GPUs of a namespace's jobs cost, also by how the GPUs spent their time. The rest is unknown."""

    namespace: Annotated[str, Field(max_length=63)]
    """The namespace, or (other)."""
    job: Amount
    """GPUs that its jobs held."""


class DayOfCosts(CauseCosts, KnownCosts):
    """Dollars that were counted on a day, by cause. Dollars of jobs are also listed by how the GPUs spent their
    time."""

    start: Time
    """When the day began in the budget's time zone."""
    namespaces: Annotated[tuple[NamespaceCosts, ...], Field(max_length=100, json_schema_extra=ATOMIC)] = ()
    """Dollars of jobs by namespace; after 10 namespaces, further ones count under (other)."""

    @classmethod
    def from_domain(cls, day: DayCosts) -> Self:
        """The model of a day."""
        causes = {cause.value: amount for cause, amount in sorted(day.by_cause.items())}
        known = {kind.value: amount for kind, amount in sorted(day.went_to.items())}
        return cls(start=day.start, namespaces=_by_namespace(day.by_namespace, {}), **causes, **known)

    def to_domain(self) -> DayCosts:
        """The domain value of the day."""
        return DayCosts(self.start, self.by_cause(), _of_jobs(self.namespaces), self.went_to())


def _by_namespace(
    amounts: Mapping[str, Money], went_to: Mapping[tuple[str, JobTime], Money]
) -> tuple[NamespaceCosts, ...]:
    known: dict[str, dict[str, Money]] = {name: {} for name in amounts}
    for (name, kind), amount in sorted(went_to.items()):
        known.setdefault(name, {})[kind.value] = amount
    return tuple(
        [NamespaceCosts(namespace=name, job=amounts.get(name, ZERO), **parts) for name, parts in sorted(known.items())]
    )


def _of_jobs(namespaces: Iterable[NamespaceCosts]) -> Mapping[str, Money]:
    """The dollars of namespaces. ``OTHER`` is absent if it has only parts of job time and no dollars."""
    return {item.namespace: item.job for item in namespaces if item.namespace != OTHER or item.job != ZERO}


class BudgetCosts(ApiModel):
    """The dollars of a budget by cause, over all its periods. No amount ever falls."""

    through: Time
    """When the last amounts were added: about once a minute."""
    lifetime: Amount | None = None
    """The lifetime of the ledger at that time."""
    pools: Annotated[tuple[PoolCosts, ...], Field(max_length=1_000, json_schema_extra=ATOMIC)] = ()
    """Dollars by pool and cause; after 500 pools, further ones count under (other). The sum of the amounts is the cost
    of all rented nodes so far."""
    namespaces: Annotated[tuple[NamespaceCosts, ...], Field(max_length=1_000, json_schema_extra=ATOMIC)] = ()
    """Dollars of jobs by namespace; after 500 namespaces, further ones count under (other). How GPUs spent their time
    is kept for 100 namespaces."""
    before_period: CauseCosts | None = None
    """The sums over all pools at the start of the current period. Their growth since then is this period's cost."""
    days: Annotated[tuple[DayOfCosts, ...], Field(max_length=DAYS_KEPT, json_schema_extra=ATOMIC)] = ()
    """The last 62 days on which something was spent, oldest first. A dollar counts on the day on which it was added."""

    @classmethod
    def from_domain(cls, costs: Costs) -> Self | None:
        """The model of the sums; None before the first one."""
        if costs.through is None:
            return None
        by_pool: dict[PoolId, dict[str, Money]] = {}
        for (pool, cause), amount in sorted(costs.by_pool.items()):
            by_pool.setdefault(pool, {})[cause.value] = amount
        return cls(
            through=costs.through,
            lifetime=costs.lifetime,
            pools=tuple(PoolCosts(pool=pool, **amounts) for pool, amounts in by_pool.items()),
            namespaces=_by_namespace(costs.by_namespace, costs.went_to),
            before_period=CauseCosts(**{cause.value: amount for cause, amount in sorted(costs.before.items())})
            if costs.before
            else None,
            days=tuple([DayOfCosts.from_domain(day) for day in costs.days]),
        )

    def to_domain(self) -> Costs:
        """The domain value of the sums."""
        return Costs(
            by_pool={
                (PoolId(item.pool), cause): amount for item in self.pools for cause, amount in item.by_cause().items()
            },
            by_namespace=_of_jobs(self.namespaces),
            through=self.through,
            lifetime=self.lifetime or ZERO,
            before={} if self.before_period is None else self.before_period.by_cause(),
            days=tuple([day.to_domain() for day in self.days]),
            went_to={
                (item.namespace, kind): amount for item in self.namespaces for kind, amount in item.went_to().items()
            },
        )


# The dollars of a GPUBudget and all budgets below it, as its status shows them.


class DescendantsStatus(ApiModel):
    """The dollars of a budget and all budgets below it, in the current period of each."""

    spent: Cents
    """Dollars spent, running nodes included. If a new period has begun for only some of the budgets: the dollars of the
    period in which they spent more."""
    committed: Cents
    """Dollars that the period will cost at most if nothing more is rented."""
    forecast: Cents | None = None
    """Dollars expected to be spent by the end of the period. Absent while the forecast of one of them is."""
    forecast_low: Cents | None = None
    """Lower end of the 90 % interval of forecast, assuming that the budgets spend independently of each other."""
    forecast_high: Cents | None = None
    """Upper end of the 90 % interval of forecast."""

    @classmethod
    def from_domain(cls, verdict: SpendVerdict) -> Self:
        """The model of the dollars."""
        forecast = verdict.forecast
        return cls(
            spent=verdict.spent,
            committed=verdict.committed,
            forecast=None if forecast is None else forecast.expected,
            forecast_low=None if forecast is None else forecast.low,
            forecast_high=None if forecast is None else forecast.high,
        )


SHARES = 64
"""Shares that a budget may have."""


# A loan between budgets, as the status shows it.


LOANS_SHOWN = 10
"""Number of loans that a status lists."""


class LoanStatus(Mirror[Loan]):
    """A loan between two budgets: in this period the lender aims at less, and the borrower at more."""

    lender: ObjectName
    """The GPUBudget that is not forecast to need the amount."""
    borrower: ObjectName
    """The GPUBudget that may spend the amount."""
    amount: Cents
    """Dollars."""


class ShareStatus(ApiModel):
    """A share of the budget's money, as the last plan divides it."""

    name: str
    """Its name in spec.shares; (others) for what is left for all other jobs."""
    part: Annotated[float, Field(ge=0, le=1)]
    """Part of the money that its jobs are sure of."""
    jobs: int
    """Jobs of it that want to run."""
    hourly: Cents
    """Dollars per hour that may be planned with for its jobs, with what other shares leave."""
    planned: Cents
    """Dollars per hour that they are planned to cost in the long run."""
    pays_per_hour_saved: Cents
    """Dollars paid to complete a job of it of weight 1 an hour earlier."""
    queues: bool
    """Whether jobs of it wait for money, because even the cheapest options of all of them cost more than it may."""


class BorrowedStatus(ApiModel):
    """A loan to a budget in a past period, and its lender."""

    lender: ObjectName
    """The GPUBudget that spent less than its own aim."""
    amount: Amount
    """Dollars."""


# GPU-hours beside dollars (ADR 30).


GPU_TYPES: Final = 16
"""GPU types of which a budget may have an amount of GPU-hours."""
_GPU_TYPES_KEPT: Final = 100
"""GPU types whose GPU-time a record keeps: more than clusters have."""
GpuType = Annotated[str, Field(min_length=1, max_length=253)]
"""A GPU type as pools call it."""


class GpuHoursStatus(ApiModel):
    """An amount of GPU-hours of spec.gpuHours, and what is used of it in the present period."""

    gpu_type: GpuType
    """The GPU type."""
    amount: ShownGpuHours
    """GPU-hours of the period."""
    used: ShownGpuHours
    """GPU-hours for which runs held GPUs in the period, of this budget and all below it."""
    committed: ShownGpuHours
    """The same, and what the present runs may still hold until an orderly end."""
    released: ShownGpuHours
    """GPU-hours of the amount that are for the time so far and the next ten days. Beyond them no job begins."""


class GpuTimeStatus(ApiModel):
    """GPU-time that runs held."""

    gpu_type: Annotated[str, Field(max_length=253)] = ""
    """The GPU type; empty if it was never known."""
    gpu_microseconds: Annotated[int, Field(ge=0)]
    """GPUs times microseconds."""


def _gpu_time_from(gpu_time: Mapping[str, int]) -> tuple[GpuTimeStatus, ...]:
    return tuple(
        [GpuTimeStatus(gpu_type=name, gpu_microseconds=micros) for name, micros in sorted(gpu_time.items()) if micros]
    )


def _gpu_time_of(listed: Iterable[GpuTimeStatus]) -> Mapping[str, int]:
    return {each.gpu_type: each.gpu_microseconds for each in listed}


ATTRIBUTIONS_SHOWN: Final = 100
"""Number of purposes of spending that a status shows."""


class PeriodSpent(Mirror[PastPeriod]):
    """A past period."""

    APART = frozenset(("borrowed", "gpu_time"))

    start: Time
    """When the period began."""
    spent: Amount
    """Dollars spent in the period."""
    aim: Amount | None = None
    """Dollars that were to be spent in the period: the amount and the sum carried over."""
    borrowed: Annotated[tuple[BorrowedStatus, ...], Field(max_length=LENDERS_KEPT, json_schema_extra=ATOMIC)] = ()
    """Dollars spent beyond aim, lent by budgets that spent less than their aims. Kept for 12 periods."""
    gpu_time: Annotated[tuple[GpuTimeStatus, ...], Field(max_length=_GPU_TYPES_KEPT, json_schema_extra=ATOMIC)] = ()
    """GPU-time that runs held in the period, by GPU type."""

    @classmethod
    def from_domain(cls, period: PastPeriod) -> Self:
        """The model of the period."""
        lent = tuple(BorrowedStatus(lender=name, amount=amount) for name, amount in period.borrowed.items())
        return cls.copy_of(period, borrowed=lent, gpu_time=_gpu_time_from(period.gpu_time))

    def to_domain(self) -> PastPeriod:
        """The domain value of the period."""
        borrowed = {BudgetId(each.lender): each.amount for each in self.borrowed}
        return joined(PastPeriod, self, borrowed=borrowed, gpu_time=_gpu_time_of(self.gpu_time))


_NO_PROFILE: Final = "(none)"
"""The name of the class of all jobs without a profile. With an empty name, its row could be taken for another's."""


class ClassCost(PartOf[ClassHistory]):
    """Costs of the finished jobs of a class: sums in which the weight of a job halves in 30 days."""

    APART = frozenset(("name",))

    name: Annotated[str, Field(max_length=317)] = ""
    """The SpeedupProfile as namespace/name, or "(none)" for jobs without a profile."""
    jobs: Annotated[float, Field(ge=0)]
    """Number of jobs."""
    predicted: Annotated[float, Field(ge=0)]
    """Dollars predicted for them when they were first given GPUs."""
    actual: Annotated[float, Field(ge=0)]
    """Dollars that they cost."""

    @classmethod
    def from_domain(cls, name: ClassId, history: ClassHistory) -> Self:
        """The model of the sums."""
        return cls.copy_of(history, name=str(name) or _NO_PROFILE)

    def to_domain(self, statistics: ClassCostStatistics) -> ClassHistory:
        """The history of the class, with the statistics from the machine state."""
        return joined(ClassHistory, self, statistics)


class GPUBudgetRecord(PartOf[Balance]):
    """The ledger: written once for each event, never recomputed."""

    APART = frozenset(("period_start", "settled", "lifetime", "folded", "classes", "machine_state", "gpu_time"))

    period_start: Time | None = None
    """When the current period began."""
    settled: Amount | None = None
    """Dollars that rentals which have ended cost in the current period."""
    lifetime: Amount | None = None
    """Dollars that all rentals which have ever ended cost."""
    folded: Annotated[tuple[str, ...], Field(max_length=FOLDED_KEPT, json_schema_extra=ATOMIC)] = ()
    """UIDs of rentals that are counted in settled and lifetime and whose objects may still exist."""
    history: Annotated[tuple[PeriodSpent, ...], Field(max_length=PERIODS_KEPT, json_schema_extra=ATOMIC)] = ()
    """Past periods, oldest first."""
    carried: Annotated[SignedAmount | None, Absent(ZERO)] = None
    """Dollars carried over from the previous period; negative if it was overspent."""
    classes: Annotated[tuple[ClassCost, ...], Field(max_length=1_000, json_schema_extra=ATOMIC)] = ()
    """Costs of finished jobs by class. From them Charterer learns how far its predictions are off."""
    jobs_cost: Annotated[Amount | None, Absent(ZERO)] = None
    """Dollars that the GPUs of all finished jobs cost, without idle and starting nodes."""
    counted_through: Time | None = None
    """All jobs that finished up to this time are counted in classes and jobsCost."""
    costs: Annotated[BudgetCosts | None, Absent(Costs())] = None
    """The dollars spent by cause, since this budget exists."""
    gpu_time: Annotated[tuple[GpuTimeStatus, ...], Field(max_length=_GPU_TYPES_KEPT, json_schema_extra=ATOMIC)] = ()
    """GPU-time for which runs held GPUs of rentals that have ended, in the current period, by GPU type."""
    machine_state: PackedStatistics | None = None
    """The statistics behind classes, and the UIDs of the jobs that are counted in it and finished after countedThrough.
    If this field is deleted, costs of classes are learned again."""

    @classmethod
    def from_domain(cls, balance: Balance | None) -> Self:
        """The model of the ledger. None: no period was opened yet.

        No rental's uid is ever dropped. If there are more uids of counted jobs than fit, ``counted_through`` advances
        to the last dropped job. So no job is counted twice; a job that becomes known later than that is not counted.
        """
        if balance is None:
            return cls()
        statistics = BudgetStatistics(
            classes={
                str(name): ClassCostStatistics.copy_of(history)
                for name, history in sorted(balance.class_history.items())
            },
            counted=dict(sorted(balance.counted.items())),
        )
        nothing = balance.counted_through is None and statistics == BudgetStatistics()
        machine_state, kept = (None, None) if nothing else packed(statistics)
        counted = {} if kept is None else kept.counted
        left_out = [finished for uid, finished in balance.counted.items() if uid not in counted]
        through = [*left_out, *([] if balance.counted_through is None else [balance.counted_through])]
        return cls.copy_of(
            balance,
            period_start=balance.period_start,
            settled=balance.settled,
            lifetime=balance.lifetime,
            folded=tuple(sorted(balance.folded)),
            classes=tuple(
                ClassCost.from_domain(name, history) for name, history in sorted(balance.class_history.items())
            ),
            counted_through=max(through, default=None),
            gpu_time=_gpu_time_from(balance.gpu_time),
            machine_state=machine_state,
        )

    def to_domain(self) -> tuple[Balance | None, str]:
        """The ledger, None before the first period was opened, and a description of its unreadable part.

        Without its statistics the costs of classes are learned again. Jobs that finished within the time in which uids
        are kept then count as counted, so that none is counted twice in ``jobs_cost``.
        """
        if self.period_start is None:
            return None, ""
        statistics, unreadable = None, ""
        try:
            statistics = PackedStatistics.unpacked(self.machine_state, BudgetStatistics)
        except ValueError as error:
            unreadable = str(error)
        through = self.counted_through
        if statistics is None:
            through = None if through is None else after(through, UIDS_KEPT_SECONDS)
            statistics = BudgetStatistics()
        histories = {
            ClassId.parse(name): cost.to_domain(statistics.classes[name])
            for cost in self.classes
            if (name := cost.name.removeprefix(_NO_PROFILE)) in statistics.classes
        }
        balance = joined(
            Balance,
            self,
            period_start=self.period_start,
            settled=self.settled or ZERO,
            lifetime=self.lifetime or ZERO,
            folded=frozenset(self.folded),
            class_history=histories,
            counted=statistics.counted,
            counted_through=through,
            gpu_time=_gpu_time_of(self.gpu_time),
        )
        return balance, unreadable


class SpentOn(ApiModel):
    """A purpose, and the dollars spent on it."""

    name: Annotated[str, Field(max_length=317)]
    """A job as namespace/name, or a purpose in parentheses such as (idle)."""
    spent: Cents
    """Dollars in the current period, rounded to the cent."""


class BudgetState(StrEnum):
    """The state of a GPUBudget."""

    READY = "Ready"
    OBSERVING = "Observing"
    LIMITED = "Limited"
    TOO_SMALL = "TooSmall"
    OVERSPENT = "Overspent"
    CLOCK_BEHIND = "ClockBehind"
    CLOSED = "Closed"
    NO_POOL = "NoPool"
    NO_NAMESPACE = "NoNamespace"
    INVALID = "Invalid"
    STOPPED = "Stopped"
    DELETING = "Deleting"


class ArrivalsStatus(ApiModel):
    """The arrival rate of the budget's jobs."""

    per_hour: Annotated[str, Field(max_length=20)]
    """Jobs an hour, of all classes."""
    basis: ArrivalsBasis
    """Assumed (from the amount, as long as too few jobs were seen), Counted (after a day and ten batches) or Declared
    (spec.arrivalsPerHour of the SpeedupProfiles)."""
    batches: Annotated[int, Field(ge=0)]
    """Number of recent batches of jobs. Jobs that come within an hour of each other are one batch."""

    @classmethod
    def from_domain(cls, arrivals: ArrivalsVerdict) -> Self:
        """The model of the arrivals."""
        return cls(per_hour=f"{arrivals.per_hour:.3g}", basis=arrivals.basis, batches=arrivals.batches)


class GPUBudgetView(ApiModel):
    """The budget's present state, for people. Dollars are rounded to the cent."""

    observed_generation: int | None = None
    """The metadata.generation that the view describes."""
    state: BudgetState | None = None
    """Ready, Observing (mode Observe), Limited (jobs wait for money), TooSmall (even the cheapest options of the jobs
    cost more), Overspent, ClockBehind (the period has not begun by the operator's clock: nothing new is started),
    Closed (its grant has not begun or is over), NoPool (spec.poolSelector selects no GPUPool), NoNamespace (it pays for
    no namespace), Invalid, Stopped (a person has stopped the operator) or Deleting."""
    spent: Cents | None = None
    """Dollars spent in the current period, running nodes included."""
    committed: Cents | None = None
    """Dollars that the current period will cost at most if nothing more is rented."""
    adopted: int | None = None
    """Number of Jobs and other objects of teams that are adopted or held, and have not ended. Absent: none."""
    in_sight: Cents | None = None
    """Dollars that the nodes of running and waiting jobs still cost in the period, until they can be given back."""
    to_come: Cents | None = None
    """Dollars that the jobs of arrivals are expected to cost until the end of the period."""
    arrivals: ArrivalsStatus | None = None
    """How often jobs come."""
    forecast: Cents | None = None
    """Dollars expected to be spent by the end of the period. Absent while the arrivals are assumed."""
    forecast_low: Cents | None = None
    """Lower end of the 90 % interval of forecast."""
    forecast_high: Cents | None = None
    """Upper end of the 90 % interval of forecast."""
    effective_amount: Cents | None = None
    """Dollars that this budget and all below it may aim at together. If the amounts of all budgets with one parent
    exceed the parent's, each is reduced in proportion. Absent without parent and children."""
    remaining: SignedCents | None = None
    """Unspent dollars of the amount, of the sum that was carried over, and of loans; negative if overspent."""
    loans: Annotated[tuple[LoanStatus, ...], Field(max_length=LOANS_SHOWN, json_schema_extra=ATOMIC)] = ()
    """Loans of this period between this budget and others, largest first. Each plan decides the loans again."""
    shares: Annotated[tuple[ShareStatus, ...], Field(max_length=SHARES + 1, json_schema_extra=ATOMIC)] = ()
    """The shares of spec.shares that have jobs. Each plan divides the money anew."""
    gpu_hours: Annotated[tuple[GpuHoursStatus, ...], Field(max_length=GPU_TYPES, json_schema_extra=ATOMIC)] = ()
    """The amounts of spec.gpuHours, and what is used of them. Each counts this budget and all below it."""
    gpu_hours_used: Annotated[str, Field(max_length=1_000)] = ""
    """The same in words, for the column GPU-Hours."""
    with_descendants: DescendantsStatus | None = None
    """The dollars of this budget and all budgets below it. Absent if no budget names this one as its parent."""
    hourly: Hourly | None = None
    """Dollars per hour that the rented nodes cost now."""
    pays_per_hour_saved: Cents | None = None
    """Dollars paid to complete a job of weight 1 an hour earlier: the exchange rate between money and time. Absent if
    the amount is 0, or if there is no job and none is expected."""
    in_currency: InCurrency | None = None
    """The amounts in the currency of the spec, if that is not USD."""
    attribution: Annotated[tuple[SpentOn, ...], Field(max_length=ATTRIBUTIONS_SHOWN, json_schema_extra=ATOMIC)] = ()
    """The spent dollars by purpose, largest first."""
    conditions: Conditions = ()
    """Ready, WithinBudget, PriceDataFresh; Overlaps where other budgets select its namespaces; CurrencyRateCurrent
    with another currency; WithinGpuHours with gpuHours; UsersKnown with shares of users; LeftRunning while it only
    observes and nodes are rented;
    CostsRecorded with a record of costs; CommitmentsCovered with commitments; Stopped while a person has stopped the
    operator; Stalled while the object cannot be read."""


class GPUBudgetStatus(GPUBudgetView, GPUBudgetRecord):
    """The ledger, and the budget's present state."""
