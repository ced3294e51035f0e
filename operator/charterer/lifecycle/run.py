"""The life cycle of runs: prepare the next run, stop and record those that it replaces, and start it without overlap.

``run_step`` tries the stages in order and takes the first step. So a wait in one stage does not hold up the stages
after it. ``_begin`` alone ensures that only one run of a job has live pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from charterer.domain.ids import JobId, NodeName, RentalId
from charterer.domain.job import (
    FORMED_SECONDS,
    Allocation,
    FinishKind,
    Job,
    ResizePolicy,
    Run,
    RunOutcome,
    TrainingGroup,
    first_group,
)
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node
from charterer.domain.steps import (
    AnnotatePod,
    CreateRun,
    CreateService,
    DeleteJob,
    DeleteRun,
    EndTarget,
    LabelNode,
    RecordGroup,
    ResizeRun,
    RunStep,
    StopRun,
    Unsuspend,
    Wait,
)
from charterer.domain.target import Target
from charterer.domain.time import Instant, after
from charterer.lifecycle.adopted import adopted_step, not_placeable_because, steps_to_close, stopped_in_queue_because
from charterer.lifecycle.verdict import active, judge, to_stop
from charterer.lifecycle.view import LifecycleView, NodeIndex, draining
from charterer.sentences import count, names

# A run that is resized in place has a group, which is the pods that should train together. The run's new width counts
# once the group trains.
#
# Each step makes one change (docs/development/adr/0020-in-place.md). Pods that join are created first, and become
# members once they exist. Pods that leave stop being members first, and end once their leader reports that it trains
# without them. A trainer that reports no generation forms its group in its own way, so its width changes at once.


RETRIES: Final = 10_000
"""Number of pods of a run that may fail while other pods join the run. The plan gives up the change at the first
failure. The number is so high that failures at the same time cannot end the run.
"""


def group_step(job: Job, allocation: Allocation, run: Run, obstacle: str, now: Instant) -> RunStep | Wait | None:
    """The next step or wait towards the allocation's width. ``obstacle``: why no pods can be added, or ""."""
    if job.resize is not ResizePolicy.IN_PLACE:
        if run.completions == len(allocation.placements):
            return None
        fixed = f"{job.run_title(run.number)} cannot change its width"
        return Wait(f"an allocation of {run.completions} pods or another run: {fixed}")
    group, pods = group_of(job, run), live_pods(run)
    said = _said(job, run, group)
    if said is not None:
        return _record(job, allocation, group.trained(said, {index: pods.get(index, "") for index in group.indexes}))
    if group.formed:
        return _regroup(job, allocation, run, group, obstacle, now)
    return _change_at_once(job, allocation, run, group, obstacle, now)


def group_of(job: Job, run: Run) -> TrainingGroup:
    """The group that the run should form, even if none is on record yet."""
    group = job.group
    return (
        first_group(run.number, run.completions, run.created, group)
        if group is None or group.run != run.number
        else group
    )


def live_pods(run: Run) -> Mapping[int, str]:
    """The uids by index of the run's pods that are alive or have completed their work, and are not being deleted."""
    return {pod.index: pod.uid for pod in run.pods if (pod.live or pod.proves_completion) and not pod.deleting}


def steady(job: Job, allocation: Allocation, run: Run) -> bool:
    """Whether no change of the run's group is under way, as for most runs."""
    group, pods = group_of(job, run), live_pods(run)
    everybody = group.indexes == tuple(range(len(allocation.placements)))
    quiet = everybody and not group.pending and not job.regroups and _said(job, run, group) is None
    return quiet and not run.retries and not (group.formed and group.lacks(pods))


def _said(job: Job, run: Run, group: TrainingGroup) -> int | None:
    """The new generation that the run's leader has reported since the group was requested, or None if the leader has
    reported none."""
    progress = job.progress
    if progress is None or progress.run != run.number or progress.generation is None or progress.at < group.since:
        return None
    return progress.generation if group.formed < progress.generation <= group.generation else None


def _record(job: Job, allocation: Allocation, group: TrainingGroup) -> RecordGroup:
    """Record the reported generation. The width counts if the group that trains now is that of the allocation."""
    everybody = group.indexes == tuple(range(len(allocation.placements)))
    former = job.resized_from
    counts = former is not None and everybody and not group.pending
    if counts and former is not None and len(allocation.placements) > len(former.placements):
        group = replace(group, withdrawn=0, withdrawn_at=None)
    return RecordGroup(job.id, group, counts)


def _change_at_once(
    job: Job, allocation: Allocation, run: Run, group: TrainingGroup, obstacle: str, now: Instant
) -> RunStep | Wait | None:
    pods = len(allocation.placements)
    if run.completions != pods:
        if obstacle and pods > run.completions:
            return Wait(obstacle)
        return ResizeRun(job.id, run.number, pods)
    if group.indexes != tuple(range(pods)):
        return RecordGroup(job.id, group.started_again(pods, now))
    return None


def _regroup(
    job: Job, allocation: Allocation, run: Run, group: TrainingGroup, obstacle: str, now: Instant
) -> RunStep | Wait | None:
    pods, wanted = live_pods(run), len(allocation.placements)
    lost = group.lacks(pods)
    staying = {index: pods[index] for index in group.indexes if index < wanted and index not in lost}
    if len(staying) < len(group.indexes):
        if staying:
            return RecordGroup(job.id, group.followed_by(staying, now, FORMED_SECONDS))
        return _start_again(job, run, group, wanted, now)
    if group.pending:
        wanted_group = f"{count(len(group.indexes), 'pod')} (generation {group.generation})"
        return Wait(f"{job.run_title(run.number)} to train with {wanted_group}", until=group.by)
    joining = [index for index in range(wanted) if index not in group.indexes]
    retries = RETRIES if joining else 0
    if run.completions != wanted or bool(run.retries) != bool(retries):
        if obstacle and wanted > run.completions:
            return Wait(obstacle)
        return ResizeRun(job.id, run.number, wanted, retries)
    if joining:
        missing = [f"{run.name}-{index}" for index in joining if index not in pods]
        if missing:
            return Wait(f"{names(missing)} to be made")
        everybody = {index: pods[index] for index in range(wanted)}
        return RecordGroup(job.id, group.followed_by(everybody, now, job.ready_timeout_seconds))
    return None if job.resized_from is None else RecordGroup(job.id, group, counts=True)


def _start_again(job: Job, run: Run, group: TrainingGroup, wanted: int, now: Instant) -> RunStep | Wait:
    """No member stays. A new group begins from the last checkpoint, once no member can train any more."""
    if run.completions > wanted:
        return ResizeRun(job.id, run.number, wanted)
    ending = [pod.name for pod in run.pods if pod.live and group.has(pod.uid)]
    if ending:
        return Wait(f"{names(ending)} to end")
    return RecordGroup(job.id, group.started_again(wanted, now))


def run_step(job_id: JobId, view: LifecycleView) -> RunStep | Wait | None:
    """The job's next step or wait, or None if the job has no run, or if its run is as intended."""
    job = view.snapshot.jobs[job_id]
    adopted = adopted_step(job, view) if job.target is not None else None
    if adopted is not None or view.observes(job.budget) or _has_no_runs(job, view):
        return adopted
    runs = _RunsOfJob.of(job, view)
    waits = None
    for stage in STAGES.values():
        step = stage(runs, view)
        if step is not None and not isinstance(step, Wait):
            return step
        waits = waits or step
    return waits


def _has_no_runs(job: Job, view: LifecycleView) -> bool:
    """Whether the job has nothing that could need a step, as most jobs in a long queue."""
    return not (job.allocation or job.runs or job.replaced or job.finish) and job.run_label not in view.nodes.labelled


def goes_on(job: Job) -> bool:
    """Whether the job's only run goes on as intended, as for most jobs.

    The run is active with the intended width, and its pods carry their annotation. If also its label is on exactly
    its nodes (so that ``misplaced`` lacks the label), ``run_step`` is None. The result is False for a job with an
    adopted object, because the job's budget and the object's author may want something else at any time.
    """
    allocation = job.allocation
    if allocation is None or job.replaced or job.finish or job.deleting or job.target or len(job.runs) != 1:
        return False
    if job.adopted is not None and job.adopted.grows_to:
        return False
    run = job.runs[0]
    if run.number != allocation.run or not active(run) or run.deleting or run.completions != len(allocation.placements):
        return False
    if job.resize is ResizePolicy.IN_PLACE and not steady(job, allocation, run):
        return False
    text = allocation.annotation
    if any(pod.allocation != text and pod.live and not pod.deleting for pod in run.pods):
        return False
    return all(record.number != run.number for record in job.records)


class Placed(NamedTuple):
    """The rentals that a job is placed on, and the label and value that their nodes must have."""

    label: str
    value: str
    rentals: tuple[RentalId, ...]

    @classmethod
    def of(cls, job: Job) -> Placed:
        """The placement by the job's allocation, without rentals if the job has no allocation."""
        if job.allocation is None:
            return cls(job.run_label, "", ())
        rentals = tuple([place.rental for place in job.trusted(job.allocation)])
        return cls(job.run_label, job.allocation.label_value, rentals)


def misplaced(jobs: Mapping[JobId, Placed], rentals: Mapping[RentalId, Rental], nodes: NodeIndex) -> AbstractSet[str]:
    """The labels that are not on exactly the nodes where they should be, or have a wrong value there.

    Nodes that are being deleted do not count.
    """
    node_of: dict[RentalId, NodeName] = {}
    for rental in rentals.values():
        node = None if rental.phase is RentalPhase.ENDED else nodes.of_rental(rental)
        if node is not None and not node.deleting:
            node_of[rental.id] = node.name
    needed: dict[NodeName, dict[str, str]] = {node.name: {} for node in nodes.by_name.values() if not node.deleting}
    for label, value, placed_on in jobs.values():
        for name in placed_on:
            if name in node_of:
                needed[node_of[name]][label] = value
    return {
        label
        for name, labels in needed.items()
        if labels != nodes.by_name[name].run_labels
        for label, _ in labels.items() ^ nodes.by_name[name].run_labels.items()
    }


@dataclass(frozen=True, slots=True)
class _RunsOfJob:
    """One job's runs, sorted by the job's status.

    ``intended``: the allocation to run, or None once the job has finished or is being deleted. ``current``: the run of
    ``intended``, if its object exists. ``superseded``: allocations whose runs are to be ended and recorded.
    ``recorded``: numbers of runs on record.
    """

    job: Job
    intended: Allocation | None
    current: Run | None
    superseded: tuple[Allocation, ...]
    recorded: frozenset[int]

    @classmethod
    def of(cls, job: Job, view: LifecycleView) -> _RunsOfJob:
        recorded = frozenset(record.number for record in job.records)
        former = [item for item in job.replaced if item.run not in recorded]
        intended = job.allocation
        over = job.deleting or job.finish is not None
        if intended is not None and (over or intended.run in recorded):
            former += [intended] if intended.run not in recorded else []
            intended = None
        current = None if intended is None else _find(job, intended.run)
        target = job.adopted
        if target is not None and intended is not None and current is not None and current.suspended:
            if why := stopped_in_queue_because(job, intended, target):
                former.append(replace(intended, stopped_because=why))
                intended = current = None
            elif current.completions != len(intended.placements):
                current = None  # the object is placed again
        return cls(job, intended, current, tuple(sorted(former, key=lambda item: item.run)), recorded)

    def strays(self) -> list[Run]:
        """Runs that must not exist, because the status does not name them, or because they go on after they were
        recorded.

        A run that has not begun and does not have the intended shape is a stray too. An operator that no longer leads
        may have created any of these runs, in the last case under the number that the next run was given.
        """
        named = {item.run for item in self.superseded} | self.recorded
        if self.intended is not None:
            named.add(self.intended.run)
        return [run for run in self.job.runs if run.number not in named or self._unfit(run)]

    def _unfit(self, run: Run) -> bool:
        if run.number in self.recorded:
            return active(run)
        if self.intended is None or run.number != self.intended.run or self.job.resize is ResizePolicy.IN_PLACE:
            return False
        return run.suspended and run.completions != len(self.intended.placements)

    def awaited_strays(self) -> list[Run]:
        """Strays that the next run waits for. A stray in deletion without live pods is left out, because a finalizer
        may keep it.
        """
        return [run for run in self.strays() if not run.deleting or any(pod.live for pod in run.pods)]


def _find(job: Job, number: int) -> Run | None:
    return next((run for run in job.runs if run.number == number), None)


def _delete_strays(runs: _RunsOfJob, view: LifecycleView) -> RunStep | Wait | None:
    if runs.job.adopted is not None and runs.job.adopted.ending:
        return None  # the object's own controller ends it, but not while it is suspended
    for run in runs.strays():
        if runs.job.adopted is None and not run.deleting:
            return DeleteRun(runs.job.id, run.number, run.uid)
        if to_stop(run):
            return StopRun(runs.job.id, run.number)
    awaited = [] if runs.job.adopted is not None else runs.awaited_strays()
    return Wait(f"{awaited[0].name}, which is not intended, to be gone") if awaited else None


def _prepare(runs: _RunsOfJob, view: LifecycleView) -> RunStep | Wait | None:
    """Create the next run's Service and suspended object before the present run is stopped, so that a refused
    template does not cost the job its present run.
    """
    if runs.intended is None or runs.current is not None or not runs.job.wants_to_run:
        return None
    if runs.job.adopted is not None:
        return _place(runs, runs.intended, runs.job.adopted)
    if not runs.job.has_service:
        return CreateService(runs.job.id)
    return CreateRun(runs.job.id, runs.intended.run)


def _place(runs: _RunsOfJob, intended: Allocation, target: Target) -> RunStep | Wait | None:
    """Make the adopted object the next run, once it has no other run, because an object carries one run at a time."""
    if runs.superseded:
        return None  # those runs are stopped and recorded first
    if not target.suspended:
        return StopRun(runs.job.id, target.run)
    obstacle = not_placeable_because(target)
    return Wait(obstacle) if obstacle else CreateRun(runs.job.id, intended.run)


def _stop(runs: _RunsOfJob, view: LifecycleView) -> RunStep | Wait | None:
    for allocation in runs.superseded:
        run = _find(runs.job, allocation.run)
        if run is not None and to_stop(run):
            return StopRun(runs.job.id, run.number)
    run = runs.current
    if run is not None and to_stop(run) and run.broken:
        return StopRun(runs.job.id, run.number)
    return None


def _label(runs: _RunsOfJob, view: LifecycleView) -> RunStep | Wait | None:
    for node, value in _labels(runs, view):
        if node.run_labels.get(runs.job.run_label) != value:
            return LabelNode(runs.job.id, node.name, node.uid, runs.job.run_label, value)
    return None


def _labels(runs: _RunsOfJob, view: LifecycleView) -> list[tuple[Node, str]]:
    """The existing nodes of the intended run's trusted placements, each with the value of its label."""
    if runs.intended is None:
        return []
    rentals = (view.rental(placement.rental) for placement in runs.job.trusted(runs.intended))
    nodes = (view.node(rental) for rental in rentals if rental is not None and rental.phase is not RentalPhase.ENDED)
    return [(node, runs.intended.label_value) for node in nodes if node is not None and not node.deleting]


def _record_superseded(runs: _RunsOfJob, view: LifecycleView) -> RunStep | Wait | None:
    for allocation in runs.superseded:
        return judge(runs.job, allocation, _find(runs.job, allocation.run), view, stopped=True)
    return None


def _record_current(runs: _RunsOfJob, view: LifecycleView) -> RunStep | Wait | None:
    if runs.intended is None or runs.current is None:
        return None
    return judge(runs.job, runs.intended, runs.current, view, stopped=False)


def _begin(runs: _RunsOfJob, view: LifecycleView) -> RunStep | Wait | None:
    run = runs.current
    if runs.intended is None or run is None or not run.suspended or not runs.job.wants_to_run:
        return None
    if run.deleting:
        return Wait(f"{runs.job.run_title(run.number)}, which somebody deletes, to be gone")
    if run.completions != len(runs.intended.placements):
        return None  # the run must be resized first
    others = [other for other in runs.job.runs if other.number != run.number and any(pod.live for pod in other.pods)]
    if others:
        return Wait(f"the pods of {others[0].name} to end")
    if runs.superseded or (runs.awaited_strays() and runs.job.adopted is None):
        return Wait("the runs before it to be recorded")
    target, obstacle = runs.job.adopted, ""
    if target is not None and target.queued:
        obstacle = not_placeable_because(target)
    obstacle = obstacle or _obstacle(runs.intended, runs.job, view)
    return Wait(obstacle) if obstacle else Unsuspend(runs.job.id, run.number)


def _obstacle(allocation: Allocation, job: Job, view: LifecycleView) -> str:
    """The obstacle to starting all pods of the run at once, or "" if there is none."""
    if job.doubts:
        return f"an allocation that can be believed: {job.doubts[0].why}"
    gpus_of: dict[RentalId, int] = {}
    for placement in allocation.placements:
        gpus_of[placement.rental] = gpus_of.get(placement.rental, 0) + placement.gpus
    for name, gpus in gpus_of.items():
        rental = view.rental(name)
        if rental is None or rental.phase is not RentalPhase.READY or draining(rental):
            return f"GPURental {name} to be ready"
        node = view.node(rental)
        if node is None or not node.ready or node.unschedulable or node.deleting:
            return f"the Node of GPURental {name} to be ready"
        if node.run_labels.get(job.run_label) != allocation.label_value:
            return f"the label {job.run_label} of Node {node.name}"
        free = (
            node.count(allocation.option.resource)
            - node.foreign_gpus
            - _gpus_of_others(node.name, job, allocation.run, view)
        )
        if free < gpus:
            return f"{count(gpus, 'GPU')} of Node {node.name}, of which {max(free, 0)} are free"
    return ""


def _gpus_of_others(node: NodeName, job: Job, run: int, view: LifecycleView) -> int:
    """The GPUs of live pods on the node other than this run's own."""
    return sum(
        bound.pod.gpus
        for bound in view.pods_on.get(node, ())
        if bound.pod.live and not (bound.job.id == job.id and bound.pod.run == run)
    )


def _adapt(runs: _RunsOfJob, view: LifecycleView) -> RunStep | Wait | None:
    """Change the width of a run in place, and write the allocation into its pods' annotation."""
    run, intended = runs.current, runs.intended
    if intended is None or run is None or run.deleting or run.ended is not None:
        return None
    if runs.job.adopted is not None and runs.job.adopted.grows_to:
        return _grow(runs.job, run, intended, runs.job.adopted, view)
    grows = len(intended.placements) > run.completions
    obstacle = _obstacle(intended, runs.job, view) if grows else ""
    step = group_step(runs.job, intended, run, obstacle, view.snapshot.now)
    if step is not None:
        return step
    annotation = intended.annotation
    for pod in run.pods:
        if pod.live and not pod.deleting and pod.allocation != annotation:
            return AnnotatePod(runs.job.id, pod, annotation)
    return None


def _grow(job: Job, run: Run, intended: Allocation, target: Target, view: LifecycleView) -> RunStep | Wait:
    """Start the pods by which a queued object grows while it runs, once its allocation has that many pods."""
    if target.grows_to > len(intended.placements):
        pods = count(len(intended.placements), "pod")
        return Wait(f"an allocation of {target.grows_to} pods: {job.run_title(run.number)} has {pods}")
    obstacle = _obstacle(intended, job, view)
    return Wait(obstacle) if obstacle else Unsuspend(job.id, run.number)


_LABEL_KEPT_SECONDS: Final = 30.0
"""Seconds for which a Node keeps the label of a run that has ended. Most of these machines are ended by then, and the
label goes with the Node.
"""


def _clean_up(runs: _RunsOfJob, view: LifecycleView) -> RunStep | Wait | None:
    """Remove labels that are not needed, and delete all recorded runs but the last, whose pods keep their logs."""
    needed, wait = {node.name for node, _ in _labels(runs, view)}, None
    for node in view.nodes.labelled.get(runs.job.run_label, ()):
        if node.name in needed or node.ending:
            continue
        until = _kept_until(runs.job, node.run_labels[runs.job.run_label])
        if until is None or view.snapshot.now >= until:
            return LabelNode(runs.job.id, node.name, node.uid, runs.job.run_label, None)
        wait = Wait(f"Node {node.name} to be given back, before its label {runs.job.run_label} is removed", until=until)
    if runs.job.target is not None:
        return wait
    finished = runs.job.finish is not None
    kept = [record.number for record in runs.job.records if not (finished and record.outcome is RunOutcome.STOPPED)]
    begun = [runs.current.number] if runs.current is not None and not runs.current.suspended else []
    last = max([*kept, *begun], default=0)
    for run in runs.job.runs:
        if run.number in runs.recorded and run.number != last and not run.deleting:
            return DeleteRun(runs.job.id, run.number, run.uid)
    return wait


def _kept_until(job: Job, label: str) -> Instant | None:
    """The time until which a Node keeps the label of a run, or None if the run's end is not on record."""
    ended = (record.until for record in job.records if label == f"r{record.number}")
    return next((after(until, _LABEL_KEPT_SECONDS) for until in ended), None)


def _end_target(runs: _RunsOfJob, view: LifecycleView) -> RunStep | Wait | None:
    """End the adopted object of a job that was given up, so that nothing waits for the object for ever."""
    target, finish = runs.job.adopted, runs.job.finish
    if target is None or finish is None or runs.superseded or target.ended is not None:
        return None
    if finish.kind is FinishKind.COMPLETE:
        return None
    if target.ending:
        return Wait(f"the controller of {target.ref} to end it")
    if not target.held or target.queued:  # the author has the object again, or Kueue decides its end
        return None
    obstacle = not_placeable_because(target)
    return Wait(obstacle) if obstacle else EndTarget(runs.job.id, steps_to_close(runs.job, view))


def _expire(runs: _RunsOfJob, view: LifecycleView) -> RunStep | Wait | None:
    finish, ttl = runs.job.finish, runs.job.ttl_seconds_after_finished
    if finish is None or ttl is None or runs.superseded or runs.job.deleting:
        return None
    expiry = after(finish.at, ttl)
    if view.snapshot.now < expiry:
        return Wait("the end of its time to live", until=expiry)
    if runs.job.budget is not None and runs.job in view.uncounted.get(runs.job.budget, ()):
        return Wait(f"GPUBudget {runs.job.budget} to count what it has cost")
    return DeleteJob(runs.job.id)


STAGES: Mapping[str, Callable[[_RunsOfJob, LifecycleView], RunStep | Wait | None]] = {
    "Strays": _delete_strays,
    "Record replaced": _record_superseded,
    "Prepare": _prepare,
    "Stop": _stop,
    "Label": _label,
    "Record": _record_current,
    "Begin": _begin,
    "Adapt": _adapt,
    "Clean up": _clean_up,
    "End object": _end_target,
    "Expire": _expire,
}
"""The stages in the order in which they are tried. docs/development/lifecycle.md lists them by these names."""
