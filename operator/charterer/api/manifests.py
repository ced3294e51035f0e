"""Kubernetes objects that Charterer creates: the Job and Service of a run, rentals, events. Pure functions.

What a run's Job must be like, and why, is in docs/development/architecture.md ("A run").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from charterer.api.models.base import Json
from charterer.api.names import (
    ALLOCATION_FILE,
    ANNOTATION_ALLOCATION,
    API_VERSION,
    COMPLETION_INDEX,
    FINALIZER_LEDGER,
    GPU_RESOURCE,
    LABEL_BUDGET,
    LABEL_JOB,
    LABEL_JOB_UID,
    LABEL_POOL,
    LABEL_RUN,
    MOUNT_PATH,
    RENDEZVOUS_PORT,
    TOKEN_FILE,
    run_label_value,
    run_name,
    token_audience,
)
from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.job import Allocation, Job, ResizePolicy
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.plan import Rent
from charterer.domain.steps import RecordOrphan
from charterer.domain.time import Instant, format_instant

_FOREIGN_QUEUES: Final = "kueue.x-k8s.io/"
_VOLUME: Final = "charterer"
_LOST_NODE_SECONDS: Final = 30
_TOKEN_SECONDS: Final = 3600
_NOTE_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """Where a run's pods report progress: the URL of the endpoint, and the PEM of the CA that vouches for it."""

    progress_url: str
    ca_pem: str


class NotATemplate(Exception):
    """A pod template (which the TrainingJob's schema does not look into) with a word where a list belongs, or alike."""


# --- TrainingJob: Service and Job -------------------------------------------------------------------------------------


def service(job: Job) -> Json:
    """The headless Service that gives the pods of all runs their names, also before they are ready."""
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


def run_job(job: Job, training_job: Mapping[str, Any], allocation: Allocation, environment: RunEnvironment) -> Json:
    """The Indexed Job of the allocation's run, suspended; one pod for each placement.

    ``training_job`` is the raw object of ``job``, whose template the store does not keep. NotATemplate when that has
    not the shape of a pod template. ValueError when the placements are not equally wide, since the pods of a Job are
    all alike.
    """
    widths = {placement.gpus for placement in allocation.placements}
    if len(widths) != 1:
        raise ValueError(f"TrainingJob {job.namespace}/{job.name} run {allocation.run}: pods of {sorted(widths)} GPUs")
    labels = {LABEL_JOB_UID: str(job.id), LABEL_JOB: job.name, LABEL_RUN: str(allocation.run)}
    pods = len(allocation.placements)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": run_name(job.name, allocation.run),
            "namespace": job.namespace,
            "labels": labels,
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
            "template": _pod_template(job, training_job["spec"]["template"], allocation, labels, environment),
        },
    }


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
    """A lost rank ends the run, or its peers would wait for it and cost money; InPlace trainers go on without."""
    action = "Ignore" if resize is ResizePolicy.IN_PLACE else "FailJob"
    return {"rules": [{"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}


def _pod_template(
    job: Job, template: Mapping[str, Any], allocation: Allocation, labels: Json, environment: RunEnvironment
) -> Json:
    """The user's template with what Charterer must decide put over it; everything else stays."""
    try:
        return _put_over(job, template, allocation, labels, environment)
    except (AttributeError, TypeError, ValueError) as error:
        raise NotATemplate(f"it has not the shape of a pod template ({error})") from error


def _put_over(
    job: Job, template: Mapping[str, Any], allocation: Allocation, labels: Json, environment: RunEnvironment
) -> Json:
    metadata: Json = template.get("metadata") or {}
    spec: Json = deepcopy(dict(template["spec"]))
    spec |= {
        "restartPolicy": "Never",
        "subdomain": job.name,
        "nodeSelector": (spec.get("nodeSelector") or {}) | {job.run_label: run_label_value(allocation.run)},
        "tolerations": [*(spec.get("tolerations") or []), *_tolerations()],
        "volumes": [*_but(spec.get("volumes"), _VOLUME), _volume(job)],
    }
    trainer, *sidecars = spec["containers"]
    spec["containers"] = [_trainer(job, trainer, allocation, environment), *sidecars]
    annotations = {
        ANNOTATION_ALLOCATION: allocation.annotation,
        "karpenter.sh/do-not-disrupt": "true",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    }
    return {
        "metadata": {
            "labels": _own(metadata.get("labels")) | labels,
            "annotations": _own(metadata.get("annotations")) | annotations,
        },
        "spec": spec,
    }


def _own(entries: Mapping[str, str] | None) -> Json:
    """Labels or annotations without those that would hand the pods to another queue."""
    return {key: value for key, value in (entries or {}).items() if not key.startswith(_FOREIGN_QUEUES)}


def _but(entries: Iterable[Json] | None, *names: str) -> list[Json]:
    """Named entries (volumes, mounts, variables) without those of these names."""
    return [entry for entry in entries or () if entry.get("name") not in names]


def _tolerations() -> list[Json]:
    gone = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _LOST_NODE_SECONDS}
    return [
        {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", **gone},
        {"key": "node.kubernetes.io/unreachable", **gone},
    ]


def _volume(job: Job) -> Json:
    """The token for progress reports and the allocation as a file."""
    token = {"audience": token_audience(job.id), "expirationSeconds": _TOKEN_SECONDS, "path": _file(TOKEN_FILE)}
    allocation = {
        "path": _file(ALLOCATION_FILE),
        "fieldRef": {"fieldPath": f"metadata.annotations['{ANNOTATION_ALLOCATION}']"},
    }
    return {
        "name": _VOLUME,
        "projected": {"sources": [{"serviceAccountToken": token}, {"downwardAPI": {"items": [allocation]}}]},
    }


def _file(path: str) -> str:
    return path.removeprefix(f"{MOUNT_PATH}/")


def _trainer(job: Job, container: Json, allocation: Allocation, environment: RunEnvironment) -> Json:
    """The user's first container with its GPUs, variables and mount; Charterer's variables win, the others stay."""
    gpus = {GPU_RESOURCE: str(allocation.placements[0].gpus)}
    resources = container.get("resources") or {}
    ours = _environment(job, allocation, environment)
    mounts = [mount for mount in _but(container.get("volumeMounts"), _VOLUME) if mount.get("mountPath") != MOUNT_PATH]
    return container | {
        "env": [*_but(container.get("env"), *(str(variable["name"]) for variable in ours)), *ours],
        "resources": resources
        | {
            "limits": (resources.get("limits") or {}) | gpus,
            "requests": (resources.get("requests") or {}) | gpus,
        },
        "volumeMounts": [*mounts, {"name": _VOLUME, "mountPath": MOUNT_PATH, "readOnly": True}],
    }


def _environment(job: Job, allocation: Allocation, environment: RunEnvironment) -> list[Json]:
    """A static launch for torchrun (PET_*) and JAX, and what charterer_trainer needs.

    The number of pods is not in it where it can change in place: pods that come later would get the old number.
    """
    master = f"{run_name(job.name, allocation.run)}-0.{job.name}.{job.namespace}.svc"
    values = {
        "PET_NPROC_PER_NODE": str(allocation.placements[0].gpus),
        "PET_MASTER_ADDR": master,
        "PET_MASTER_PORT": str(RENDEZVOUS_PORT),
        "JAX_COORDINATOR_ADDRESS": f"{master}:{RENDEZVOUS_PORT}",
        "CHARTERER_JOB": job.name,
        "CHARTERER_NAMESPACE": job.namespace,
        "CHARTERER_RUN": str(allocation.run),
        "CHARTERER_PROGRESS_URL": environment.progress_url,
        "CHARTERER_CA": environment.ca_pem,
        "CHARTERER_TOKEN_FILE": TOKEN_FILE,
    }
    if job.resize is not ResizePolicy.IN_PLACE:
        values["PET_NNODES"] = str(len(allocation.placements))
    index = {"fieldRef": {"fieldPath": f"metadata.annotations['{COMPLETION_INDEX}']"}}
    variables: list[Json] = [{"name": name, "value": value} for name, value in values.items()]
    return [*variables, {"name": "PET_NODE_RANK", "valueFrom": index}]


# --- GPURental --------------------------------------------------------------------------------------------------------


def rental(rent: Rent, token: str) -> Json:
    """The GPURental that a command to rent asks for."""
    return _rental(rent.rental, rent.pool, rent.budget, rent.reserve, rent.worst, {"token": token})


def orphan_rental(step: RecordOrphan, reserved: Money = ZERO) -> Json:
    """The GPURental of an instance that nobody had asked for."""
    return _rental(step.rental, step.pool, step.budget, reserved, step.worst, {"instance": step.instance.id})


def _rental(name: str, pool: PoolId, budget: BudgetId, reserved: Money, worst: Price, more: Json) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": "GPURental",
        "metadata": {
            "name": name,
            "finalizers": [FINALIZER_LEDGER],
            "labels": {LABEL_POOL: pool, LABEL_BUDGET: budget},
        },
        "spec": {
            "pool": pool,
            "budget": budget,
            "reserved": reserved.decimal(),
            "worstHourly": worst.decimal(),
            **more,
        },
    }


# --- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EventSubject:
    """The object that an event is about; ``namespace`` is empty for one that has none."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Reporter:
    """Who reports: the controller's name, such as charterer.dev/operator, and the pod it runs in."""

    controller: str
    instance: str


def event(
    subject: EventSubject,
    reporter: Reporter,
    at: Instant,
    *,
    reason: str,
    action: str,
    note: str,
    warning: bool = False,
) -> Json:
    """An event of events.k8s.io/v1, under a name by which repeating it is "already exists".

    ``reason`` and ``action`` are CamelCase words; a longer ``note`` is cut to what the API takes.
    """
    what = f"{subject.uid} {reason} {action} {note} {at}"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{subject.name}.{sha256(what.encode()).hexdigest()[:16]}",
            "namespace": subject.namespace or "default",
        },
        "eventTime": format_instant(at),
        "reportingController": reporter.controller,
        "reportingInstance": reporter.instance,
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "action": action,
        "note": note.encode()[:_NOTE_BYTES].decode(errors="ignore"),
        "regarding": {
            "apiVersion": subject.api_version,
            "kind": subject.kind,
            "name": subject.name,
            "uid": subject.uid,
            **({"namespace": subject.namespace} if subject.namespace else {}),
        },
    }
