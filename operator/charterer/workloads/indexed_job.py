"""A run as an Indexed batch/v1 Job: one pod for each placement, no retries, suspended until everything is in place.

docs/development/lifecycle.md ("A run") says when it is made, stopped and recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from charterer.api.decode.core import optional_instant, sentence, since, training_job_of
from charterer.api.metadata import ObjectMeta, Raw, true_condition
from charterer.api.models.base import Json
from charterer.api.names import ANNOTATION_TEMPLATE, API_VERSION, LABEL_JOB, LABEL_JOB_UID
from charterer.api.template import digest
from charterer.cluster.paths import JOBS
from charterer.cluster.store import WatchedKind
from charterer.domain.ids import JobId
from charterer.domain.job import Allocation, Job, ResizePolicy, Run
from charterer.domain.jobs.group import RESTART_EXIT_CODE
from charterer.domain.jobs.run_names import run_name, run_number
from charterer.workloads.pod_template import pod_template, run_labels
from charterer.workloads.workload import RunEnvironment, Workload

_DISRUPTED: Final = "DisruptionTarget"
"""The pod condition of an eviction, a preemption or a lost node; the Job names it in the message of its failure."""


def decode_job(raw: Raw) -> tuple[JobId, Run] | None:
    """A Job that is a run of a TrainingJob, as its owner and name say, with ``pods`` empty until they are joined.

    A Job of such a name that has a run's labels and no owner may have lost it (``Run.owned``). None for any other Job.
    """
    meta = ObjectMeta.of("Job", raw)
    owner = training_job_of(meta)
    claimed = owner or (JobId(meta.labels.get(LABEL_JOB_UID, "")), meta.labels.get(LABEL_JOB, ""))
    number = run_number(meta.name, claimed[1])
    if number is None or not claimed[0] or (owner is None and meta.controller is not None):
        return None
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    failed = true_condition(status, "Failed")
    message = "" if failed is None else sentence(failed)
    failed_pods = status.get("failed") or 0
    run = Run(
        number=number,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        completions=spec.get("completions", 1),
        suspended=bool(spec.get("suspend")),
        deleting=meta.deleting,
        created=meta.created,
        started=optional_instant(status, "startTime"),
        complete=since(true_condition(status, "Complete")),
        failed=since(failed),
        failed_message=message,
        pods=(),
        failed_by_disruption=_DISRUPTED in message,
        owned=owner is not None,
        template=meta.annotations.get(ANNOTATION_TEMPLATE, ""),
        retries=max(spec.get("backoffLimit", 0) - failed_pods, 0),
        failed_pods=failed_pods,
    )
    return claimed[0], run


class IndexedJob:
    """See ``Workload``. The pods of a Job are all alike, so every placement of an allocation has the same width."""

    kind: Final[WatchedKind[tuple[JobId, Run]]] = WatchedKind("Job", JOBS, decode_job, labels=LABEL_JOB_UID)

    def service(self, job: Job) -> Json:
        """See ``Workload.service``. The names exist also before the pods are ready, since ranks wait for each other."""
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": job.name,
                "namespace": job.namespace,
                "labels": {LABEL_JOB_UID: job.id, LABEL_JOB: job.name},
                "ownerReferences": [_owner(job)],
            },
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {LABEL_JOB_UID: job.id},
            },
        }

    def manifest(
        self, job: Job, training_job: Mapping[str, Any], allocation: Allocation, environment: RunEnvironment
    ) -> Json:
        """See ``Workload.manifest``."""
        widths = {placement.gpus for placement in allocation.placements}
        if len(widths) != 1:
            run = f"TrainingJob {job.namespace}/{job.name} run {allocation.run}"
            raise ValueError(f"{run}: the pods of a Job are all alike, and cannot have {sorted(widths)} GPUs")
        labels = run_labels(job, allocation.run)
        pods = len(allocation.placements)
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": run_name(job.name, allocation.run),
                "namespace": job.namespace,
                "labels": labels,
                "annotations": {ANNOTATION_TEMPLATE: digest(training_job["spec"]["template"])},
                "ownerReferences": [_owner(job)],
            },
            "spec": {
                "suspend": True,
                "completionMode": "Indexed",
                "completions": pods,
                "parallelism": pods,
                "backoffLimit": 0,
                "podReplacementPolicy": "Failed",
                "podFailurePolicy": _pod_failure_policy(job.resize),
                "template": pod_template(job, training_job["spec"], allocation, labels, environment),
            },
        }

    def unmodified(self, job: Job, training_job: Mapping[str, Any]) -> Json:
        """See ``Workload.unmodified``."""
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": job.name, "namespace": job.namespace},
            "spec": {"suspend": True, "template": training_job["spec"]["template"]},
        }

    def suspend(self) -> Json:
        """See ``Workload.suspend``."""
        return {"spec": {"suspend": True}}

    def resume(self) -> Json:
        """See ``Workload.resume``."""
        return {"spec": {"suspend": False}}

    def resize(self, run: Run, pods: int, retries: int) -> Json:
        """See ``Workload.resize``. The API lets completions change only together with parallelism.

        The Job controller compares ``backoffLimit`` with all failed pods of the Job, also with those of an index that
        it no longer has.
        """
        return {"spec": {"parallelism": pods, "completions": pods, "backoffLimit": run.failed_pods + retries}}


INDEXED_JOB: Final[Workload] = IndexedJob()


def _owner(job: Job) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainingJob",
        "name": job.name,
        "uid": job.id,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _pod_failure_policy(resize: ResizePolicy) -> Json:
    """A lost rank ends the run, or its peers would wait for it and cost money; InPlace trainers go on without.

    There, a trainer that asks for a restart ends the run also while other pods may fail (``Workload.resize``).
    """
    disrupted = [{"type": _DISRUPTED, "status": "True"}]
    if resize is not ResizePolicy.IN_PLACE:
        return {"rules": [{"action": "FailJob", "onPodConditions": disrupted}]}
    restart = {"operator": "In", "values": [RESTART_EXIT_CODE]}
    return {
        "rules": [
            {"action": "FailJob", "onExitCodes": restart},
            {"action": "Ignore", "onPodConditions": disrupted},
        ]
    }
