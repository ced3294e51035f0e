"""The planner's decisions: commands, each an intent to be written, with its reason in seconds and dollars."""

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
    """The kind of reason, as users meet it in status, events and the live table."""

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
    """Why a command or verdict is as it is.

    ``seconds`` of weighted job life it saves and ``money`` it costs (negative: saves), compared with ``instead_of``.
    ``facts``: what is told of it.
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
        """The same with one more thing that is told after the others."""
        return self if note is None else replace(self, facts=Both(self.facts, note))


@dataclass(frozen=True, slots=True)
class Rent:
    """Write one GPURental named ``rental``: one node of ``pool`` for ``budget``. ``gang``: with which others."""

    rental: RentalId
    pool: PoolId
    budget: BudgetId
    reserve: Money
    worst: Price
    reason: Reason
    gang: Gang | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Mark the rental Draining: its node is to be emptied and ended."""

    rental: RentalId
    reason: Reason


@dataclass(frozen=True, slots=True)
class Allocate:
    """Write the job's allocation; None stops its runs and lets it queue.

    ``predicted``: its expected cost from now on, and ``predicted_end``: when it is expected to end; recorded only if
    the job has no prediction yet.
    """

    job: JobId
    allocation: Allocation | None
    reason: Reason
    predicted: Money | None = None
    predicted_end: Instant | None = None


_FOR_MONEY = frozenset({ReasonCode.MOVE_PAYS, ReasonCode.MAKES_ROOM, ReasonCode.NODE_EMPTIED, ReasonCode.SLOW_NODE})
"""Why a running job moves where it need not."""


def moves_in_a_day(moves: Sequence[Instant], now: Instant) -> tuple[Instant, ...]:
    """The moves of the last 24 hours, the latest last."""
    return tuple(sorted(at for at in moves if at > after(now, -86_400.0)))


def moves_with(job: Job, command: Allocate) -> tuple[Instant, ...]:
    """The job's ``moves`` once ``command`` is written: those of the last day that were made because they paid."""
    if command.allocation is None or command.reason.code not in _FOR_MONEY:
        return job.moves
    return (*moves_in_a_day(job.moves, command.allocation.since), command.allocation.since)


Command = Rent | Release | Allocate


@dataclass(frozen=True, slots=True)
class TargetOutlook:
    """The end that is expected of a job whose targetCompletionTime lies ahead.

    ``seconds``: from now to the end on the path that the target takes, as far as the budget pays for it; ``met``:
    whether that is in time. ``fastest_seconds``: the same on the fastest path of all. ``counts``: False where even that
    is so late that the job is treated as one without a target.
    """

    seconds: float
    fastest_seconds: float
    met: bool
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a job: the option it has or waits for (None: none), and why.

    ``remaining_seconds``: of training, and of starting while it waits; None if unknown. ``target``: None for a job
    without a target that lies ahead, or without a choice of known speeds. ``starts_in``: seconds until the GPUs for
    which it waits are expected to come free; 0 where that is not what it waits for.
    """

    option: Option | None
    reason: Reason
    remaining_seconds: float | None
    target: TargetOutlook | None = None
    starts_in: float = 0.0


class ArrivalsBasis(StrEnum):
    """What an arrival rate rests on."""

    ASSUMED = "Assumed"
    COUNTED = "Counted"
    DECLARED = "Declared"


@dataclass(frozen=True, slots=True)
class ArrivalsVerdict:
    """How often a budget's jobs come: ``per_hour`` of all classes. ``jobs``: in sight; ``batches``: that were seen.

    Jobs that come within an hour of each other are one batch.
    """

    per_hour: float
    basis: ArrivalsBasis
    jobs: int
    batches: int

    @property
    def assumed(self) -> bool:
        """Whether nothing tells yet how often jobs come."""
        return self.basis is ArrivalsBasis.ASSUMED


@dataclass(frozen=True, slots=True)
class ForecastVerdict:
    """The spend ``expected`` at the period's end; nine periods in ten end between ``low`` and ``high``."""

    expected: Money
    low: Money
    high: Money


@dataclass(frozen=True, slots=True)
class SpendVerdict:
    """A budget and all below it, as ``BudgetVerdict`` says of one.

    ``amount``: what counts of their amounts in their present periods. ``spent`` is of one period, as each of them
    counts it: of the one with more while it has begun for some only.
    ``forecast``: of its end, with an interval as if they were independent; None while it is not known of one of them.
    ``hourly``: the sum of the worst prices of their nodes.
    """

    amount: Money
    spent: Money
    committed: Money
    hourly: Price
    forecast: ForecastVerdict | None


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
    """The verdict on a budget.

    ``rate``: θ in dollars per second of job life; None without money, or without any job that it could be paid for.
    ``planned``: the price of the classes' chosen options in the long run, where ``feasible`` no more than all nodes
    that it may have can cost. ``allowed``: the price that may be committed to from now on
    (``policy.budgets.forecast``). ``feasible``: no job waits for money, because the cheapest options fit in
    ``allowed``, or because those of the jobs in sight fit into what may be committed: then ``planned`` may exceed
    ``allowed``. ``spent`` counts folded and running rentals up to now, ``committed`` the worst case of what is rented
    already. Until the period's end, ``in_sight`` is what the nodes of running and waiting jobs still cost, and
    ``to_come`` what the jobs of ``arrivals`` are expected to cost. ``commitments``: what nodes cost until then that are
    paid for whether they are used or not. ``forecast``: of the spend at the period's end
    (``policy.budgets.forecast``), to which ``spent``, ``in_sight``, ``to_come`` and ``commitments`` add up; None
    while the arrivals are assumed. ``with_descendants``: of it and the budgets below; None without any.
    ``parent_fault``: why nobody knows what the budgets above it allow, so that it rents nothing new.
    ``loans``: those in which it lends or borrows.
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

    @property
    def expected(self) -> Money:
        """The dollars at the period's end: the forecast, or while there is none what the assumed arrivals give."""
        return self.spent + self.in_sight + self.to_come + self.commitments


class Limit(StrEnum):
    """Why a pool cannot have more nodes."""

    MAX_NODES = "MaxNodes"
    STOCK = "StockOut"
    QUOTA = "QuotaExceeded"
    OPERATOR = "OperatorLimit"


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """The verdict on a pool that has fewer nodes than jobs would use at its price.

    ``nodes``: the most it can have, because of ``limit``. ``scarcity``: what an hour of one more GPU would be worth to
    the jobs in sight on top of its bill. ``node_scarcity``: the same for a whole node.
    ``short``: jobs have to wait for the pool whatever they choose. ``payable``: what the budget of these jobs may spend
    at all.
    """

    limit: Limit
    nodes: int
    scarcity: Price
    node_scarcity: Price
    short: bool
    payable: Price


@dataclass(frozen=True, slots=True)
class Stage:
    """``option`` is used until the fraction ``until`` of a job's work is done."""

    until: float
    option: Option


@dataclass(frozen=True, slots=True)
class PathVerdict:
    """The options that ``fraction`` of a class's jobs take one after the other."""

    fraction: float
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class ClassVerdict:
    """The planner's choice for the jobs of one class and budget: one of ``paths``, the cheapest first.

    ``seconds`` and ``cost``: the expected length and cost of a job on the first path, start-up and restarts included.
    ``mean_work``: seconds of the class's reference option.
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
    """The commands to carry out now, a verdict on every budget, pool, class and job, and when to plan again.

    ``pools``: only those that are too small for what jobs would choose. ``observed_commands``: what budgets in mode
    Observe would have done. ``again_at``: when something changes without an event; None if nothing does. ``problems``:
    of objects that the plan was made without, because planning failed with them. ``not_rented``: committed pools of
    which not all nodes are rented, and why.
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
