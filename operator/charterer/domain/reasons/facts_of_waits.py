"""What is known of a job that waits: what it waits for, and what no pool or no budget gives it."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.ids import BudgetId, PoolId, RentalId
from charterer.domain.money import Money, Price
from charterer.domain.nodes.waits import ExpectedWait
from charterer.domain.option import Option
from charterer.domain.order import CoolDown
from charterer.domain.reasons.facts_of_parents import ParentFact
from charterer.domain.selector import Selector
from charterer.domain.time import Instant

# --- its nodes come ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaitsForNodes:
    """It waits until these nodes can take it."""

    nodes: tuple[RentalId, ...]


@dataclass(frozen=True, slots=True)
class WouldBeRented:
    """Its budget only observes, and would rent ``nodes`` nodes for it."""

    nodes: int


@dataclass(frozen=True, slots=True)
class WaitsForOldNode:
    """A node that is in use is expected to be left in ``seconds``.

    A new one would cost ``bill`` while it starts, which takes ``start`` seconds. It is rented at ``until``.
    """

    option: Option
    seconds: float
    bill: Money
    start: float
    until: Instant


@dataclass(frozen=True, slots=True)
class WaitsForFragment:
    """GPUs of a node that is in use are expected to come free in ``seconds``. ``others``: as many, for another job.

    The GPUs of a new node that nobody wants would cost ``idle``. It is rented at ``until``.
    """

    option: Option
    others: int | None
    seconds: float
    idle: Money
    until: Instant


@dataclass(frozen=True, slots=True)
class StartsAbout:
    """GPUs for the option are expected to come free at ``at``, as jobs that have them end."""

    option: Option
    at: Instant


@dataclass(frozen=True, slots=True)
class LateNodes:
    """A pool is expected to give a node after ``wait``. ``probation``: the refusal for which that is in doubt."""

    pool: PoolId
    wait: ExpectedWait
    probation: CoolDown | None


# --- its budget does not pay ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OthersWaitForMoney:
    """Jobs before it wait for money."""


@dataclass(frozen=True, slots=True)
class CostsTooMuch:
    """It costs ``cost``, and ``left`` may be committed."""

    cost: Money
    left: Money


@dataclass(frozen=True, slots=True)
class SpendsTooMuch:
    """It costs ``price``, other jobs ``used``, and the budget may spend ``allowed``."""

    price: Price
    used: Price
    allowed: Price


@dataclass(frozen=True, slots=True)
class AboveHourlyLimit:
    """One node costs more an hour than all may. ``parent``: the budget above whose limit it is, None for its own."""

    node: Price
    limit: Price
    parent: BudgetId | None = None


@dataclass(frozen=True, slots=True)
class HourlyLimitUsed:
    """Nodes for ``hourly`` are rented, so that one more would pass the limit. ``parent``: as above."""

    node: Price
    hourly: Price
    limit: Price
    parent: BudgetId | None = None


@dataclass(frozen=True, slots=True)
class HardLimitUsed:
    """One more node may cost ``needed``, and ``left`` of the hard limit is not committed. ``parent``: as above."""

    needed: Money
    left: Money
    limit: Money | None
    parent: BudgetId | None = None


@dataclass(frozen=True, slots=True)
class OperatorNodesUsed:
    """The operator has as many nodes as it may."""

    limit: int
    nodes: int


@dataclass(frozen=True, slots=True)
class OperatorHourlyUsed:
    """The operator's nodes cost as much as they may."""

    node: Price
    limit: Price
    hourly: Price


OperatorFact = OperatorNodesUsed | OperatorHourlyUsed
"""Which limit of the operator's is reached."""

# --- its pool gives none ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RentsNothing:
    """A person stopped the operator."""


@dataclass(frozen=True, slots=True)
class PoolCools:
    """The cloud refused a node a while ago."""


@dataclass(frozen=True, slots=True)
class RentalUnreadable:
    """A rental there cannot be read, so that nobody knows what there is."""


@dataclass(frozen=True, slots=True)
class BudgetEnds:
    """Its budget is being deleted."""


@dataclass(frozen=True, slots=True)
class ClockBehind:
    """Its budget's period has not begun."""


@dataclass(frozen=True, slots=True)
class PoolEnds:
    """Its pool is being deleted."""


@dataclass(frozen=True, slots=True)
class CloudSilent:
    """The cloud of its pool has not answered yet."""


@dataclass(frozen=True, slots=True)
class NoNodeNow:
    """No node can be had."""


@dataclass(frozen=True, slots=True)
class PoolFull:
    """A pool has all the ``nodes`` that it may, by the size of its group or its maxNodes.

    ``apart``: GPUs that are free there, but not together; None where there are too few.
    """

    pool: PoolId
    nodes: int
    by_group: bool
    apart: int | None


@dataclass(frozen=True, slots=True)
class BetterAlone:
    """The job would rather have this option, did no others want it."""

    option: Option


BlockedFact = (
    RentsNothing
    | PoolCools
    | RentalUnreadable
    | BudgetEnds
    | ClockBehind
    | ParentFact
    | PoolEnds
    | CloudSilent
    | NoNodeNow
    | PoolFull
)
"""Why a pool gives no node."""


@dataclass(frozen=True, slots=True)
class RoomAllotted:
    """Why an option cannot be had, and how the room of its pool is allotted to ``waiting`` jobs.

    ``gap``: by which fraction another allotment could be better; None where that is not worth a word. ``any_price``:
    whether a job is late whatever it gets. ``node``: what an hour of one more node would be worth beyond its price;
    ``payable``: what the budget may spend.
    """

    why: BlockedFact | BetterAlone
    pool: PoolId
    waiting: int
    gap: float | None
    any_price: bool
    node: Price
    payable: Price


@dataclass(frozen=True, slots=True)
class RoomIsMade:
    """Running jobs make room in the full pool: ``near`` by name, ``far`` of other namespaces."""

    full: PoolFull
    near: tuple[str, ...]
    far: int


# --- no pool has what it asks for -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NoPoolSelected:
    """A budget's selector matches no pool. ``there``: the pools, each with its labels as ``key=value``."""

    budget: BudgetId
    selector: Selector
    there: tuple[tuple[PoolId, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class PoolsLeftOut:
    """Pools that a budget's selector does not match."""

    budget: BudgetId
    selector: Selector
    pools: tuple[PoolId, ...]


SelectorFact = NoPoolSelected | PoolsLeftOut
"""What a budget's selector leaves out."""


@dataclass(frozen=True, slots=True)
class NotAskedYet:
    """The clouds of these pools have not answered yet, and no other pool fits."""

    pools: tuple[PoolId, ...]


@dataclass(frozen=True, slots=True)
class NoPlan:
    """Planning failed. ``words``: of the problem that is told of the object."""

    words: str


WaitFact = (
    WaitsForNodes
    | WouldBeRented
    | WaitsForOldNode
    | WaitsForFragment
    | StartsAbout
    | LateNodes
    | OthersWaitForMoney
    | CostsTooMuch
    | SpendsTooMuch
    | AboveHourlyLimit
    | HourlyLimitUsed
    | HardLimitUsed
    | OperatorFact
    | BlockedFact
    | BetterAlone
    | RoomAllotted
    | RoomIsMade
    | SelectorFact
    | NotAskedYet
    | NoPlan
)
"""Facts of jobs that wait."""
