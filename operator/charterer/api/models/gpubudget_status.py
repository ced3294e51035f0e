"""GPUBudget.status: the record (the ledger) and the view of the budget's present state."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import Field

from charterer.api.models.base import (
    ATOMIC,
    Amount,
    ApiModel,
    Cents,
    Conditions,
    Hourly,
    SignedAmount,
    SignedCents,
    Time,
)
from charterer.api.models.budgets.costs import BudgetCosts
from charterer.api.models.budgets.currency import InCurrency
from charterer.api.models.budgets.descendants_status import DescendantsStatus
from charterer.api.models.budgets.loan_status import LOANS_SHOWN, BorrowedStatus, LoanStatus
from charterer.api.models.statistics.budget_statistics import BudgetStatistics, ClassCostStatistics
from charterer.api.models.statistics.machine_state import PackedStatistics, packed
from charterer.domain.budget import (
    FOLDED_KEPT,
    LENDERS_KEPT,
    PERIODS_KEPT,
    Balance,
    ClassHistory,
    Costs,
    PastPeriod,
)
from charterer.domain.ids import BudgetId, ClassId
from charterer.domain.money import ZERO
from charterer.domain.plan import ArrivalsBasis, ArrivalsVerdict
from charterer.domain.time import after
from charterer.ledger.class_history import UIDS_KEPT_SECONDS

ATTRIBUTIONS_SHOWN: Final = 100
"""Number of receivers of money that a status shows."""


class PeriodSpent(ApiModel):
    """A past period."""

    start: Time
    """When the period began."""
    spent: Amount
    """Dollars spent in the period."""
    aim: Amount | None = None
    """Dollars that were to be spent in the period: the amount and what was carried over."""
    borrowed: Annotated[tuple[BorrowedStatus, ...], Field(max_length=LENDERS_KEPT, json_schema_extra=ATOMIC)] = ()
    """What was spent beyond aim and lent by other budgets, which spent less than their aims. Kept for 12 months."""

    @classmethod
    def from_domain(cls, period: PastPeriod) -> Self:
        """The period as it is recorded."""
        lent = tuple(BorrowedStatus(lender=name, amount=amount) for name, amount in period.borrowed.items())
        return cls(start=period.start, spent=period.spent, aim=period.aim, borrowed=lent)

    def to_domain(self) -> PastPeriod:
        """The period as it was recorded."""
        lent = {BudgetId(each.lender): each.amount for each in self.borrowed}
        return PastPeriod(self.start, self.spent, self.aim, lent)


_NO_PROFILE: Final = "(none)"
"""The name of the class of all jobs without a profile: with an empty one its row would be taken for another's."""


class ClassCost(ApiModel):
    """Costs of the finished jobs of a class: sums in which the weight of a job halves in 30 days."""

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
        """The sums as they are recorded."""
        return cls(name=str(name) or _NO_PROFILE, jobs=history.jobs, predicted=history.predicted, actual=history.actual)

    def to_domain(self, statistics: ClassCostStatistics) -> ClassHistory:
        """The history of the class, with the statistics that the machine state holds."""
        return ClassHistory(jobs=self.jobs, predicted=self.predicted, actual=self.actual, **dict(statistics))


class GPUBudgetRecord(ApiModel):
    """The ledger: written once for each event, never recomputed."""

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
    carried: SignedAmount | None = None
    """Dollars carried over from the previous period; negative if it was overspent."""
    classes: Annotated[tuple[ClassCost, ...], Field(max_length=1_000, json_schema_extra=ATOMIC)] = ()
    """Costs of finished jobs by class. From them Charterer learns how far its predictions are off."""
    jobs_cost: Amount | None = None
    """Dollars that the GPUs of all finished jobs cost, without idle and starting nodes."""
    counted_through: Time | None = None
    """All jobs that finished up to this time are counted in classes and jobsCost."""
    costs: BudgetCosts | None = None
    """The dollars spent by cause, since this budget exists."""
    machine_state: PackedStatistics | None = None
    """The statistics behind classes, and the UIDs of the jobs that are counted in it and finished after countedThrough.
    If this is deleted, costs of classes are learned anew."""

    @classmethod
    def from_domain(cls, balance: Balance | None) -> Self:
        """The ledger as it is recorded. None: no period was opened yet.

        No rental's uid is ever left out. If there are more uids of counted jobs than fit, ``counted_through`` moves on
        to the last one left out: then a job is never counted twice, and one that comes to light later not at all.
        """
        if balance is None:
            return cls()
        statistics = BudgetStatistics(
            classes={
                str(name): ClassCostStatistics.from_domain(history)
                for name, history in sorted(balance.class_history.items())
            },
            counted=dict(sorted(balance.counted.items())),
        )
        nothing = balance.counted_through is None and statistics == BudgetStatistics()
        machine_state, kept = (None, None) if nothing else packed(statistics)
        counted = {} if kept is None else kept.counted
        left_out = [finished for uid, finished in balance.counted.items() if uid not in counted]
        through = [*left_out, *([] if balance.counted_through is None else [balance.counted_through])]
        return cls(
            period_start=balance.period_start,
            settled=balance.settled,
            lifetime=balance.lifetime,
            folded=tuple(sorted(balance.folded)),
            history=tuple(PeriodSpent.from_domain(period) for period in balance.history),
            carried=None if balance.carried == ZERO else balance.carried,
            classes=tuple(
                ClassCost.from_domain(name, history) for name, history in sorted(balance.class_history.items())
            ),
            jobs_cost=None if balance.jobs_cost == ZERO else balance.jobs_cost,
            counted_through=max(through, default=None),
            costs=BudgetCosts.from_domain(balance.costs),
            machine_state=machine_state,
        )

    def to_domain(self) -> tuple[Balance | None, str]:
        """The ledger as it was recorded, None before the first period was opened; and what of it cannot be read.

        Without its statistics the costs of classes are learned anew. Jobs that finished within the time in which uids
        are kept count as counted then, so that none is counted twice in ``jobs_cost``.
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
        balance = Balance(
            period_start=self.period_start,
            settled=self.settled or ZERO,
            lifetime=self.lifetime or ZERO,
            folded=frozenset(self.folded),
            history=tuple(period.to_domain() for period in self.history),
            carried=self.carried or ZERO,
            class_history=histories,
            jobs_cost=self.jobs_cost or ZERO,
            counted=statistics.counted,
            counted_through=through,
            costs=Costs() if self.costs is None else self.costs.to_domain(),
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
    NO_POOL = "NoPool"
    NO_NAMESPACE = "NoNamespace"
    INVALID = "Invalid"
    STOPPED = "Stopped"
    DELETING = "Deleting"


class ArrivalsStatus(ApiModel):
    """How often the budget's jobs come."""

    per_hour: Annotated[str, Field(max_length=20)]
    """Jobs an hour, of all classes."""
    basis: ArrivalsBasis
    """Assumed (from the amount, as long as too few jobs were seen), Counted (after a day and ten batches) or Declared
    (spec.arrivalsPerHour of the SpeedupProfiles)."""
    batches: Annotated[int, Field(ge=0)]
    """Number of batches of jobs seen lately: jobs that come within an hour of each other are one."""

    @classmethod
    def from_domain(cls, arrivals: ArrivalsVerdict) -> Self:
        """The arrivals as they are shown."""
        return cls(per_hour=f"{arrivals.per_hour:.3g}", basis=arrivals.basis, batches=arrivals.batches)


class GPUBudgetView(ApiModel):
    """The budget's present state, for people. Dollars are rounded to the cent."""

    observed_generation: int | None = None
    """The metadata.generation that the view describes."""
    state: BudgetState | None = None
    """Ready, Observing (mode Observe), Limited (jobs wait for money), TooSmall (even the cheapest options of the jobs
    cost more), Overspent, ClockBehind (the period has not begun by the operator's clock: nothing new is started),
    NoPool (spec.poolSelector selects no GPUPool), NoNamespace (it pays for no namespace), Invalid, Stopped (a person
    has stopped the operator) or Deleting."""
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
    """Dollars of spec.amount that this budget may aim at with all below it: less than spec.amount where budgets with
    one parent ask for more than it has, each in proportion. Absent without parent and children."""
    remaining: SignedCents | None = None
    """Dollars of the amount, of what was carried over and of loans, that are not spent; negative if overspent."""
    loans: Annotated[tuple[LoanStatus, ...], Field(max_length=LOANS_SHOWN, json_schema_extra=ATOMIC)] = ()
    """Loans of this month between this budget and others, largest first. Each plan decides them anew."""
    with_descendants: DescendantsStatus | None = None
    """The same of this budget and all below it. Absent where no budget names this one as its parent."""
    hourly: Hourly | None = None
    """Dollars per hour that the rented nodes cost now."""
    pays_per_hour_saved: Cents | None = None
    """Dollars paid to complete a job of weight 1 an hour earlier: the exchange rate between money and time.
    Absent where the amount is 0, or where there is no job, and none is expected."""
    in_currency: InCurrency | None = None
    """The amounts in the currency of the spec, if that is not USD."""
    attribution: Annotated[tuple[SpentOn, ...], Field(max_length=ATTRIBUTIONS_SHOWN, json_schema_extra=ATOMIC)] = ()
    """The spent dollars by purpose, largest first."""
    conditions: Conditions = ()
    """Ready, WithinBudget, PriceDataFresh, Overlaps, CurrencyRateCurrent; Stopped while a person has stopped the
    operator."""


class GPUBudgetStatus(GPUBudgetView, GPUBudgetRecord):
    """The ledger, and the budget's present state."""
