"""What is known of a node that is rented, goes away, or is given back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from charterer.domain.ids import BudgetId, InstanceId, NodeName, RentalId
from charterer.domain.jobs.pod import Pod
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.time import Instant

# --- it is rented -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnyDemand:
    """It is wanted; ``reserved`` is held back for its worst case."""

    reserved: Money


@dataclass(frozen=True, slots=True)
class JobDemand:
    """A job, ``namespace/name``, waits for an option that needs it."""

    job: str
    option: Option
    reserved: Money


@dataclass(frozen=True, slots=True)
class PaidForAnyway:
    """It is paid for whether it is used or not; ``reserved`` is held back for its worst case."""

    reserved: Money


# --- it goes away -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeEnds:
    """It ends at a time that is known, and a job leaves it before."""

    rental: RentalId
    at: Instant


@dataclass(frozen=True, slots=True)
class RentalDeleted:
    """Somebody deletes its rental."""

    rental: RentalId


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The cloud takes it back, or its GPUs are broken; or, if not ``certain``, may. ``words``: whose, or empty."""

    instance: InstanceId | None
    rental: RentalId
    certain: bool
    words: str
    broken: bool = False


@dataclass(frozen=True, slots=True)
class RentalGoesAway:
    """It drains or has ended. ``words``: why it was released, or empty."""

    rental: RentalId
    words: str


@dataclass(frozen=True, slots=True)
class NodeDeleted:
    """Its Node object was deleted. ``node``: None where its name is not known."""

    node: NodeName | None


@dataclass(frozen=True, slots=True)
class NodeNotReady:
    """Its Node was not ready for ``seconds``."""

    node: NodeName
    seconds: float


@dataclass(frozen=True, slots=True)
class NoReadyNode:
    """It is no ready Node ``seconds`` after its launch."""

    instance: InstanceId | None
    seconds: float


@dataclass(frozen=True, slots=True)
class PodHangs:
    """A pod there has not ended ``seconds`` after its grace period."""

    pod: str
    node: NodeName
    seconds: float


@dataclass(frozen=True, slots=True)
class NotOnRecord:
    """A run, named with its namespace, ended there, and its end is not on record ``seconds`` later."""

    run: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RefusedPod:
    """Its kubelet refused a pod of a run. ``words``: which pod, and the kubelet's own words."""

    node: NodeName
    words: str

    @classmethod
    def of(cls, pod: Pod) -> Self:
        """The refusal of this pod, whose ``refused`` says that its node did so."""
        assert pod.node is not None
        return cls(pod.node, f"pod {pod.name}: {pod.message}")


# --- it is given back -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldUp:
    """It held a run up, and nobody uses it."""


@dataclass(frozen=True, slots=True)
class PodWasSlow:
    """It held up the run of a job, ``namespace/name``, which has another node now."""

    pod: int | None
    job: str


@dataclass(frozen=True, slots=True)
class NodesDrained:
    """A person ends all nodes."""


@dataclass(frozen=True, slots=True)
class BudgetGoes:
    """Its budget is being deleted."""

    budget: BudgetId


@dataclass(frozen=True, slots=True)
class PoolClosed:
    """Its pool is no longer to be used. ``words``: why."""

    words: str


@dataclass(frozen=True, slots=True)
class HardLimitNear:
    """Its budget, or the ``parent`` above it with all below that, has all but reached the hard limit."""

    spent: Money
    committed: Money
    limit: Money | None
    parent: BudgetId | None = None


@dataclass(frozen=True, slots=True)
class HourlyLimitPassed:
    """The nodes of its budget, or of the ``parent`` above it and all below that, cost more an hour than they may."""

    hourly: Price
    limit: Price
    parent: BudgetId | None = None


@dataclass(frozen=True, slots=True)
class Idle:
    """No job uses it, and none waits for it."""

    rental: RentalId


@dataclass(frozen=True, slots=True)
class IdleUntilEnd:
    """No job uses it, and it ends soon."""

    rental: RentalId
    at: Instant


@dataclass(frozen=True, slots=True)
class NotWaitedFor:
    """No job waits for it any more."""

    rental: RentalId


@dataclass(frozen=True, slots=True)
class GangIncomplete:
    """A job, ``namespace/name``, needs ``nodes`` nodes at once, of which ``came`` came."""

    job: str
    nodes: int
    came: int


@dataclass(frozen=True, slots=True)
class GangGone:
    """Other rentals of the nodes that a job, ``namespace/name``, needs at once are gone."""

    job: str


NodeFact = (
    AnyDemand
    | JobDemand
    | PaidForAnyway
    | NodeEnds
    | RentalDeleted
    | TakenBack
    | RentalGoesAway
    | NodeDeleted
    | NodeNotReady
    | NoReadyNode
    | PodHangs
    | RefusedPod
    | NotOnRecord
    | HeldUp
    | PodWasSlow
    | NodesDrained
    | BudgetGoes
    | PoolClosed
    | HardLimitNear
    | HourlyLimitPassed
    | Idle
    | IdleUntilEnd
    | NotWaitedFor
    | GangIncomplete
    | GangGone
)
"""Facts of nodes."""
