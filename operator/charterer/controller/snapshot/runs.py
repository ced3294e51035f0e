"""Joining runs with their pods: those that Charterer made, and those of adopted objects with their TrainingJobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from charterer.api.decode import DecodedJob, ForeignPod, JobPod
from charterer.cluster.store import ObjectKey
from charterer.domain.budget import Budget
from charterer.domain.errors import Problem
from charterer.domain.ids import JobId, NodeName
from charterer.domain.job import Job, Run
from charterer.domain.jobs.pod import Pod
from charterer.domain.jobs.target import Target
from charterer.domain.snapshot import AdoptionCandidate


class PodController(NamedTuple):
    """The controller of a pod, as the pod says: a batch/v1 Job of this uid in the pod's own namespace.

    For pods of an adopted object, whose controllers may be several, ``uid`` is that of the TrainingJob.
    """

    namespace: str
    uid: str


OwnedRun = tuple[JobId, Run]
"""A run with the uid of its TrainingJob, as it says."""


class AdoptedRun(NamedTuple):
    """The same of a run that an adopted object carries out."""

    job: JobId
    run: Run
    target: Target


OwnRun = OwnedRun | AdoptedRun
"""A run of a job that is there. One that Charterer made is the same object as before as long as it does not change."""


PodsOfController = tuple[JobPod | ForeignPod, ...]
"""The pods of one controller, by their indices; or those that are of no run."""
_Targets = Mapping[ObjectKey, Target]


def targets_by_job(decoded: Mapping[JobId, DecodedJob], *targets: _Targets) -> Mapping[JobId, Target]:
    """The object that each TrainingJob stands for: of several that name the same object the first one created."""
    by_uid = _current(targets)
    jobs = [item.job for item in decoded.values() if item.job.target is not None]
    adopted: dict[JobId, Target] = {}
    taken: set[str] = set()
    for job in sorted(jobs, key=lambda job: (job.created, job.name)):
        target = None if job.target is None else by_uid.get(job.target.uid)
        if target is not None and target.namespace == job.namespace and target.ref.uid not in taken:
            taken.add(target.ref.uid)
            adopted[job.id] = target
    return adopted


def candidates(
    adopted: Mapping[JobId, Target],
    payers: Mapping[str, Budget],
    left: Mapping[PodController, PodsOfController],
    *targets: _Targets,
) -> tuple[AdoptionCandidate, ...]:
    """The objects for which no TrainingJob stands yet. ``left``: pods of those that are being deleted."""
    taken = {target.ref.uid for target in adopted.values()}
    current = {target.ref.uid: target for target in _current(targets).values()}
    free = [target for uid, target in current.items() if uid not in taken]
    payer = {target.namespace: payers.get(target.namespace) for target in free}
    return tuple(
        [
            AdoptionCandidate(
                target, None if (by := payer[target.namespace]) is None else by.id, _left_of(target, left)
            )
            for target in free
        ]
    )


def _left_of(target: Target, left: Mapping[PodController, PodsOfController]) -> tuple[Pod, ...]:
    pods = left.get(PodController(target.namespace, target.job), ()) if target.deleting else ()
    return tuple([pod.pod for pod in pods if isinstance(pod, JobPod) and target.controls(pod.controller)])


def placed_by_deleted(*targets: _Targets) -> tuple[PodController, ...]:
    """What controls the pods of the objects that are being deleted."""
    return tuple([PodController(item.namespace, item.job) for item in _each(targets) if item.deleting and item.job])


def run_of(job: Job, target: Target) -> Run | None:
    """The run that the object's template carries; None before the job's first one.

    Kueue forgets what it was told of a run as soon as that is stopped. Until it is recorded, it is the job's last one.
    """
    number = target.run if target.job == job.id else 0
    if not number and target.queued_for and target.suspended:
        number = job.replaced[-1].run if job.replaced else _evicted_run(job, target)
    if not number:
        return None
    return Run(
        number=number,
        name=target.ref.name,
        uid=target.ref.uid,
        resource_version=target.resource_version,
        completions=target.pods,
        suspended=target.suspended,
        deleting=target.deleting,
        created=target.created,
        started=target.started,
        complete=target.complete,
        failed=target.failed,
        failed_message=target.failed_message,
        pods=(),
        failed_by_disruption=target.failed_by_disruption,
        retries=target.retries,
        failed_pods=target.failed_pods,
    )


def _evicted_run(job: Job, target: Target) -> int:
    """The number of the run that was evicted by others; 0 where none was since the last one ended."""
    given = job.allocation
    if given is None or target.evicted is None:
        return 0
    return given.run if target.evicted > max([given.since, *[record.until for record in job.records]]) else 0


def pods_of(run: Run, target: Target, pods: Iterable[JobPod]) -> tuple[Pod, ...]:
    """The run's pods among those that carry its job's uid. Where they have no numbers, those that live come first."""
    own = [pod.pod for pod in pods if pod.pod.run == run.number and target.controls(pod.controller)]
    return tuple(own) if target.indexed else numbered(own)


def numbered(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Pods without numbers of their own, with one each: those that live come first."""
    ordered = sorted(pods, key=lambda pod: (not pod.live or pod.deleting, pod.name))
    return tuple([replace(pod, index=index) for index, pod in enumerate(ordered)])


def adoption_problems(jobs: Mapping[JobId, Job]) -> tuple[Problem, ...]:
    """What the authors of adopted objects should know of them."""
    found = []
    for job in jobs.values():
        target = job.adopted
        if target is None:
            continue
        for reason, text in (("NotAdoptable", target.problem), ("NotGranted", target.warning)):
            if text:
                found.append(Problem("TrainingJob", job.namespace, job.name, str(job.target), reason, text))
    return tuple(found)


def _current(targets: Sequence[_Targets]) -> Mapping[str, Target]:
    """The targets by uid. An elastic object in a queue that grows gets another Workload, which stands for the former.

    Until that one was started, the run of the former goes on.
    """
    current = {target.ref.uid: target for target in _each(targets)}
    later = {(target.namespace, target.replaces): target for target in current.values() if target.replaces}
    if not later:
        return current
    known = {(target.namespace, target.ref.name) for target in current.values()}
    firsts = [target for target in current.values() if (target.namespace, target.replaces) not in known]
    for first in firsts:
        uids, now = [first.ref.uid], first
        while (after := later.get((now.namespace, now.ref.name))) is not None:
            uids.append(after.ref.uid)
            now = _followed(now, after)
        current.update(dict.fromkeys(uids, now))
    return current


def _followed(before: Target, after: Target) -> Target:
    if after.admitted or after.run or not before.run or before.suspended:
        return after
    return replace(
        after,
        job=before.job,
        run=before.run,
        pods=before.pods,
        started=before.started,
        suspended=False,
        placeable=False,
        grows_to=after.pods if after.placeable else 0,
    )


def _each(targets: Sequence[_Targets]) -> list[Target]:
    return [target for of_kind in targets for target in of_kind.values()]


# --- runs and their pods ----------------------------------------------------------------------------------------------


def is_there(job: JobId, namespace: str, decoded: Mapping[JobId, DecodedJob]) -> bool:
    """Whether this namespace has a TrainingJob of that uid.

    Whoever may create objects in a namespace may write any uid as their owner into them: one of another namespace is
    none.
    """
    found = decoded.get(job)
    return found is not None and found.job.namespace == namespace


def own_runs(
    runs: Mapping[ObjectKey, OwnedRun],
    decoded: Mapping[JobId, DecodedJob],
    adopted: Mapping[JobId, Target],
    warnings: Mapping[str, str],
    departed: Mapping[str, JobPod | ForeignPod],
) -> Mapping[PodController, OwnRun]:
    """The runs whose jobs are there and own them, or their targets, as what controls pods; each with the last warning
    about it, and with its pods that are gone although they say something."""
    gone: dict[PodController | None, list[JobPod]] = {}
    for pod in departed.values():
        if isinstance(pod, JobPod):
            gone.setdefault(controller_of_pod(pod), []).append(pod)
    own: dict[PodController, OwnRun] = {}
    for job, target in adopted.items():
        if (carried := run_of(decoded[job].job, target)) is not None:
            controller = PodController(target.namespace, job)
            late = pods_of(carried, target, gone.get(controller, ()))
            own[controller] = AdoptedRun(
                job, replace(carried, warning=warnings.get(carried.uid, ""), departed=late), target
            )
    for key, owned in runs.items():
        job, run = owned
        if run.owned and is_there(job, key.namespace, decoded):
            controller = PodController(key.namespace, run.uid)
            if run.uid in warnings or controller in gone:
                pods = tuple([item.pod for item in gone.get(controller, ())])
                owned = job, replace(run, warning=warnings.get(run.uid, ""), departed=pods)
            own[controller] = owned
    return own


def job_of(owned: OwnedRun) -> JobId:
    return owned[0]


def run_order(owned: OwnedRun) -> tuple[JobId, int, str]:
    return owned[0], owned[1].number, owned[1].name


def controller_of_pod(pod: JobPod | ForeignPod) -> PodController | None:
    return PodController(pod.namespace, pod.adopted_for or pod.controller_uid) if isinstance(pod, JobPod) else None


def pod_order(pod: JobPod | ForeignPod) -> tuple[str, int, str]:
    return (pod.controller_uid, pod.pod.index, pod.pod.uid) if isinstance(pod, JobPod) else ("", 0, pod.node)


def with_pods(own: OwnRun, pods: PodsOfController | None) -> OwnedRun:
    """The run with its pods in order."""
    labelled = [pod for pod in pods or () if isinstance(pod, JobPod)]
    if isinstance(own, AdoptedRun):
        return own.job, replace(own.run, pods=pods_of(own.run, own.target, labelled))
    job, run = own
    return job, replace(run, pods=tuple([pod.pod for pod in labelled]))


def not_for_runs(pods: PodsOfController, own: OwnRun | None) -> tuple[tuple[NodeName, int], ...]:
    """The GPUs of nodes that are not free for runs, because of these pods of one controller, or of no run.

    ``own``: the run that controls them. None where its object or its TrainingJob is not there: deleting a run's
    object in the background removes it at once, and its pods live on until the garbage collector comes to them.
    """
    held = []
    for pod in pods:
        if isinstance(pod, ForeignPod):
            held.append((pod.node, pod.gpus))
        elif not pod.pod.live or pod.pod.node is None:
            continue
        elif own is None or (isinstance(own, AdoptedRun) and not pods_of(own.run, own.target, [pod])):
            held.append((pod.pod.node, pod.pod.gpus))
    return tuple(held)
