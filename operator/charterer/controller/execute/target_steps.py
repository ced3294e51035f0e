"""Steps on adopted objects. Each reads the object as it is now, and makes the writes that its kind requires."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from charterer.api import decode
from charterer.api.metadata import Raw, controller_of
from charterer.api.names import ANNOTATION_CREATED_BY, ANNOTATION_GPUS, API_VERSION, GROUP, LABEL_JOB_UID
from charterer.cluster import kinds
from charterer.cluster.client import RawObject
from charterer.cluster.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound, OutcomeUnknown
from charterer.cluster.paths import PODS, TRAINING_JOBS
from charterer.cluster.store import ObjectKey
from charterer.controller.execute.context import ExecutionContext, Stale
from charterer.controller.execute.node_steps import cordon
from charterer.controller.execute.rental_steps import mark_draining
from charterer.controller.outcome import ActionOutcome, Held
from charterer.controller.snapshot.runs import numbered
from charterer.domain.job import Allocation, Job
from charterer.domain.pod import Pod
from charterer.domain.steps import AdoptTarget, Cordon, EditJob, EndTarget, FinishJob, LetGo, MarkDraining, ResizeRun
from charterer.domain.target import Target, TargetRef, WhenGivenUp
from charterer.workloads import ADOPTED, NotAdoptable, TargetKind, Write
from charterer.workloads.adopted.kueue_workload import KUEUE_WORKLOAD, OWNER, SHADOW, answer, grown, is_queued, path_of
from charterer.workloads.adopted.noted import shadow_names

# How a TrainingJob names its adopted object.


def owner_of(ref: TargetRef) -> RawObject:
    """The owner reference from a TrainingJob to its object."""
    return {"apiVersion": ref.api_version, "kind": ref.kind, "name": ref.name, "uid": ref.uid, "controller": True}


def reference_to(ref: TargetRef) -> RawObject:
    """The value of ``spec.targetRef``."""
    reference: RawObject = {"apiVersion": ref.api_version, "kind": ref.kind, "name": ref.name, "uid": ref.uid}
    return reference | {name: True for name in ("queued", "sized") if getattr(ref, name)}


def read_once(ref: TargetRef, metadata: RawObject) -> TargetRef:
    """The reference with those annotations of the object that are read only once."""
    return ref._replace(sized=ref.queued and ANNOTATION_GPUS in (metadata.get("annotations") or {}))


# Mark machines for release, and cordon their Nodes, before an object is restored.


Closing: TypeAlias = Iterable[MarkDraining | Cordon]


async def close(context: ExecutionContext, steps: Closing) -> None:
    """Carry the steps out, one after the other."""
    for step in steps:
        await (cordon(context, step) if isinstance(step, Cordon) else mark_draining(context, step))


_ENDED = ("Succeeded", "Failed")
_BY_WEBHOOK = "denied the request"
"""A text that is in the API server's message if a webhook refuses a request."""


async def adopt(context: ExecutionContext, step: AdoptTarget) -> ActionOutcome:
    """Create the object's TrainingJob.

    An object that runs is stopped first. Such an object must have lost its TrainingJob, or an uncached list must show
    no pod that has begun.
    """
    target = step.target
    try:
        kind, raw = await _look(context, target.ref, target.namespace, "", target.workload)
    except Forbidden as error:
        await _tell_unreadable(context, target)
        raise Held(error.message) from error
    if raw is None or not _wanted(kind, raw) or kind.read(raw).resource_version != target.resource_version:
        raise Stale
    if not target.suspended:
        phases = [(pod.get("status") or {}).get("phase") for pod in await _raw_pods(context, kind, raw)]
        if not target.held and any(phase != "Pending" for phase in phases):
            raise Stale
        raw = await _write(context, kind, kind.stop(raw)) or raw
    said = raw.get(OWNER, raw)["metadata"]
    labels = {key: value for key, value in (said.get("labels") or {}).items() if not _ours(key)}
    creator = (said.get("annotations") or {}).get(ANNOTATION_CREATED_BY)
    body = {
        "apiVersion": API_VERSION,
        "kind": "TrainingJob",
        "metadata": {
            "namespace": target.namespace,
            "labels": labels,
            **({} if creator is None else {"annotations": {ANNOTATION_CREATED_BY: creator}}),
            "ownerReferences": [owner_of(target.ref)],
        },
        "spec": {**await _shadow(context, kind, raw), "targetRef": reference_to(read_once(target.ref, said))},
    }
    plain, hashed = shadow_names(target.ref)
    if plain:
        try:
            return await context.objects.create(kinds.TRAINING_JOBS, _named(body, plain))
        except AlreadyExists:
            pass
    return await context.objects.create(kinds.TRAINING_JOBS, _named(body, hashed))


async def _tell_unreadable(context: ExecutionContext, target: Target) -> None:
    """Write into the check of a queued object that the operator may not read the object."""
    if not target.queued:
        return
    raw = await context.client.get(KUEUE_WORKLOAD.kind.resource.one(target.workload, target.namespace))
    group = target.ref.api_version.rpartition("/")[0]
    text = (
        f"the operator may not read {target.ref}: if Charterer is to pay for it, add "
        f"{target.ref.kind.lower()}s.{group} to the value kueue.owners of its chart"
    )
    await _write(context, KUEUE_WORKLOAD, answer(raw, text, context.now(), ready=False))


async def _shadow(context: ExecutionContext, kind: TargetKind, raw: RawObject) -> RawObject:
    """The spec of the object's TrainingJob. If the object cannot be adopted, raises Held, and writes the reason into
    the check of a queued object.
    """
    try:
        return dict(kind.shadow(raw))
    except NotAdoptable as error:
        if OWNER in raw:
            await _write(context, kind, answer(raw, str(error), context.now(), ready=False))
        raise Held(str(error)) from error


def _named(body: RawObject, name: str) -> RawObject:
    return {**body, "metadata": {**body["metadata"], "name": name}}


_NO_WORKLOAD = "Kueue has yet to make a Workload of its new width"


async def place(context: ExecutionContext, job: Job, allocation: Allocation) -> ActionOutcome:
    """Make the stopped object the allocation's run, if an uncached list shows no live pod of the object."""
    kind, raw, target = await _mine(context, job)
    if not target.placeable or await _has_live_pods(context, kind, raw):
        raise Stale
    writes = kind.place(raw, job, allocation)
    if target.queued and not writes:
        raise Held(_NO_WORKLOAD)
    await _write(context, kind, writes)
    return ActionOutcome.DONE


async def start(context: ExecutionContext, job: Job, number: int) -> ActionOutcome:
    """Let the pods of the placed run start, if an uncached list shows no live pod of the object.

    If a queued object grows while it runs, only its new pods start.
    """
    kind, raw, target = await _mine(context, job)
    if job.adopted is not None and job.adopted.grows_to:
        if (target.pods, target.run, target.placeable) != (job.adopted.grows_to, 0, True):
            raise Stale
        await _write(context, kind, grown(raw, job, number))
        return ActionOutcome.DONE
    allocation = job.allocation
    if allocation is None or target.pods != len(allocation.placements) or target.ended is not None:
        raise Stale
    if target.queued:
        return await _start_queued(context, kind, raw, job, allocation)
    if (target.job, target.run) != (job.id, number):
        raise Stale
    if target.suspended and await _has_live_pods(context, kind, raw):
        raise Stale
    await _write(context, kind, kind.start(raw, job, allocation))
    return ActionOutcome.DONE


async def _start_queued(
    context: ExecutionContext, kind: TargetKind, raw: RawObject, job: Job, allocation: Allocation
) -> ActionOutcome:
    """Let Kueue start the run. The start is first recorded on the job, because the Workload no longer shows it after
    the run.
    """
    if not kind.read(raw).placeable or await _has_live_pods(context, kind, raw):
        raise Stale
    if writes := kind.place(raw, job, allocation):  # the template may still have the placement of an earlier run
        await _write(context, kind, writes)
        raise Stale
    fresh = context.decided.job(job.id)
    noted = await context.objects.record_job(replace(fresh, allocation=replace(allocation, begun=True)))
    try:
        await _write(context, kind, kind.start(raw, job, allocation))
    except (Held, ApiError) as error:
        if not isinstance(error, OutcomeUnknown):
            await context.objects.record_job(replace(noted, allocation=allocation))
        raise
    return ActionOutcome.DONE


async def stop(context: ExecutionContext, job: Job) -> ActionOutcome:
    """Stop the object, whose pods get SIGTERM and their grace period."""
    kind, raw, _ = await _mine(context, job)
    await _write(context, kind, kind.stop(raw))
    return ActionOutcome.DONE


async def resize(context: ExecutionContext, job: Job, step: ResizeRun) -> ActionOutcome:
    """Change the number of the object's pods while they run. Raises Held while another controller has to act first."""
    kind, raw, target = await _mine(context, job)
    if (target.job, target.run) != (job.id, step.run) or target.suspended:
        raise Stale
    leaving: list[str] = []
    if not target.indexed:
        pods = [pod for pod in await pods_of_target(context, job) if pod.run == step.run]
        leaving = [pod.name for pod in numbered(pods)[step.completions :] if pod.live and not pod.deleting]
    writes = kind.resize(raw, step.completions, step.retries, leaving)
    if not writes:  # its own controller has not followed the last write, or has made nothing yet that has a width
        raise Held(_NO_WORKLOAD if target.queued else f"the controller of {target.ref} has yet to make its pods")
    await _write(context, kind, writes)
    return ActionOutcome.DONE


async def edit(context: ExecutionContext, step: EditJob) -> ActionOutcome:
    """Write the present requests of the object's author, including the template, into the spec of the TrainingJob."""
    job = context.decided.job(step.job)
    kind, raw, _ = await _mine(context, job)
    if job.target is None:
        raise Stale
    spec = kind.shadow(raw)
    if job.target.queued:  # annotations are read once: a later request is made in the TrainingJob
        now = await context.client.get(TRAINING_JOBS.one(job.name, job.namespace))
        spec = now["spec"] | {name: spec[name] for name in ("template", "gpus")}
    spec = {**spec, "targetRef": reference_to(job.target)}
    operations: list[RawObject] = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": job.resource_version},
        {"op": "replace", "path": "/spec", "value": spec},
    ]
    await context.objects.json_patch(kinds.TRAINING_JOBS, TRAINING_JOBS.one(job.name, job.namespace), operations)
    return ActionOutcome.DONE


async def let_go(context: ExecutionContext, step: LetGo) -> ActionOutcome:
    """Restore the object. If the object still carries a run, the run is stopped first. If the object is in deletion,
    its pods are ended instead.
    """
    if step.target.deleting:
        return await end_pods_of(context, step.target.ref, step.target.namespace, step.pods)
    kind, raw = await _look(context, step.target.ref, step.target.namespace, "", step.target.workload)
    if raw is None:
        raise Stale
    target = kind.read(raw)
    if target.job and not target.suspended:
        await _write(context, kind, kind.stop(raw))
        raise Stale
    await _restore(context, kind, raw, ())
    return ActionOutcome.DONE


async def finish(context: ExecutionContext, step: FinishJob) -> ActionOutcome:
    """Record the end of an object that ended while it had no run."""
    job = context.decided.job(step.job)
    await context.objects.record_job(replace(job, finish=step.finish))
    return ActionOutcome.DONE


async def end_target(context: ExecutionContext, step: EndTarget) -> ActionOutcome:
    """Let an object that was given up end as failed, or restore the object. An uncached list must show that none of its
    pods is alive.
    """
    job = context.decided.job(step.job)
    kind, raw, target = await _mine(context, job)
    if job.finish is None or target.ended is not None or not target.placeable:
        raise Stale
    if await _has_live_pods(context, kind, raw):
        raise Stale
    if target.when_given_up is WhenGivenUp.GIVE_BACK:
        await close(context, step.closes)
        await _write(context, kind, kind.restore(raw))
    else:
        await _write(context, kind, kind.fail(raw, job.finish.reason, job.finish.message, context.now()))
    return ActionOutcome.DONE


async def stop_target(context: ExecutionContext, job: Job, *, unlabelled: bool) -> RawObject | None:
    """The object to restore. If the object runs as one of the job's runs, it is stopped first. None if the object is
    gone or another job has it.

    ``unlabelled``: the object is restored because it lost its label. Raises Stale if the object has the label again.
    """
    kind, raw = await _of_job(context, job)
    if raw is None or (unlabelled and _another_stands_for_it(context, job)):
        return None
    if unlabelled and _wanted(kind, raw):
        raise Stale
    target = kind.read(raw)
    stops = target.job == job.id and target.ended is None and not target.deleting
    return (await _write(context, kind, kind.stop(raw)) or raw) if stops else raw


async def end_pods_of(context: ExecutionContext, ref: TargetRef, namespace: str, pods: Iterable[Pod]) -> ActionOutcome:
    """Delete the living pods of an adopted object that is being deleted or gone.

    Raises Held if the object is queued and only its Workload is being deleted, because Kueue then stops the object
    itself. A Job counts each pod that anybody else deletes as failed, and may then fail for good.
    """
    owner = await _get(context, ref, path_of(ref, namespace)) if ref.queued else None
    if owner is not None and "deletionTimestamp" not in owner["metadata"]:
        raise Held(f"Kueue has yet to stop {ref}, whose Workload is being deleted")
    return await end_pods(context, namespace, pods)


async def end_pods(context: ExecutionContext, namespace: str, pods: Iterable[Pod]) -> ActionOutcome:
    """Delete the living pods with their grace period. Each deletion names the pod's uid, so a later pod of the same
    name is not deleted.
    """
    living = [pod for pod in pods if pod.live and not pod.deleting]
    deletions = [context.objects.delete(kinds.PODS, ObjectKey(namespace, pod.name), pod.uid) for pod in living]
    for failed in await asyncio.gather(*deletions, return_exceptions=True):
        if isinstance(failed, BaseException) and not isinstance(failed, Stale):
            raise failed
    return ActionOutcome.DONE


async def restore(context: ExecutionContext, job: Job, raw: RawObject, closes: Closing) -> None:
    """Restore the job's object as its author wrote it, after its machines are closed."""
    await _restore(context, _kind_of(job.target), raw, closes)


async def _restore(context: ExecutionContext, kind: TargetKind, raw: RawObject, closes: Closing) -> None:
    """Restore the object, unless it has ended or is being deleted."""
    target = kind.read(raw)
    if target.ended is not None or target.deleting:
        return
    if target.job and (not target.placeable or await _has_live_pods(context, kind, raw)):
        raise Stale
    await close(context, closes)
    await _write(context, kind, kind.restore(raw))


async def pods_of_target(context: ExecutionContext, job: Job) -> list[Pod]:
    """The pods of the job's runs that its object's controllers created, by an uncached list."""
    kind, raw = await _of_job(context, job)
    if raw is None:
        listing = await context.client.list(PODS.all(job.namespace), labels=f"{LABEL_JOB_UID}={job.id}")
        found: Sequence[RawObject] = listing.items
    else:
        found = await _raw_pods(context, kind, raw)
    decoded = [decode.pod(pod) for pod in found]
    return [pod.pod for pod in decoded if isinstance(pod, decode.JobPod) and pod.adopted_for == job.id]


# --- looking ----------------------------------------------------------------------------------------------------------


def _kind_of(ref: TargetRef | None) -> TargetKind:
    if ref is not None and ref.queued:
        return KUEUE_WORKLOAD
    for kind in ADOPTED:
        resource = kind.kind.resource
        if ref is not None and kind.name == ref.kind and ref.api_version == f"{resource.group}/{resource.version}":
            return kind
    raise Held(f"{ref} is of a kind that this version does not adopt")


async def _look(
    context: ExecutionContext, ref: TargetRef, namespace: str, job: str, workload: str
) -> tuple[TargetKind, RawObject | None]:
    """The object as it is now, or None if the object is gone or another object has its name.

    A queued object is read through its ``workload``. The result is None if the object is in no queue any more.
    """
    kind = _kind_of(ref)
    path = path_of(ref, namespace) if ref.queued else kind.kind.resource.one(ref.name, namespace)
    raw = await _get(context, ref, path)
    if raw is None or not ref.queued:
        return kind, raw
    return kind, await _queued(context, raw, namespace, job, workload)


async def _get(context: ExecutionContext, ref: TargetRef, path: str) -> RawObject | None:
    """The object at this path, or None if the object is gone or another object has its name."""
    try:
        raw = await context.client.get(path)
    except NotFound:
        return None
    return raw if raw["metadata"]["uid"] == ref.uid else None


async def _queued(
    context: ExecutionContext, owner: RawObject, namespace: str, job: str, workload: str
) -> RawObject | None:
    """The Workload of a queued object together with the object. None if the object is in no queue any more."""
    if not is_queued(owner):
        return None
    if not workload:
        raise Held("Kueue has no Workload of it now")
    try:
        raw = await context.client.get(KUEUE_WORKLOAD.kind.resource.one(workload, namespace))
    except NotFound:
        raise Stale from None
    controller = controller_of(raw)
    if controller is None or controller.uid != owner["metadata"]["uid"]:
        raise Stale
    return raw | {OWNER: owner, SHADOW: job}


def _wanted(kind: TargetKind, raw: RawObject) -> bool:
    """Whether the object is to be adopted, by its label or by its queue."""
    return kind.kind.decode(raw) is not None


async def _of_job(context: ExecutionContext, job: Job) -> tuple[TargetKind, RawObject | None]:
    if job.target is None:
        raise Stale
    current = context.decided.decided_job(job.id).adopted
    return await _look(context, job.target, job.namespace, job.id, "" if current is None else current.workload)


async def _mine(context: ExecutionContext, job: Job) -> tuple[TargetKind, RawObject, Target]:
    """The job's object as it is now.

    Raises Stale if the object is gone or has no label, or if another TrainingJob stands for it.
    """
    kind, raw = await _of_job(context, job)
    if raw is None or not _wanted(kind, raw) or context.decided.decided_job(job.id).adopted is None:
        raise Stale
    return kind, raw, kind.read(raw)


def _another_stands_for_it(context: ExecutionContext, job: Job) -> bool:
    others = [other for other in context.decided.snapshot().jobs.values() if other.id != job.id]
    stood_for = [other.adopted.ref.uid for other in others if other.adopted is not None]
    return job.target is not None and job.target.uid in stood_for


async def _raw_pods(context: ExecutionContext, kind: TargetKind, raw: Raw) -> Sequence[RawObject]:
    listing = await context.client.list(PODS.all(raw["metadata"]["namespace"]), labels=kind.selector(raw))
    return listing.items


async def _has_live_pods(context: ExecutionContext, kind: TargetKind, raw: Raw) -> bool:
    pods = await _raw_pods(context, kind, raw)
    return any((pod.get("status") or {}).get("phase") not in _ENDED for pod in pods)


async def _write(context: ExecutionContext, kind: TargetKind, writes: Sequence[Write]) -> RawObject | None:
    """Carry the writes out. Returns the object after the last write to it.

    Raises Held after a refusal. A refusal is no fault, because the webhook of the kind may accept the change later.
    """
    answer = None
    for write in writes:
        try:
            if write.own:
                answer = await context.objects.json_patch(kind.kind, write.path, write.operations)
            else:
                await context.client.json_patch(write.path, write.operations)
        except (Invalid, Forbidden) as error:
            if isinstance(error, Forbidden) and _BY_WEBHOOK not in error.message:
                raise
            raise Held(f"it is refused for now: {error.message}") from error
    return answer


def _ours(key: str) -> bool:
    return key.startswith(f"{GROUP}/")
