"""Facts about nodes that are rented, go away, or are given back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from charterer.domain.ids import BudgetId, InstanceId, NodeName, RentalId
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.pod import Pod
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.phrases import after_colon, in_hours, name, of_parent
from charterer.domain.time import Instant, format_minute

# --- the node is rented -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnyDemand(Fact):
    """Jobs need the node. ``reserved``: its worst-case cost, which is held back from the hard limit."""

    reserved: Money

    def sentence(self) -> str:
        return f"jobs need it; the budget reserves {self.reserved}, its cost in the worst case"


@dataclass(frozen=True, slots=True)
class JobDemand(Fact):
    """A job (``namespace/name``) waits for an option that needs the node."""

    job: str
    option: Option
    reserved: Money

    def sentence(self) -> str:
        return (
            f"{self.job} waits for {name(self.option)}; the budget reserves {self.reserved}, its cost in the worst case"
        )


@dataclass(frozen=True, slots=True)
class ThereAnyway(Fact):
    """The node is in the cluster anyway, and a pool selects it."""

    def sentence(self) -> str:
        return "it is there anyway (spec.existing of the GPUPool)"


@dataclass(frozen=True, slots=True)
class PaidForAnyway(Fact):
    """The node is paid for whether used or not. ``reserved``: its worst-case cost, held back from the hard limit."""

    reserved: Money

    def sentence(self) -> str:
        return (
            f"it is paid for whether it is used or not (spec.price.committed of the GPUPool); the budget reserves "
            f"{self.reserved}, its cost in the worst case"
        )


# --- the node goes away -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeEnds(Fact):
    """The node ends at a known time, and a job leaves it before."""

    rental: RentalId
    at: Instant

    def sentence(self) -> str:
        return f"{self.rental} ends at {format_minute(self.at)}; the job leaves it first, to save its work"


@dataclass(frozen=True, slots=True)
class RentalDeleted(Fact):
    """Somebody deletes the node's rental."""

    rental: RentalId

    def sentence(self) -> str:
        return f"GPURental {self.rental} is being deleted"


@dataclass(frozen=True, slots=True)
class TakenBack(Fact):
    """The cloud takes the node back or, if not ``certain``, may do so. ``words``: the source of that, or empty.

    ``broken``: instead, GPUs of the node are or may be broken.
    """

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
    """The node, which is there anyway, is no longer used by its pool. ``words``: why."""

    rental: RentalId
    words: str

    def sentence(self) -> str:
        return f"GPURental {self.rental} is given back: {self.words}"


@dataclass(frozen=True, slots=True)
class RentalGoesAway(Fact):
    """The rental drains or has ended. ``words``: why it was released, or empty."""

    rental: RentalId
    words: str

    def sentence(self) -> str:
        return f"GPURental {self.rental} is going away{after_colon(self.words)}"


@dataclass(frozen=True, slots=True)
class NodeDeleted(Fact):
    """The Node object was deleted. ``node``: None if its name is unknown."""

    node: NodeName | None

    def sentence(self) -> str:
        return f"Node {self.node} was deleted"


@dataclass(frozen=True, slots=True)
class NodeNotReady(Fact):
    """The Node was not ready for ``seconds``."""

    node: NodeName
    seconds: float

    def sentence(self) -> str:
        return f"Node {self.node} was not ready for {self.seconds:.0f} s"


@dataclass(frozen=True, slots=True)
class NoReadyNode(Fact):
    """The instance has no ready Node ``seconds`` after its launch."""

    instance: InstanceId | None
    seconds: float

    def sentence(self) -> str:
        return f"instance {self.instance} has no ready Node {self.seconds / 60:.0f} minutes after its launch"


@dataclass(frozen=True, slots=True)
class PodHangs(Fact):
    """A pod on the node has not ended ``seconds`` after its grace period."""

    pod: str
    node: NodeName
    seconds: float

    def sentence(self) -> str:
        return (
            f"pod {self.pod} on Node {self.node} has not ended {self.seconds / 60:.0f} minutes after its grace period"
        )


@dataclass(frozen=True, slots=True)
class NotOnRecord(Fact):
    """A run (with its namespace) ended on the node, and its end is still not recorded ``seconds`` later."""

    run: str
    seconds: float

    def sentence(self) -> str:
        return f"{self.run} ended, and its end is not on record {self.seconds / 60:.0f} minutes later"


@dataclass(frozen=True, slots=True)
class RefusedPod(Fact):
    """The node's kubelet refused a pod of a run. ``words``: the pod and the kubelet's own words."""

    node: NodeName
    words: str

    @classmethod
    def of(cls, pod: Pod) -> Self:
        """The refusal of a pod, which must have ``refused`` set and a node."""
        assert pod.node is not None
        return cls(pod.node, f"pod {pod.name}: {pod.message}")

    def sentence(self) -> str:
        return f"Node {self.node} refused {self.words}"


# --- the node is given back -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldUp(Fact):
    """The node slowed a run down, and no job uses it now."""

    def sentence(self) -> str:
        return "it slowed a run down, and no job uses it now"


@dataclass(frozen=True, slots=True)
class PodWasSlow(Fact):
    """The node slowed down a job (``namespace/name``), which has another node now."""

    pod: int | None
    job: str

    def sentence(self) -> str:
        return f"pod {self.pod} of {self.job} was slow"


@dataclass(frozen=True, slots=True)
class NodesDrained(Fact):
    """A person told the operator to end all nodes."""

    def sentence(self) -> str:
        return "the operator was told to end all nodes (charterer drain)"


@dataclass(frozen=True, slots=True)
class BudgetGoes(Fact):
    """The node's budget is being deleted."""

    budget: BudgetId

    def sentence(self) -> str:
        return f"GPUBudget {self.budget} is being deleted"


@dataclass(frozen=True, slots=True)
class PoolClosed(Fact):
    """The node's pool may no longer be used. ``words``: why."""

    words: str

    def sentence(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class HardLimitNear(Fact):
    """The node's budget, or the ancestor ``parent`` with its descendants, has almost reached its hard limit."""

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
class GpuHoursNear(Fact):
    """The runs on the node's GPU type, of ``budget`` and all below it, have almost used up its amount of GPU-hours.

    Numbers are GPU-microseconds. ``until``: the period's end.
    """

    gpu_type: str
    used: int
    amount: int
    budget: BudgetId
    until: Instant

    def sentence(self) -> str:
        return (
            f"{in_hours(self.used)} of the {in_hours(self.amount)} GPU-hours of {self.gpu_type} in spec.gpuHours of "
            f"GPUBudget {self.budget} are used: all runs leave these GPUs before the amount is passed. Raise it, or "
            f"wait for the next period ({format_minute(self.until)})"
        )


@dataclass(frozen=True, slots=True)
class HourlyLimitPassed(Fact):
    """The nodes of the budget, or of the ancestor ``parent`` and its descendants, cost more per hour than allowed."""

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
    """No job uses the node, and no job waits for it."""

    rental: RentalId

    def sentence(self) -> str:
        return f"no job uses {self.rental} and none waits for it"


@dataclass(frozen=True, slots=True)
class IdleUntilEnd(Fact):
    """No job uses the node, and the node ends soon."""

    rental: RentalId
    at: Instant

    def sentence(self) -> str:
        return f"no job uses {self.rental}, which ends at {format_minute(self.at)}"


@dataclass(frozen=True, slots=True)
class NotWaitedFor(Fact):
    """No job waits for the node any more."""

    rental: RentalId

    def sentence(self) -> str:
        return f"no job waits for {self.rental} any more"


@dataclass(frozen=True, slots=True)
class GangIncomplete(Fact):
    """A job (``namespace/name``) needs ``nodes`` nodes at once, but only ``came`` came."""

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
    """A job (``namespace/name``) needs several nodes at once, and the rentals of some of them are gone."""

    job: str

    def sentence(self) -> str:
        return f"GPURentals of the nodes that {self.job} needs at once are gone: all are rented anew"
