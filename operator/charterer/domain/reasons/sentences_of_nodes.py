"""Sentences of nodes that are rented, go away, or are given back."""

from __future__ import annotations

from charterer.domain.reasons import facts_of_nodes as of
from charterer.domain.reasons.phrases import after_colon, name, of_parent
from charterer.domain.reasons.room import tell
from charterer.domain.time import format_minute


@tell.register
def _(node: of.AnyDemand) -> str:
    return f"jobs need it; the budget reserves {node.reserved}, its cost in the worst case"


@tell.register
def _(node: of.JobDemand) -> str:
    return f"{node.job} waits for {name(node.option)}; the budget reserves {node.reserved}, its cost in the worst case"


@tell.register
def _(node: of.PaidForAnyway) -> str:
    return (
        f"it is paid for whether it is used or not (spec.price.committed of the GPUPool); the budget reserves "
        f"{node.reserved}, its cost in the worst case"
    )


@tell.register
def _(node: of.NodeEnds) -> str:
    return f"{node.rental} ends at {format_minute(node.at)}; the job leaves it first, to save its work"


@tell.register
def _(node: of.RentalDeleted) -> str:
    return f"GPURental {node.rental} is being deleted"


@tell.register
def _(node: of.TakenBack) -> str:
    whose = f" ({node.words})" if node.words else ""
    if node.broken:
        return f"GPUs of {node.instance} of {node.rental} {'are' if node.certain else 'may be'} broken{whose}"
    verb = "takes" if node.certain else "may take"
    return f"the cloud {verb} back {node.instance} of {node.rental}{whose}"


@tell.register
def _(node: of.RentalGoesAway) -> str:
    return f"GPURental {node.rental} is going away{after_colon(node.words)}"


@tell.register
def _(node: of.NodeDeleted) -> str:
    return f"Node {node.node} was deleted"


@tell.register
def _(node: of.NodeNotReady) -> str:
    return f"Node {node.node} was not ready for {node.seconds:.0f} s"


@tell.register
def _(node: of.NoReadyNode) -> str:
    return f"instance {node.instance} has no ready Node {node.seconds / 60:.0f} minutes after its launch"


@tell.register
def _(node: of.PodHangs) -> str:
    return f"pod {node.pod} on Node {node.node} has not ended {node.seconds / 60:.0f} minutes after its grace period"


@tell.register
def _(node: of.RefusedPod) -> str:
    return f"Node {node.node} refused {node.words}"


@tell.register
def _(node: of.NotOnRecord) -> str:
    return f"{node.run} ended, and its end is not on record {node.seconds / 60:.0f} minutes later"


@tell.register
def _(_: of.HeldUp) -> str:
    return "it slowed a run down, and no job uses it now"


@tell.register
def _(node: of.PodWasSlow) -> str:
    return f"pod {node.pod} of {node.job} was slow"


@tell.register
def _(_: of.NodesDrained) -> str:
    return "the operator was told to end all nodes (charterer drain)"


@tell.register
def _(node: of.BudgetGoes) -> str:
    return f"GPUBudget {node.budget} is being deleted"


@tell.register
def _(node: of.PoolClosed) -> str:
    return node.words


@tell.register
def _(node: of.HardLimitNear) -> str:
    return (
        f"{node.spent} are spent and {node.committed} committed of a hard limit{of_parent(node.parent)} of "
        f"{node.limit}: all nodes are ended before it is reached"
    )


@tell.register
def _(node: of.HourlyLimitPassed) -> str:
    whose = "its budget's nodes" if node.parent is None else f"the nodes of GPUBudget {node.parent} and all below it"
    return f"{whose} cost up to {node.hourly}, more than spec.maxHourlyRate ({node.limit})"


@tell.register
def _(node: of.Idle) -> str:
    return f"no job uses {node.rental} and none waits for it"


@tell.register
def _(node: of.IdleUntilEnd) -> str:
    return f"no job uses {node.rental}, which ends at {format_minute(node.at)}"


@tell.register
def _(node: of.NotWaitedFor) -> str:
    return f"no job waits for {node.rental} any more"


@tell.register
def _(node: of.GangIncomplete) -> str:
    return (
        f"{node.job} needs {node.nodes} nodes at once, and {node.came} came: those that no other job uses are given "
        "back"
    )


@tell.register
def _(node: of.GangGone) -> str:
    return f"GPURentals of the nodes that {node.job} needs at once are gone: all are rented anew"
