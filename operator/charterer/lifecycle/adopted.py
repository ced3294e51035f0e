"""Steps of adopted objects. A TrainingJob is created for a team's own object, and the object is restored at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId, RentalId
from charterer.domain.job import Allocation, Finish, FinishKind, Job, ResizePolicy, Run
from charterer.domain.plan import ReasonCode
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import AdoptionCandidate, Snapshot, Stop
from charterer.domain.steps import (
    AdoptTarget,
    Cordon,
    EditJob,
    FinishJob,
    GiveBack,
    LetGo,
    MarkDraining,
    RecordRun,
    RunStep,
    StopRun,
    Wait,
)
from charterer.domain.target import Asked, Target, TargetRef
from charterer.domain.time import after
from charterer.lifecycle.verdict import judge, to_stop
from charterer.lifecycle.view import LifecycleView, draining, left_alone, takes_pods

# Nodes of machines to be ended are cordoned before an object is restored, so that its pods are not scheduled there.


_PATIENCE_SECONDS = 60.0
"""Seconds after which an object is restored even if a Node still accepts pods, so that the wait is finite."""


def steps_to_close(job: Job, view: LifecycleView) -> tuple[MarkDraining | Cordon, ...]:
    """The steps that release the machines that only the job's object used, and cordon their Nodes.

    Three kinds of machines are not released: those of a commitment, those of own nodes, and those of a budget in mode
    Observe. While the operator drains, there are no steps, because ``wait_for_drain`` waits for the cordons.
    """
    if view.snapshot.stop is Stop.DRAIN:
        return ()
    used = dict.fromkeys(place.rental for record in job.records for place in record.placements)
    rentals = [rental for name in used if (rental := view.rental(name)) is not None]
    return tuple([step for rental in rentals if _goes_with(job, rental, view) for step in _closed(rental, view)])


def _goes_with(job: Job, rental: Rental, view: LifecycleView) -> bool:
    """Whether the rental's machine is released together with the job's object."""
    if rental.phase is RentalPhase.ENDED or not rental.cloud.rents or left_alone(rental, view):
        return False
    pool = view.snapshot.pools.get(rental.pool)
    kept = pool is not None and pool.committed is not None and not draining(rental)
    return not kept and not _held_by_others(job, rental.id, view)


def _held_by_others(job: Job, rental: RentalId, view: LifecycleView) -> bool:
    return any(use.until is None and use.payer.job_uid != job.id for use in view.uses.get(rental, ()))


def _closed(rental: Rental, view: LifecycleView) -> Sequence[MarkDraining | Cordon]:
    marked = [] if draining(rental) else [MarkDraining(rental.id, ReasonCode.NOT_ADOPTED.value)]
    node = view.node(rental)
    if node is None or not takes_pods(node):
        return marked
    return [*marked, Cordon(rental.id, node.name, node.uid, rental.uid)]


def wait_for_drain(view: LifecycleView) -> Wait | None:
    """While the operator drains, an object that is to be restored waits until no Node accepts pods any more.

    Returns None if the operator does not drain, or if ``_PATIENCE_SECONDS`` have passed since the last rental was
    marked.
    """
    if view.snapshot.stop is not Stop.DRAIN or view.open_rental is None:
        return None
    marked = view.open_rental.released
    until = None if marked is None else after(marked, _PATIENCE_SECONDS)
    if until is not None and view.snapshot.now >= until:
        return None
    return Wait(f"the Node of GPURental {view.open_rental.id} to take no more pods", until=until)


# An adopted object gets a TrainingJob and carries one run at a time. Charterer suspends the object in the cases in
# which it would delete its own Job (docs/development/adr/0017-adopted-objects.md).


def adopt_step(candidate: AdoptionCandidate, view: LifecycleView) -> AdoptTarget | LetGo | Wait | None:
    """Create the TrainingJob of an object that can be adopted, or restore an object that nobody will start.

    If an object in deletion still has live pods of its last run, LetGo ends the pods.
    """
    target, snapshot = candidate.target, view.snapshot
    if any(pod.live and not pod.deleting for pod in candidate.pods):
        return LetGo(target, candidate.pods)
    if not not_adopted_because(candidate, snapshot):
        return AdoptTarget(target)
    freed = not_allowed_to_adopt(target.ref, snapshot) or _nobody_pays(candidate.budget, snapshot)
    if not freed or not target.held or target.deleting or target.ended is not None:
        return None
    return wait_for_drain(view) or LetGo(target)


def not_adopted_because(candidate: AdoptionCandidate, snapshot: Snapshot) -> str:
    """The reason why no TrainingJob is created for the object, or "" if one is created."""
    target = candidate.target
    if target.deleting or target.ended is not None:
        return "it has ended"
    if refused := not_allowed_to_adopt(target.ref, snapshot):
        return refused
    if target.problem:
        return target.problem
    if target.begun and not target.suspended and not target.held:
        return "it runs already, and would lose what it did: suspend it, and it is adopted"
    if candidate.budget is None:
        return f"no GPUBudget selects namespace {target.namespace}"
    return _nobody_pays(candidate.budget, snapshot)


def not_allowed_to_adopt(ref: TargetRef, snapshot: Snapshot) -> str:
    """The reason why the operator does not adopt objects of this kind, or "" if it does. Kueue manages queued
    objects."""
    if ref.queued or ref.kind not in snapshot.not_adopted:
        return ""
    return f"this operator adopts no {ref.kind}s (chart value adoption.kinds)"


def _nobody_pays(budget: BudgetId | None, snapshot: Snapshot) -> str:
    """The reason why no money is spent on the objects of this budget's namespaces, or "" if money may be spent."""
    if snapshot.stop is Stop.DRAIN:
        return "all that is rented is being ended (charterer stop --drain)"
    if budget is None:
        unread = any(problem.kind == "GPUBudget" for problem in snapshot.problems)
        return "" if unread else "no GPUBudget selects its namespace"
    observed = snapshot.budgets.get(budget)
    return f"GPUBudget {budget} only observes" if observed is not None and observed.mode is Mode.OBSERVE else ""


def adopted_step(job: Job, view: LifecycleView) -> RunStep | Wait | None:
    """The adopted object's step or wait that comes before the stages of its runs, or None if the stages decide."""
    target, why = job.adopted, _given_back_because(job, view)
    if why:
        return _give_back(job, why, view)
    if target is None or job.finish is not None:
        return None
    if target.asked is not None and target.asked != _asked(job):
        return EditJob(job.id)
    if target.queued and not target.workload and _idle(job):
        return GiveBack(job.id, f"{target.ref} waits in no queue of Kueue any more")
    if target.queued and target.workload and _is_another(job, target):
        return EditJob(job.id)
    ended = target.ended
    if ended is not None and job.allocation is None and not job.replaced:
        return FinishJob(job.id, finish_of(target.complete is not None, target.failed_message, view))
    if ended is None and not target.suspended and target.job != job.id:
        return StopRun(job.id, target.run)
    return None


def _idle(job: Job) -> bool:
    """Whether each run of the job that has begun is on record."""
    return not job.replaced and (job.allocation is None or not job.allocation.begun)


def _is_another(job: Job, target: Target) -> bool:
    """Whether the author of a queued object has changed its template, or its width if the width is fixed."""
    if target.left or target.problem or target.ended is not None or not target.suspended or target.run:
        return False
    own = job.resize is ResizePolicy.NEVER and not (job.target is not None and job.target.sized)
    fits = job.widths.min <= target.pods * job.pod_gpus <= job.widths.max
    return (own and not fits) or target.template != job.template


def _asked(job: Job) -> Asked:
    widths, profile = job.widths, job.class_id.name if job.class_id.has_profile else ""
    numbers = widths.min, widths.preferred, widths.max
    return Asked(
        *numbers, job.resize, job.spot, job.max_cost, job.target_completion, profile, job.suspend, job.template
    )


def finish_of(complete: bool, message: str, view: LifecycleView) -> Finish:
    """The end of a job after its adopted object has reported Complete or Failed."""
    if complete:
        return Finish(FinishKind.COMPLETE, view.snapshot.now, "Completed", "its object is complete")
    reason = message.partition(":")[0]
    return Finish(FinishKind.FAILED, view.snapshot.now, reason or "Failed", f"its object has failed: {message}")


def not_placeable_because(target: Target) -> str:
    """The condition for which the object's next run waits before it can be placed or started, or "" if there is
    none."""
    if target.problem:
        return f"its author: {target.problem}"
    if target.queued:
        return "" if target.placeable else f"Kueue to reserve quota for {target.ref}"
    return "" if target.placeable else f"the scheduling fields of {target.ref} to open"


def stopped_in_queue_because(job: Job, allocation: Allocation, target: Target) -> str:
    """The reason why a queued object's allocation has ended although Charterer did not end it, or "" if the
    allocation goes on."""
    if not target.queued or not (job.stopped_in_queue(allocation) or not allocation.begun):
        return ""
    if not allocation.begun and not target.withheld:
        fits = job.widths.min <= allocation.option.gpus <= job.widths.max
        return "" if fits else f"the width of {target.ref} was changed"
    if target.eviction:
        return f"Kueue evicted it: {target.eviction}"
    return (
        "Kueue evicted it" if target.evicted or target.withheld else "Kueue stopped it, and made another Workload of it"
    )


def _given_back_because(job: Job, view: LifecycleView) -> str:
    """The reason why the object is restored, or "" if the job keeps it."""
    if job.target is not None and (refused := not_allowed_to_adopt(job.target, view.snapshot)):
        return refused
    if job.adopted is None:
        return f"{job.target} is gone, or has not the label any more"
    if job.adopted.deleting:
        return f"{job.target} is being deleted"
    return _nobody_pays(job.budget, view.snapshot)


def _give_back(job: Job, why: str, view: LifecycleView) -> RunStep | Wait | None:
    """Restore the object after its runs are stopped and recorded, so that their cost is on record.

    An object that has ended is left alone.
    """
    target, recorded = job.adopted, {record.number for record in job.records}
    if job.finish is not None and (target is None or target.ended is not None):
        return None
    current: list[Allocation] = [] if job.allocation is None else [job.allocation]
    for allocation in [each for each in (*job.replaced, *current) if each.run not in recorded]:
        run: Run | None = next((run for run in job.runs if run.number == allocation.run), None)
        if run is not None and to_stop(run):
            return StopRun(job.id, run.number)
        stopped = allocation if allocation in job.replaced else replace(allocation, stopped_because=why)
        step = judge(job, stopped, run, view, stopped=True)
        return GiveBack(job.id, why, step) if run is None and isinstance(step, RecordRun) else step
    left = target is None or target.deleting or target.ended is not None
    if target is not None and not left and not target.suspended and target.job == job.id:
        return StopRun(job.id, target.run)
    used = [place.rental for record in job.records for place in record.placements]
    untold = [rental for rental in used if view.settled.get(rental) is False]
    if untold and not view.observes(job.budget):
        return Wait(f"what GPURental {untold[0]} was used for to be on record")
    if job.deleting and (target is None or target.deleting):
        return None  # nothing is left to restore, and somebody's finalizer keeps the TrainingJob
    return wait_for_drain(view) or GiveBack(job.id, why, closes=steps_to_close(job, view))
