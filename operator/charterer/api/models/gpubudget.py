"""GPUBudget: what may be spent, on which namespaces, and what has been."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from charterer.api.models.base import (
    ATOMIC,
    Amount,
    ApiModel,
    Conditions,
    Hourly,
    ObjectName,
    PrinterColumn,
    ResourceKind,
    Rule,
    SignedAmount,
    Time,
    keyed_by,
    ruled,
    rules,
)
from charterer.domain.budget import Mode
from charterer.domain.period import Weekday

PERIODS_KEPT: Final = 120
"""How many past periods stay in the status."""
ATTRIBUTIONS_SHOWN: Final = 100
"""How many receivers of money the status shows."""

_LABEL_TEXT = Annotated[str, Field(max_length=317)]
_LABEL_VALUE = Annotated[str, Field(max_length=63)]


class MatchExpression(ApiModel):
    """One requirement on a label."""

    model_config = ruled(
        Rule(
            "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 "
            ": !has(self.values) || size(self.values) == 0",
            "In and NotIn need values; Exists and DoesNotExist take none",
        )
    )

    key: _LABEL_TEXT
    """The label's key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label is compared with the values."""
    values: Annotated[tuple[_LABEL_VALUE, ...], Field(max_length=32, json_schema_extra=ATOMIC)] = ()
    """The values of In and NotIn."""


class NamespaceSelector(ApiModel):
    """A label selector as everywhere in Kubernetes; {} selects all namespaces."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    match_labels: Annotated[dict[str, _LABEL_VALUE], Field(max_length=32)] = Field(default_factory=dict)
    """Labels the namespace must have, with these values."""
    match_expressions: Annotated[tuple[MatchExpression, ...], Field(max_length=32, json_schema_extra=ATOMIC)] = ()
    """Further requirements; all must hold."""


class PriorityWeight(ApiModel):
    """What a second of a job's life counts for, by its priorityClassName."""

    priority_class_name: ObjectName
    """Jobs that name this priority class..."""
    weight: Annotated[float, Field(gt=0, le=1_000_000)]
    """...count this much; a job with weight 2 is worth twice the money of one with weight 1."""


_DAY_TIME = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"


class QuietHoursSpec(ApiModel):
    """Hours in which no running job is resized."""

    model_config = ruled(Rule("self.start != self.end", "start and end are the same: give hours that last"))

    start: Annotated[str, Field(pattern=_DAY_TIME, max_length=5)]
    """When they begin, such as "08:00", by the clock of timeZone."""
    end: Annotated[str, Field(pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$", max_length=5)]
    """When they end, such as "18:00" or "24:00"; earlier than start: on the next day."""
    days: Annotated[tuple[Weekday, ...], Field(max_length=7, json_schema_extra={"x-kubernetes-list-type": "set"})] = ()
    """The days on which they begin; absent: every day."""


class Moves(ApiModel):
    """When running jobs may be resized. A job that lost its nodes is started again at any time."""

    max_per_job_per_day: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """How often a job may be resized in any 24 hours; absent: as often as it pays."""
    quiet_hours: Annotated[tuple[QuietHoursSpec, ...], Field(max_length=32, json_schema_extra=ATOMIC)] = ()
    """Hours in which no running job is resized."""


class GPUBudgetSpec(ApiModel):
    """What may be spent and on what."""

    model_config = ruled(
        Rule(
            "!has(self.hardLimit) || quantity(self.hardLimit).compareTo(quantity(self.amount)) >= 0",
            "hardLimit must be at least amount: a budget cannot aim at more than it may ever spend",
            ".hardLimit",
        )
    )

    amount: Amount
    """Dollars to spend in each period, as a decimal string such as "60000". Charterer aims at this amount: it makes
    jobs as fast as it allows, and leaves a surplus unspent when nothing faster can be bought."""
    currency: Literal["USD"] = "USD"
    """The currency of all amounts."""
    period: Literal["Month"] = "Month"
    """The amount is for one calendar month of timeZone."""
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
    """The IANA time zone in which months begin and end, as in a CronJob."""
    namespace_selector: NamespaceSelector
    """The namespaces whose training jobs this budget pays for; {} is all of them. Where several budgets select a
    namespace, the oldest one pays."""
    mode: Mode = Mode.ENFORCE
    """Enforce rents nodes and runs jobs. Observe only decides, and reports what it would do."""
    hard_limit: Amount | None = None
    """Dollars that are never exceeded in a period, counted at the worst case of everything rented. No node is rented
    whose worst case might."""
    max_hourly_rate: Hourly | None = None
    """Dollars an hour that all nodes rented for this budget together may cost at most."""
    opening_spend: Amount | None = None
    """Dollars already spent in the month in which this budget is created, for joining in the middle of one."""
    weights: Annotated[
        tuple[PriorityWeight, ...], Field(max_length=64, json_schema_extra=keyed_by("priorityClassName"))
    ] = ()
    """How much jobs count, by priority class; 1 where none is named."""
    carry_over_percent: Annotated[int, Field(ge=0, le=100)] = 0
    """Percent of what a period leaves over, or overspends, that goes into the next one. Nothing carried over lifts
    spending above hardLimit."""
    exploration_percent: Annotated[int, Field(ge=0, le=100)] = 2
    """Percent of amount that may be spent on measuring how fast jobs run on other numbers of GPUs. A class is measured
    in minutes and runs for months on what was learned, so a little is enough and well spent; 0 measures nothing but
    where jobs run anyway."""
    moves: Moves | None = None
    """Limits on resizing running jobs; absent: whenever it pays. Starts, restarts and limits do not wait."""


class PeriodSpent(ApiModel):
    """One past period."""

    start: Time
    """When it began."""
    spent: Amount
    """Dollars spent in it."""
    aim: Amount | None = None
    """Dollars that were to be spent in it: the amount with what was carried over."""


class ClassCost(ApiModel):
    """What a class's finished jobs have cost, recent ones counting more: sums that halve in 30 days."""

    name: Annotated[str, Field(max_length=317)] = ""
    """The SpeedupProfile as namespace/name; empty: jobs that follow none."""
    jobs: Annotated[float, Field(ge=0)]
    """How many jobs."""
    predicted: Annotated[float, Field(ge=0)]
    """Dollars that were predicted of them when they were first given GPUs."""
    actual: Annotated[float, Field(ge=0)]
    """Dollars that they have cost."""
    squares: Annotated[float, Field(ge=0)]
    """The sum of actual² / predicted: how unequal they are."""
    since: Time
    """When the first of them was created."""
    at: Time
    """When the last of them finished."""
    came: Annotated[float, Field(ge=0)] = 0.0
    """How many jobs, by when they were created."""
    came_lately: Annotated[float, Field(ge=0)] = 0.0
    """The same, with a weight that halves in seven days: how often they come now."""


class CountedJobStatus(ApiModel):
    """A finished job that is in the sums."""

    uid: Annotated[str, Field(max_length=64)]
    """The TrainingJob's."""
    finished: Time
    """When it finished."""


class GPUBudgetRecord(ApiModel):
    """The ledger: written once for each event, never recomputed."""

    period_start: Time | None = None
    """When the current period began."""
    settled: Amount | None = None
    """Dollars of rentals that have ended and fell into the current period."""
    lifetime: Amount | None = None
    """Dollars of all rentals that have ever ended."""
    folded: Annotated[tuple[str, ...], Field(max_length=20_000, json_schema_extra=ATOMIC)] = ()
    """UIDs of rentals that are in these sums and whose objects may still exist."""
    history: Annotated[tuple[PeriodSpent, ...], Field(max_length=PERIODS_KEPT, json_schema_extra=ATOMIC)] = ()
    """Past periods, oldest first."""
    carried: SignedAmount | None = None
    """Dollars that the period before left over (negative: overspent) and handed on to this one."""
    classes: Annotated[tuple[ClassCost, ...], Field(max_length=1_000, json_schema_extra=ATOMIC)] = ()
    """What finished jobs have cost, by class: from it Charterer learns how far its predictions are off."""
    jobs_cost: Amount | None = None
    """Dollars that the GPUs of all finished jobs have cost, idle and starting nodes not included."""
    counted_jobs: Annotated[tuple[CountedJobStatus, ...], Field(max_length=20_000, json_schema_extra=ATOMIC)] = ()
    """Jobs in these sums that finished after countedThrough."""
    counted_through: Time | None = None
    """All jobs that finished up to then are in these sums."""


class SpentOn(ApiModel):
    """What a part of the money went to."""

    name: Annotated[str, Field(max_length=317)]
    """A job as namespace/name, or a purpose in parentheses such as (idle)."""
    spent: Amount
    """Dollars in the current period."""


class GPUBudgetView(ApiModel):
    """What Charterer thinks of the budget now."""

    observed_generation: int | None = None
    """The generation of the spec that the rest was judged by."""
    state: str | None = None
    """One word for the state column."""
    spent: Amount | None = None
    """Dollars spent in the current period, running nodes included."""
    committed: Amount | None = None
    """Dollars that will be spent even if nothing more is rented: the worst case of what is."""
    forecast: Amount | None = None
    """Dollars expected to be spent by the end of the period."""
    forecast_low: Amount | None = None
    """Nine periods in ten end between this and forecastHigh..."""
    forecast_high: Amount | None = None
    """...and this: how many jobs will come, and how large, nobody knows."""
    remaining: SignedAmount | None = None
    """Dollars of amount, and of what was carried over, not yet spent; negative when overspent."""
    hourly: Hourly | None = None
    """Dollars an hour that the nodes rented now cost."""
    pays_per_hour_saved: Amount | None = None
    """Dollars paid to end a job of weight 1 an hour earlier: the exchange rate between money and time."""
    attribution: Annotated[tuple[SpentOn, ...], Field(max_length=ATTRIBUTIONS_SHOWN, json_schema_extra=ATOMIC)] = ()
    """What the spent dollars went to, the largest first."""
    conditions: Conditions = ()
    """Ready, WithinBudget, PriceDataFresh."""


class GPUBudgetStatus(GPUBudgetView, GPUBudgetRecord):
    """What has been spent (the ledger), and what Charterer makes of it."""


GPU_BUDGET = ResourceKind(
    kind="GPUBudget",
    plural="gpubudgets",
    short="gbud",
    namespaced=False,
    description="A budget: dollars a month to be turned into finished training jobs of the selected namespaces.",
    spec=GPUBudgetSpec,
    status=GPUBudgetStatus,
    columns=(
        PrinterColumn("Mode", ".spec.mode"),
        PrinterColumn("Amount", ".spec.amount", description="Dollars a month"),
        PrinterColumn("Spent", ".status.spent"),
        PrinterColumn("Committed", ".status.committed"),
        PrinterColumn("Forecast", ".status.forecast"),
        PrinterColumn(
            "Pays/h-saved", ".status.paysPerHourSaved", description="Dollars paid to end a job an hour earlier"
        ),
        PrinterColumn("State", ".status.state"),
        PrinterColumn("Hard-Limit", ".spec.hardLimit", wide=True),
        PrinterColumn("Hourly", ".status.hourly", wide=True),
        PrinterColumn("Remaining", ".status.remaining", wide=True),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
    ),
    root_rules=(
        Rule("size(self.metadata.name) <= 63", "metadata.name must have at most 63 characters: it becomes a label"),
    ),
)
