"""Jobs and their runs: allocations, Indexed Jobs, and the record of how a run ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from charterer.api import decode
from charterer.api.names import ANNOTATION_ALLOCATION, LABEL_JOB_UID
from charterer.cluster import kinds
from charterer.cluster.client import RawObject
from charterer.cluster.errors import BadRequest, NotFound
from charterer.cluster.paths import PODS, TRAINING_JOBS
from charterer.controller.execute.context import ExecutionContext, Handler, Stale, escaped
from charterer.controller.outcome import ActionOutcome
from charterer.controller.templates import refusal
from charterer.domain.ids import JobId
from charterer.domain.job import Allocation, Job, Run, RunOutcome
from charterer.domain.job import Pod as RunPod
from charterer.domain.plan import Allocate, moves_with
from charterer.domain.steps import (
    AnnotatePod,
    CreateRun,
    CreateService,
    DeleteJob,
    DeleteRun,
    RecordRun,
    ResizeRun,
    StopOrphan,
    StopRun,
    Unsuspend,
)
from charterer.workloads import NotATemplate


async def allocate(tools: ExecutionContext, do: Allocate) -> ActionOutcome:
    """Write the intent; a former allocation stays in the record until its run has been recorded."""
    job = tools.job(do.job)
    last_run = job.last_run if do.allocation is None else max(job.last_run, do.allocation.run)
    changed = replace(job, allocation=do.allocation, last_run=last_run, replaced=_replaced(job, do.allocation))
    await tools.record_job(replace(changed, predicted=job.predicted or do.predicted, moves=moves_with(job, do)))
    return ActionOutcome.DONE


def _replaced(job: Job, by: Allocation | None) -> tuple[Allocation, ...]:
    former = job.allocation
    if former is None or (by is not None and by.run == former.run):
        return job.replaced
    return (*job.replaced, former)


async def create_service(tools: ExecutionContext, do: CreateService) -> ActionOutcome:
    """The headless Service of the job."""
    job = tools.job(do.job)
    return await tools.create(kinds.SERVICES, tools.workload.service(job))


async def create_run(tools: ExecutionContext, do: CreateRun) -> ActionOutcome:
    """The run's Job, suspended. Refused after all (a policy may have changed): the job becomes invalid, not stuck."""
    job = tools.job(do.job)
    if job.allocation is None or job.allocation.run != do.run:
        raise Stale
    raw = await tools.client.get(TRAINING_JOBS.one(job.name, job.namespace))
    if raw["metadata"]["uid"] != job.id:
        raise Stale
    try:
        body = tools.workload.manifest(job, raw, job.allocation, tools.environment)
        return await tools.create(tools.workload.kind, body, strict=True)
    except BadRequest as error:
        await _withdraw(tools, job, refusal(f"the Job API refuses it: {error.message}"))
    except NotATemplate as error:
        await _withdraw(tools, job, refusal(str(error)))
    return ActionOutcome.DONE


async def _withdraw(tools: ExecutionContext, job: Job, why: str) -> None:
    """The intent cannot be carried out as the job is written: whatever runs goes on as if it had not been made."""
    *older, former = job.replaced or (None,)
    running = former is not None and _goes_on(tools, job.id, former.run)
    await tools.record_job(
        replace(
            job,
            allocation=former if running else job.allocation,
            replaced=tuple(older) if running else job.replaced,
            invalid=why,
        )
    )


def _goes_on(tools: ExecutionContext, job: JobId, number: int) -> bool:
    """Whether nobody has yet told that run to stop, and it has not ended by itself."""
    try:
        _, run = _run(tools, job, number)
    except Stale:
        return False
    return not (run.suspended or run.deleting or run.complete or run.failed)


async def unsuspend(tools: ExecutionContext, do: Unsuspend) -> ActionOutcome:
    """Let the pods start, if an uncached look finds no other run's pod alive."""
    job, run = _run(tools, do.job, do.run)
    if any(pod.live and pod.run != do.run for pod in await _pods(tools, job)):
        raise Stale
    await _patch_run(tools, job.namespace, run, tools.workload.resume())
    return ActionOutcome.DONE


async def stop_run(tools: ExecutionContext, do: StopRun) -> ActionOutcome:
    """SIGTERM and the checkpoint grace."""
    job, run = _run(tools, do.job, do.run)
    await _patch_run(tools, job.namespace, run, tools.workload.suspend())
    return ActionOutcome.DONE


async def stop_orphan(tools: ExecutionContext, do: StopOrphan) -> ActionOutcome:
    """The garbage collector ends it too, but only once it knows the TrainingJobs' kind and whenever it comes to it."""
    orphan = do.orphan
    try:
        found = await tools.client.get(TRAINING_JOBS.one(orphan.job_name, orphan.namespace))
    except NotFound:
        found = {}
    if found.get("metadata", {}).get("uid") == orphan.job:
        raise Stale
    await _patch_run(tools, orphan.namespace, orphan.run, tools.workload.suspend())
    return ActionOutcome.DONE


async def resize_run(tools: ExecutionContext, do: ResizeRun) -> ActionOutcome:
    """Change the number of the run's pods in place."""
    job, run = _run(tools, do.job, do.run)
    await _patch_run(tools, job.namespace, run, tools.workload.resize(do.completions))
    return ActionOutcome.DONE


async def _patch_run(tools: ExecutionContext, namespace: str, run: Run, patch: RawObject) -> None:
    kind = tools.workload.kind
    body = {**patch, "metadata": {"resourceVersion": run.resource_version}}
    tools.store.put(kind, await tools.client.merge_patch(kind.resource.one(run.name, namespace), body))


async def annotate_pod(tools: ExecutionContext, do: AnnotatePod) -> ActionOutcome:
    """What the pod's file of the downward API will say."""
    job = tools.job(do.job)
    annotation = f"/metadata/annotations/{escaped(ANNOTATION_ALLOCATION)}"
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": do.pod.uid},
        {"op": "add", "path": annotation, "value": do.allocation},
    ]
    await tools.patch(kinds.PODS, PODS.one(do.pod.name, job.namespace), operations)
    return ActionOutcome.DONE


async def record_run(tools: ExecutionContext, do: RecordRun) -> ActionOutcome:
    """How the run ended, if an uncached look agrees: nothing alive, and for completion every index succeeded."""
    job = tools.job(do.job)
    number = do.record.number
    decided = tools.last().jobs[do.job]
    pods = [pod for pod in await _pods(tools, job) if pod.run == number]
    if any(pod.live for pod in pods):
        raise Stale
    if do.record.outcome is RunOutcome.COMPLETE and not _all_succeeded(decided, number, pods):
        raise Stale
    current = job.allocation is not None and job.allocation.run == number
    await tools.record_job(
        replace(
            job,
            allocation=None if current else job.allocation,
            replaced=tuple(one for one in job.replaced if one.run != number),
            records=(*job.records, do.record),
            failures=job.failures + (do.record.outcome is RunOutcome.FAILED),
            restarts=job.restarts + (do.record.outcome is RunOutcome.INTERRUPTED),
            finish=do.finish or job.finish,
            progress=decided.progress,
        )
    )
    return ActionOutcome.DONE


def _all_succeeded(job: Job, number: int, pods: list[RunPod]) -> bool:
    run = next((one for one in job.runs if one.number == number), None)
    return run is not None and not replace(run, pods=tuple(pods)).unproven


async def delete_run(tools: ExecutionContext, do: DeleteRun) -> ActionOutcome:
    """In the foreground: the Job stays in sight until its pods are gone."""
    job = tools.last().jobs.get(do.job)
    run = None if job is None else next((one for one in job.runs if one.uid == do.uid), None)
    if job is None or run is None:
        raise Stale
    kind = tools.workload.kind
    path = kind.resource.one(run.name, job.namespace)
    await tools.delete(kind, path, do.uid, propagation="Foreground")
    return ActionOutcome.DONE


async def delete_job(tools: ExecutionContext, do: DeleteJob) -> ActionOutcome:
    """The finished job whose time to live has passed."""
    job = tools.job(do.job)
    await tools.delete(kinds.TRAINING_JOBS, TRAINING_JOBS.one(job.name, job.namespace), job.id)
    return ActionOutcome.DONE


def _run(tools: ExecutionContext, job: JobId, number: int) -> tuple[Job, Run]:
    """The job and its run as they were decided on; the patch's resourceVersion holds against the rest."""
    known = tools.last().jobs.get(job)
    run = None if known is None else next((one for one in known.runs if one.number == number), None)
    if known is None or run is None:
        raise Stale
    return known, run


async def _pods(tools: ExecutionContext, job: Job) -> list[RunPod]:
    """All pods of all runs of the job, asked of the API server now."""
    listing = await tools.client.list(PODS.all(job.namespace), labels=f"{LABEL_JOB_UID}={job.id}")
    decoded = (decode.pod(raw) for raw in listing.items)
    return [one.pod for one in decoded if isinstance(one, decode.OwnPod)]


RUNS: Mapping[type, Handler] = {
    Allocate: allocate,
    CreateService: create_service,
    CreateRun: create_run,
    Unsuspend: unsuspend,
    StopRun: stop_run,
    StopOrphan: stop_orphan,
    ResizeRun: resize_run,
    AnnotatePod: annotate_pod,
    RecordRun: record_run,
    DeleteRun: delete_run,
    DeleteJob: delete_job,
}
