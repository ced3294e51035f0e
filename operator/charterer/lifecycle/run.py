"""Runs: prepare the next one, stop the ones it replaces, record how each ended, start it when nothing else is live.

The stages of ``run_step`` are asked in order; the first that has a step to take wins, so that waiting for one thing
holds up nothing that can be done meanwhile. That only one run has live pods is decided in one place, ``_begin``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from charterer.domain.ids import JobId, NodeName, RentalId
from charterer.domain.job import Allocation, Job, ResizePolicy, Run, RunOutcome
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Node
from charterer.domain.steps import (
    AnnotatePod,
    CreateRun,
    CreateService,
    DeleteJob,
    DeleteRun,
    LabelNode,
    ResizeRun,
    RunStep,
    StopRun,
    Unsuspend,
    Wait,
)
from charterer.domain.time import after
from charterer.lifecycle.verdict import judge
from charterer.lifecycle.view import LifecycleView, count, draining


def run_step(job_id: JobId, view: LifecycleView) -> RunStep | Wait | None:
    """The job's next step, what it waits for, or None: nothing runs, or what runs is as intended."""
    job = view.snapshot.jobs[job_id]
    if view.observes(job.budget) or _idle(job, view):
        return None
    case = _Case.of(job, view)
    if job.deleting:  # its end may wait for a finalizer, and its runs for the garbage collector
        return _stop(case, view)
    waits = None
    for stage in _STAGES:
        step = stage(case, view)
        if step is not None and not isinstance(step, Wait):
            return step
        waits = waits or step
    return waits


def _idle(job: Job, view: LifecycleView) -> bool:
    """Whether there is plainly nothing to do, as for most of a long queue."""
    return not (job.allocation or job.runs or job.replaced or job.finish) and job.run_label not in view.labelled


@dataclass(frozen=True, slots=True)
class _Case:
    """One job's runs by what status says of them.

    ``intended``: the allocation to run, None once the job has finished. ``current``: its Job, if it exists.
    ``superseded``: allocations whose runs are to be ended and recorded. ``recorded``: numbers of runs on record.
    """

    job: Job
    intended: Allocation | None
    current: Run | None
    superseded: tuple[Allocation, ...]
    recorded: frozenset[int]

    @classmethod
    def of(cls, job: Job, view: LifecycleView) -> _Case:
        recorded = frozenset(record.number for record in job.records)
        former = [item for item in job.replaced if item.run not in recorded]
        intended = job.allocation
        if intended is not None and (job.finish is not None or intended.run in recorded):
            former += [intended] if intended.run not in recorded else []
            intended = None
        current = None if intended is None else _find(job, intended.run)
        return cls(job, intended, current, tuple(sorted(former, key=lambda item: item.run)), recorded)

    def strays(self) -> list[Run]:
        """Runs that must not be: those status does not name (a deposed leader's), and recorded ones that go on.

        Also a Job not yet begun that has another shape than intended: a deposed leader's under the number that the
        next run got.
        """
        known = {item.run for item in self.superseded} | self.recorded
        if self.intended is not None:
            known.add(self.intended.run)
        return [run for run in self.job.runs if run.number not in known or self._unfit(run)]

    def _unfit(self, run: Run) -> bool:
        if run.number in self.recorded:
            return active(run)
        if self.intended is None or run.number != self.intended.run or self.job.resize is ResizePolicy.IN_PLACE:
            return False
        return run.suspended and run.completions != len(self.intended.placements)


def _find(job: Job, number: int) -> Run | None:
    return next((run for run in job.runs if run.number == number), None)


def active(run: Run) -> bool:
    """Whether its Job starts pods."""
    return not run.suspended and run.complete is None and run.failed is None


def _delete_strays(case: _Case, view: LifecycleView) -> RunStep | Wait | None:
    strays = case.strays()
    for run in strays:
        if not run.deleting:
            return DeleteRun(case.job.id, run.number, run.uid)
    return Wait(f"{strays[0].name}, which nobody intended, to be gone") if strays else None


def _prepare(case: _Case, view: LifecycleView) -> RunStep | Wait | None:
    """The next run's Service and suspended Job come first: a template that is refused is noticed before a run stops."""
    if case.intended is None or case.current is not None or not case.job.wants_to_run:
        return None
    if not case.job.has_service:
        return CreateService(case.job.id)
    return CreateRun(case.job.id, case.intended.run)


def _stop(case: _Case, view: LifecycleView) -> RunStep | Wait | None:
    for allocation in case.superseded:
        run = _find(case.job, allocation.run)
        if run is not None and active(run) and not run.deleting:
            return StopRun(case.job.id, run.number)
    return None


def _label(case: _Case, view: LifecycleView) -> RunStep | Wait | None:
    for node, value in _labels(case, view):
        if node.run_labels.get(case.job.run_label) != value:
            return LabelNode(case.job.id, node.name, node.uid, case.job.run_label, value)
    return None


def _labels(case: _Case, view: LifecycleView) -> list[tuple[Node, str]]:
    """The nodes that the intended run is placed on, as far as they exist, with the label's value."""
    if case.intended is None:
        return []
    rentals = (view.rental(placement.rental) for placement in case.intended.placements)
    nodes = (view.node(rental) for rental in rentals if rental is not None and rental.phase is not RentalPhase.ENDED)
    return [(node, f"r{case.intended.run}") for node in nodes if node is not None and not node.deleting]


def _record_superseded(case: _Case, view: LifecycleView) -> RunStep | Wait | None:
    for allocation in case.superseded:
        run = _find(case.job, allocation.run)
        if run is not None and run.deleting:
            return Wait(f"{run.name} to be gone")
        return judge(case.job, allocation, run, view, stopped=True)
    return None


def _record_current(case: _Case, view: LifecycleView) -> RunStep | Wait | None:
    if case.intended is None or case.current is None:
        return None
    return judge(case.job, case.intended, case.current, view, stopped=False)


def _begin(case: _Case, view: LifecycleView) -> RunStep | Wait | None:
    run = case.current
    if case.intended is None or run is None or not run.suspended or run.deleting or not case.job.wants_to_run:
        return None
    if run.completions != len(case.intended.placements):
        return None  # resized first
    others = [other for other in case.job.runs if other.number != run.number and any(pod.live for pod in other.pods)]
    if others:
        return Wait(f"the pods of {others[0].name} to end")
    if case.superseded or case.strays():
        return Wait("the runs before it to be recorded")
    obstacle = _obstacle(case.intended, case.job, view)
    return Wait(obstacle) if obstacle else Unsuspend(case.job.id, run.number)


def _obstacle(allocation: Allocation, job: Job, view: LifecycleView) -> str:
    """What is missing for all pods of the run to start at once; empty when nothing is."""
    wanted: dict[RentalId, int] = {}
    for placement in allocation.placements:
        wanted[placement.rental] = wanted.get(placement.rental, 0) + placement.gpus
    for name, gpus in wanted.items():
        rental = view.rental(name)
        if rental is None or rental.phase is not RentalPhase.READY or draining(rental):
            return f"GPURental {name} to be ready"
        node = view.node(rental)
        if node is None or not node.ready or node.unschedulable or node.deleting:
            return f"the Node of GPURental {name} to be ready"
        if node.run_labels.get(job.run_label) != f"r{allocation.run}":
            return f"the label {job.run_label} of Node {node.name}"
        free = node.gpus - node.foreign_gpus - _held_by_others(node.name, job, allocation.run, view)
        if free < gpus:
            return f"{count(gpus, 'GPU')} of Node {node.name}, of which {max(free, 0)} are free"
    return ""


def _held_by_others(node: NodeName, job: Job, run: int, view: LifecycleView) -> int:
    """GPUs of live pods on the node that are not this run's own."""
    return sum(
        bound.pod.gpus
        for bound in view.pods_on.get(node, ())
        if bound.pod.live and not (bound.job.id == job.id and bound.pod.run == run)
    )


def _adapt(case: _Case, view: LifecycleView) -> RunStep | Wait | None:
    """Change the width of a run in place, and tell its pods."""
    run = case.current
    if case.intended is None or run is None or run.deleting or run.complete is not None or run.failed is not None:
        return None
    pods = len(case.intended.placements)
    if run.completions != pods:
        if case.job.resize is not ResizePolicy.IN_PLACE:
            return Wait(f"an allocation of {run.completions} pods or another run: {run.name} cannot change its width")
        obstacle = _obstacle(case.intended, case.job, view) if pods > run.completions else ""
        return Wait(obstacle) if obstacle else ResizeRun(case.job.id, run.number, pods)
    text = case.intended.annotation
    for pod in run.pods:
        if pod.live and not pod.deleting and pod.allocation != text:
            return AnnotatePod(case.job.id, pod, text)
    return None


def _tidy(case: _Case, view: LifecycleView) -> RunStep | Wait | None:
    """Take labels from nodes that are not needed, and delete recorded runs but the last, whose pods keep their logs."""
    needed = {node.name for node, _ in _labels(case, view)}
    for node in view.labelled.get(case.job.run_label, ()):
        if node.name not in needed and not node.deleting:
            return LabelNode(case.job.id, node.name, node.uid, case.job.run_label, None)
    over = case.job.finish is not None
    told = [record.number for record in case.job.records if not (over and record.outcome is RunOutcome.STOPPED)]
    begun = [case.current.number] if case.current is not None and not case.current.suspended else []
    last = max([*told, *begun], default=0)
    for run in case.job.runs:
        if run.number in case.recorded and run.number != last and not run.deleting:
            return DeleteRun(case.job.id, run.number, run.uid)
    return None


def _expire(case: _Case, view: LifecycleView) -> RunStep | Wait | None:
    finish, ttl = case.job.finish, case.job.ttl_seconds_after_finished
    if finish is None or ttl is None or case.superseded:
        return None
    expiry = after(finish.at, ttl)
    if view.snapshot.now < expiry:
        return Wait("the end of its time to live", until=expiry)
    if case.job.budget is not None and case.job in view.uncounted.get(case.job.budget, ()):
        return Wait(f"GPUBudget {case.job.budget} to count what it has cost")
    return DeleteJob(case.job.id)


_STAGES: tuple[Callable[[_Case, LifecycleView], RunStep | Wait | None], ...] = (
    _delete_strays,
    _record_superseded,
    _prepare,
    _stop,
    _label,
    _record_current,
    _begin,
    _adapt,
    _tidy,
    _expire,
)
