"""Decoding of training without Charterer: Jobs that request GPUs, and pods that hold some.

Such Jobs and pods are never planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from charterer.api.decode.core import optional_instant
from charterer.api.gpu_resources import gpu_names, pod_gpus
from charterer.api.metadata import ObjectMeta, Raw, true_condition
from charterer.api.names import AMD_TYPE_LABEL, GPU_TYPE_LABEL, LABEL_JOB_UID, LABEL_PROFILE
from charterer.api.node_demands import node_demands
from charterer.api.template import gpu_resource
from charterer.domain.node_demands import NodeDemands
from charterer.domain.pod import PodPhase
from charterer.domain.time import Instant

# Decoding of Kueue's AdmissionChecks. ``workloads.adopted`` decodes its Workloads.


MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
"""The controller of AdmissionChecks whose queues run their jobs in other clusters. Such a job has it in
``managedBy``.
"""


@dataclass(frozen=True, slots=True)
class DecodedCheck:
    """An AdmissionCheck.

    ``controller``: the controller that the check names. ``active``: whether this controller handles the check.
    """

    name: str
    resource_version: str
    controller: str
    active: bool


def admission_check(raw: Raw) -> DecodedCheck:
    """Decode any AdmissionCheck, Charterer's or another's."""
    meta = ObjectMeta.of("AdmissionCheck", raw)
    controller = str((raw.get("spec") or {}).get("controllerName", ""))
    active = true_condition(raw.get("status") or {}, "Active") is not None
    return DecodedCheck(meta.name, meta.resource_version, controller, active)


_DEFAULT_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class ForeignJob:
    """A batch/v1 Job that requests ``gpus`` GPUs for all pods that it runs at a time.

    ``started``: when its pods were created, however long the pods waited for a node. ``complete`` and ``failed``: the
    time of its end. ``gpu_type`` and ``profile`` are empty if the Job names none. ``part_of``: the kind of the Job's
    controller. It is empty for a CronJob and if there is no controller. ``demands``: the requirements of the Job's
    template on a node.
    """

    uid: str
    namespace: str
    name: str
    gpus: int
    gpu_type: str
    profile: str
    priority_class: str
    part_of: str
    suspended: bool
    created: Instant
    started: Instant | None
    complete: Instant | None
    failed: Instant | None
    demands: NodeDemands


@dataclass(frozen=True, slots=True)
class ForeignWorker:
    """A pod with GPUs that is not Charterer's. ``owner`` is its controller's uid, ``owner_kind`` the controller's kind.

    ``started``: start of the pod's last container. If no container has started, the time at which the node accepted the
    pod.
    """

    namespace: str
    owner: str
    owner_kind: str
    gpus: int
    live: bool
    succeeded: bool
    started: Instant | None


@dataclass(frozen=True, slots=True)
class HomelessPod:
    """A pod with GPUs that is not Charterer's, and for which the default scheduler has found no node. ``since``: since
    when.

    ``gpus``: the number that it asks for, by their resource. ``manager``: apiVersion, kind, name and uid of its
    controller, or of the pod itself if it has none.
    """

    namespace: str
    name: str
    uid: str
    gpus: tuple[tuple[str, int], ...]
    since: Instant
    manager: tuple[str, str, str, str]


def homeless_pod(raw: Raw, resources: Sequence[str]) -> HomelessPod | None:
    """Decode a pod without a node; None if it is bound, gated, being deleted or another scheduler's.

    ``resources``: those that count as GPUs.
    """
    meta = ObjectMeta.of("Pod", raw)
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    held = [(name, number) for name in resources if (number := pod_gpus(spec, [name]))]
    told = [each for each in status.get("conditions") or () if each.get("type") == "PodScheduled"]
    homeless = [each for each in told if each.get("status") == "False" and each.get("reason") == "Unschedulable"]
    others = LABEL_JOB_UID not in meta.labels and spec.get("schedulerName", _DEFAULT_SCHEDULER) == _DEFAULT_SCHEDULER
    if not held or not homeless or not others or meta.deleting or spec.get("nodeName"):
        return None
    owners = [owner for owner in raw["metadata"].get("ownerReferences") or () if owner.get("controller")]
    own = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
    manager = owners[0] if owners else own
    return HomelessPod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        gpus=tuple(held),
        since=optional_instant(homeless[0], "lastTransitionTime") or meta.created,
        manager=(manager["apiVersion"], manager["kind"], manager["name"], manager["uid"]),
    )


def foreign_job(raw: Raw) -> ForeignJob | None:
    """Decode a Job that requests GPUs and is not Charterer's. None for any other Job."""
    meta = ObjectMeta.of("Job", raw)
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    template = (spec.get("template") or {}).get("spec") or {}
    parallelism = spec.get("parallelism", 1)
    selector = template.get("nodeSelector") or {}
    gpus = _gpus(spec.get("template") or {}) * min(parallelism, spec.get("completions") or parallelism)
    if LABEL_JOB_UID in meta.labels or gpus < 1:
        return None
    manager = "" if meta.controller is None else meta.controller.kind
    complete, failed = true_condition(status, "Complete"), true_condition(status, "Failed")
    return ForeignJob(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        gpus=gpus,
        gpu_type=selector.get(GPU_TYPE_LABEL) or selector.get(AMD_TYPE_LABEL, ""),
        profile=meta.labels.get(LABEL_PROFILE, ""),
        priority_class=template.get("priorityClassName") or "",
        part_of="" if manager == "CronJob" else manager,
        suspended=bool(spec.get("suspend")),
        created=meta.created,
        started=optional_instant(status, "startTime"),
        complete=None
        if complete is None
        else optional_instant(status, "completionTime") or optional_instant(complete, "lastTransitionTime"),
        failed=None if failed is None else optional_instant(failed, "lastTransitionTime"),
        demands=node_demands({"spec": template}, gpu_resource(spec.get("template") or {})),
    )


def foreign_worker(raw: Raw) -> ForeignWorker | None:
    """Decode a pod that holds or held GPUs and is not Charterer's. None for any other pod."""
    meta = ObjectMeta.of("Pod", raw)
    status = raw.get("status") or {}
    gpus = _gpus(raw)
    if LABEL_JOB_UID in meta.labels or gpus < 1:
        return None
    owner = meta.controller
    phase = status.get("phase")
    states = [container.get("state") or {} for container in status.get("containerStatuses") or ()]
    started = [state.get("terminated") or state.get("running") or {} for state in states]
    starts = [at for state in started if (at := optional_instant(state, "startedAt")) is not None]
    return ForeignWorker(
        namespace=meta.namespace,
        owner="" if owner is None else owner.uid,
        owner_kind="" if owner is None else owner.kind,
        gpus=gpus,
        live=phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED),
        succeeded=phase == PodPhase.SUCCEEDED,
        started=max(starts, default=optional_instant(status, "startTime")),
    )


def _gpus(template: Raw) -> int:
    """The GPUs of a pod, or of each pod of a template; 0 if the quantity is no number."""
    try:
        return pod_gpus(template.get("spec") or {}, gpu_names(template))
    except ValueError:
        return 0
