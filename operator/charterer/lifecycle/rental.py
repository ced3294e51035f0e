"""Rentals: from an adopted instance to a ready node, a drained and ended one, a folded cost, and a deleted object.

Money comes first: as soon as the cloud says that an instance has ended, its cost is recorded. What Kubernetes still has
of the machine is removed after that. The functions of this file are in the order of the steps.
"""

from __future__ import annotations

from math import ceil

from charterer.domain.billing import accrued, accrued_in
from charterer.domain.budget import FOLDED_KEPT
from charterer.domain.ids import RentalId
from charterer.domain.job import PodPhase, run_name
from charterer.domain.money import ZERO
from charterer.domain.period import period_end
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import Instance, InstanceState, Pool, Survey
from charterer.domain.rental import SEGMENTS_KEPT, Rental, RentalPhase
from charterer.domain.snapshot import Stop
from charterer.domain.steps import (
    Cordon,
    DeleteNode,
    DeletePod,
    FailPod,
    Fold,
    Forget,
    MarkDraining,
    MarkEnded,
    MarkMissing,
    MarkReady,
    Refresh,
    RentalStep,
    Terminate,
    Wait,
)
from charterer.domain.time import Instant, after, seconds_between
from charterer.lifecycle.view import COUNTED_STATES, BoundPod, LifecycleView, draining, missing, must_show, vanished
from charterer.sentences import count, names

_PATIENCE_SECONDS = 600.0
"""Seconds after which a released machine is ended whatever keeps it, counted from when it ought to be empty."""
_STRANGER_GPU_SECONDS = 3600.0
"""Seconds that pods of others with GPUs may go on on a released machine before they are asked to leave."""
_LAST_PATIENCE_SECONDS = 60.0
"""The same where a hard limit ends the machine, which holds money back for ``hard_limit.MARGIN_SECONDS`` only."""


def rental_step(rental_id: RentalId, view: LifecycleView) -> RentalStep | Wait | None:
    """The rental's next step, what it waits for, or None when it only has to be used."""
    rental = view.snapshot.rentals[rental_id]
    if rental.phase is RentalPhase.ENDED:
        return _remove_from_kubernetes(rental, view) or _settle(rental, view)
    if rental.phase is not RentalPhase.DRAINING and (rental.deleting or view.snapshot.stop is Stop.DRAIN):
        return MarkDraining(rental.id, (ReasonCode.DELETED if rental.deleting else ReasonCode.STOPPED).value)
    if rental.missing_since is not None and view.instance(rental) is not None:
        return MarkMissing(rental.id, None)
    if rental.instance is None or rental.phase is RentalPhase.REQUESTED:
        return Wait(f"an instance of GPUPool {rental.pool}")
    update = cloud_update(rental, view)
    if not draining(rental) or _left_alone(rental, view):
        return update or (None if draining(rental) else _start(rental, view))
    if update is not None and (not isinstance(update, Refresh) or _node_unknown(rental)):
        return update
    step = _drain(rental, view)
    return update if update is not None and isinstance(step, Wait) else step


def _node_unknown(rental: Rental) -> bool:
    """Whether nothing is on record by which its Node could be found, and with it the pods there."""
    return rental.node is None and not rental.provider_id


def _left_alone(rental: Rental, view: LifecycleView) -> bool:
    """Whether the rental's budget only observes, so that its machine is not ended; a person's order to drain is."""
    return view.observes(rental.budget) and view.snapshot.stop is not Stop.DRAIN


# --- what the cloud says ---------------------------------------------------------------------------------------------


def note_missing(rental: Rental, instance: Instance | None, survey: Survey, now: Instant) -> MarkMissing | None:
    """The step that records that the list lacks the instance for the first time.

    A list may be older than an instance of which only the cloud's reply is known: that one is missing from ``now`` on.
    """
    if rental.missing_since is not None or not missing(rental, instance, survey):
        return None
    return MarkMissing(rental.id, max(survey.asked, now) if rental.launched is None else survey.asked)


def cloud_update(rental: Rental, view: LifecycleView) -> Refresh | MarkEnded | MarkMissing | None:
    """The step that records what the cloud says of the rental's instance; None when all of it is on record."""
    survey, instance = view.survey(rental), view.instance(rental)
    if survey is None:
        return None
    if instance is None:
        if vanished(rental, instance, survey) and rental.missing_since is not None:
            return MarkEnded(rental.id, rental.missing_since, accrued(rental, rental.missing_since), estimated=True)
        return note_missing(rental, instance, survey, view.snapshot.now)
    if _differs_from_record(instance, rental):
        return Refresh(rental.id, instance)
    if instance.state is not InstanceState.ENDED:
        return None
    ended = survey.asked if instance.ended is None else instance.ended
    return MarkEnded(rental.id, ended, accrued(rental, ended), estimated=instance.ended is None)


def ended_unread(rental: Rental, pool: Pool) -> MarkEnded | None:
    """The end of an instance that left the list before anything of it was read.

    It was launched, so it costs something: its worst price from when it was known until it was missing, and no less
    than the billing minimum.
    """
    if rental.missing_since is None:
        return None
    least = 0 if pool.quote is None else pool.quote.billing_minimum_seconds
    seconds = max(ceil(seconds_between(rental.named or rental.created, rental.missing_since)), least)
    return MarkEnded(rental.id, rental.missing_since, rental.worst.cost(seconds), estimated=True)


def _differs_from_record(instance: Instance, rental: Rental) -> bool:
    """Whether the list has more than the record. A list that lags has fewer price segments, which changes nothing."""
    return (
        instance.segments[:SEGMENTS_KEPT] != rental.segments[: len(instance.segments)]
        or rental.launch(instance) != rental.launched
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
    if node.gpus == 0:
        return Wait(f"the device plugin to report GPUs of Node {node.name}")
    return MarkReady(rental.id, node.name, view.snapshot.now)


def _drain(rental: Rental, view: LifecycleView) -> RentalStep | Wait:
    node = view.node(rental)
    if node is not None and not node.unschedulable and not node.deleting:
        return Cordon(rental.id, node.name, node.uid)
    busy = _in_use(rental, view)
    if busy is not None:
        return busy
    instance = view.instance(rental)
    if instance is None or view.survey(rental) is None:
        return Wait(f"the cloud to list instance {rental.instance}")
    if instance.state not in COUNTED_STATES:
        return Wait(f"the end of instance {instance.id}")
    evict_from, patience_until = _patience(rental, view)
    name = None if node is None else node.name
    return Terminate(rental.id, view.acting(rental.pool), instance, name, evict_from, patience_until)


def _patience(rental: Rental, view: LifecycleView) -> tuple[Instant, Instant]:
    """From when pods that Charterer did not start are asked to leave the machine, and until when they may keep it."""
    node, released = view.node(rental), _released(rental, view)
    lenient = node is not None and node.foreign_gpus > 0 and not _limited(rental)
    evict_from = after(released, _STRANGER_GPU_SECONDS) if lenient else released
    return evict_from, after(max(evict_from, _own_end(rental, view)), _patience_seconds(rental))


def _limited(rental: Rental) -> bool:
    return rental.released_because == ReasonCode.HARD_LIMIT


def _patience_seconds(rental: Rental) -> float:
    return _LAST_PATIENCE_SECONDS if _limited(rental) else _PATIENCE_SECONDS


def _released(rental: Rental, view: LifecycleView) -> Instant:
    return view.snapshot.now if rental.released is None else rental.released


def _own_end(rental: Rental, view: LifecycleView) -> Instant:
    """When the grace periods end of the jobs that have pods on the machine, or runs to be recorded."""
    graces = [bound.job.grace_seconds for bound in view.pods(rental)]
    graces += [ending.grace_seconds for ending in view.ending.get(rental.id, ())]
    return after(_released(rental, view), max(graces, default=0))


def _in_use(rental: Rental, view: LifecycleView) -> Wait | None:
    """Why the machine may not be ended yet, for reasons of Charterer's own; None when it may.

    A finished pod counts until its run is recorded: it is the only proof that the run completed, and would be lost with
    the machine. A run that failed is recorded once its machines were seen healthy afterwards. A run that was stopped
    must be recorded before its machine ends, or it would count as interrupted (its Job is watched apart from its pods).
    A node that is lost, or whose Node object was deleted, holds nothing: only its end can still stop its pods. Nor does
    anything hold it for long after the jobs' grace period (``_patience_seconds``): the machine is paid for.
    """
    node = view.node(rental)
    if rental.ready is not None and (node is None or node.lost(view.snapshot.now)):
        return None
    until = after(_own_end(rental, view), _patience_seconds(rental))
    if view.snapshot.now >= until:
        return None
    holding = [bound for bound in view.pods(rental) if bound.pod.live or not bound.recorded]
    if holding:
        pods = f"{count(len(holding), 'pod')} on its node ({names(bound.pod.name for bound in holding)})"
        return Wait(pods, until=until)
    if rental.id in view.ending:
        ended = names(ending.run for ending in view.ending[rental.id])
        return Wait(f"the end of {ended} to be on record", until=until)
    return None


def may_terminate(rental: Rental, view: LifecycleView) -> bool:
    """Whether the rental's own next step is to end its instance, and nobody else's pods are known to keep it."""
    if not draining(rental) or rental.instance is None or _left_alone(rental, view):
        return False
    node = view.node(rental)
    if rental.held_by or (node is not None and node.foreign_gpus):
        return view.snapshot.now >= _patience(rental, view)[1]
    return (node is None or node.unschedulable or node.deleting) and _in_use(rental, view) is None


# --- after the end: Kubernetes ---------------------------------------------------------------------------------------


def _remove_from_kubernetes(rental: Rental, view: LifecycleView) -> RentalStep | Wait | None:
    """Fail and delete pods and Node of a machine that is gone; Kubernetes would keep them for minutes or for ever."""
    if rental.instance is None or _left_alone(rental, view):
        return None
    instance, survey = view.instance(rental), view.survey(rental)
    if instance is not None and survey is not None and instance.state in COUNTED_STATES:
        return _end_again(rental, instance, survey, view)
    pods = view.pods(rental)
    for bound in pods:
        if bound.pod.live:
            return FailPod(bound.job.namespace, bound.pod)
    for bound in pods:
        if _deletable(bound):
            return DeletePod(bound.job.namespace, bound.pod)
    node = view.node(rental)
    if node is None or node.deleting:
        return None
    unrecorded = sorted({run_name(bound.job.name, bound.pod.run) for bound in pods if not bound.recorded})
    if unrecorded:  # with the Node its finished pods are deleted, and with them the proof that the run completed
        return _settle(rental, view, also_wait_for=f"the record of {names(unrecorded)} before its Node goes")
    return DeleteNode(rental.id, node.name, node.uid)


def _end_again(rental: Rental, instance: Instance, survey: Survey, view: LifecycleView) -> RentalStep | Wait:
    """An ended rental's instance is listed as alive: the list is too old, or the cloud had reported a wrong end."""
    if must_show(survey, rental.created if rental.ended is None else rental.ended):
        return Terminate(rental.id, view.acting(rental.pool), instance, None)
    return Wait(f"a list that must show the end of instance {instance.id}")


def _deletable(bound: BoundPod) -> bool:
    """Whether nothing will be read from a dead pod any more. Succeeded ones stay until their run is recorded."""
    return bound.recorded or (bound.pod.disrupted and bound.pod.phase is PodPhase.FAILED)


# --- after the end: money --------------------------------------------------------------------------------------------


def _settle(rental: Rental, view: LifecycleView, also_wait_for: str = "") -> RentalStep | Wait:
    """Fold the final cost into the budget, then forget the rental, once ``also_wait_for`` (if any) has happened."""
    budget = view.snapshot.budgets.get(rental.budget)
    if budget is None:
        if rental.deleting:
            return Wait(also_wait_for) if also_wait_for else _forget(rental, view)
        return Wait(
            f"GPUBudget {rental.budget}, which is gone: create it again to account for "
            f"{'nothing' if rental.cost is None else rental.cost}, or delete GPURental {rental.id}"
        )
    if rental.deleting and budget.created > max(rental.created, rental.ended or rental.created):
        return Wait(also_wait_for) if also_wait_for else _forget(rental, view)  # a former budget of this name paid
    balance = budget.balance
    if balance is None:
        return Wait(f"the first period of GPUBudget {budget.id} to be opened")
    if rental.uid not in balance.folded:
        end = period_end(budget.time_zone, balance.period_start)
        if rental.ended is not None and rental.ended > end:
            return Wait(f"the next period of GPUBudget {budget.id}, in which it ended", until=end)
        if len(balance.folded) >= FOLDED_KEPT:
            return Wait(f"some of the {FOLDED_KEPT} rentals that GPUBudget {budget.id} has counted to be gone")
        whole = ZERO if rental.cost is None else rental.cost
        in_period = whole if rental.ended is None else accrued_in(rental, balance.period_start, rental.ended)
        return Fold(rental.id, rental.uid, budget.id, in_period, whole, balance.period_start)
    if budget.deleting and not rental.deleting:
        return Forget(rental.id)  # its object waits for the cloud's list without the budget
    if balance.costs.lifetime != balance.lifetime:
        return Wait(f"GPUBudget {budget.id} to record what its cost was for")
    return Wait(also_wait_for) if also_wait_for else _forget(rental, view)


def _forget(rental: Rental, view: LifecycleView) -> RentalStep | Wait:
    """Forget the rental once no list can show its instance again: it would be adopted anew and paid twice.

    That goes for the lists of all pools with the same machines, since any of them may have to act next.
    """
    node = view.node(rental)
    if rental.instance is not None:
        if view.survey(rental) is None:
            return Wait(f"the cloud to be asked about GPUPool {rental.pool}")
        for survey in view.surveys_of_group(rental):
            if rental.instance in view.instances[survey.pool]:
                return Wait(f"instance {rental.instance} to leave the cloud's list of GPUPool {survey.pool}")
            if rental.ended is not None and not must_show(survey, after(rental.ended, survey.traits.listed_seconds)):
                return Wait(f"instance {rental.instance} to have left the cloud's list for good")
    if node is not None:
        return Wait(f"Node {node.name} to be gone")
    return Forget(rental.id)
