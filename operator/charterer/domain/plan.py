"""What the planner decides: commands, each an intent to be written, each with its reason in seconds and dollars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from charterer.domain.ids import BudgetId, ClassId, JobId, PoolId, Rate, RentalId
from charterer.domain.job import Allocation, Job, moves_in_a_day
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.time import Instant


class ReasonCode(StrEnum):
    """The kind of reason, as users meet it in status, events and the live table."""

    BUDGET_OPTIMAL = "BudgetOptimal"
    RIGID = "Rigid"
    NO_CURVE = "NoCurve"
    CHEAPEST_OVER_BUDGET = "CheapestOverBudget"
    MOVE_PAYS = "MovePays"
    WIDTH_NO_LONGER_ALLOWED = "WidthNoLongerAllowed"
    WAITING_FOR_NODE = "WaitingForNode"
    WAITING_FOR_BUDGET = "WaitingForBudget"
    HARD_LIMIT = "HardLimit"
    MAX_COST = "MaxCost"
    HOURLY_LIMIT = "HourlyLimit"
    POOL_FULL = "PoolFull"
    POOL_COOLING = "PoolCooling"
    NO_OPTION = "NoOption"
    NO_BUDGET = "NoBudget"
    INVALID = "Invalid"
    CHECKING = "Checking"
    SUSPENDED = "Suspended"
    FINISHED = "Finished"
    DELETED = "Deleted"
    LOST_NODE = "LostNode"
    NOT_STARTING = "NotStarting"
    IDLE = "Idle"
    NOT_NEEDED = "NotNeeded"
    DEMAND = "Demand"
    BUDGET_DELETED = "BudgetDeleted"
    POOL_DELETED = "PoolDeleted"
    INTERRUPTION = "Interruption"
    OBSERVE_ONLY = "ObserveOnly"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why: ``seconds`` of weighted job life saved and ``money`` it costs (negative: saved), against ``instead_of``.

    ``message`` is one sentence a person can read, with the numbers in it.
    """

    why: ReasonCode
    seconds: float
    money: Money
    message: str
    instead_of: Option | None = None


@dataclass(frozen=True, slots=True)
class Rent:
    """Write one GPURental named ``rental``: one node of ``pool`` for ``budget``."""

    rental: RentalId
    pool: PoolId
    budget: BudgetId
    reserve: Money
    worst: Price
    reason: Reason


@dataclass(frozen=True, slots=True)
class Release:
    """Mark the rental Draining: its node is to be emptied and ended."""

    rental: RentalId
    reason: Reason


@dataclass(frozen=True, slots=True)
class Allocate:
    """Write the job's allocation (None: it queues; its runs are stopped).

    ``predicted``: dollars it is expected to cost from now on; kept where nothing was predicted of the job before.
    """

    job: JobId
    allocation: Allocation | None
    reason: Reason
    predicted: Money | None = None


def moves_with(job: Job, do: Allocate) -> tuple[Instant, ...]:
    """The moves that the job is to remember once this is written: those of the last day that were made for gain."""
    if do.allocation is None or do.reason.why is not ReasonCode.MOVE_PAYS:
        return job.moves
    return (*moves_in_a_day(job.moves, do.allocation.since), do.allocation.since)


Command = Rent | Release | Allocate


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the planner thinks of a job now: the option it has or waits for (None: none), and why.

    ``remaining_seconds``: of training, and of getting there while it waits; None if unknown.
    """

    option: Option | None
    reason: Reason
    remaining_seconds: float | None


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
    """What the planner thinks of a budget now.

    ``rate``: θ (dollars per second of job life). ``planned``: dollars an hour the classes' chosen options would spend
    in the long run. ``allowed``: dollars an hour that may be committed to from now on (``policy.budgets.pacing``).
    ``feasible``: whether even the cheapest options fit in ``allowed``. ``spent`` counts folded and running rentals up
    to now, ``committed`` the worst case of what is rented already. ``forecast``: expected spend at the period's end;
    nine periods in ten end between ``forecast_low`` and ``forecast_high`` (``policy.budgets.spend_forecast``).
    """

    rate: Rate
    planned: Price
    allowed: Price
    feasible: bool
    spent: Money
    committed: Money
    forecast: Money
    forecast_low: Money
    forecast_high: Money


class Limit(StrEnum):
    """What keeps a pool from having more nodes."""

    MAX_NODES = "MaxNodes"
    STOCK = "StockOut"
    QUOTA = "QuotaExceeded"


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """What the planner thinks of a pool that has less room than jobs would use at its bare price.

    ``nodes``: all that it can have, by ``limit``. ``scarcity``: dollars that an hour of one more GPU would be worth, on
    top of its bill. It is never paid: jobs choose as if it were. ``node_scarcity``: the same for a node. ``short``:
    whether jobs have to wait for the pool whatever is chosen.
    """

    limit: Limit
    nodes: int
    scarcity: Price
    node_scarcity: Price
    short: bool


@dataclass(frozen=True, slots=True)
class Stage:
    """The option that is had until the part ``until`` of a job's work is done."""

    until: float
    option: Option


@dataclass(frozen=True, slots=True)
class PathVerdict:
    """The path that the part ``part`` of a class's jobs takes."""

    part: float
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class ClassVerdict:
    """What a class of one budget's jobs is given: one of ``paths``, the cheapest first.

    ``seconds`` and ``cost``: expected of a job on the first path, start-up and restarts included. ``mean_work``:
    seconds of the class's reference option.
    """

    budget: BudgetId
    class_id: ClassId
    arrivals_per_hour: float
    mean_work: float
    paths: tuple[PathVerdict, ...]
    seconds: float
    cost: Money


@dataclass(frozen=True, slots=True)
class Plan:
    """The commands to carry out now, what was thought, and when to think again if nothing happens before.

    ``pools``: those that are too small for what jobs would choose.
    """

    commands: tuple[Command, ...]
    budgets: Mapping[BudgetId, BudgetVerdict]
    pools: Mapping[PoolId, PoolVerdict]
    classes: tuple[ClassVerdict, ...]
    jobs: Mapping[JobId, Verdict]
    would: tuple[Command, ...]
    again_at: Instant | None
