"""The life cycle of a rental: adopt an instance, wait for its Node, drain and end the machine, fold its cost, and
delete the object.

The cost is recorded first, as soon as the cloud says that an instance has ended. The machine's Node and pods are
removed from Kubernetes afterwards. ``ROWS`` has the steps in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import ceil
from typing import Generic, TypeVar

from charterer.domain.billing import accrued, accrued_in
from charterer.domain.budget import FOLDED_KEPT, Budget
from charterer.domain.gpu_time import gpu_type_of, held_in
from charterer.domain.ids import RentalId
from charterer.domain.money import ZERO, Money
from charterer.domain.option import GPU
from charterer.domain.plan import ReasonCode
from charterer.domain.pod import PodPhase
from charterer.domain.pool import Instance, InstanceState, Pool, Survey
from charterer.domain.rental import INSTANCE_ENDED, SEGMENTS_KEPT, VANISHED, Rental, RentalPhase
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
    RecordUses,
    Refresh,
    RentalStep,
    Terminate,
    Uncordon,
    Wait,
)
from charterer.domain.time import Instant, after, seconds_between
from charterer.ledger.cost_rows import next_part
from charterer.lifecycle.view import (
    COUNTED_STATES,
    LifecycleView,
    draining,
    left_alone,
    missing,
    must_show,
    takes_pods,
    uses_now,
    vanished,
)
from charterer.sentences import count, names

# After a rental's machine has ended, the Node and pods are removed, the budget pays, and the rental is deleted. The
# functions here are rows of ``ROWS``, in its order.


# --- Kubernetes ------------------------------------------------------------------------------------------------------


def _cleared(rental: Rental, view: LifecycleView) -> bool:
    """Whether Charterer removes the machine's Node and pods, which Kubernetes would keep for minutes or for ever.

    Nothing of an own node is removed, because the node and its pods may go on.
    """
    return rental.instance is not None and rental.cloud.rents and not left_alone(rental, view)


def end_again(rental: Rental, view: LifecycleView) -> Terminate | Wait | None:
    """End an instance that is listed as alive, because the list is too old or the cloud had reported a wrong end."""
    instance, survey = view.instance(rental), view.survey(rental)
    if instance is None or survey is None or instance.state not in COUNTED_STATES or not _cleared(rental, view):
        return None
    if must_show(survey, rental.created if rental.ended is None else rental.ended):
        return Terminate(rental.id, view.acting(rental.pool), instance, None)
    return Wait(f"a list that must show the end of instance {instance.id}")


def fail_pod(rental: Rental, view: LifecycleView) -> FailPod | None:
    """Mark a pod as failed if it is alive only by its status."""
    for bound in view.pods(rental) if _cleared(rental, view) else ():
        if bound.pod.live:
            return FailPod(bound.job.namespace, bound.pod)
    return None


def delete_pod(rental: Rental, view: LifecycleView) -> DeletePod | None:
    """Delete a dead pod that Kubernetes would keep until the kubelet of its node answers.

    A pod that ended by itself holds nothing, and Kubernetes collects it once its Node is gone.
    """
    for bound in view.pods(rental) if _cleared(rental, view) else ():
        disrupted = bound.pod.disrupted and bound.pod.phase is PodPhase.FAILED
        if disrupted or (bound.recorded and bound.pod.deleting):
            return DeletePod(bound.job.namespace, bound.pod)
    return None


def delete_node(rental: Rental, view: LifecycleView) -> DeleteNode | None:
    """Delete the Node, once the run of each pod on it is recorded."""
    node = view.node(rental)
    if node is None or node.deleting or not _cleared(rental, view) or _unrecorded(rental, view):
        return None
    return DeleteNode(rental.id, node.name, node.uid)


def _unrecorded(rental: Rental, view: LifecycleView) -> Sequence[str]:
    """The runs with pods on the machine that are not recorded.

    The end of the Node would delete their finished pods, and with them the proof that a run completed.
    """
    return sorted({bound.job.run_title(bound.pod.run) for bound in view.pods(rental) if not bound.recorded})


# --- money -----------------------------------------------------------------------------------------------------------


def unpaid(rental: Rental, view: LifecycleView) -> Wait | None:
    """Wait for the budget that has to pay, unless somebody has deleted the rental."""
    if rental.budget in view.snapshot.budgets or rental.deleting:
        return None
    return Wait(
        f"GPUBudget {rental.budget}, which is gone: create it again to account for "
        f"{'nothing' if rental.cost is None else rental.cost}, or delete GPURental {rental.id}"
    )


def payer_of(rental: Rental, view: LifecycleView) -> Budget | None:
    """The budget whose balance gets the cost, or None if the budget that paid is gone, or is only a namesake now."""
    budget = view.snapshot.budgets.get(rental.budget)
    if budget is None or (rental.deleting and budget.created > max(rental.created, rental.ended or rental.created)):
        return None
    return budget


def await_fold(rental: Rental, view: LifecycleView) -> Wait | None:
    """Wait until the final cost is in the budget's balance, which a step of the budget writes for all its rentals."""
    entry = fold(rental, view)
    if not isinstance(entry, Fold):
        return entry
    balance = view.snapshot.budgets[entry.budget].balance
    if balance is not None and len(balance.folded) >= FOLDED_KEPT:
        return Wait(f"some of the {FOLDED_KEPT} rentals that GPUBudget {entry.budget} has counted to be gone")
    return Wait(f"GPUBudget {entry.budget} to add its cost")


def fold(rental: Rental, view: LifecycleView) -> Fold | Wait | None:
    """The entry that adds the final cost to the balance, in the period in which the rental ended, or the wait for it.

    None if the cost is in the balance already, or if no budget pays.
    """
    budget = payer_of(rental, view)
    if budget is None:
        return None
    balance = budget.balance
    if balance is None:
        return Wait(f"the first period of GPUBudget {budget.id} to be opened")
    if rental.uid in balance.folded:
        return None
    end = budget.calendar.end(balance.period_start)
    if rental.ended is not None and rental.ended > end:
        return Wait(f"the next period of GPUBudget {budget.id}, in which it ended", until=end)
    whole = ZERO if rental.cost is None else rental.cost
    in_period = whole if rental.ended is None else accrued_in(rental, balance.period_start, rental.ended)
    ended = view.snapshot.now if rental.ended is None else rental.ended
    held = held_in(rental, balance.period_start, ended)
    gpu_time = {gpu_type_of(rental, view.snapshot.pools): held} if held else {}
    return Fold(rental.id, rental.uid, budget.id, in_period, whole, balance.period_start, gpu_time)


def await_record(rental: Rental, view: LifecycleView) -> Wait | None:
    """Wait until all costs of the rental are in the record of costs."""
    if on_record(rental, view):
        return None
    refused = view.snapshot.cost_recording.refused
    return Wait(f"its cost to be put on record{f': {refused}' if refused else ''}")


def on_record(rental: Rental, view: LifecycleView) -> bool:
    """Whether the record of costs has all costs of an ended rental, or there is no record of costs, or no budget
    pays."""
    budget = payer_of(rental, view)
    return (
        not view.snapshot.cost_recording.place or budget is None or next_part(rental, budget.calendar.time_zone) is None
    )


def forget_with_budget(rental: Rental, view: LifecycleView) -> Forget | None:
    """Delete a rental whose budget is being deleted, so that only the rental waits for the cloud's list."""
    budget = payer_of(rental, view)
    return Forget(rental.id) if budget is not None and budget.deleting and not rental.deleting else None


def forget(rental: Rental, view: LifecycleView) -> Forget | Wait:
    """Forget the rental once no list can show its instance again. Otherwise the instance would be adopted and paid for
    twice.

    The lists of all pools with the same machines count, since any of these pools may act next.
    """
    budget, node = payer_of(rental, view), view.node(rental)
    if budget is not None and budget.balance is not None and budget.balance.costs.lifetime != budget.balance.lifetime:
        return Wait(f"GPUBudget {budget.id} to record what its cost was for")
    if node is not None and not node.deleting and _cleared(rental, view):
        return Wait(f"the record of {names(_unrecorded(rental, view))} before its Node goes")
    if rental.instance is not None:
        if view.survey(rental) is None:
            return Wait(f"the cloud to be asked about GPUPool {rental.pool}")
        for survey in view.surveys_of_group(rental):
            if rental.instance in view.instances[survey.pool]:
                return Wait(f"instance {rental.instance} to leave the cloud's list of GPUPool {survey.pool}")
            if rental.ended is not None and not must_show(survey, after(rental.ended, survey.traits.listed_seconds)):
                return Wait(f"instance {rental.instance} to have left the cloud's list for good")
    if node is not None and rental.cloud.rents:
        return Wait(f"Node {node.name} to be gone")
    return Forget(rental.id)


# Tables of steps have their rows in the order in which they are tried. docs/development/lifecycle.md lists the rows by
# name.


_Subject = TypeVar("_Subject")
_Step = TypeVar("_Step")


@dataclass(frozen=True, slots=True)
class Row(Generic[_Subject, _Step]):
    """One row of a table of steps. ``step``: returns the next step, the wait, or None if the row does not apply.

    ``meanwhile``: whether the row is also tried while a row above it waits.
    """

    step: Callable[[_Subject, LifecycleView], _Step | Wait | None]
    meanwhile: bool = False


def first_step(rows: Iterable[Row[_Subject, _Step]], subject: _Subject, view: LifecycleView) -> _Step | Wait | None:
    """The step or wait of the first row that applies. After a wait, only ``meanwhile`` rows are tried for a step."""
    waits: Wait | None = None
    for row in rows:
        if waits is None or row.meanwhile:
            step = row.step(subject, view)
            if isinstance(step, Wait):
                waits = waits or step
            elif step is not None:
                return step
    return waits


_PATIENCE_SECONDS = 600.0
"""Seconds after which a released machine is ended whatever still runs there. They count from the time when the
machine should be empty."""
_FOREIGN_GPU_SECONDS = 3600.0
"""Seconds for which other people's pods with GPUs may continue on a released machine before they are evicted."""
_LAST_PATIENCE_SECONDS = 60.0
"""``_PATIENCE_SECONDS`` under a hard limit, which reserves money for ``limits.MARGIN_SECONDS`` only."""


def rental_step(rental_id: RentalId, view: LifecycleView) -> RentalStep | Wait | None:
    """The rental's next step or wait, or None if nothing is due."""
    rental = view.snapshot.rentals[rental_id]
    return first_step(_ROWS_OF_PHASE[rental.phase], rental, view)


def is_used(rental: Rental, instance: Instance | None, recorded: bool | None) -> bool:
    """Whether the rental is ready and unchanged, so that it has no step unless the operator drains. Most rentals are.

    ``instance``: the rental's instance as the cloud lists it. ``recorded``: whether the rental's uses are on record.
    """
    return bool(
        rental.phase is RentalPhase.READY
        and recorded
        and not rental.deleting
        and rental.missing_since is None
        and instance is not None
        and instance.state is not InstanceState.ENDED
        and not _differs_from_record(instance, rental)
    )


def _let_go(rental: Rental, view: LifecycleView) -> MarkDraining | None:
    """Mark a rental for draining if its object is being deleted, or if the operator drains."""
    if rental.deleting or view.snapshot.stop is Stop.DRAIN:
        return MarkDraining(rental.id, (ReasonCode.DELETED if rental.deleting else ReasonCode.STOPPED).value)
    return None


def _await_instance(rental: Rental, view: LifecycleView) -> Wait | None:
    if rental.instance is None or rental.phase is RentalPhase.REQUESTED:
        return Wait(f"an instance of GPUPool {rental.pool}")
    return None


# --- what the cloud says ---------------------------------------------------------------------------------------------


def note_missing(rental: Rental, instance: Instance | None, survey: Survey, now: Instant) -> MarkMissing | None:
    """The step that records that the list lacks the instance for the first time.

    If only the cloud's reply named the instance, a list may be older than the instance. The instance is then missing
    from ``now`` on.
    """
    if rental.missing_since is not None or not missing(rental, instance, survey):
        return None
    since = max(survey.asked, now) if rental.launched is None else survey.asked
    return MarkMissing(replace(rental, missing_since=since))


def cloud_update(rental: Rental, view: LifecycleView) -> Refresh | MarkEnded | MarkMissing | None:
    """The step that records the cloud's facts about the rental's instance, or None if all facts are on record."""
    return _not_listed(rental, view) or _refresh(rental, view) or _ended(rental, view)


def _listed_again(rental: Rental, view: LifecycleView) -> MarkMissing | None:
    if rental.missing_since is None or view.instance(rental) is None:
        return None
    return MarkMissing(replace(rental, missing_since=None))


def _not_listed(rental: Rental, view: LifecycleView) -> MarkEnded | MarkMissing | None:
    survey, instance = view.survey(rental), view.instance(rental)
    if survey is None or instance is not None:
        return None
    if vanished(rental, instance, survey) and rental.missing_since is not None:
        return _at_its_end(rental, rental.missing_since, accrued(rental, rental.missing_since), estimated=True)
    return note_missing(rental, instance, survey, view.snapshot.now)


def _refresh_first(rental: Rental, view: LifecycleView) -> Refresh | None:
    """Record new facts of the list before all else, unless the machine is to be ended.

    If the machine is to be ended, new facts are recorded first only if nothing on record leads to its Node and to the
    pods there.
    """
    if _to_end(rental, view) and (rental.node is not None or rental.provider_id):
        return None
    return _refresh(rental, view)


def _refresh(rental: Rental, view: LifecycleView) -> Refresh | None:
    instance = view.instance(rental)
    if instance is None or not _differs_from_record(instance, rental):
        return None
    return Refresh(rental.as_listed(instance))


def _ended(rental: Rental, view: LifecycleView) -> MarkEnded | None:
    """Record the end, once all other inputs of the cost are on record."""
    survey, instance = view.survey(rental), view.instance(rental)
    if survey is None or instance is None or instance.state is not InstanceState.ENDED:
        return None
    if _differs_from_record(instance, rental):
        return None
    ended = survey.asked if instance.ended is None else instance.ended
    return _at_its_end(rental, ended, accrued(rental, ended), estimated=instance.ended is None)


def _at_its_end(rental: Rental, ended: Instant, cost: Money, *, estimated: bool) -> MarkEnded:
    because = rental.released_because or (VANISHED if estimated else INSTANCE_ENDED)
    after = replace(rental, phase=RentalPhase.ENDED, ended=ended, cost=cost, released_because=because)
    return MarkEnded(after, estimated)


def ended_unread(rental: Rental, pool: Pool) -> MarkEnded | None:
    """The end of an instance that left the cloud's list before any facts about it were read.

    The instance was launched, so it costs its worst price from when it was known until it was missing, and at least the
    billing minimum.
    """
    if rental.missing_since is None:
        return None
    least = 0 if pool.quote is None else pool.quote.billing_minimum_seconds
    seconds = max(ceil(seconds_between(rental.named or rental.created, rental.missing_since)), least)
    return _at_its_end(rental, rental.missing_since, rental.worst.cost(seconds), estimated=True)


def _differs_from_record(instance: Instance, rental: Rental) -> bool:
    """Whether the list has facts that the record lacks. Missing price segments in a list that lags do not count."""
    return (
        instance.segments[:SEGMENTS_KEPT] != rental.segments[: len(instance.segments)]
        or rental.launch(instance) != rental.launched
        or instance.billing_minimum_seconds != rental.billing_minimum_seconds
        or bool(instance.provider_id and instance.provider_id != rental.provider_id)
        or (instance.node is not None and rental.node is None)
    )


def _record_uses(rental: Rental, view: LifecycleView) -> RecordUses | None:
    """Record at once all runs that got GPUs of the rental or left them."""
    if view.settled[rental.id]:
        return None
    now = uses_now(rental, view.uses.get(rental.id, ()), view.snapshot)
    return None if now is rental else RecordUses(now)


# --- starting and ending ---------------------------------------------------------------------------------------------


def _mark_ready(rental: Rental, view: LifecycleView) -> MarkReady | Wait:
    node = view.node(rental)
    if node is None:
        return Wait(f"the Node of instance {rental.instance}")
    if not node.ready or node.deleting:
        return Wait(f"Node {node.name} to be ready")
    pool = view.snapshot.pools.get(rental.pool)
    resource = GPU if pool is None else pool.resource
    if not node.count(resource):
        return Wait(f"the device plugin to report {'GPUs' if resource == GPU else resource} of Node {node.name}")
    return MarkReady(replace(rental, phase=RentalPhase.READY, node=node.name, ready=view.snapshot.now))


def _uncordon(rental: Rental, view: LifecycleView) -> Uncordon | None:
    """Uncordon a Node that was cordoned for the end of an earlier machine. A person's cordon stays."""
    node = view.node(rental)
    if node is None or not node.unschedulable or node.deleting or node.cordoned_for in ("", rental.uid):
        return None
    return Uncordon(rental.id, node.name, node.uid)


def _to_end(rental: Rental, view: LifecycleView) -> bool:
    """Whether Charterer is to end the rental's machine."""
    return draining(rental) and not left_alone(rental, view)


def _cordon(rental: Rental, view: LifecycleView) -> Cordon | None:
    node = view.node(rental)
    if node is None or not takes_pods(node) or not _to_end(rental, view) or not rental.cloud.rents:
        return None
    return Cordon(rental.id, node.name, node.uid, rental.uid)


def _terminate(rental: Rental, view: LifecycleView) -> Terminate | Wait | None:
    if not _to_end(rental, view):
        return None
    busy = _in_use(rental, view) if rental.cloud.rents else _used_still(rental, view)
    if busy is not None:
        return busy
    instance = view.instance(rental)
    if instance is None or view.survey(rental) is None:
        return Wait(f"the cloud to list instance {rental.instance}")
    if instance.state not in COUNTED_STATES:
        return Wait(f"the end of instance {instance.id}")
    if not rental.cloud.rents:
        return Terminate(rental.id, view.acting(rental.pool), instance, None)
    evict_from, patience_until = _patience(rental, view)
    node = view.node(rental)
    name = None if node is None else node.name
    return Terminate(rental.id, view.acting(rental.pool), instance, name, evict_from, patience_until)


def _patience(rental: Rental, view: LifecycleView) -> tuple[Instant, Instant]:
    """The time from which other people's pods are evicted, and the time when the machine is ended anyway."""
    node, released = view.node(rental), _released(rental, view)
    lenient = node is not None and node.foreign_gpus > 0 and not _limited(rental)
    evict_from = after(released, _FOREIGN_GPU_SECONDS) if lenient else released
    return evict_from, after(max(evict_from, _own_end(rental, view)), _patience_seconds(rental))


def _limited(rental: Rental) -> bool:
    return rental.released_because == ReasonCode.HARD_LIMIT


def _patience_seconds(rental: Rental) -> float:
    return _LAST_PATIENCE_SECONDS if _limited(rental) else _PATIENCE_SECONDS


def _released(rental: Rental, view: LifecycleView) -> Instant:
    return view.snapshot.now if rental.released is None else rental.released


def _own_end(rental: Rental, view: LifecycleView) -> Instant:
    """The end of the longest grace period of the jobs with pods, or with runs to be recorded, on the machine."""
    graces = [bound.job.grace_seconds for bound in view.pods(rental)]
    graces += [ending.grace_seconds for ending in view.ending.get(rental.id, ())]
    return after(_released(rental, view), max(graces, default=0))


def _in_use(rental: Rental, view: LifecycleView) -> Wait | None:
    """The wait for Charterer's own pods and records that still need the machine, or None if nothing needs the
    machine.

    A finished pod needs the machine until its run is recorded. The pod is the only proof that the run completed, and
    would be lost with the machine. A failed run is recorded once its machines were seen healthy after the failure. A
    stopped run must be recorded before its machine ends, or it would count as interrupted, because its Job and its pods
    are watched separately.

    If a node is lost, or its Node object was deleted, only the end of the machine can stop its pods, so there is no
    wait. Because the machine is paid for, no wait is longer than ``_patience_seconds`` after the jobs' grace period.
    """
    node = view.node(rental)
    if rental.ready is not None and (node is None or node.lost(view.snapshot.now)):
        return None
    until = after(_own_end(rental, view), _patience_seconds(rental))
    if view.snapshot.now >= until:
        return None
    return _used_still(rental, view, until)


def _used_still(rental: Rental, view: LifecycleView, until: Instant | None = None) -> Wait | None:
    """The pods, or the runs to be recorded, that the machine still has.

    On an own node, the wait for their end has no limit. Only the person or program that ends the node can say that
    its pods do not run any more, by deleting the Node or by the taint node.kubernetes.io/out-of-service.
    """
    holding = [bound for bound in view.pods(rental) if bound.pod.live or not bound.recorded]
    if holding:
        pods = f"{count(len(holding), 'pod')} on its node ({names(bound.pod.name for bound in holding)})"
        return Wait(pods, until=until)
    if rental.id in view.ending:
        ended = names(ending.run for ending in view.ending[rental.id])
        return Wait(f"the end of {ended} to be on record", until=until)
    return None


def may_terminate(rental: Rental, view: LifecycleView) -> bool:
    """Whether the rental's next step is to end its instance, and no known pods of other owners keep the instance."""
    if not draining(rental) or rental.instance is None or left_alone(rental, view):
        return False
    node = view.node(rental)
    if rental.held_by or (node is not None and node.foreign_gpus):
        return view.snapshot.now >= _patience(rental, view)[1]
    return (node is None or node.unschedulable or node.deleting) and _in_use(rental, view) is None


_LIVING = frozenset({RentalPhase.REQUESTED, RentalPhase.STARTING, RentalPhase.READY})
_STARTING = frozenset({RentalPhase.STARTING})
_DRAINING = frozenset({RentalPhase.DRAINING})
_ENDED = frozenset({RentalPhase.ENDED})
_USED = frozenset({RentalPhase.READY}) | _DRAINING | _ENDED

ROWS: Mapping[str, tuple[AbstractSet[RentalPhase], Row[Rental, RentalStep]]] = {
    "Let go": (_LIVING, Row(_let_go)),
    "Listed again": (_LIVING | _DRAINING, Row(_listed_again)),
    "No instance": (_LIVING | _DRAINING, Row(_await_instance)),
    "Not listed": (_LIVING | _DRAINING, Row(_not_listed)),
    "Refresh": (_LIVING | _DRAINING, Row(_refresh_first)),
    "End": (_LIVING | _DRAINING, Row(_ended)),
    "Uncordon": (_STARTING, Row(_uncordon)),
    "Ready": (_STARTING, Row(_mark_ready)),
    "Cordon": (_DRAINING, Row(_cordon)),
    "Terminate": (_DRAINING, Row(_terminate)),
    "Refresh meanwhile": (_DRAINING, Row(_refresh, meanwhile=True)),
    "Uses": (_USED, Row(_record_uses, meanwhile=True)),
    "End again": (_ENDED, Row(end_again)),
    "Fail pods": (_ENDED, Row(fail_pod)),
    "Delete pods": (_ENDED, Row(delete_pod)),
    "Delete Node": (_ENDED, Row(delete_node)),
    "Unpaid": (_ENDED, Row(unpaid)),
    "Fold": (_ENDED, Row(await_fold)),
    "On record": (_ENDED, Row(await_record)),
    "Forget with budget": (_ENDED, Row(forget_with_budget)),
    "Forget": (_ENDED, Row(forget)),
}
"""The rows by phase, in the order in which they are tried. docs/development/lifecycle.md lists them by these names."""

_ROWS_OF_PHASE: Mapping[RentalPhase, Sequence[Row[Rental, RentalStep]]] = {
    phase: [row for phases, row in ROWS.values() if phase in phases] for phase in RentalPhase
}
