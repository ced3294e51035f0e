"""The planner's decisions: commands to be written as intents, each with its reason in seconds and dollars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from charterer.domain.budget import Loan
from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId, ClassId, JobId, PoolId, Rate, RentalId
from charterer.domain.job import Allocation, Job
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.option import Option
from charterer.domain.reasons.fact import Both, Fact
from charterer.domain.rental import Gang
from charterer.domain.time import Instant, after


class ReasonCode(StrEnum):
    """The kind of reason, as shown in status, Events and the live table."""

    BUDGET_OPTIMAL = "BudgetOptimal"
    RIGID = "Rigid"
    NO_CURVE = "NoCurve"
    CHEAPEST_OVER_BUDGET = "CheapestOverBudget"
    PLACING = "Placing"
    MOVE_PAYS = "MovePays"
    MAKES_ROOM = "MakesRoom"
    NODE_EMPTIED = "NodeEmptied"
    SLOW_NODE = "SlowNode"
    WIDTH_NO_LONGER_ALLOWED = "WidthNoLongerAllowed"
    WAITING_FOR_NODE = "WaitingForNode"
    WAITING_FOR_FREE_GPUS = "WaitingForFreeGPUs"
    WAITING_FOR_BUDGET = "WaitingForBudget"
    HARD_LIMIT = "HardLimit"
    MAX_COST = "MaxCost"
    HOURLY_LIMIT = "HourlyLimit"
    OPERATOR_LIMIT = "OperatorLimit"
    STOPPED = "Stopped"
    POOL_FULL = "PoolFull"
    POOL_COOLING = "PoolCooling"
    RENTAL_UNREADABLE = "RentalUnreadable"
    NOT_ASKED_YET = "NotAskedYet"
    NO_OPTION = "NoOption"
    NO_BUDGET = "NoBudget"
    INVALID = "Invalid"
    CHECKING = "Checking"
    SUSPENDED = "Suspended"
    NO_GPU_WANTED = "NoGPUWanted"
    NOT_ADOPTED = "NotAdopted"
    FINISHED = "Finished"
    DELETED = "Deleted"
    LOST_NODE = "LostNode"
    POD_REFUSED = "PodRefused"
    NOT_STARTING = "NotStarting"
    STALLED = "Stalled"
    NOT_REGROUPED = "NotRegrouped"
    NOT_BELIEVED = "NotBelieved"
    NOT_RECORDED = "NotRecorded"
    BACK_OFF = "BackOff"
    IDLE = "Idle"
    NOT_NEEDED = "NotNeeded"
    DEMAND = "Demand"
    COMMITTED = "Committed"
    BUDGET_DELETED = "BudgetDeleted"
    CLOCK_BEHIND = "ClockBehind"
    PARENT_UNKNOWN = "ParentUnknown"
    POOL_DELETED = "PoolDeleted"
    INCOMPLETE_GANG = "IncompleteGang"
    INTERRUPTION = "Interruption"
    OBSERVE_ONLY = "ObserveOnly"
    PLANNING_FAILED = "PlanningFailed"


@dataclass(frozen=True)
class Reason:
    """Why a command or verdict was chosen.

    ``seconds``: the weighted job life that the command saves. ``money``: the dollars that the command costs
    (negative: saves). Both are compared with ``instead_of``. ``facts``: the content of the reason's sentence.
    """

    code: ReasonCode
    seconds: float
    money: Money
    facts: Fact
    instead_of: Option | None = None

    @cached_property
    def message(self) -> str:
        """One sentence for people, with the numbers."""
        return self.facts.sentence()

    def with_note(self, note: Fact | None) -> Reason:
        """The reason with a further fact at the end of its sentence."""
        return self if note is None else replace(self, facts=Both(self.facts, note))


@dataclass(frozen=True, slots=True)
class Rent:
    """Create one GPURental named ``rental``: one node of ``pool`` for ``budget``. ``gang``: the gang of the rental;
    None without one."""

    rental: RentalId
    pool: PoolId
    budget: BudgetId
    reserve: Money
    worst: Price
    reason: Reason
    gang: Gang | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Mark the rental Draining, so that its node is emptied and ended."""

    rental: RentalId
    reason: Reason


@dataclass(frozen=True, slots=True)
class Allocate:
    """Write the job's allocation. None stops its runs and requeues it.

    ``predicted``: the job's expected cost from now on. ``predicted_end``: the job's expected end. Both fields are
    recorded only if the job has no prediction yet.
    """

    job: JobId
    allocation: Allocation | None
    reason: Reason
    predicted: Money | None = None
    predicted_end: Instant | None = None


_FOR_MONEY = frozenset({ReasonCode.MOVE_PAYS, ReasonCode.MAKES_ROOM, ReasonCode.NODE_EMPTIED, ReasonCode.SLOW_NODE})
"""Reasons for moving a running job that need not move."""


def moves_in_a_day(moves: Sequence[Instant], now: Instant) -> tuple[Instant, ...]:
    """The moves of the last 24 hours, the latest last."""
    return tuple(sorted(at for at in moves if at > after(now, -86_400.0)))


def moves_with(job: Job, command: Allocate) -> tuple[Instant, ...]:
    """The job's ``moves`` after ``command`` is written: the moves of the last day that were made because they paid."""
    if command.allocation is None or command.reason.code not in _FOR_MONEY:
        return job.moves
    return (*moves_in_a_day(job.moves, command.allocation.since), command.allocation.since)


Command = Rent | Release | Allocate


@dataclass(frozen=True, slots=True)
class TargetOutlook:
    """The expected end of a job whose targetCompletionTime lies ahead.

    ``seconds``: seconds until the end on the path chosen for the target, or on the fastest path that the budget pays
    for. ``met``: whether that end is in time. ``fastest_seconds``: seconds until the end on the fastest path.
    ``counts``: False if even that end is so late that the target is ignored.
    """

    seconds: float
    fastest_seconds: float
    met: bool
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a job: the option that it has or waits for (None: no option), and why.

    ``remaining_seconds``: remaining training time, plus starting time while it waits; None if unknown. ``target``: None
    without a target that lies ahead, or without a choice between options of known speed. ``starts_in``: seconds until
    the GPUs that the job waits for are expected to become free; 0 if the job waits for something else.
    """

    option: Option | None
    reason: Reason
    remaining_seconds: float | None
    target: TargetOutlook | None = None
    starts_in: float = 0.0


class ArrivalsBasis(StrEnum):
    """The source of an arrival rate."""

    ASSUMED = "Assumed"
    COUNTED = "Counted"
    DECLARED = "Declared"


@dataclass(frozen=True, slots=True)
class ArrivalsVerdict:
    """The arrival rate of a budget's jobs of all classes. ``jobs``: jobs in sight. ``batches``: batches seen.

    Jobs that arrive within an hour of each other are one batch.
    """

    per_hour: float
    basis: ArrivalsBasis
    jobs: int
    batches: int

    @property
    def assumed(self) -> bool:
        """Whether there is no data yet on how often jobs arrive."""
        return self.basis is ArrivalsBasis.ASSUMED


@dataclass(frozen=True, slots=True)
class ForecastVerdict:
    """The forecast of spending at the period's end. ``low`` to ``high`` is the 90 % interval."""

    expected: Money
    low: Money
    high: Money


@dataclass(frozen=True, slots=True)
class SpendVerdict:
    """The spending of a budget and all its descendants (compare ``BudgetVerdict``).

    ``amount``: the counted amounts of their present periods. ``spent``: dollars spent in one period. If the next period
    has begun for some of the budgets only, this is the period with more spending. ``forecast``: the sum of the budgets'
    forecasts, treated as independent; None if one of them has no forecast. ``hourly``: the sum of their nodes' worst
    prices.
    """

    amount: Money
    spent: Money
    committed: Money
    hourly: Price
    forecast: ForecastVerdict | None


@dataclass(frozen=True, slots=True)
class ShareVerdict:
    """The verdict on a share of a budget's money, or on the rest of the money for all other jobs (``name`` is
    NO_SHARE).

    ``part``: the fraction of the money that is guaranteed to its jobs. ``jobs``: the number of its jobs that want to
    run. ``allowed``, ``planned``, ``rate`` and ``feasible``: as in BudgetVerdict, for the share's money including the
    money that other shares leave.
    """

    name: str
    part: float
    jobs: int
    allowed: Price
    planned: Price
    rate: Rate
    feasible: bool


@dataclass(frozen=True, slots=True)
class GpuHoursVerdict:
    """The verdict on an amount of GPU-hours of a budget, which holds for it and all its descendants.

    All numbers are GPU-microseconds. ``used``: for which runs held GPUs in the period. ``committed``: that, and the
    most that the present runs can still hold until an orderly end. ``released``: the part of the amount for the time so
    far and the next ten days.
    """

    gpu_type: str
    amount: int
    used: int
    committed: int
    released: int


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
    """The verdict on a budget.

    ``rate``: θ in dollars per second of job life; None without money or without any job. ``planned``: the long-run
    price of the options chosen for the classes; if ``feasible``, at most the price of all nodes that the budget may
    have. ``allowed``: the price that may be committed to from now on (``policy.budgets.forecast``). ``feasible``: no
    job waits for money. Either the cheapest options fit in ``allowed``, or the options of the jobs in sight fit into
    the money that may be committed; in the second case ``planned`` may exceed ``allowed``. ``spent``: the cost of
    folded and running rentals up to now. ``committed``: the worst-case cost of what is already rented. ``in_sight``:
    the cost until the period's end of the nodes of running and waiting jobs. ``to_come``: the expected cost until then
    of the jobs in ``arrivals``. ``commitments``: the cost until then of nodes that are paid for whether used or not.
    ``forecast``: the expected spending at the period's end (``policy.budgets.forecast``), which is the sum of
    ``spent``, ``in_sight``, ``to_come`` and ``commitments``; None while the arrivals are assumed. ``with_descendants``:
    the spending of the budget and its descendants; None without descendants. ``parent_fault``: why the limits of its
    ancestors are unknown, so that it rents nothing new. ``loans``: the loans in which the budget is lender or borrower.
    ``shares``: the shares of its money that have jobs; empty if the budget has no shares. ``gpu_hours``: its amounts of
    GPU-hours.
    """

    rate: Rate | None
    planned: Price
    allowed: Price
    feasible: bool
    spent: Money
    committed: Money
    in_sight: Money
    to_come: Money
    arrivals: ArrivalsVerdict
    forecast: ForecastVerdict | None
    with_descendants: SpendVerdict | None = None
    parent_fault: Fact | None = None
    commitments: Money = ZERO
    loans: tuple[Loan, ...] = ()
    shares: tuple[ShareVerdict, ...] = ()
    gpu_hours: tuple[GpuHoursVerdict, ...] = ()

    @property
    def expected(self) -> Money:
        """Expected dollars spent at the period's end, including dollars for assumed arrivals."""
        return self.spent + self.in_sight + self.to_come + self.commitments


class Limit(StrEnum):
    """The limit that keeps a pool from having more nodes."""

    MAX_NODES = "MaxNodes"
    STOCK = "StockOut"
    QUOTA = "QuotaExceeded"
    OPERATOR = "OperatorLimit"


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """The verdict on a pool that has fewer nodes than jobs would use at its price.

    ``nodes``: the most nodes that the pool can have, because of ``limit``. ``scarcity``: the value of an hour of one
    more GPU to the jobs in sight, beyond its price. ``node_scarcity``: the value of an hour of one more node.
    ``short``: some jobs have to wait for the pool whatever they choose. ``payable``: the most that the budget of these
    jobs may spend per hour.
    """

    limit: Limit
    nodes: int
    scarcity: Price
    node_scarcity: Price
    short: bool
    payable: Price


@dataclass(frozen=True, slots=True)
class Stage:
    """The ``option`` of a job until the fraction ``until`` of its work is done."""

    until: float
    option: Option


@dataclass(frozen=True, slots=True)
class PathVerdict:
    """The consecutive options of ``fraction`` of a class's jobs."""

    fraction: float
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class ClassVerdict:
    """The planner's choice for the jobs of one class and budget: one of ``paths``, the cheapest first.

    ``seconds``, ``cost``: the expected length and cost of a job on the first path, including start-up and restarts.
    ``mean_work``: mean work of a job in seconds of the class's reference option.
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
    """The commands to carry out now, a verdict on every budget, pool, class and job, and the time of the next plan.

    ``pools``: only pools that are too small for the options that jobs would choose. ``observed_commands``: the commands
    that budgets in mode Observe would have given. ``again_at``: when something changes without an event; None if
    nothing does. ``problems``: one for each object that was left out of the plan because planning failed with it.
    ``not_rented``: committed pools with nodes that are not rented, and why.
    """

    commands: tuple[Command, ...]
    budgets: Mapping[BudgetId, BudgetVerdict]
    pools: Mapping[PoolId, PoolVerdict]
    classes: tuple[ClassVerdict, ...]
    jobs: Mapping[JobId, Verdict]
    observed_commands: tuple[Command, ...]
    again_at: Instant | None
    problems: tuple[Problem, ...] = ()
    not_rented: Mapping[PoolId, ReasonCode] = field(default_factory=dict)
