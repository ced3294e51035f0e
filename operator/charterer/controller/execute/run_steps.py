"""Commands and steps on jobs and their runs: allocations, the objects of runs, and the records of how runs ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from charterer.api import decode
from charterer.api.names import ANNOTATION_ALLOCATION, LABEL_JOB_UID
from charterer.cluster import kinds
from charterer.cluster.client import RawObject
from charterer.cluster.errors import BadRequest, Forbidden, NamespaceTerminating, NotFound
from charterer.cluster.kinds import pointer, uid_test
from charterer.cluster.paths import PODS, TRAINING_JOBS
from charterer.cluster.store import ObjectKey
from charterer.controller.execute.context import ExecutionContext, Handler, Stale
from charterer.controller.execute.target_steps import (
    adopt,
    edit,
    end_pods,
    end_pods_of,
    end_target,
    finish,
    let_go,
    place,
    pods_of_target,
    resize,
    restore,
    start,
    stop,
    stop_target,
)
from charterer.controller.outcome import ActionOutcome
from charterer.controller.templates import refusal
from charterer.domain.ids import JobId
from charterer.domain.job import Allocation, Job, ResizePolicy, Run, RunOutcome, first_group
from charterer.domain.job_records import (
    ends_session,
    resized,
    with_allocation,
    with_report,
    with_run_given,
    with_session_over,
    without_resize,
)
from charterer.domain.plan import Allocate, ReasonCode, moves_with
from charterer.domain.pod import Pod, job_of_run, run_number
from charterer.domain.steps import (
    AdoptTarget,
    AnnotatePod,
    CreateRun,
    CreateService,
    DeleteJob,
    DeleteRun,
    EditJob,
    EndTarget,
    FinishJob,
    GiveBack,
    LetGo,
    RecordGroup,
    RecordRun,
    ResizeRun,
    StopOrphan,
    StopRun,
    Unsuspend,
)
from charterer.lifecycle.verdict import active
from charterer.workloads import NotATemplate


async def allocate(context: ExecutionContext, command: Allocate) -> ActionOutcome:
    """Write the intent. A former allocation moves to ``replaced`` and stays there until its run is recorded.

    If an interactive job's GPUs are released, those requests for a GPU that its run has served are marked as answered.
    A later request for a GPU stays open.
    """
    job = context.decided.job(command.job)
    if command.reason.code is ReasonCode.NO_GPU_WANTED:
        job = with_session_over(with_report(job, context.decided.decided_job(command.job).progress))
    allocated = replace(
        _placed(job, command, context),
        replaced=_replaced(job, command),
        predicted=job.predicted or command.predicted,
        predicted_end=job.predicted_end or command.predicted_end,
        moves=moves_with(job, command),
        nodes_replaced=job.nodes_replaced + (command.reason.code is ReasonCode.SLOW_NODE),
    )
    try:
        await context.objects.record_job(allocated)
    except NamespaceTerminating:
        raise
    except (BadRequest, Forbidden) as error:
        context.unwritten(job.id, error.message)
        raise
    return ActionOutcome.DONE


def _placed(job: Job, command: Allocate, context: ExecutionContext) -> Job:
    """The job with its new allocation. If another run begins, the record of a resize of the former run is dropped."""
    former, allocation = job.allocation, command.allocation
    if allocation is not None:
        begun = former is not None and former.run == allocation.run and former.begun
        allocation = replace(allocation, because=command.reason.message, begun=begun)
    if former is None or allocation is None or allocation.run != former.run:
        over = job if former is None else without_resize(job, former.since)
        if allocation is None:
            return replace(over, allocation=None)
        first = job.resize is ResizePolicy.IN_PLACE
        pods = len(allocation.placements)
        group = first_group(allocation.run, pods, allocation.since, job.group) if first else None
        over = with_run_given(over)
        return replace(over, allocation=allocation, last_run=max(job.last_run, allocation.run), group=group)
    rentals = context.decided.snapshot().rentals
    changed = with_allocation(job, allocation, rentals)
    group = job.current_group
    if group is None or not group.formed:
        return resized(changed, rentals, allocation.since)
    if command.reason.code is ReasonCode.NOT_REGROUPED:
        group = replace(group, withdrawn=group.withdrawn + 1, withdrawn_at=allocation.since)
    return replace(changed, group=group)


def _replaced(job: Job, command: Allocate) -> tuple[Allocation, ...]:
    former, by = job.allocation, command.allocation
    if former is None or (by is not None and by.run == former.run):
        return job.replaced
    if command.reason.code is ReasonCode.NOT_STARTING:
        former = replace(former, withdrawn_because=command.reason.message)
    elif command.reason.code is ReasonCode.STALLED:
        former = replace(former, stalled_because=command.reason.message)
    elif by is None:
        former = replace(former, stopped_because=command.reason.message)
    return (*job.replaced, former)


async def create_service(context: ExecutionContext, step: CreateService) -> ActionOutcome:
    """Create the headless Service of the job."""
    job = context.decided.job(step.job)
    return await context.objects.create(kinds.SERVICES, context.workload.service(job))


async def create_run(context: ExecutionContext, step: CreateRun) -> ActionOutcome:
    """Create the run's object, suspended.

    The API server may refuse a template that it accepted in the dry run, for example after a change of an admission
    policy. The job is then recorded as invalid.
    """
    job = context.decided.job(step.job)
    if job.allocation is None or job.allocation.run != step.run:
        raise Stale
    if job.target is not None:
        return await place(context, job, job.allocation)
    raw = await context.client.get(TRAINING_JOBS.one(job.name, job.namespace))
    if raw["metadata"]["uid"] != job.id:
        raise Stale
    try:
        body = context.workload.manifest(job, raw, job.allocation, context.environment)
        return await context.objects.create(context.workload.kind, body, strict=True)
    except BadRequest as error:
        await _withdraw(context, job, refusal(f"the Job API refuses it: {error.message}"))
    except NotATemplate as error:
        await _withdraw(context, job, refusal(str(error)))
    return ActionOutcome.DONE


async def _withdraw(context: ExecutionContext, job: Job, refused: str) -> None:
    """Record that the intent cannot be carried out. The run that it was to replace goes on, unless it was stopped."""
    *older, former = job.replaced or (None,)
    running = former is not None and _goes_on(context, job.id, former.run)
    await context.objects.record_job(
        replace(
            job,
            allocation=former if running else job.allocation,
            replaced=tuple(older) if running else job.replaced,
            invalid=refused,
        )
    )


def _goes_on(context: ExecutionContext, job: JobId, number: int) -> bool:
    """Whether the run has neither been stopped nor ended by itself."""
    try:
        _, run = context.decided.run(job, number)
    except Stale:
        return False
    return active(run) and not run.deleting


async def unsuspend(context: ExecutionContext, step: Unsuspend) -> ActionOutcome:
    """Let the pods start, if an uncached list shows no live pod of another run."""
    job, run = context.decided.run(step.job, step.run)
    if job.target is not None:
        return await start(context, job, step.run)
    if any(pod.live and pod.run != step.run for pod in await _pods(context, job)):
        raise Stale
    await _patch_run(context, job.namespace, run, context.workload.resume())
    return ActionOutcome.DONE


async def stop_run(context: ExecutionContext, step: StopRun) -> ActionOutcome:
    """Stop the run. Its pods get SIGTERM and their grace period to save a checkpoint.

    The run's object is suspended. If the object is in deletion, its controller no longer acts on it, so its pods are
    deleted.
    """
    decided = context.decided.decided_job(step.job)
    if decided.target is not None and (decided.adopted is None or not decided.adopted.deleting):
        return await stop(context, decided)
    job, run = context.decided.run(step.job, step.run)
    if run.deleting:
        if job.target is not None:
            return await end_pods_of(context, job.target, job.namespace, run.pods)
        return await end_pods(context, job.namespace, run.pods)
    await _patch_run(context, job.namespace, run, context.workload.suspend())
    return ActionOutcome.DONE


async def stop_orphan(context: ExecutionContext, step: StopOrphan) -> ActionOutcome:
    """Stop a run whose TrainingJob is gone, if an uncached read confirms that.

    The garbage collector ends such a run too, but it may take long, and first has to discover the kind TrainingJob.
    """
    orphan = step.orphan
    try:
        name = job_of_run(orphan.run.name, orphan.run.number)
        training_job = await context.client.get(TRAINING_JOBS.one(name, orphan.namespace))
    except NotFound:
        training_job = {}
    if training_job.get("metadata", {}).get("uid") == orphan.job:
        raise Stale
    if orphan.run.deleting:
        return await end_pods(context, orphan.namespace, orphan.run.pods)
    await _patch_run(context, orphan.namespace, orphan.run, context.workload.suspend())
    return ActionOutcome.DONE


async def resize_run(context: ExecutionContext, step: ResizeRun) -> ActionOutcome:
    """Change the number of the run's pods in place."""
    job, run = context.decided.run(step.job, step.run)
    if job.target is not None:
        return await resize(context, job, step)
    await _patch_run(context, job.namespace, run, context.workload.resize(run, step.completions, step.retries))
    return ActionOutcome.DONE


async def record_group(context: ExecutionContext, step: RecordGroup) -> ActionOutcome:
    """Record the pods that should train together. From then on, the replies to reports name these pods."""
    job = replace(context.decided.job(step.job), group=step.group)
    snapshot = context.decided.snapshot()
    await context.objects.record_job(resized(job, snapshot.rentals, snapshot.now) if step.counts else job)
    return ActionOutcome.DONE


async def _patch_run(context: ExecutionContext, namespace: str, run: Run, patch: RawObject) -> None:
    kind = context.workload.kind
    path = kind.resource.one(run.name, namespace)
    await context.objects.merge_patch(kind, path, run.resource_version, patch)


async def annotate_pod(context: ExecutionContext, step: AnnotatePod) -> ActionOutcome:
    """Write the allocation that the pod reads from its file of the downward API."""
    job = context.decided.job(step.job)
    annotation = pointer("metadata", "annotations", ANNOTATION_ALLOCATION)
    operations = [uid_test(step.pod.uid), {"op": "add", "path": annotation, "value": step.allocation}]
    await context.objects.json_patch(kinds.PODS, PODS.one(step.pod.name, job.namespace), operations)
    return ActionOutcome.DONE


async def record_run(context: ExecutionContext, step: RecordRun) -> ActionOutcome:
    """Record the run's outcome. An uncached list must show no live pod. For the outcome Complete, the list must also
    show the success of each index.
    """
    job = context.decided.job(step.job)
    number = step.record.number
    decided = context.decided.decided_job(step.job)
    pods = [pod for pod in await _pods(context, job) if pod.run == number]
    if any(pod.live for pod in pods):
        raise Stale
    if step.record.outcome is RunOutcome.COMPLETE and job.target is None:
        _, run = context.decided.run(step.job, number)
        if replace(run, pods=tuple(pods)).unproven:
            raise Stale
    current = job.allocation is not None and job.allocation.run == number
    over = without_resize(job, job.allocation.since) if current and job.allocation is not None else job
    over = with_report(over, decided.progress)
    if ends_session(over, step.record):
        over = with_session_over(over)
    await context.objects.record_job(
        replace(
            over,
            allocation=None if current else job.allocation,
            replaced=tuple(allocation for allocation in job.replaced if allocation.run != number),
            records=(*job.records, step.record),
            failures=job.failures + (step.record.outcome is RunOutcome.FAILED),
            restarts=job.restarts + step.record.outcome.counts_as_restart,
            start_failures=job.start_failures + 1 if step.record.outcome is RunOutcome.NOT_STARTED else 0,
            finish=step.finish or job.finish,
        )
    )
    return ActionOutcome.DONE


async def delete_run(context: ExecutionContext, step: DeleteRun) -> ActionOutcome:
    """Delete the run's object in the foreground, so that it exists until its pods are gone."""
    job = context.decided.decided_job(step.job)
    run = next((run for run in job.runs if run.uid == step.uid), None)
    if run is None:
        raise Stale
    key = ObjectKey(job.namespace, run.name)
    await context.objects.delete(context.workload.kind, key, step.uid, propagation="Foreground")
    return ActionOutcome.DONE


async def delete_job(context: ExecutionContext, step: DeleteJob) -> ActionOutcome:
    """Delete the finished job whose time to live has passed."""
    job = context.decided.job(step.job)
    await context.objects.delete(kinds.TRAINING_JOBS, ObjectKey(job.namespace, job.name), job.id)
    return ActionOutcome.DONE


async def give_back(context: ExecutionContext, step: GiveBack) -> ActionOutcome:
    """Undo an adoption: stop the object, record its run, close its machines, restore what its author wrote, and delete
    its job.

    The steps are in this order. If the process ends between two steps, the next process begins again and skips the
    finished steps.
    """
    job = context.decided.job(step.job)
    raw = await stop_target(context, job, unlabelled=context.decided.decided_job(step.job).adopted is None)
    if step.record is not None:
        return await record_run(context, step.record)
    if any(pod.live for pod in await _pods(context, job)):
        raise Stale
    if raw is not None:
        await restore(context, job, raw, step.closes)
    await context.objects.delete(kinds.TRAINING_JOBS, ObjectKey(job.namespace, job.name), job.id)
    return ActionOutcome.DONE


async def _pods(context: ExecutionContext, job: Job) -> list[Pod]:
    """All pods of all runs of the job, by an uncached list.

    A pod belongs to the job if its controller is, or was, a run of the job. Background deletion removes a run before
    its pods. If the controller exists and is no run of the job, the pod is foreign, whatever its labels say.
    """
    if job.target is not None:
        return await pods_of_target(context, job)
    listing = await context.client.list(PODS.all(job.namespace), labels=f"{LABEL_JOB_UID}={job.id}")
    labelled = [pod for raw in listing.items if isinstance(pod := decode.pod(raw), decode.JobPod)]
    controllers = {(pod.controller, pod.controller_uid) for pod in labelled if run_number(pod.controller, job.name)}
    own = {uid for name, uid in controllers if await _is_or_was_run(context, job, name, uid)}
    return [pod.pod for pod in labelled if pod.controller_uid in own]


async def _is_or_was_run(context: ExecutionContext, job: Job, name: str, uid: str) -> bool:
    """Whether the controller of that name and uid is a run of the job, or does not exist any more."""
    if any(run.uid == uid for run in context.decided.decided_job(job.id).runs):
        return True
    kind = context.workload.kind
    try:
        raw = await context.client.get(kind.resource.one(name, job.namespace))
    except NotFound:
        return True
    found = kind.decode(raw)
    return raw["metadata"]["uid"] != uid or (found is not None and found[0] == job.id and found[1].owned)


RUN_HANDLERS: Mapping[type, Handler] = {
    Allocate: allocate,
    CreateService: create_service,
    CreateRun: create_run,
    Unsuspend: unsuspend,
    StopRun: stop_run,
    StopOrphan: stop_orphan,
    ResizeRun: resize_run,
    RecordGroup: record_group,
    AnnotatePod: annotate_pod,
    RecordRun: record_run,
    DeleteRun: delete_run,
    DeleteJob: delete_job,
    AdoptTarget: adopt,
    EditJob: edit,
    FinishJob: finish,
    EndTarget: end_target,
    LetGo: let_go,
    GiveBack: give_back,
}
