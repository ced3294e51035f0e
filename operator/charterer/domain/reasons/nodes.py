"""What is known of a node that is rented, goes away, or is given back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from charterer.domain.ids import BudgetId, InstanceId, NodeName, RentalId
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.pod import Pod
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.phrases import after_colon, name, of_parent
from charterer.domain.time import Instant, format_minute

# --- it is rented -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnyDemand(Fact):
    """It is wanted; ``reserved`` is held back for its worst case."""

    reserved: Money

    def sentence(self) -> str:
        return f"jobs need it; the budget reserves {self.reserved}, its cost in the worst case"


@dataclass(frozen=True, slots=True)
class JobDemand(Fact):
    """A job, ``namespace/name``, waits for an option that needs it."""

    job: str
    option: Option
    reserved: Money

    def sentence(self) -> str:
        return (
            f"{self.job} waits for {name(self.option)}; the budget reserves {self.reserved}, its cost in the worst case"
        )


@dataclass(frozen=True, slots=True)
class ThereAnyway(Fact):
    """It is in the cluster anyway, and a pool selects it."""

    def sentence(self) -> str:
        return "it is there anyway (spec.existing of the GPUPool)"


@dataclass(frozen=True, slots=True)
class PaidForAnyway(Fact):
    """It is paid for whether it is used or not; ``reserved`` is held back for its worst case."""

    reserved: Money

    def sentence(self) -> str:
        return (
            f"it is paid for whether it is used or not (spec.price.committed of the GPUPool); the budget reserves "
            f"{self.reserved}, its cost in the worst case"
        )


# --- it goes away -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeEnds(Fact):
    """It ends at a time that is known, and a job leaves it before."""

    rental: RentalId
    at: Instant

    def sentence(self) -> str:
        return f"{self.rental} ends at {format_minute(self.at)}; the job leaves it first, to save its work"


@dataclass(frozen=True, slots=True)
class RentalDeleted(Fact):
    """Somebody deletes its rental."""

    rental: RentalId

    def sentence(self) -> str:
        return f"GPURental {self.rental} is being deleted"


@dataclass(frozen=True, slots=True)
class TakenBack(Fact):
    """The cloud takes it back, or its GPUs are broken; or, if not ``certain``, may. ``words``: whose, or empty."""

    instance: InstanceId | None
    rental: RentalId
    certain: bool
    words: str
    broken: bool = False

    def sentence(self) -> str:
        whose = f" ({self.words})" if self.words else ""
        if self.broken:
            return f"GPUs of {self.instance} of {self.rental} {'are' if self.certain else 'may be'} broken{whose}"
        verb = "takes" if self.certain else "may take"
        return f"the cloud {verb} back {self.instance} of {self.rental}{whose}"


@dataclass(frozen=True, slots=True)
class TakesNoPart(Fact):
    """Its node, which is there anyway, takes no part any more. ``words``: why."""

    rental: RentalId
    words: str

    def sentence(self) -> str:
        return f"GPURental {self.rental} is given back: {self.words}"


@dataclass(frozen=True, slots=True)
class RentalGoesAway(Fact):
    """It drains or has ended. ``words``: why it was released, or empty."""

    rental: RentalId
    words: str

    def sentence(self) -> str:
        return f"GPURental {self.rental} is going away{after_colon(self.words)}"


@dataclass(frozen=True, slots=True)
class NodeDeleted(Fact):
    """Its Node object was deleted. ``node``: None where its name is not known."""

    node: NodeName | None

    def sentence(self) -> str:
        return f"Node {self.node} was deleted"


@dataclass(frozen=True, slots=True)
class NodeNotReady(Fact):
    """Its Node was not ready for ``seconds``."""

    node: NodeName
    seconds: float

    def sentence(self) -> str:
        return f"Node {self.node} was not ready for {self.seconds:.0f} s"


@dataclass(frozen=True, slots=True)
class NoReadyNode(Fact):
    """It is no ready Node ``seconds`` after its launch."""

    instance: InstanceId | None
    seconds: float

    def sentence(self) -> str:
        return f"instance {self.instance} has no ready Node {self.seconds / 60:.0f} minutes after its launch"


@dataclass(frozen=True, slots=True)
class PodHangs(Fact):
    """A pod there has not ended ``seconds`` after its grace period."""

    pod: str
    node: NodeName
    seconds: float

    def sentence(self) -> str:
        return (
            f"pod {self.pod} on Node {self.node} has not ended {self.seconds / 60:.0f} minutes after its grace period"
        )


@dataclass(frozen=True, slots=True)
class NotOnRecord(Fact):
    """A run, named with its namespace, ended there, and its end is not on record ``seconds`` later."""

    run: str
    seconds: float

    def sentence(self) -> str:
        return f"{self.run} ended, and its end is not on record {self.seconds / 60:.0f} minutes later"


@dataclass(frozen=True, slots=True)
class RefusedPod(Fact):
    """Its kubelet refused a pod of a run. ``words``: which pod, and the kubelet's own words."""

    node: NodeName
    words: str

    @classmethod
    def of(cls, pod: Pod) -> Self:
        """The refusal of this pod, whose ``refused`` says that its node did so."""
        assert pod.node is not None
        return cls(pod.node, f"pod {pod.name}: {pod.message}")

    def sentence(self) -> str:
        return f"Node {self.node} refused {self.words}"


# --- it is given back -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldUp(Fact):
    """It held a run up, and nobody uses it."""

    def sentence(self) -> str:
        return "it slowed a run down, and no job uses it now"


@dataclass(frozen=True, slots=True)
class PodWasSlow(Fact):
    """It held up the run of a job, ``namespace/name``, which has another node now."""

    pod: int | None
    job: str

    def sentence(self) -> str:
        return f"pod {self.pod} of {self.job} was slow"


@dataclass(frozen=True, slots=True)
class NodesDrained(Fact):
    """A person ends all nodes."""

    def sentence(self) -> str:
        return "the operator was told to end all nodes (charterer drain)"


@dataclass(frozen=True, slots=True)
class BudgetGoes(Fact):
    """Its budget is being deleted."""

    budget: BudgetId

    def sentence(self) -> str:
        return f"GPUBudget {self.budget} is being deleted"


@dataclass(frozen=True, slots=True)
class PoolClosed(Fact):
    """Its pool is no longer to be used. ``words``: why."""

    words: str

    def sentence(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class HardLimitNear(Fact):
    """Its budget, or the ``parent`` above it with all below that, has all but reached the hard limit."""

    spent: Money
    committed: Money
    limit: Money | None
    parent: BudgetId | None = None

    def sentence(self) -> str:
        return (
            f"{self.spent} are spent and {self.committed} committed of a hard limit{of_parent(self.parent)} of "
            f"{self.limit}: all nodes are ended before it is reached"
        )


@dataclass(frozen=True, slots=True)
class HourlyLimitPassed(Fact):
    """The nodes of its budget, or of the ``parent`` above it and all below that, cost more an hour than they may."""

    hourly: Price
    limit: Price
    parent: BudgetId | None = None

    def sentence(self) -> str:
        whose = (
            "its budget's nodes" if self.parent is None else f"the nodes of GPUBudget {self.parent} and all below it"
        )
        return f"{whose} cost up to {self.hourly}, more than spec.maxHourlyRate ({self.limit})"


@dataclass(frozen=True, slots=True)
class Idle(Fact):
    """No job uses it, and none waits for it."""

    rental: RentalId

    def sentence(self) -> str:
        return f"no job uses {self.rental} and none waits for it"


@dataclass(frozen=True, slots=True)
class IdleUntilEnd(Fact):
    """No job uses it, and it ends soon."""

    rental: RentalId
    at: Instant

    def sentence(self) -> str:
        return f"no job uses {self.rental}, which ends at {format_minute(self.at)}"


@dataclass(frozen=True, slots=True)
class NotWaitedFor(Fact):
    """No job waits for it any more."""

    rental: RentalId

    def sentence(self) -> str:
        return f"no job waits for {self.rental} any more"


@dataclass(frozen=True, slots=True)
class GangIncomplete(Fact):
    """A job, ``namespace/name``, needs ``nodes`` nodes at once, of which ``came`` came."""

    job: str
    nodes: int
    came: int

    def sentence(self) -> str:
        return (
            f"{self.job} needs {self.nodes} nodes at once, and {self.came} came: those that no "
            "other job uses are given "
            "back"
        )


@dataclass(frozen=True, slots=True)
class GangGone(Fact):
    """Other rentals of the nodes that a job, ``namespace/name``, needs at once are gone."""

    job: str

    def sentence(self) -> str:
        return f"GPURentals of the nodes that {self.job} needs at once are gone: all are rented anew"
