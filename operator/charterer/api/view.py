"""The view: what Charterer shows of an object, as values that ``encode`` turns into status fields.

The controller fills these from a snapshot and a plan; comparing two views says whether anything has to be written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from charterer.domain.ids import PoolId
from charterer.domain.money import Money, Price
from charterer.domain.pool import Offering, Quote
from charterer.domain.time import Instant


class ConditionType(StrEnum):
    """What a condition observes."""

    READY = "Ready"
    WITHIN_BUDGET = "WithinBudget"
    PRICE_DATA_FRESH = "PriceDataFresh"
    ADMITTED = "Admitted"
    CAPACITY_AVAILABLE = "CapacityAvailable"
    PODS_READY = "PodsReady"
    RESIZING = "Resizing"
    BUDGET_LIMITED = "BudgetLimited"
    COMPLETE = "Complete"
    FAILED = "Failed"
    SUSPENDED = "Suspended"


class ConditionStatus(StrEnum):
    """Whether what a condition observes holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Condition:
    """One observation; ``reason`` is one CamelCase word, ``since`` the time of the last change of ``status``.

    ``type`` is a string, because a condition read back may be one that this version does not know.
    """

    type: str
    status: ConditionStatus
    reason: str
    message: str
    since: Instant


class JobState(StrEnum):
    """The State column of a TrainingJob."""

    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    RESIZING = "Resizing"
    STOPPING = "Stopping"
    SUSPENDED = "Suspended"
    INVALID = "Invalid"
    COMPLETE = "Complete"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class JobView:
    """The view of a TrainingJob. ``progress`` is the part done in [0, 1]; ``why`` one CamelCase word."""

    observed_generation: int
    state: JobState
    gpus: int
    want_gpus: int
    pool: PoolId | None
    progress: float | None
    eta: Instant | None
    cost: Money
    why: str
    conditions: tuple[Condition, ...]


class BudgetState(StrEnum):
    """The State column of a GPUBudget."""

    READY = "Ready"
    OBSERVING = "Observing"
    LIMITED = "Limited"
    TOO_SMALL = "TooSmall"
    OVERSPENT = "Overspent"
    INVALID = "Invalid"
    DELETING = "Deleting"


@dataclass(frozen=True, slots=True)
class Attribution:
    """Money spent in the current period on ``name``: a job as namespace/name, or a purpose such as (idle)."""

    name: str
    spent: Money


@dataclass(frozen=True, slots=True)
class BudgetView:
    """The view of a GPUBudget.

    ``pays_per_hour_saved``: the exchange rate θ times an hour. ``hourly``: what the nodes rented now cost.
    ``attribution``: the largest first.
    """

    observed_generation: int
    state: BudgetState
    spent: Money
    committed: Money
    forecast: Money
    forecast_low: Money
    forecast_high: Money
    remaining: Money
    hourly: Price
    pays_per_hour_saved: Money
    attribution: tuple[Attribution, ...]
    conditions: tuple[Condition, ...]


class PoolState(StrEnum):
    """The State column of a GPUPool."""

    READY = "Ready"
    FULL = "Full"
    COOLING = "Cooling"
    UNREACHABLE = "Unreachable"
    UNKNOWN = "Unknown"
    INVALID = "Invalid"
    DELETING = "Deleting"


@dataclass(frozen=True, slots=True)
class PoolView:
    """The view of a GPUPool; ``offering`` and ``quote`` as last heard from the cloud.

    ``scarcity``: what an hour of one more GPU would be worth on top of its bill; 0 where there is room.
    """

    observed_generation: int
    state: PoolState
    offering: Offering | None
    quote: Quote | None
    nodes: int
    ready_nodes: int
    gpus_in_use: int
    scarcity: Price
    conditions: tuple[Condition, ...]


class ProfileState(StrEnum):
    """The State column of a SpeedupProfile."""

    READY = "Ready"
    INVALID = "Invalid"


@dataclass(frozen=True, slots=True)
class ProfileView:
    """The view of a SpeedupProfile."""

    observed_generation: int
    state: ProfileState
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class InvalidView:
    """The view of an object of any kind that cannot be decoded: its state says Invalid, its conditions why.

    Everything else that the view showed before is given up by writing only this.
    """

    observed_generation: int
    conditions: tuple[Condition, ...]
