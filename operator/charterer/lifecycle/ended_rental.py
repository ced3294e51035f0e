"""Rentals whose machine has ended: Kubernetes forgets the machine, the budget pays for it, and the rental is deleted.

The functions are rows of ``lifecycle.rental.ROWS``, in that order.
"""

from __future__ import annotations

from collections.abc import Sequence

from charterer.domain.billing import accrued_in
from charterer.domain.budget import FOLDED_KEPT, Budget
from charterer.domain.jobs.pod import PodPhase
from charterer.domain.money import ZERO
from charterer.domain.period import period_end
from charterer.domain.rental import Rental
from charterer.domain.steps import DeleteNode, DeletePod, FailPod, Fold, Forget, Terminate, Wait
from charterer.domain.time import after
from charterer.ledger.cost_rows import next_part
from charterer.lifecycle.view import COUNTED_STATES, LifecycleView, left_alone, must_show
from charterer.sentences import names

# --- Kubernetes ------------------------------------------------------------------------------------------------------


def _cleared(rental: Rental, view: LifecycleView) -> bool:
    """Whether Charterer removes what Kubernetes has of the machine, which would keep it for minutes or for ever."""
    return rental.instance is not None and not left_alone(rental, view)


def end_again(rental: Rental, view: LifecycleView) -> Terminate | Wait | None:
    """End an instance that is listed as alive: the list is too old, or the cloud had reported a wrong end."""
    instance, survey = view.instance(rental), view.survey(rental)
    if instance is None or survey is None or instance.state not in COUNTED_STATES or not _cleared(rental, view):
        return None
    if must_show(survey, rental.created if rental.ended is None else rental.ended):
        return Terminate(rental.id, view.acting(rental.pool), instance, None)
    return Wait(f"a list that must show the end of instance {instance.id}")


def fail_pod(rental: Rental, view: LifecycleView) -> FailPod | None:
    """Fail a pod that lives by its status only."""
    for bound in view.pods(rental) if _cleared(rental, view) else ():
        if bound.pod.live:
            return FailPod(bound.job.namespace, bound.pod)
    return None


def delete_pod(rental: Rental, view: LifecycleView) -> DeletePod | None:
    """Delete a dead pod of which nothing will be read any more. Succeeded ones stay until their run is recorded."""
    for bound in view.pods(rental) if _cleared(rental, view) else ():
        if bound.recorded or (bound.pod.disrupted and bound.pod.phase is PodPhase.FAILED):
            return DeletePod(bound.job.namespace, bound.pod)
    return None


def delete_node(rental: Rental, view: LifecycleView) -> DeleteNode | None:
    """Delete the Node, once the run of each pod there is recorded."""
    node = view.node(rental)
    if node is None or node.deleting or not _cleared(rental, view) or _unrecorded(rental, view):
        return None
    return DeleteNode(rental.id, node.name, node.uid)


def _unrecorded(rental: Rental, view: LifecycleView) -> Sequence[str]:
    """Runs with pods on the machine that are not recorded.

    With the Node its finished pods would be deleted, and with them the proof that the run completed.
    """
    return sorted({bound.job.run_title(bound.pod.run) for bound in view.pods(rental) if not bound.recorded})


# --- money -----------------------------------------------------------------------------------------------------------


def unpaid(rental: Rental, view: LifecycleView) -> Wait | None:
    """Wait for the budget that is to pay, unless a person has deleted the rental."""
    if rental.budget in view.snapshot.budgets or rental.deleting:
        return None
    return Wait(
        f"GPUBudget {rental.budget}, which is gone: create it again to account for "
        f"{'nothing' if rental.cost is None else rental.cost}, or delete GPURental {rental.id}"
    )


def payer_of(rental: Rental, view: LifecycleView) -> Budget | None:
    """The budget whose balance the cost belongs to; None where a former budget paid, of the same name or a gone one."""
    budget = view.snapshot.budgets.get(rental.budget)
    if budget is None or (rental.deleting and budget.created > max(rental.created, rental.ended or rental.created)):
        return None
    return budget


def fold(rental: Rental, view: LifecycleView) -> Fold | Wait | None:
    """Add the final cost to the budget's balance, in the period in which the rental ended."""
    budget = payer_of(rental, view)
    if budget is None:
        return None
    balance = budget.balance
    if balance is None:
        return Wait(f"the first period of GPUBudget {budget.id} to be opened")
    if rental.uid in balance.folded:
        return None
    end = period_end(budget.time_zone, balance.period_start)
    if rental.ended is not None and rental.ended > end:
        return Wait(f"the next period of GPUBudget {budget.id}, in which it ended", until=end)
    if len(balance.folded) >= FOLDED_KEPT:
        return Wait(f"some of the {FOLDED_KEPT} rentals that GPUBudget {budget.id} has counted to be gone")
    whole = ZERO if rental.cost is None else rental.cost
    in_period = whole if rental.ended is None else accrued_in(rental, balance.period_start, rental.ended)
    return Fold(rental.id, rental.uid, budget.id, in_period, whole, balance.period_start)


def await_record(rental: Rental, view: LifecycleView) -> Wait | None:
    """Wait until all that the rental cost is on record."""
    if on_record(rental, view):
        return None
    refused = view.snapshot.cost_recording.refused
    return Wait(f"its cost to be put on record{f': {refused}' if refused else ''}")


def on_record(rental: Rental, view: LifecycleView) -> bool:
    """Whether the record of costs needs an ended rental no more: it has all, there is none, or nobody pays."""
    budget = payer_of(rental, view)
    return not view.snapshot.cost_recording.place or budget is None or next_part(rental, budget.time_zone) is None


def forget_with_budget(rental: Rental, view: LifecycleView) -> Forget | None:
    """Forget a rental whose budget is being deleted: its object waits for the cloud's list without the budget."""
    budget = payer_of(rental, view)
    return Forget(rental.id) if budget is not None and budget.deleting and not rental.deleting else None


def forget(rental: Rental, view: LifecycleView) -> Forget | Wait:
    """Forget the rental once no list can show its instance again: it would be adopted anew and paid twice.

    That goes for the lists of all pools with the same machines, since any of them may have to act next.
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
    if node is not None:
        return Wait(f"Node {node.name} to be gone")
    return Forget(rental.id)
