"""Decoding Kubernetes' own kinds, as far as Charterer looks at them: Node, Pod, Service, Namespace.

The object of a run is decoded by its workload (``charterer.workloads``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from charterer.api.decode.departures import departure
from charterer.api.decode.unscheduled import refused_by_own_nodes
from charterer.api.metadata import ObjectMeta, Raw, gpus_of, true_condition, whole_quantity
from charterer.api.names import (
    ANNOTATION_ALLOCATION,
    ANNOTATION_STOP,
    COMPLETION_INDEX,
    GPU_RESOURCE,
    GPU_RESOURCES,
    GROUP,
    LABEL_CORDONED,
    LABEL_JOB,
    LABEL_JOB_UID,
    LABEL_RUN,
    MIG_PREFIX,
    SHARED_GPU,
)
from charterer.api.node_demands import node_traits
from charterer.api.stored_size import tail
from charterer.domain.ids import JobId, NodeName
from charterer.domain.jobs.pod import Pod, PodPhase
from charterer.domain.jobs.run_names import RUN_LABEL_PREFIX, run_number
from charterer.domain.nodes.demands import NodeTaint
from charterer.domain.snapshot import Node, Stop
from charterer.domain.time import Instant, after, parse_instant


@dataclass(frozen=True, slots=True)
class DecodedNamespace:
    """A Namespace. ``stop``: how an annotation stops the operator whose own namespace it is."""

    name: str
    labels: Mapping[str, str]
    stop: Stop | None = None


def namespace(raw: Raw) -> DecodedNamespace:
    """A Namespace. Whatever the annotation's value, it stops: only by its removal is anything rented again."""
    meta = raw["metadata"]
    value = (meta.get("annotations") or {}).get(ANNOTATION_STOP)
    stop = None if value is None else Stop.DRAIN if value.strip().lower() == Stop.DRAIN else Stop.RENT
    return DecodedNamespace(meta["name"], dict(meta.get("labels") or {}), stop)


_PARTS = (MIG_PREFIX, SHARED_GPU)
"""How the resources of parts of GPUs begin."""


def _is_beside(name: str) -> bool:
    """Whether a resource is counted as GPUs beside NVIDIA's whole ones."""
    return name.startswith(_PARTS) or (name in GPU_RESOURCES and name != GPU_RESOURCE)


def node(raw: Raw) -> Node:
    """A Node; ``foreign_gpus`` is 0 until pods are joined."""
    meta = ObjectMeta.of("Node", raw)
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    allocatable = status.get("allocatable") or {}
    taints = tuple(
        [
            NodeTaint(taint["key"], taint.get("value") or "", taint["effect"])
            for taint in spec.get("taints") or ()
            if taint.get("key") and taint.get("effect") in ("NoSchedule", "NoExecute")
        ]
    )
    return Node(
        name=NodeName(meta.name),
        uid=meta.uid,
        resource_version=meta.resource_version,
        provider_id=spec.get("providerID", ""),
        ready=true_condition(status, "Ready") is not None,
        unschedulable=bool(spec.get("unschedulable")),
        deleting=meta.deleting,
        gpus=whole_quantity(allocatable.get(GPU_RESOURCE, 0)),
        slices={name: whole_quantity(number) for name, number in allocatable.items() if _is_beside(name)},
        foreign_gpus=0,
        run_labels={key: value for key, value in meta.labels.items() if key.startswith(RUN_LABEL_PREFIX)},
        not_ready_since=_not_ready_since(status, meta.created),
        departure=departure(spec, status),
        taints=taints,
        traits=node_traits(meta.name, meta.labels, taints, allocatable),
        cordoned_for=meta.labels.get(LABEL_CORDONED, ""),
        machine=str((status.get("nodeInfo") or {}).get("systemUUID") or ""),
    )


def _not_ready_since(status: Raw, created: Instant) -> Instant | None:
    conditions = status.get("conditions") or ()
    ready = next((condition for condition in conditions if condition.get("type") == "Ready"), None)
    if ready is None:
        return created
    return None if ready.get("status") == "True" else optional_instant(ready, "lastTransitionTime") or created


def training_job_of(meta: ObjectMeta) -> tuple[JobId, str] | None:
    """Uid and name of the TrainingJob that controls the object, as it says; None where none does.

    Whoever may create such an object may write any owner into it, so this counts only for a TrainingJob of that uid in
    the object's own namespace.
    """
    owner = meta.controller
    if owner is None or (owner.group, owner.kind) != (GROUP, "TrainingJob"):
        return None
    return JobId(owner.uid), owner.name


def service(raw: Raw) -> JobId | None:
    """The TrainingJob whose Service this is, as it says (``training_job_of``).

    None for any other Service, and for a Service that is being deleted.
    """
    meta = ObjectMeta.of("Service", raw)
    owner = training_job_of(meta)
    return None if owner is None or meta.deleting or meta.name != owner[1] else owner[0]


@dataclass(frozen=True, slots=True)
class JobPod:
    """A pod with the labels of a run, its namespace, and the name and uid of the batch/v1 Job that controls it.

    It is a pod of a run only if that Job is one, in the same namespace: the labels and the owner say what they like.
    ``adopted_for``: the TrainingJob that its labels name, where its controller is no run's Job but an adopted object,
    or of one; None otherwise. ``numbered``: it has a completion index of its own.
    """

    namespace: str
    controller: str
    controller_uid: str
    pod: Pod
    adopted_for: JobId | None = None
    numbered: bool = True


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """A pod that is not Charterer's and holds GPUs of a node."""

    node: NodeName
    gpus: int


def pod(raw: Raw) -> JobPod | ForeignPod | None:
    """A pod that may be a run's, or another pod that holds GPUs of a node now; None for any other."""
    meta = ObjectMeta.of("Pod", raw)
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    phase = PodPhase(status.get("phase") or PodPhase.UNKNOWN)
    gpus = pod_gpus(spec, slices=True)
    node_name = spec.get("nodeName")
    finished = phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    controller, made, index = meta.controller, _run_number(meta), _index(meta)
    number = _adopted_number(meta) if made is None else made
    if LABEL_JOB_UID not in meta.labels or controller is None or number is None or index is None:
        return ForeignPod(NodeName(node_name), gpus) if node_name and gpus and not finished else None
    ends = _terminations(status)
    failed_ends = [end for end in ends if end.get("exitCode")]
    read = Pod(
        name=meta.name,
        uid=meta.uid,
        run=number,
        index=index,
        gpus=gpus,
        node=NodeName(node_name) if node_name else None,
        phase=phase,
        ready=true_condition(status, "Ready") is not None,
        deleting=meta.deleting,
        disrupted=true_condition(status, "DisruptionTarget") is not None,
        exit_code=next((end["exitCode"] for end in [*failed_ends, *ends]), None),
        finished=max((at for end in ends if (at := optional_instant(end, "finishedAt")) is not None), default=None),
        message=sentence(status) or next((_last_words(end) for end in failed_ends), ""),
        allocation=meta.annotations.get(ANNOTATION_ALLOCATION, ""),
        resource_version=meta.resource_version,
        trouble="" if finished else pod_trouble(status),
        must_end_by=meta.deleted,
        told_to_end=None
        if meta.deleted is None
        else after(meta.deleted, -(raw["metadata"].get("deletionGracePeriodSeconds") or 0)),
        hopeless=not finished and _hopeless(status),
        refused=phase is PodPhase.FAILED and bool(node_name) and _refused(status),
    )
    adopted_for = JobId(meta.labels[LABEL_JOB_UID]) if made is None else None
    return JobPod(meta.namespace, controller.name, controller.uid, read, adopted_for, bool(_written_index(meta)))


def was_told_to_end(pod: JobPod | ForeignPod) -> bool:
    """Whether it is a pod of a run that was told to end and has: it is gone a moment after that can be seen."""
    return isinstance(pod, JobPod) and pod.pod.deleting and pod.pod.exit_code is not None


_LAST_WORDS_BYTES = 768
"""Bytes of a failed container's last lines that are kept: what an error ends with, and small enough for a status."""


def _last_words(end: Raw) -> str:
    """Why a container ended: the reason, and the end of its message, which is the end of its logs where it set none."""
    return sentence(
        {"reason": end.get("reason"), "message": tail((end.get("message") or "").strip(), _LAST_WORDS_BYTES)}
    )


_ON_THE_WAY = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Waiting reasons of a container that is being started."""
_TROUBLE_LIMIT = 512
"""Characters of what Kubernetes says of a pod that are kept: a scheduler's message can name every node."""


_HOPELESS = frozenset({"CreateContainerConfigError", "ErrImageNeverPull", "InvalidImageName"})
"""Waiting reasons of a container that nothing but an edit can start: of its template, or of what the template names."""
_NO_SUCH_IMAGE = "code = NotFound"
"""In the kubelet's words for a failed pull: the registry answered, and does not have the image."""


def _waiting(status: Raw) -> Iterator[tuple[str, Raw]]:
    """The containers that wait, by name, and why."""
    for part in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(part) or ():
            yield container.get("name", ""), (container.get("state") or {}).get("waiting") or {}


def _hopeless(status: Raw) -> bool:
    return refused_by_own_nodes(_unscheduled(status).get("message") or "") or any(
        waiting.get("reason") in _HOPELESS or _NO_SUCH_IMAGE in (waiting.get("message") or "")
        for _, waiting in _waiting(status)
    )


def pod_trouble(status: Raw) -> str:
    """Why a pod does not run, in Kubernetes' own words; empty when nothing in its status says so."""
    for name, waiting in _waiting(status):
        if waiting.get("reason", "") not in _ON_THE_WAY:
            return f"container {name}: {sentence(waiting)}"[:_TROUBLE_LIMIT]
    return sentence(_unscheduled(status))[:_TROUBLE_LIMIT]


def _unscheduled(status: Raw) -> Raw:
    """The condition by which the scheduler says why the pod has no node; empty where it has one, or says nothing."""
    return next(
        (
            condition
            for condition in status.get("conditions") or ()
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False"
        ),
        {},
    )


def warning_event(raw: Raw) -> tuple[Instant, str]:
    """When an Event (events.k8s.io) last happened, and its reason and note in a line."""
    meta = ObjectMeta.of("Event", raw)
    series = raw.get("series") or {}
    times = [optional_instant(series, "lastObservedTime"), optional_instant(raw, "deprecatedLastTimestamp")]
    last = max([at for at in (*times, optional_instant(raw, "eventTime")) if at is not None], default=meta.created)
    text = ": ".join(part for part in (raw.get("reason"), raw.get("note")) if part)
    return last, text[:_TROUBLE_LIMIT]


def _run_number(meta: ObjectMeta) -> int | None:
    """The run that a pod belongs to, by the name of the Job that controls it; None where that is no run's."""
    controller = meta.controller
    if controller is None or (controller.group, controller.kind) != ("batch", "Job"):
        return None
    return run_number(controller.name, meta.labels.get(LABEL_JOB))


def _adopted_number(meta: ObjectMeta) -> int | None:
    """The run of a pod whose controller is named as no run of its labels' job, as that of an adopted object is."""
    controller, text = meta.controller, meta.labels.get(LABEL_RUN, "")
    if controller is None or run_number(controller.name, meta.labels.get(LABEL_JOB)) is not None:
        return None
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None


def _written_index(meta: ObjectMeta) -> str:
    return meta.annotations.get(COMPLETION_INDEX) or meta.labels.get(COMPLETION_INDEX) or ""


def _index(meta: ObjectMeta) -> int | None:
    index = _written_index(meta) or "0"
    return int(index) if index.isascii() and index.isdecimal() and len(index) <= 9 else None


def pod_gpus(spec: Raw, *, slices: bool = False) -> int:
    """GPUs of a pod as the scheduler counts them; with ``slices`` a MIG slice or a shared GPU counts as one.

    Containers and sidecars (init containers with restartPolicy Always) hold theirs at the same time. Any other init
    container runs before the containers, together with the sidecars that were started before it. The overhead of the
    runtime class is added. Source: PodRequests in k8s.io/component-helpers/resource.
    """
    sidecars, starting = 0, 0
    for container in spec.get("initContainers") or ():
        gpus = _gpus_of(container, slices)
        if container.get("restartPolicy") == "Always":
            sidecars += gpus
            gpus = 0
        starting = max(starting, sidecars + gpus)
    together = sidecars + sum(_gpus_of(container, slices) for container in spec.get("containers") or ())
    overhead = spec.get("overhead") or {}
    return max(together, starting) + sum(whole_quantity(overhead.get(name, 0)) for name in GPU_RESOURCES)


def _gpus_of(container: Raw, slices: bool) -> int:
    whole = sum(gpus_of(container, name) for name in GPU_RESOURCES)
    limits = (container.get("resources") or {}).get("limits") or {} if slices else {}
    return whole + sum(gpus_of(container, name) for name in limits if name.startswith(_PARTS))


_OVERDUE = "DeadlineExceeded"
"""The kubelet's reason for a pod that had its own activeDeadlineSeconds: the only end that it gives a pod without
containers for the pod's own sake."""


def _refused(status: Raw) -> bool:
    """Whether the kubelet ended a pod that failed before any container began, as when it does not admit it.

    The reasons are no closed list: UnexpectedAdmissionError, TopologyAffinityError, NodeAffinity, OutOf with the name
    of any resource (pkg/kubelet/lifecycle/predicate.go, cm/topologymanager), and whatever a later kubelet has. But a
    pod of which nothing ran has nothing that could have failed. Evictions are told as disruptions.
    """
    containers = [each for part in ("initContainerStatuses", "containerStatuses") for each in status.get(part) or ()]
    began = any(
        each.get("lastState") or any((each.get("state") or {}).get(state) for state in ("running", "terminated"))
        for each in containers
    )
    disrupted = true_condition(status, "DisruptionTarget") is not None
    return not began and not disrupted and status.get("reason") not in (None, "", _OVERDUE)


def _terminations(status: Raw) -> list[Raw]:
    """How the containers ended that have ended."""
    states = (container.get("state") or {} for container in status.get("containerStatuses") or ())
    return [state["terminated"] for state in states if state.get("terminated")]


def sentence(explained: Raw) -> str:
    """Reason and message of a condition, a status or a termination, in a line."""
    return ": ".join(part for part in (explained.get("reason"), explained.get("message")) if part)


def optional_instant(of: Raw, field: str) -> Instant | None:
    """The timestamp in a field, if there is one."""
    return parse_instant(of[field]) if of.get(field) else None


def since(condition: Raw | None) -> Instant | None:
    """When a condition became what it is; None where there is none."""
    return None if condition is None else optional_instant(condition, "lastTransitionTime")
