"""One dry run of a job's run, by which the operator and the command line learn what the API server says of a template.

The pod template is opaque to the TrainingJob's schema; only the Job API knows whether it is right. Its pods are not
tried, but some of what they need is looked up: docs/development/adr/0004 says what, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from charterer.api.metadata import controller_of
from charterer.api.models.trainingjob_status import RUNS_BYTES
from charterer.api.names import GROUP
from charterer.api.stored_size import LARGEST_OBJECT_BYTES, stored_bytes
from charterer.cluster.client import Client
from charterer.cluster.errors import AlreadyExists, BadRequest, Forbidden, NamespaceTerminating, NotFound
from charterer.cluster.paths import PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS, SERVICES, Resource
from charterer.domain.ids import PoolId, RentalId
from charterer.domain.job import Allocation, Job, Placement
from charterer.domain.jobs.run_names import run_name
from charterer.domain.money import Price
from charterer.domain.option import MOST_PODS, Option
from charterer.domain.time import Instant
from charterer.workloads import NotATemplate, RunEnvironment, Workload
from charterer.workloads.adopted.noted import QUEUE_LABEL

TRIALS_AT_ONCE: Final = 8
"""Dry runs in flight: a queue of jobs that arrives at once must not crowd out other requests."""

_PLACE_BYTES = 92
"""Most bytes of one place in a record: the name of a rental is that of its pool and a number."""
_VIEW_BYTES = 65_536
"""More bytes than everything else in a job's status takes."""


class Unmet(Exception):
    """The template is right, but runs of it need something that is not so now, and may come to be."""


def may_run_again(job: Job) -> bool:
    """Whether a run of the job may be made at some time, of a template that nobody has refused."""
    return job.finish is None and not job.deleting and not job.invalid


def needs_trial(job: Job) -> bool:
    """Whether the next run of the job is yet to be made, of a template that nobody has refused.

    The template of an adopted object is in the object already.
    """
    return job.allocation is None and job.target is None and may_run_again(job)


async def template_refusal(
    client: Client, workload: Workload, job: Job, raw: Mapping[str, Any], environment: RunEnvironment
) -> str:
    """Why no run can be made of the job, whose object is ``raw``; empty where the API server accepts one.

    Raises Unmet where no run could start for another cause than the template. Raises ApiError where that is not known:
    Forbidden where the client may not create runs (``lacks_right``), or where something else forbids it for now, as a
    quota does.
    """
    if too_large := _too_large(job, raw):
        return refusal(too_large)
    runs = workload.kind.resource.all(job.namespace)
    try:
        try:
            run = workload.manifest(job, raw, _example(job), environment)
        except NotATemplate as error:
            await client.post(runs, workload.unmodified(job, raw), dry_run=True, strict=True)
            return refusal(str(error))  # the API server says it better, where it has something to say
        stored = await client.post(runs, run, dry_run=True, strict=True)
        if (queue := _queue_of(stored)) and not _queue_of(run):
            raise Unmet(
                f"Kueue would hold its runs: LocalQueue {queue} of namespace {job.namespace} takes every Job there "
                "that names no queue. Give that LocalQueue another name, leave the namespace out of Kueue's "
                "managedJobsNamespaceSelector, or send a Job with a queue's label instead (docs/kueue.md)"
            )
    except AlreadyExists:
        if await _holder(client, workload.kind.resource, "Job", run_name(job.name, job.last_run + 1), job) != job.id:
            raise  # left by an earlier job of this name, and about to be collected
    except NamespaceTerminating:
        return f"namespace {job.namespace} is being deleted"
    except BadRequest as error:
        return refusal(f"the Job API refuses it: {error.message}")
    if not job.has_service:
        await _holder(client, SERVICES, "Service", job.name, job)
    for need in _needs(raw):
        await _unless_missing(client, need, job)
    return ""


def _queue_of(run: Mapping[str, Any]) -> str:
    """The queue of Kueue in which the run waits; empty where in none."""
    return str((run["metadata"].get("labels") or {}).get(QUEUE_LABEL, ""))


async def _holder(client: Client, resource: Resource, kind: str, name: str, job: Job) -> str:
    """The uid of the TrainingJob of the job's name that the object of this name belongs to; empty where none is known.

    Raises Unmet where the object is somebody else's.
    """
    found = await _look(client, resource, name, job)
    if not found:
        return ""
    owner = controller_of(found)
    if owner is not None and (owner.group, owner.kind, owner.name) == (GROUP, "TrainingJob", job.name):
        return owner.uid
    raise Unmet(
        f"{kind} {job.namespace}/{name} is somebody else's, and runs of the job need that name: delete it, or create "
        "the job under another name"
    )


class _Need(NamedTuple):
    """An object that the template names in ``field``."""

    resource: Resource
    kind: str
    name: str
    field: str


def _needs(raw: Mapping[str, Any]) -> Iterator[_Need]:
    """What the template's pods cannot start without. Of a template that the Job API has accepted.

    Secrets and ConfigMaps are not looked up: the right to see whether one exists is the right to read it.
    """
    spec = raw["spec"]["template"]["spec"]
    if account := spec.get("serviceAccountName"):
        yield _Need(SERVICE_ACCOUNTS, "ServiceAccount", account, "serviceAccountName")
    for index, volume in enumerate(spec.get("volumes") or ()):
        if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
            field = f"volumes[{index}].persistentVolumeClaim.claimName"
            yield _Need(PERSISTENT_VOLUME_CLAIMS, "PersistentVolumeClaim", claim, field)


async def _unless_missing(client: Client, need: _Need, job: Job) -> None:
    """Raises Unmet where the object does not exist."""
    if await _look(client, need.resource, need.name, job) is None:
        named = f"{need.kind} {job.namespace}/{need.name} does not exist, and spec.template.spec.{need.field} names it"
        raise Unmet(f"{named}: create it, or correct the template")


async def _look(client: Client, resource: Resource, name: str, job: Job) -> Mapping[str, Any] | None:
    """The object; None where there is none, something empty where the client may not see it."""
    try:
        return await client.get(resource.one(name, job.namespace))
    except NotFound:
        return None
    except Forbidden:
        return {}


def lacks_right(error: Forbidden) -> bool:
    """Whether whoever asked may not create runs in the namespace, or not such as belong to a TrainingJob.

    Source of the second: the admission plugin OwnerReferencesPermissionEnforcement.
    """
    return "cannot create resource" in error.message or "cannot set blockOwnerDeletion" in error.message


def refusal(why: str) -> str:
    """The message to the user whose template no run can be made from."""
    return f"spec.template: {why}; correct the template"


def _too_large(job: Job, raw: Mapping[str, Any]) -> str:
    """Why the job's record may come to be more than can be stored; empty where it cannot.

    A node is never rented for a job whose allocation cannot be written. The record has the places of two runs at most
    while one replaces the other.
    """
    places = 2 * min(job.widths.max, MOST_PODS) * _PLACE_BYTES
    size, record = stored_bytes(raw), places + RUNS_BYTES + _VIEW_BYTES
    if size + record <= LARGEST_OBJECT_BYTES:
        return ""
    return (
        f"the TrainingJob takes {size:,} bytes, and up to {record:,} more with what is recorded of its runs, but only "
        f"{LARGEST_OBJECT_BYTES:,} can be stored: make the template, the annotations or spec.gpus.max smaller"
    )


def _example(job: Job) -> Allocation:
    """An allocation of the job's preferred width: what is tried is the template, not the nodes."""
    gpus = max(job.widths.preferred, 1)
    option = Option(PoolId("dry-run"), gpus, 1.0, Price(0))
    return Allocation(job.last_run + 1, option, (Placement(RentalId("dry-run"), gpus),), Instant(0))
