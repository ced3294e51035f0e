"""One dry run of a job's run, by which the operator and the command line learn what the API server says of a template.

The pod template is opaque to the TrainingJob's schema; only the Job API knows whether it is right. Its pods are not
tried: docs/development/adr/0004 says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from charterer.api.models.trainingjob_status import RUNS_BYTES
from charterer.api.stored_size import LARGEST_OBJECT_BYTES, stored_bytes
from charterer.cluster.client import Client
from charterer.cluster.errors import BadRequest, Forbidden, NamespaceTerminating
from charterer.domain.ids import PoolId, RentalId
from charterer.domain.job import MOST_PODS, Allocation, Job, Placement
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.time import Instant
from charterer.workloads import NotATemplate, RunEnvironment, Workload

TRIALS_AT_ONCE: Final = 8
"""Dry runs in flight: a queue of jobs that arrives at once must not crowd out other requests."""

_PLACE_BYTES = 92
"""Most bytes of one place in a record: the name of a rental is that of its pool and a number."""
_VIEW_BYTES = 65_536
"""More bytes than everything else in a job's status takes."""


def may_run_again(job: Job) -> bool:
    """Whether a run of the job may be made at some time, of a template that nobody has refused."""
    return job.finish is None and not job.deleting and not job.invalid


def needs_trial(job: Job) -> bool:
    """Whether the next run of the job is yet to be made, of a template that nobody has refused."""
    return job.allocation is None and may_run_again(job)


async def template_refusal(
    client: Client, workload: Workload, job: Job, raw: Mapping[str, Any], environment: RunEnvironment
) -> str:
    """Why no run can be made of the job, whose object is ``raw``; empty where the API server accepts one.

    Raises ApiError where that is not known: Forbidden where the client may not create runs (``lacks_right``), or where
    something else forbids it for now, as a quota does.
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
        await client.post(runs, run, dry_run=True, strict=True)
    except NamespaceTerminating:
        return f"namespace {job.namespace} is being deleted"
    except BadRequest as error:
        return refusal(f"the Job API refuses it: {error.message}")
    return ""


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
