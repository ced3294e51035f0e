"""Rentals: from an adopted instance to a ready node, to an emptied and ended one, to a folded cost, to nothing.

Money first: as soon as the cloud says that an instance has ended, its cost is recorded; clearing up what Kubernetes
still believes of the machine follows. The order of the steps is that of the functions in this file.
"""

from __future__ import annotations

from charterer.domain.billing import accrued, accrued_in
from charterer.domain.ids import RentalId
from charterer.domain.job import PodPhase, run_name
from charterer.domain.money import ZERO
from charterer.domain.period import period_end
from charterer.domain.pool import Instance, InstanceState, Survey
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.steps import (
    Cordon,
    DeleteNode,
    DeletePod,
    FailPod,
    Fold,
    Forget,
    MarkEnded,
    MarkReady,
    Refresh,
    RentalStep,
    Terminate,
    Wait,
)
from charterer.domain.time import after
from charterer.lifecycle.view import HELD, BoundPod, LifecycleView, count, draining, names, shows, vanished


def rental_step(rental_id: RentalId, view: LifecycleView) -> RentalStep | Wait | None:
    """The rental's next step, what it waits for, or None when it only has to be used."""
    rental = view.snapshot.rentals[rental_id]
    if rental.phase is RentalPhase.ENDED:
        return _clear_up(rental, view) or _settle(rental, view)
    if rental.instance is None or rental.phase is RentalPhase.REQUESTED:
        return Wait(f"an instance of GPUPool {rental.pool}")
    if (step := news(rental, view)) is not None:
        return step
    if draining(rental):
        return None if view.observes(rental.budget) else _drain(rental, view)
    return _start(rental, view)


# --- what the cloud says ---------------------------------------------------------------------------------------------


def news(rental: Rental, view: LifecycleView) -> Refresh | MarkEnded | None:
    """What the cloud says of the rental's instance that is not yet on record."""
    survey, instance = view.survey(rental), view.instance(rental)
    if survey is None:
        return None
    if instance is None:
        if vanished(rental, instance, survey):
            return MarkEnded(rental.id, survey.asked, accrued(rental, survey.asked), estimated=True)
        return None
    if _tells_more(instance, rental):
        return Refresh(rental.id, instance)
    if instance.state is not InstanceState.ENDED:
        return None
    ended = survey.asked if instance.ended is None else instance.ended
    return MarkEnded(rental.id, ended, accrued(rental, ended), estimated=instance.ended is None)


def _tells_more(instance: Instance, rental: Rental) -> bool:
    """Whether the list knows better than the record. A list that lags shows fewer price segments: that is no news."""
    return (
        instance.segments != rental.segments[: len(instance.segments)]
        or instance.launched != rental.launched
        or instance.billing_minimum_seconds != rental.billing_minimum_seconds
        or bool(instance.provider_id and instance.provider_id != rental.provider_id)
        or (instance.node is not None and rental.node is None)
    )


# --- starting and ending ---------------------------------------------------------------------------------------------


def _start(rental: Rental, view: LifecycleView) -> RentalStep | Wait | None:
    if rental.phase is RentalPhase.READY:
        return None
    node = view.node(rental)
    if node is None:
        return Wait(f"the Node of instance {rental.instance}")
    if not node.ready or node.deleting:
        return Wait(f"Node {node.name} to be ready")
    return MarkReady(rental.id, node.name, view.snapshot.now)


def _drain(rental: Rental, view: LifecycleView) -> RentalStep | Wait:
    node = view.node(rental)
    if node is not None and not node.unschedulable and not node.deleting:
        return Cordon(rental.id, node.name, node.uid)
    busy = _in_use(rental, view)
    if busy:
        return Wait(busy)
    instance = view.instance(rental)
    if instance is None or view.survey(rental) is None:
        return Wait(f"the cloud to list instance {rental.instance}")
    if instance.state not in HELD:
        return Wait(f"the end of instance {instance.id}")
    return Terminate(rental.id, rental.pool, instance, None if node is None else node.name)


def _in_use(rental: Rental, view: LifecycleView) -> str:
    """Why the machine may not be ended yet; empty when it may.

    A finished pod counts as long as its run is not recorded: it is the only proof that the run completed, and ending
    the machine would take it away. A failed run is recorded only once its machines were seen healthy after it, and one
    that was stopped before its machine ends or it would count as interrupted (its Job is seen apart from its pods).
    A node that is lost, or whose Node was deleted, holds nothing: its pods can no longer be stopped but by its end.
    """
    node = view.node(rental)
    if rental.ready is not None and (node is None or node.lost(view.snapshot.now)):
        return ""
    holding = [bound for bound in view.pods(rental) if bound.pod.live or not bound.recorded]
    if holding:
        return f"{count(len(holding), 'pod')} on its node ({names(bound.pod.name for bound in holding)})"
    if rental.id in view.ending:
        return f"the end of {names(view.ending[rental.id])} to be on record"
    if node is not None and node.foreign_gpus:
        return f"pods that Charterer did not start, with {count(node.foreign_gpus, 'GPU')}, on Node {node.name}"
    return ""


def may_terminate(rental: Rental, view: LifecycleView) -> bool:
    """Whether the rental's own next step is to end its instance."""
    if not draining(rental) or rental.instance is None or view.observes(rental.budget):
        return False
    node = view.node(rental)
    return (node is None or node.unschedulable or node.deleting) and not _in_use(rental, view)


# --- after the end: Kubernetes ---------------------------------------------------------------------------------------


def _clear_up(rental: Rental, view: LifecycleView) -> RentalStep | Wait | None:
    """Tell Kubernetes that the machine is gone, or its pods would hang for minutes or for good."""
    if rental.instance is None or view.observes(rental.budget):
        return None
    instance, survey = view.instance(rental), view.survey(rental)
    if instance is not None and survey is not None and instance.state in HELD:
        return _end_again(rental, instance, survey)
    pods = view.pods(rental)
    for bound in pods:
        if bound.pod.live:
            return FailPod(bound.job.namespace, bound.pod)
    for bound in pods:
        if _litter(bound):
            return DeletePod(bound.job.namespace, bound.pod)
    node = view.node(rental)
    if node is None or node.deleting:
        return None
    unrecorded = sorted({run_name(bound.job.name, bound.pod.run) for bound in pods if not bound.recorded})
    if unrecorded:  # deleting the Node has its finished pods collected, and with them the proof that the run completed
        return _settle(rental, view, beside=f"the record of {names(unrecorded)} before its Node goes")
    return DeleteNode(rental.id, node.name, node.uid)


def _end_again(rental: Rental, instance: Instance, survey: Survey) -> RentalStep | Wait:
    """The rental was taken for ended and its instance is there: a list that lags, or a cloud that broke its word."""
    if rental.ended is not None and shows(survey, rental.ended):
        return Terminate(rental.id, rental.pool, instance, None)
    return Wait(f"a list that shows the end of instance {instance.id}")


def _litter(bound: BoundPod) -> bool:
    """A dead pod that nothing will be read from any more. Succeeded ones stay until their run is recorded."""
    return bound.recorded or (bound.pod.disrupted and bound.pod.phase is PodPhase.FAILED)


# --- after the end: money --------------------------------------------------------------------------------------------


def _settle(rental: Rental, view: LifecycleView, beside: str = "") -> RentalStep | Wait:
    """Fold the final cost into the budget, then forget the rental; ``beside`` is what forgetting waits for as well."""
    budget = view.snapshot.budgets.get(rental.budget)
    if budget is None:
        return Wait(
            f"GPUBudget {rental.budget}, which is gone: create it again to account for "
            f"{'nothing' if rental.cost is None else rental.cost}, or remove the finalizer of GPURental {rental.id}"
        )
    balance = budget.balance
    if balance is None:
        return Wait(f"the first period of GPUBudget {budget.id} to be opened")
    if rental.uid not in balance.folded:
        end = period_end(budget.time_zone, balance.period_start)
        if rental.ended is not None and rental.ended > end:
            return Wait(f"the next period of GPUBudget {budget.id}, in which it ended", until=end)
        whole = ZERO if rental.cost is None else rental.cost
        in_period = whole if rental.ended is None else accrued_in(rental, balance.period_start, rental.ended)
        return Fold(rental.id, rental.uid, budget.id, in_period, whole, balance.period_start)
    return Wait(beside) if beside else _forget(rental, view)


def _forget(rental: Rental, view: LifecycleView) -> RentalStep | Wait:
    """Only when no list can show the instance again: without a rental it would be adopted, and paid twice."""
    node, survey = view.node(rental), view.survey(rental)
    if rental.instance is not None:
        if survey is None:
            return Wait(f"the cloud to be asked about GPUPool {rental.pool}")
        if view.instance(rental) is not None:
            return Wait(f"instance {rental.instance} to leave the cloud's list")
        if rental.ended is not None and not shows(survey, after(rental.ended, survey.listed_seconds)):
            return Wait(f"instance {rental.instance} to have left the cloud's list for good")
    if node is not None:
        return Wait(f"Node {node.name} to be gone")
    return Forget(rental.id)
