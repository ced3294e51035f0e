"""GPUBudget: the spec, its conversion to a domain value, and the kind."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import ConfigDict, Field, model_validator

from charterer.api.metadata import ObjectMeta
from charterer.api.models.base import (
    ATOMIC,
    MAX_COST_ABOVE_ZERO,
    Absent,
    ApiModel,
    LabelKey,
    Labels,
    LabelValue,
    Mirror,
    Named,
    ObjectName,
    PartOf,
    PrinterColumn,
    ResourceKind,
    Rule,
    SpecAmount,
    SpecGpuHours,
    SpecHourly,
    joined,
    keyed_by,
    label_key,
    ruled,
    rules,
)
from charterer.api.models.gpubudget_status import (
    GPU_TYPES,
    SHARES,
    CurrencyRate,
    Day,
    GPUBudgetRecord,
    GPUBudgetStatus,
    GpuType,
)
from charterer.api.names import FINALIZER_IN_USE
from charterer.domain.budget import (
    EVERYTHING,
    NOTHING,
    Budget,
    Currency,
    GpuHours,
    JobShare,
    Mode,
    MoveLimits,
    Selector,
)
from charterer.domain.ids import BudgetId, Rate
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.time import Calendar, Grant, Period, QuietHours, Weekday


class MatchExpression(ApiModel):
    """One requirement on a label."""

    model_config = ruled(
        Rule(
            "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 "
            ": !has(self.values) || size(self.values) == 0",
            "In and NotIn need values; Exists and DoesNotExist take none",
        )
    )

    key: LabelKey
    """Key of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label is compared with the values: In, NotIn, Exists or DoesNotExist."""
    values: Annotated[tuple[LabelValue, ...], Field(max_length=32, json_schema_extra=ATOMIC)] = ()
    """The values for In and NotIn."""

    @model_validator(mode="after")
    def _has_the_values_of_its_operator(self) -> Self:
        if bool(self.values) != (self.operator in ("In", "NotIn")):
            needs = "takes no values" if self.values else "needs values"
            raise ValueError(f"operator {self.operator} of key {self.key!r} {needs}")
        return self


class LabelSelector(ApiModel):
    """A label selector as everywhere in Kubernetes; {} selects all."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    match_labels: Labels = Field(default_factory=dict)
    """Labels that the object must have, with these values."""
    match_expressions: Annotated[tuple[MatchExpression, ...], Field(max_length=32, json_schema_extra=ATOMIC)] = ()
    """Further requirements. All of them must hold."""

    def to_domain(self) -> Selector:
        """The selector as a domain value."""
        return Selector(
            match_labels=tuple(sorted(self.match_labels.items())),
            match_expressions=tuple(
                (expression.key, expression.operator, expression.values) for expression in self.match_expressions
            ),
        )


class PriorityWeight(ApiModel):
    """The weight of jobs with a priorityClassName."""

    priority_class_name: ObjectName
    """Name of the priority class."""
    weight: Annotated[float, Field(gt=1e-6, le=1e6)]
    """Weight of a job with this priority class. An hour of a job with weight 2 is worth twice the dollars of an hour of
    a job with weight 1."""


_DAY_TIME = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"


class QuietHoursSpec(ApiModel):
    """Hours in which no running job is moved for money, to another number of GPUs or another node."""

    model_config = ruled(Rule("self.start != self.end", "start and end are the same: give hours that last"))

    start: Annotated[str, Field(pattern=_DAY_TIME, max_length=5)]
    """When the hours begin, such as "08:00", in timeZone."""
    end: Annotated[str, Field(pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$", max_length=5)]
    """When the hours end, such as "18:00" or "24:00". If end is earlier than start, they end on the next day."""
    days: Annotated[tuple[Weekday, ...], Field(max_length=7, json_schema_extra={"x-kubernetes-list-type": "set"})] = ()
    """The days of the week on which the hours begin. Absent: every day."""

    def to_domain(self) -> QuietHours:
        """The hours, in minutes since midnight."""
        return QuietHours(_minutes(self.start), _minutes(self.end), frozenset(self.days))


def _minutes(time_of_day: str) -> int:
    hours, minutes = time_of_day.split(":")
    return int(hours) * 60 + int(minutes)


class Moves(Mirror[MoveLimits]):
    """Limits on resizing running jobs. A job that lost its nodes is restarted at any time."""

    max_per_job_per_day: Annotated[Annotated[int, Field(ge=0, le=1_000)] | None, Named("per_job_and_day")] = None
    """Maximum number of times that a job may be moved for money in any 24 hours, to another number of GPUs or another
    node. Absent: no maximum."""
    quiet_hours: Annotated[tuple[QuietHoursSpec, ...], Field(max_length=32, json_schema_extra=ATOMIC)] = ()
    """Hours in which no running job is moved for money, to another number of GPUs or another node."""


class Loans(StrEnum):
    """Whether budgets with one parent lend each other money."""

    NEVER = "Never"
    ALLOWED = "Allowed"


GRANT_WITH_ITS_PERIOD: Final = (
    "grant says from which day to which day the amount is for: give it with period Grant, such as "
    '{from: "2027-01-01", until: "2027-09-30"}, and leave it out with any other period'
)
NOTHING_AFTER_A_GRANT: Final = "carryOverPercent must be 0 with period Grant: no period comes after it"
PERIOD_ONCE: Final = (
    "period, grant and the timeZone of a grant cannot be changed, because the ledger counts by them: delete the "
    "GPUBudget and create it anew, with what it has spent in the new period as openingSpend"
)
WHOSE_SHARE: Final = "say whose jobs they are: user, namespace, label, or several, of which all have to hold"
_ROUNDING: Final = 1e-9
_GRANT_DAYS = 3_653
"""Maximum days of a grant: ten years."""
_IN_ORDER: Final = "until must be the day of from or a later one: both days are part of the grant"
_NOT_LONGER: Final = "a grant lasts at most ten years (3653 days): make until earlier, or use period Year"
_YEARS: Final = "from and until must be days of the years 2000 to 2999"


class GrantSpec(Mirror[Grant]):
    """The days for which money is granted, in timeZone."""

    model_config = ruled(
        Rule("self.from <= self.until", _IN_ORDER, ".until"),
        Rule(
            "self.from > self.until || self.until - self.from < duration('87672h') || "
            "self.until >= timestamp('3000-01-01T00:00:00Z') || self.from < timestamp('2000-01-01T00:00:00Z')",
            _NOT_LONGER,
            ".until",
        ),
        Rule(
            "self.from > self.until || (self.from >= timestamp('2000-01-01T00:00:00Z') && "
            "self.until < timestamp('3000-01-01T00:00:00Z'))",
            _YEARS,
        ),
    )

    first: Annotated[Day, Field(alias="from")]
    """The first day, such as "2027-01-01"."""
    last: Annotated[Day, Field(alias="until")]
    """The last day, such as "2027-09-30". Money may be spent until the end of this day."""

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        said = f"from is {self.first.isoformat()} and until is {self.last.isoformat()}"
        if self.last < self.first:
            raise ValueError(f"{said}: {_IN_ORDER}")
        if not 2000 <= self.first.year <= self.last.year < 3000:
            raise ValueError(f"{said}: {_YEARS}")
        if self.to_domain().days > _GRANT_DAYS:
            raise ValueError(f"{said}: {_NOT_LONGER}")
        return self


class JobDefaults(ApiModel):
    """Defaults for jobs that do not set these fields themselves."""

    model_config = ruled(MAX_COST_ABOVE_ZERO)

    max_cost: SpecAmount | None = None
    """Maximum dollars that a job without a maxCost of its own may cost, counted as spec.maxCost of a TrainingJob is.
    Absent: no maximum. A job that has cost more already is stopped, with its grace period."""


class ShareLabel(ApiModel):
    """A label of jobs."""

    model_config = ruled(
        Rule(
            "!format.qualifiedName().validate(self.key).hasValue()",
            "key must be the key of a label, such as example.com/project",
            ".key",
        )
    )

    key: Annotated[str, Field(min_length=1, max_length=317)]
    """Its key, such as example.com/project."""
    value: LabelValue
    """Its value."""

    @model_validator(mode="after")
    def _has_a_key(self) -> Self:
        label_key(self.key)
        return self


class ShareSpec(ApiModel):
    """A part of the budget's money for some of its jobs."""

    model_config = ruled(
        Rule(
            "has(self.percent) != has(self.amount)",
            'say how much it is: percent, such as 25, or amount, such as "5000", and not both',
        ),
        Rule("has(self.user) || has(self.namespace) || has(self.label)", WHOSE_SHARE),
    )

    name: ObjectName
    """Its name, by which messages and status.shares call it."""
    user: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """The user who created the jobs, as the API server calls them and the annotation charterer.dev/created-by says.
    Where users are not known (condition UsersKnown), it has no jobs."""
    namespace: ObjectName | None = None
    """The namespace of the jobs."""
    label: ShareLabel | None = None
    """A label of the jobs."""
    percent: Annotated[int, Field(ge=1, le=100)] | None = None
    """Percent of the money."""
    amount: SpecAmount | None = None
    """The same as a part of the budget's amount, in its currency, as a decimal string."""

    @model_validator(mode="after")
    def _says_whose_and_how_much(self) -> Self:
        if (self.percent is None) == (self.amount is None):
            raise ValueError(f"share {self.name}: say either percent or amount")
        if self.user is None and self.namespace is None and self.label is None:
            raise ValueError(f"share {self.name}: {WHOSE_SHARE}")
        return self

    def to_domain(self, whole: Money) -> JobShare:
        """The share of an amount."""
        part = (self.percent or 0) / 100 if self.amount is None else self.amount.micros / max(whole.micros, 1)
        label = None if self.label is None else (self.label.key, self.label.value)
        return JobShare(self.name, part, self.user, self.namespace, label)


class GpuHoursSpec(Mirror[GpuHours]):
    """GPU-hours of a GPU type for each period."""

    gpu_type: GpuType
    """The GPU type as GPUPools call it (status.offering.gpuType), such as NVIDIA-H100-80GB-HBM3."""
    amount: SpecGpuHours
    """GPU-hours that the runs of this budget and all below it may hold in each period, as a decimal string such as
    "2000". They are never passed: runs are stopped before, with their grace period. Jobs begin as long as no more is
    used than the even part for the time so far and the next ten days."""


class GPUBudgetSpec(PartOf[Budget]):
    """The amount that may be spent, and the namespaces that it is for."""

    APART = frozenset(
        (
            *("amount", "hard_limit", "opening_spend", "max_hourly_rate", "max_pays_per_hour_saved"),
            *("currency", "currency_rate", "period", "time_zone", "grant", "loans", "weights", "job_defaults"),
            "shares",
        )
    )

    model_config = ruled(
        Rule(
            "has(self.currencyRate) == (self.currency != 'USD')",
            "currencyRate says what a dollar costs in another currency: give it if currency is not USD, such as "
            '{perDollar: "0.92", asOf: "2026-11-01T00:00:00Z"}, and leave it out otherwise',
            ".currencyRate",
        ),
        Rule(
            "!has(self.hardLimit) || type(self.hardLimit) != string || type(self.amount) != string || "
            "!isQuantity(self.hardLimit) || !isQuantity(self.amount) || "
            "quantity(self.hardLimit).compareTo(quantity(self.amount)) >= 0",
            "hardLimit must be at least amount: a budget cannot aim at more than it may ever spend",
            ".hardLimit",
        ),
        Rule("has(self.grant) == (self.period == 'Grant')", GRANT_WITH_ITS_PERIOD, ".grant"),
        Rule(
            "self.period != 'Grant' || self.carryOverPercent == 0",
            NOTHING_AFTER_A_GRANT,
            ".carryOverPercent",
        ),
        Rule(
            "!has(self.shares) || self.shares.map(share, share.?percent.orValue(0)).sum() <= 100",
            "the percents of shares add up to more than 100: make some smaller",
            ".shares",
        ),
        Rule(
            "self.period == oldSelf.period && (self.period != 'Grant' || "
            "(self.grant == oldSelf.grant && self.timeZone == oldSelf.timeZone))",
            PERIOD_ONCE,
        ),
    )

    amount: SpecAmount
    """Dollars to spend in each period, or in the whole of a grant, as a decimal string such as "60000". Charterer makes
    jobs as fast as this amount allows. It leaves the rest unspent if no faster option can be bought."""
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$", max_length=3)] = "USD"
    """The currency of the amounts in this spec, by ISO 4217, such as EUR. The ledger stays in dollars, as the clouds
    bill."""
    currency_rate: CurrencyRate | None = None
    """The exchange rate, if currency is not USD. All amounts of this spec are then divided by
    currencyRate.perDollar."""
    period: Period = Period.MONTH
    """The period of the amount: a week (from Monday on), month, quarter or year of the calendar in timeZone, or Grant
    (from a day to a day, once)."""
    grant: GrantSpec | None = None
    """The days of period Grant. Before and after them nothing is rented, and all nodes are ended before the last day is
    over."""
    time_zone: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z][A-Za-z0-9_+/-]*$",
            max_length=64,
            json_schema_extra=rules(
                Rule(
                    "self != 'Local' && timestamp('2026-01-01T00:00:00Z').getFullYear(self) > 0",
                    "timeZone must be a name of the IANA time zone database, such as Europe/Berlin",
                )
            ),
        ),
    ] = "Etc/UTC"
    """The IANA time zone in which days and periods begin and end, such as Europe/Berlin."""
    namespace_selector: Annotated[LabelSelector | None, Named("selector"), Absent(NOTHING)] = None
    """The namespaces whose training jobs this budget pays for; {} selects all namespaces. Absent: none, for a budget
    that is only the parent of others. If a budget and its parent select a namespace, the lower budget pays for it. If
    several other budgets select a namespace, the oldest budget pays."""
    pool_selector: Annotated[LabelSelector | None, Absent(EVERYTHING)] = None
    """The GPUPools that this budget's money may rent, by the labels of the GPUPools. Absent: all GPUPools. A job that
    runs in a GPUPool that is no longer selected runs on there until it ends or moves."""
    parent: ObjectName | None = None
    """Another GPUBudget. Its hardLimit, maxHourlyRate and amount hold for this budget too, together with all others
    below it. The parent must have the same period and grant. While the parent differs in them or does not exist,
    nothing new is rented."""
    loans: Loans = Loans.NEVER
    """Allowed: this budget and those directly below it lend each other money that they are not forecast to need in this
    period. Limits stay as they are. Only budgets with the same period, timeZone and carryOverPercent take part."""
    mode: Mode = Mode.ENFORCE
    """Enforce: rent nodes and run jobs. Observe: only plan, and report the plan."""
    hard_limit: SpecAmount | None = None
    """Maximum dollars that can be spent in a period. A node is rented only if the worst-case cost of everything rented
    stays within this limit."""
    max_hourly_rate: SpecHourly | None = None
    """Maximum dollars per hour that all nodes rented for this budget may cost together."""
    max_pays_per_hour_saved: SpecHourly | None = None
    """Maximum dollars paid to complete a job of weight 1 an hour earlier. Absent: 5 times the hourly cost of the job at
    its preferred number of GPUs in the most expensive GPUPool that it may use. If any of these GPUPools ever gave a
    node, only those that did count. Money that buys nothing below this price stays unspent."""
    opening_spend: SpecAmount | None = None
    """Dollars that were already spent in the period in which this budget is created. "0": the whole amount is for the
    rest of that period. Absent: only the part of the amount for the rest of that period counts, as if it had been spent
    evenly before."""
    weights: Annotated[
        tuple[PriorityWeight, ...], Field(max_length=64, json_schema_extra=keyed_by("priorityClassName"))
    ] = ()
    """Weights of jobs by priority class. Jobs with another priority class, or with none, have weight 1."""
    carry_over_percent: Annotated[int, Field(ge=0, le=100)] = 0
    """Percent of a period's surplus or deficit that is carried over into the next period. Spending stays within
    hardLimit, however much is carried over. With period Grant it must be 0, because no period comes after a grant."""
    exploration_percent: Annotated[int, Field(ge=0, le=100)] = 2
    """Percent of amount that may be spent on measuring how fast jobs run on other numbers of GPUs. With 0, jobs are
    measured only where they run anyway."""
    job_defaults: JobDefaults | None = None
    """Defaults for the jobs that this budget pays for. A job's own field takes the place of its default. Jobs of
    budgets below this one do not get them."""
    shares: Annotated[tuple[ShareSpec, ...], Field(max_length=SHARES, json_schema_extra=keyed_by("name"))] = ()
    """Parts of the money of which some of the jobs are sure while they have work: by user, namespace or label. A job is
    of the first share that has it. What a share does not need goes to the others; all other jobs have what is left."""
    gpu_hours: Annotated[
        tuple[GpuHoursSpec, ...], Field(max_length=GPU_TYPES, json_schema_extra=keyed_by("gpuType"))
    ] = ()
    """GPU-hours by GPU type that may be used in each period, beside the dollars: for own nodes above all. GPU types
    that are not listed are limited by dollars alone."""
    moves: Annotated[Moves | None, Absent(MoveLimits())] = None
    """Limits on resizing running jobs. Absent: jobs are resized whenever that pays. Starts and restarts are not
    limited."""

    def to_domain(self, meta: ObjectMeta, record: GPUBudgetRecord) -> Budget:
        """The budget with its balance. Raises InvalidObject if its time zone is unknown here."""
        try:
            ZoneInfo(self.time_zone)
        except (LookupError, ValueError, OSError) as error:
            message = (
                f"{self.time_zone!r} is no time zone that this operator knows; use an IANA name like Europe/Berlin"
            )
            raise meta.invalid("spec.timeZone", "UnknownTimeZone", message) from error
        balance, unreadable = record.to_domain()
        currency = self.to_currency()

        def dollars(amount: Money | None) -> Money | None:
            return amount if amount is None or currency is None else currency.dollars(amount)

        def hourly(price: Price | None) -> Price | None:
            return price if price is None or currency is None else currency.dollars_hourly(price)

        ceiling = hourly(self.max_pays_per_hour_saved)
        return joined(
            Budget,
            meta,
            self,
            id=BudgetId(meta.name),
            amount=dollars(self.amount) or ZERO,
            calendar=Calendar(self.time_zone, self.period, None if self.grant is None else self.grant.to_domain()),
            hard_limit=dollars(self.hard_limit),
            max_hourly_rate=hourly(self.max_hourly_rate),
            opening_spend=dollars(self.opening_spend),
            weights=tuple((item.priority_class_name, item.weight) for item in self.weights),
            balance=balance,
            guarded=FINALIZER_IN_USE in meta.finalizers,
            rate_ceiling=None if ceiling is None else Rate(ceiling.dollars_per_second),
            unreadable=unreadable,
            currency=currency,
            lends=self.loans is Loans.ALLOWED,
            job_shares=tuple([share.to_domain(self.amount) for share in self.shares]),
            job_max_cost=None if self.job_defaults is None else dollars(self.job_defaults.max_cost),
        )

    @model_validator(mode="after")
    def _lists_each_gpu_type_once(self) -> Self:
        types = [each.gpu_type for each in self.gpu_hours]
        twice = sorted({name for name in types if types.count(name) > 1})
        if twice:
            raise ValueError(f"gpuHours: {twice[0]} is listed twice: give each gpuType once")
        return self

    def to_currency(self) -> Currency | None:
        """The currency of the amounts; None for dollars."""
        rate = self.currency_rate
        return None if rate is None else Currency(self.currency, rate.per_dollar, rate.as_of)

    @model_validator(mode="after")
    def _shares_no_more_than_there_is(self) -> Self:
        shares = [share.to_domain(self.amount) for share in self.shares]
        if any(share.amount is not None for share in self.shares) and self.amount == ZERO:
            raise ValueError("shares: amount is 0, so that no share can be an amount of it: say percent")
        whole = sum(share.part for share in shares)
        if whole > 1.0 + _ROUNDING:
            told = ", ".join(f"{share.name} {share.part:.1%}" for share in shares)
            raise ValueError(f"shares: they add up to {whole:.1%} of amount ({told}): make some smaller")
        return self

    @model_validator(mode="after")
    def _has_a_grant_if_that_is_its_period(self) -> Self:
        if (self.grant is not None) != (self.period is Period.GRANT):
            raise ValueError(f"period is {self.period}: {GRANT_WITH_ITS_PERIOD}")
        if self.grant is not None and self.carry_over_percent:
            raise ValueError(f"carryOverPercent is {self.carry_over_percent}: {NOTHING_AFTER_A_GRANT}")
        return self

    @model_validator(mode="after")
    def _says_what_a_dollar_costs(self) -> Self:
        if (self.currency_rate is None) != (self.currency == "USD"):
            raise ValueError(
                f"currency is {self.currency}: spec.currencyRate says what a dollar costs in it, and is given if that "
                'is not USD, such as {perDollar: "0.92", asOf: "2026-11-01T00:00:00Z"}'
            )
        return self


GPU_BUDGET = ResourceKind(
    kind="GPUBudget",
    plural="gpubudgets",
    short="gbud",
    namespaced=False,
    description="A budget in dollars a month, or another period, for the training jobs of the selected namespaces.",
    spec=GPUBudgetSpec,
    status=GPUBudgetStatus,
    columns=(
        PrinterColumn("Mode", ".spec.mode"),
        PrinterColumn("Amount", ".spec.amount", description="What may be spent in a period"),
        PrinterColumn("Period", ".spec.period", wide=True),
        PrinterColumn("Currency", ".spec.currency", description="Of the amount"),
        PrinterColumn("Spent($)", ".status.spent"),
        PrinterColumn("Committed($)", ".status.committed"),
        PrinterColumn("Forecast($)", ".status.forecast"),
        PrinterColumn(
            "Pays/h-saved", ".status.paysPerHourSaved", description="Dollars paid to complete a job an hour earlier"
        ),
        PrinterColumn("State", ".status.state"),
        PrinterColumn("Parent", ".spec.parent", wide=True),
        PrinterColumn(
            "Spent-With-Below($)",
            ".status.withDescendants.spent",
            wide=True,
            description="Spent by this budget and all below it",
        ),
        PrinterColumn("Hard-Limit", ".spec.hardLimit", wide=True, description="In the currency of the amount"),
        PrinterColumn("Hourly($/h)", ".status.hourly", wide=True),
        PrinterColumn("Remaining($)", ".status.remaining", wide=True),
        PrinterColumn("GPU-Hours", ".status.gpuHoursUsed", wide=True, description="Used of spec.gpuHours, by GPU type"),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
    ),
    selectable=(".status.state", ".spec.parent"),
    root_rules=(
        Rule("size(self.metadata.name) <= 63", "metadata.name must have at most 63 characters: it becomes a label"),
        Rule(
            "!has(self.spec.parent) || self.spec.parent != self.metadata.name",
            "spec.parent must name another GPUBudget: none is its own parent",
        ),
    ),
)
