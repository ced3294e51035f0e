"""Join runs with their pods, both runs that Charterer created and runs of adopted objects with their TrainingJobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from charterer.api.decode import MULTIKUEUE, DecodedCheck, DecodedJob, ForeignPod, JobPod
from charterer.cluster.store import ObjectKey
from charterer.domain.budget import Budget
from charterer.domain.errors import Problem
from charterer.domain.ids import JobId, NodeName, PoolId
from charterer.domain.job import Job, Run, StartWarnings
from charterer.domain.option import GPU_RESOURCES
from charterer.domain.pod import Pod
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental
from charterer.domain.snapshot import AdoptionCandidate
from charterer.domain.target import Target, TargetRef
from charterer.workloads.adopted.kueue_workload import beside_multikueue
from charterer.workloads.adopted.ray_job import WaitingRayJob

# Requirements of a Kueue queue beside Charterer's own check, as far as they matter to the objects in the queue.


def of_multikueue(checks: Mapping[ObjectKey, DecodedCheck]) -> Mapping[str, str]:
    """The controller of each AdmissionCheck of MultiKueue, which runs jobs in other clusters, by the check's name."""
    return {check.name: check.controller for check in checks.values() if check.controller == MULTIKUEUE}


def without_entrypoint(waiting: Mapping[ObjectKey, WaitingRayJob]) -> Mapping[str, str]:
    """The condition that each RayJob waits for before its entrypoint runs, by the RayJob's uid."""
    return {each.uid: each.why for each in waiting.values()}


def in_its_queue(target: Target, elsewhere: Mapping[str, str], waiting: Mapping[str, str]) -> Target:
    """The object with its queue's problem, or with what it waits for. If there is neither, the same object is returned.

    ``elsewhere``: the result of ``of_multikueue``. ``waiting``: the result of ``without_entrypoint``.
    """
    check = next((check for check in target.checks if check in elsewhere), "")
    if check and not target.problem:
        return replace(target, problem=beside_multikueue(check))
    why = waiting.get(target.ref.uid, "") if target.queued else ""
    return replace(target, incomplete=why) if why and not target.incomplete else target


class PodController(NamedTuple):
    """The controller that a pod names, which is a batch/v1 Job with this uid in the pod's own namespace.

    An adopted object may have several controllers of pods, so for its pods ``uid`` is that of the TrainingJob.
    """

    namespace: str
    uid: str


OwnedRun = tuple[JobId, Run]
"""A run with the uid of the TrainingJob that it names."""


class AdoptedRun(NamedTuple):
    """A run that an adopted object carries, with the uid of its TrainingJob."""

    job: JobId
    run: Run
    target: Target


OwnRun = OwnedRun | AdoptedRun
"""A run of a job that exists. A run that Charterer created is the same object as before until it changes."""


PodsOfController = tuple[JobPod | ForeignPod, ...]
"""The pods of one controller in the order of their indexes, or the pods that are of no run."""
_Targets = Mapping[ObjectKey, Target]


def targets_by_job(decoded: Mapping[JobId, DecodedJob], *targets: _Targets) -> Mapping[JobId, Target]:
    """The object of each TrainingJob. If several TrainingJobs name one object, the object belongs to the one that was
    created first.

    If an object changes, Kueue replaces its Workload. While the object has no Workload, it waits.
    """
    current = _current(targets)
    jobs = [item.job for item in decoded.values() if item.job.target is not None]
    adopted: dict[JobId, Target] = {}
    taken: set[str] = set()
    for job in sorted(jobs, key=lambda job: (job.created, job.name)):
        if job.target is None or job.target.uid in taken:
            continue
        target = current.get(_key(job.target))
        if target is None and job.target.queued:
            target = _without_workload(job, job.target)
        if target is not None and target.namespace == job.namespace:
            taken.add(target.ref.uid)
            adopted[job.id] = target
    return adopted


def _without_workload(job: Job, ref: TargetRef) -> Target:
    """A queued object for which Kueue has no Workload now."""
    return Target(
        ref,
        job.namespace,
        resource_version="",
        created=job.created,
        suspended=True,
        controllers=frozenset([ref.name]),
        controller_prefix=f"{ref.name}-",
        has_quota=False,
    )


def candidates(
    adopted: Mapping[JobId, Target],
    payers: Mapping[str, Budget],
    left: Mapping[PodController, PodsOfController],
    *targets: _Targets,
) -> tuple[AdoptionCandidate, ...]:
    """The objects that have no TrainingJob yet. ``left``: the pods of those that are being deleted."""
    taken = {_key(target.ref) for target in adopted.values()}
    free = [target for key, target in _current(targets).items() if key not in taken]
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
    """The controllers of pods of the objects that are being deleted."""
    return tuple([PodController(item.namespace, item.job) for item in _each(targets) if item.deleting and item.job])


def run_of(job: Job, target: Target) -> Run | None:
    """The run that the object's template carries, or None before the job's first run.

    A queued object carries a run as long as Charterer lets Kueue run the object. While the object is stopped, its run
    is the run that was replaced last and is still to be recorded. If there is none, it is the next run to start.
    """
    number = target.run if target.job == job.id else 0
    if not number and target.queued and target.suspended:
        waiting = job.replaced[-1] if job.replaced else job.allocation
        number = 0 if waiting is None else waiting.run
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
        incomplete=target.incomplete,
    )


def pods_of(run: Run, target: Target, pods: Iterable[JobPod]) -> tuple[Pod, ...]:
    """The run's pods among those with its job's uid. If the pods are not numbered, living pods come first."""
    found = [pod for pod in pods if pod.pod.run == run.number and target.controls(pod.controller)]
    own = [pod.pod for pod in found]
    # Only a queued Job's pods say whether they have numbers.
    return tuple(own) if target.indexed and all(pod.numbered for pod in found) else numbered(own)


def numbered(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Pods without numbers of their own, numbered here with living pods first."""
    ordered = sorted(pods, key=lambda pod: (not pod.live or pod.deleting, pod.name))
    return tuple([replace(pod, index=index) for index, pod in enumerate(ordered)])


def adoption_problems(jobs: Mapping[JobId, Job]) -> tuple[Problem, ...]:
    """Problems that the authors of adopted objects should know."""
    found = []
    for job in jobs.values():
        target = job.adopted
        if target is None:
            continue
        for reason, text in (("NotAdoptable", target.problem), ("NotGranted", target.warning)):
            if text:
                found.append(Problem("TrainingJob", job.namespace, job.name, str(job.target), reason, text))
    return tuple(found)


def _key(ref: TargetRef) -> tuple[str, bool]:
    """The key by which a TrainingJob finds its object. The key has the object's uid, and whether Kueue starts the
    object.
    """
    return ref.uid, ref.queued


def _current(targets: Sequence[_Targets]) -> Mapping[tuple[str, bool], Target]:
    """The targets by ``_key``."""
    current: dict[tuple[str, bool], Target] = {}
    workloads: dict[tuple[str, bool], list[Target]] = {}
    for target in _each(targets):
        if target.queued:
            workloads.setdefault(_key(target.ref), []).append(target)
        else:
            current[_key(target.ref)] = target
    for key, several in workloads.items():
        known = {target.workload for target in several}
        # A Workload that replaces another may have no checks, because its queue is none of Charterer's. It then counts
        # only if the Workload that it replaces is known.
        counted = [target for target in several if target.checks or not target.replaces or target.replaces in known]
        if counted:
            current[key] = counted[0] if len(counted) == 1 else _latest(counted)
    return current


def _latest(workloads: Sequence[Target]) -> Target:
    """The Workload by which Kueue runs an object that has several. Each other Workload is being deleted, or will
    replace this one.

    An elastic object that grows gets a further Workload. Until the further Workload starts, the run of the former
    Workload goes on.
    """
    later = {target.replaces: target for target in workloads if target.replaces}
    known = {target.workload for target in workloads}
    ends = []
    for now in [target for target in workloads if target.replaces not in known] or workloads[:1]:
        for _ in workloads:
            after = later.get(now.workload)
            now = now if after is None else _followed(now, after)
        ends.append(now)
    return max(ends, key=lambda target: (not target.deleting, target.created, target.workload))


def _followed(before: Target, after: Target) -> Target:
    if after.admitted or after.evicted or after.run or not before.run or before.suspended:
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
    """Whether this namespace has a TrainingJob with that uid.

    Anybody who may create objects in a namespace can give them an owner reference with any uid. So a TrainingJob in
    another namespace does not count.
    """
    found = decoded.get(job)
    return found is not None and found.job.namespace == namespace


def own_runs(
    runs: Mapping[ObjectKey, OwnedRun],
    decoded: Mapping[JobId, DecodedJob],
    adopted: Mapping[JobId, Target],
    warnings: Mapping[str, StartWarnings],
    departed: Mapping[str, JobPod | ForeignPod],
) -> Mapping[PodController | None, OwnRun]:
    """The runs of existing jobs, by the controller of the runs' pods. The job owns the run, or its adopted object
    carries the run.

    Each run has the last Warning Events about it. Each run also has those pods that were last seen in deletion with an
    exit code and do not exist any more.
    """
    gone: dict[PodController | None, list[JobPod]] = {}
    for pod in departed.values():
        if isinstance(pod, JobPod):
            gone.setdefault(controller_of_pod(pod), []).append(pod)
    own: dict[PodController | None, OwnRun] = {}
    for job, target in adopted.items():
        if (carried := run_of(decoded[job].job, target)) is not None:
            controller = PodController(target.namespace, job)
            late = pods_of(carried, target, gone.get(controller, ()))
            own[controller] = AdoptedRun(job, _with_warnings(replace(carried, departed=late), warnings), target)
    for key, owned in runs.items():
        job, run = owned
        if run.owned and is_there(job, key.namespace, decoded):
            controller = PodController(key.namespace, run.uid)
            if run.uid in warnings or controller in gone:
                pods = tuple([item.pod for item in gone.get(controller, ())])
                owned = job, _with_warnings(replace(run, departed=pods), warnings)
            own[controller] = owned
    return own


def _with_warnings(run: Run, warnings: Mapping[str, StartWarnings]) -> Run:
    missing, pod = warnings.get(run.uid, StartWarnings())
    return replace(run, missing=missing, warning=pod)


def job_of(owned: OwnedRun) -> JobId:
    return owned[0]


def run_order(owned: OwnedRun) -> tuple[JobId, int, str]:
    return owned[0], owned[1].number, owned[1].name


def devices_of_nodes(rentals: Mapping[ObjectKey, Rental], pools: Mapping[PoolId, Pool]) -> Mapping[NodeName, str]:
    """The resource of the GPUs of rented nodes, for each node on which others than the usual resources are GPUs."""
    named = {pool.id: pool.device for pool in pools.values() if pool.device not in GPU_RESOURCES}
    return {
        rental.node: device
        for rental in rentals.values()
        if rental.node is not None and (device := named.get(rental.pool)) is not None
    }


def counted(pod: JobPod | ForeignPod, devices: Mapping[NodeName, str]) -> JobPod | ForeignPod:
    """The pod with the GPUs that it holds of its node, whose pool says what is a GPU there."""
    node = pod.pod.node if isinstance(pod, JobPod) else pod.node
    device = None if node is None else devices.get(node)
    if device is None:
        return pod
    gpus = dict(pod.others).get(device, 0)
    return replace(pod, pod=replace(pod.pod, gpus=gpus)) if isinstance(pod, JobPod) else replace(pod, gpus=gpus)


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
    """The GPUs of nodes that these pods use and that runs therefore cannot use. The pods belong to one controller, or
    to no run.

    ``own``: the run that controls the pods, or None if its object or its TrainingJob does not exist. Background
    deletion removes the object of a run at once. The run's pods stay until the garbage collector deletes them.
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
