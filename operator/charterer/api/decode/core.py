"""Decoding of Kubernetes' own kinds, as far as Charterer reads them: Node, Pod, Service, Namespace.

The workload of a run (``charterer.workloads``) decodes its object.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

from charterer.api.gpu_resources import gpus_and_others, is_extended
from charterer.api.metadata import ObjectMeta, Raw, true_condition, whole_quantity
from charterer.api.models.base import tail
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
    PARTS_OF_GPUS,
)
from charterer.api.node_demands import node_traits
from charterer.domain.ids import JobId, NodeName
from charterer.domain.node_demands import NodeTaint
from charterer.domain.pod import RUN_LABEL_PREFIX, Pod, PodPhase, run_number
from charterer.domain.snapshot import Departure, Node, Stop
from charterer.domain.time import Instant, after, parse_instant

# Taints and conditions that other programs set on a Node whose machine is about to end, each with its source.
#
# Conditions of GPU health are treated the same way: a machine with broken GPUs is emptied and given back, even if
# another program would repair it. If the job's own fault can cause a condition, the condition is only a doubt: the jobs
# on the machine continue, and no new job starts there.
#
# The following are not in the tables, because they do not announce the end of a machine:
#
# - ``DeletionCandidateOfClusterAutoscaler`` (PreferNoSchedule): every idle node has it until its next pod.
# - ``VMEventScheduled`` of AKS: it is also true before a freeze of seconds and before a reboot.
# - ``node.kubernetes.io/unschedulable``, ``not-ready`` and ``unreachable``: Charterer and people set the first. The
#   state of the other two is in the condition Ready, with its times.


GOES: Final[Mapping[str, str]] = {
    "aws-node-termination-handler/spot-itn": "aws-node-termination-handler pkg/node/node.go",
    "aws-node-termination-handler/scheduled-maintenance": "aws-node-termination-handler pkg/node/node.go",
    "aws-node-termination-handler/asg-lifecycle-termination": "aws-node-termination-handler pkg/node/node.go",
    "cloud.google.com/impending-node-termination": "GKE; k8s-node-termination-handler deploy/k8s.yaml",
    "cloudprovider.azure.microsoft.com/draining": "cloud-provider-azure, load balancer backends of spot nodes",
    "karpenter.sh/disrupted": "Karpenter pkg/apis/v1/taints.go",
    "node.cloudprovider.kubernetes.io/shutdown": "k8s.io/cloud-provider, node lifecycle controller",
    "node.kubernetes.io/out-of-service": "Kubernetes, non-graceful node shutdown: set by a person",
    "remediator.kubernetes.azure.com/unschedulable": "AKS node auto-drain",
    "ToBeDeletedByClusterAutoscaler": "Cluster Autoscaler utils/taints",
}
"""Taints that announce the end of a machine, by key, with their source. A taint counts only if its effect keeps pods
off.
"""
MAY_GO: Final[Mapping[str, str]] = {
    "aws-node-termination-handler/rebalance-recommendation": "aws-node-termination-handler pkg/node/node.go",
}
"""Taints of machines that are more likely than others to be taken back."""
GOES_WHEN_TRUE: Final[Mapping[str, str]] = {
    "PreemptionScheduled": "AKS node-problem-detector, as karpenter-provider-azure reads it",
    "PreemptScheduled": "AKS node-problem-detector, scheduled events",
    "RedeployScheduled": "AKS node-problem-detector, scheduled events",
    "TerminateScheduled": "AKS node-problem-detector, scheduled events",
}
"""Conditions that announce the end of a machine if they are True."""


_NVSENTINEL: Final = "NVSentinel 1.31, getting-started/integrations: written for fatal faults"
_AKS: Final = "AKS node-problem-detector (learn.microsoft.com/azure/aks/node-problem-detector), sizes with GPUs"
BROKEN_WHEN_TRUE: Final[Mapping[str, str]] = {
    "GPUMissing": _AKS,
    "NVLinkStatusInactive": _AKS,
    "XidCriticalError": "GKE device plugin, container-engine-accelerators pkg/gpu/nvidia/health_check",
    **dict.fromkeys(
        (
            *("GpuMemWatch", "GpuPcieWatch", "GpuInforomWatch", "GpuSmWatch", "GpuNvlinkWatch", "GpuMcuWatch"),
            *("GpuPmuWatch", "GpuDriverWatch", "SysLogsSXIDError", "SysLogsGPUFallenOff"),
            *("NVSwitchFatalError", "NVSwitchDown"),
        ),
        _NVSENTINEL,
    ),
}
"""Conditions that report broken GPUs, or broken links between them, if they are True."""
BROKEN_WHEN_FALSE: Final[Mapping[str, str]] = {
    "AcceleratedHardwareReady": "eks-node-monitoring-agent; Karpenter's repair and EKS auto repair act on it",
}
"""Conditions that report broken GPUs if they are False."""
MAY_BE_BROKEN: Final[Mapping[str, str]] = {
    "XIDErrors": f"{_AKS}: also of faults of programs",
    "IBLinkFlapping": f"{_AKS}: InfiniBand",
    "SysLogsXIDError": f"{_NVSENTINEL}; also of faults of programs",
    "GpuThermalWatch": _NVSENTINEL,
    "GpuPowerWatch": _NVSENTINEL,
}
"""Conditions that make GPUs doubtful if they are True."""


def departure(spec: Raw, status: Raw) -> Departure | None:
    """The coming end of the machine, or its broken GPUs, as the Node's taints and conditions report it. None if they
    report neither.
    """
    taints = [taint.get("key", "") for taint in spec.get("taints") or () if taint.get("effect") != "PreferNoSchedule"]
    for key in taints:
        if key in GOES:
            return Departure(f"taint {key}")
    told = {each.get("type", ""): each.get("status") for each in status.get("conditions") or ()}
    for condition in GOES_WHEN_TRUE:
        if told.get(condition) == "True":
            return Departure(f"condition {condition}")
    for condition, fault in _FAULTS:
        if told.get(condition) == fault:
            return Departure(f"condition {condition}", broken=True)
    risky = next((key for key in taints if key in MAY_GO), None)
    if risky is not None:
        return Departure(f"taint {risky}", certain=False)
    doubtful = next((condition for condition in MAY_BE_BROKEN if told.get(condition) == "True"), None)
    return None if doubtful is None else Departure(f"condition {doubtful}", certain=False, broken=True)


_FAULTS: Final = (
    *((condition, "True") for condition in BROKEN_WHEN_TRUE),
    *((condition, "False") for condition in BROKEN_WHEN_FALSE),
)


# The scheduler's message about a pod that fits no node.
#
# The pods of a run select the run's nodes. The scheduler's message counts all nodes of the cluster, each under the
# first plugin that refuses the node. NodeUnschedulable, TaintToleration and NodeAffinity are the first plugins. So a
# reason of any later plugin is about the run's own nodes. If there is no such reason, the taints or the template's
# selectors refuse the run's own nodes too (pkg/scheduler/apis/config/v1/default_plugins.go, framework/types.go).


_SAID: Final = re.compile(r"0/\d+ nodes are available: (.*?)(?:\. (?:preemption|no new claims)|\.?$)", re.DOTALL)
_REASON: Final = re.compile(r"\b\d+ (.+?)(?=, \d+ |$)")
_INSUFFICIENT: Final = "Insufficient "
_STRANGERS: Final = (
    "didn't match Pod's node affinity/selector",
    "didn't satisfy plugin(s) [NodeAffinity]",
    "untolerated taint",
)
"""Reasons that are usually about nodes that are not the run's.

If the message has no other reason, these reasons are about the run's nodes too.
"""
_PASSES: Final = (
    "were unschedulable",
    *[f"{_INSUFFICIENT}{resource}" for resource in (*GPU_RESOURCES, *PARTS_OF_GPUS)],
)
"""Reasons about own nodes that are cordoned or have no GPUs yet. Either this passes, or another check detects it."""


def refused_by_own_nodes(message: str, resources: Iterable[str]) -> bool:
    """Whether the run's own nodes, as they are, refuse its pods. ``resources``: of the run's GPUs."""
    passes = (*_PASSES, *[f"{_INSUFFICIENT}{resource}" for resource in resources])
    reasons = _reasons(message)
    own = [reason for reason in reasons if not any(words in reason for words in _STRANGERS)]
    if not own:
        return bool(reasons)
    return any(not any(words in reason for words in passes) for reason in own)


def lacking(message: str) -> Sequence[str]:
    """The resources of which the run's own nodes have too little."""
    return [
        reason.removeprefix(_INSUFFICIENT)
        for reason in _reasons(message)
        if reason.startswith(_INSUFFICIENT) and not reason.startswith(_PASSES)
    ]


def _reasons(message: str) -> Sequence[str]:
    said = _SAID.search(message)
    return [] if said is None else _REASON.findall(said[1])


# ResourceSlices of NVIDIA's DRA driver, which list a node's GPUs on clusters with dynamic resource allocation.
#
# On such a cluster the Node has no extended resource. Pods request GPUs by the same names, which DeviceClasses map to
# devices.


_DRIVER: Final = "gpu.nvidia.com"
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class PublishedGpus:
    """A part of the GPUs that a driver publishes for a node.

    ``slices``: number of parts in this ``generation`` of ``pool``. ``gpus``: whole GPUs and MIG slices, by the extended
    resources that represent them.
    """

    node: NodeName
    pool: str
    generation: int
    slices: int
    gpus: Mapping[str, int]


def published_gpus(raw: Raw) -> PublishedGpus | None:
    """Decode a ResourceSlice of NVIDIA's driver about one node, or None for any other."""
    spec = raw["spec"]
    if spec.get("driver") != _DRIVER or not spec.get("nodeName"):
        return None
    pool = spec["pool"]
    counts = Counter(name for device in spec.get("devices") or () if (name := _resource(device)))
    return PublishedGpus(
        NodeName(spec["nodeName"]), pool["name"], int(pool["generation"]), int(pool["resourceSliceCount"]), counts
    )


def _resource(device: Raw) -> str:
    """The extended resource that represents a device, or an empty text if the device is no GPU."""
    attributes = device.get("attributes") or {}
    kind = (attributes.get("type") or {}).get("string")
    profile = (attributes.get("profile") or {}).get("string")
    if kind == "mig" and profile:
        return f"{MIG_PREFIX}{profile}"
    return GPU_RESOURCE if kind == "gpu" else ""


def with_published(nodes: Mapping[_Key, Node], published: Mapping[_Key, PublishedGpus]) -> Mapping[_Key, Node]:
    """The nodes, with the GPUs and slices that only a driver publishes for them."""
    if not published:
        return nodes
    gpus = _by_node(published.values())
    return {key: _joined(node, gpus[node.name]) if node.name in gpus else node for key, node in nodes.items()}


def _joined(node: Node, published: Mapping[str, int]) -> Node:
    slices = {name: number for name, number in published.items() if name != GPU_RESOURCE}
    return replace(node, gpus=node.gpus or published.get(GPU_RESOURCE, 0), others={**slices, **node.others})


def _by_node(published: Iterable[PublishedGpus]) -> Mapping[NodeName, Mapping[str, int]]:
    """Published GPUs by node and resource.

    As in the scheduler, a pool counts only if its newest generation is complete.
    """
    pools: dict[tuple[NodeName, str], list[PublishedGpus]] = {}
    for part in published:
        pools.setdefault((part.node, part.pool), []).append(part)
    found: dict[NodeName, Counter[str]] = {}
    for (node, _), parts in pools.items():
        newest = max(part.generation for part in parts)
        current = [part for part in parts if part.generation == newest]
        if len(current) == current[0].slices:
            total = found.setdefault(node, Counter())
            for part in current:
                total.update(part.gpus)
    return found


@dataclass(frozen=True, slots=True)
class DecodedNamespace:
    """A Namespace. ``stop``: the stop that its annotation requests, if it is the operator's own namespace."""

    name: str
    labels: Mapping[str, str]
    stop: Stop | None = None


def namespace(raw: Raw) -> DecodedNamespace:
    """Decode a Namespace. Any value of the annotation stops the operator. Only if the annotation is removed does the
    operator rent again.
    """
    meta = raw["metadata"]
    value = (meta.get("annotations") or {}).get(ANNOTATION_STOP)
    stop = None if value is None else Stop.DRAIN if value.strip().lower() == Stop.DRAIN else Stop.RENT
    return DecodedNamespace(meta["name"], dict(meta.get("labels") or {}), stop)


def node(raw: Raw) -> Node:
    """Decode a Node. ``foreign_gpus`` is 0 until the Node is joined with its pods."""
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
        provider_id=spec.get("providerID", ""),
        ready=true_condition(status, "Ready") is not None,
        unschedulable=bool(spec.get("unschedulable")),
        deleting=meta.deleting,
        gpus=whole_quantity(allocatable.get(GPU_RESOURCE, 0)),
        others={
            name: whole_quantity(number)
            for name, number in allocatable.items()
            if name != GPU_RESOURCE and is_extended(name)
        },
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
    """Uid and name of the TrainingJob that controls the object by its owner reference, or None if there is none.

    Anybody who may create such an object may write any owner into it. So the reference counts only if a TrainingJob
    with this uid exists in the object's own namespace.
    """
    owner = meta.controller
    if owner is None or (owner.group, owner.kind) != (GROUP, "TrainingJob"):
        return None
    return JobId(owner.uid), owner.name


def service(raw: Raw) -> JobId | None:
    """The TrainingJob that controls this Service by its owner reference (``training_job_of``).

    None for any other Service, and for a Service that is being deleted.
    """
    meta = ObjectMeta.of("Service", raw)
    owner = training_job_of(meta)
    return None if owner is None or meta.deleting or meta.name != owner[1] else owner[0]


Devices: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class JobPod:
    """A pod with the labels of a run, its namespace, and the name and uid of the batch/v1 Job that controls it.

    The pod belongs to a run only if this Job is a run in the same namespace, because anybody may write these labels and
    owner. ``adopted_for``: the TrainingJob in its labels if its controller is an adopted object, or made by one, and no
    run's Job; None otherwise. ``numbered``: whether it has its own completion index. ``others``: see ``ForeignPod``.
    """

    namespace: str
    controller: str
    controller_uid: str
    pod: Pod
    adopted_for: JobId | None = None
    numbered: bool = True
    others: Devices = ()


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """A pod that is not Charterer's and holds GPUs, or what may be GPUs, of a node.

    ``others``: its extended resources that are GPUs only if the node's pool says so, by name.
    """

    node: NodeName
    gpus: int
    others: Devices = ()


def pod(raw: Raw) -> JobPod | ForeignPod | None:
    """Decode a pod that may be a run's, or another pod that holds GPUs of a node now, or None for any other."""
    meta = ObjectMeta.of("Pod", raw)
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    phase = PodPhase(status.get("phase") or PodPhase.UNKNOWN)
    gpus, others = gpus_and_others(spec)
    node_name = spec.get("nodeName")
    finished = phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    controller, made, index = meta.controller, _run_number(meta), _index(meta)
    number = _adopted_number(meta) if made is None else made
    if LABEL_JOB_UID not in meta.labels or controller is None or number is None or index is None:
        holds = node_name and (gpus or others) and not finished
        return ForeignPod(NodeName(str(node_name)), gpus, others) if holds else None
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
        trouble="" if finished else pod_trouble(status),
        must_end_by=meta.deleted,
        told_to_end=None
        if meta.deleted is None
        else after(meta.deleted, -(raw["metadata"].get("deletionGracePeriodSeconds") or 0)),
        hopeless=not finished and _hopeless(status, [name for name, _ in others if name in _tolerated(spec)]),
        refused=phase is PodPhase.FAILED and bool(node_name) and _refused(status),
    )
    adopted_for = JobId(meta.labels[LABEL_JOB_UID]) if made is None else None
    numbered = bool(_written_index(meta))
    return JobPod(meta.namespace, controller.name, controller.uid, read, adopted_for, numbered, others)


def _tolerated(spec: Raw) -> frozenset[str]:
    """The keys of the taints that a pod tolerates. Pods of a run tolerate the resource of their GPUs."""
    return frozenset([str(each.get("key")) for each in spec.get("tolerations") or ()])


def was_told_to_end(pod: JobPod | ForeignPod) -> bool:
    """Whether this is a pod of a run that was told to end and has ended. The pod's object disappears a moment later."""
    return isinstance(pod, JobPod) and pod.pod.deleting and pod.pod.exit_code is not None


_LAST_WORDS_BYTES = 768
"""Bytes that are stored of a failed container's last lines. They are enough for the end of an error, and few enough for
a status.
"""


def _last_words(end: Raw) -> str:
    """Why a container ended: the reason and the end of its message.

    If a container sets no message, its last log lines are the message.
    """
    return sentence(
        {"reason": end.get("reason"), "message": tail((end.get("message") or "").strip(), _LAST_WORDS_BYTES)}
    )


_ON_THE_WAY = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Waiting reasons of a container that is being started."""
_TROUBLE_LIMIT = 512
"""Characters that are stored of Kubernetes' message about a pod. A scheduler's message can name every node."""


_HOPELESS = frozenset({"CreateContainerConfigError", "ErrImageNeverPull", "InvalidImageName"})
"""Waiting reasons that end only if somebody edits the template, or an object that the template names."""
_NO_SUCH_IMAGE = "code = NotFound"
"""The part of the kubelet's message about a failed pull which shows that the registry answered and does not have the
image.
"""


def _waiting(status: Raw) -> Iterator[tuple[str, Raw]]:
    """The waiting containers by name, with the reasons."""
    for part in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(part) or ():
            yield container.get("name", ""), (container.get("state") or {}).get("waiting") or {}


def _hopeless(status: Raw, resources: Sequence[str]) -> bool:
    return refused_by_own_nodes(_unscheduled(status).get("message") or "", resources) or any(
        waiting.get("reason") in _HOPELESS or _NO_SUCH_IMAGE in (waiting.get("message") or "")
        for _, waiting in _waiting(status)
    )


def pod_trouble(status: Raw) -> str:
    """Why a pod does not run, in Kubernetes' own words, or an empty text if its status has no reason."""
    for name, waiting in _waiting(status):
        if waiting.get("reason", "") not in _ON_THE_WAY:
            return f"container {name}: {sentence(waiting)}"[:_TROUBLE_LIMIT]
    return sentence(_unscheduled(status))[:_TROUBLE_LIMIT]


def _unscheduled(status: Raw) -> Raw:
    """The scheduler's condition about a pod without a node, or empty if it has a node, or there is no condition."""
    return next(
        (
            condition
            for condition in status.get("conditions") or ()
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False"
        ),
        {},
    )


def warning_event(raw: Raw) -> tuple[Instant, str]:
    """The last time of an Event (events.k8s.io), with its reason and note in a line."""
    meta = ObjectMeta.of("Event", raw)
    series = raw.get("series") or {}
    times = [optional_instant(series, "lastObservedTime"), optional_instant(raw, "deprecatedLastTimestamp")]
    last = max([at for at in (*times, optional_instant(raw, "eventTime")) if at is not None], default=meta.created)
    text = ": ".join(part for part in (raw.get("reason"), raw.get("note")) if part)
    return last, text[:_TROUBLE_LIMIT]


def _run_number(meta: ObjectMeta) -> int | None:
    """The run number of a pod, from the name of the Job that controls it, or None if this is no run's Job."""
    controller = meta.controller
    if controller is None or (controller.group, controller.kind) != ("batch", "Job"):
        return None
    return run_number(controller.name, meta.labels.get(LABEL_JOB))


def _adopted_number(meta: ObjectMeta) -> int | None:
    """The run number in the labels of an adopted object's pod, or None if its controller has the name of a run's
    Job.
    """
    controller, text = meta.controller, meta.labels.get(LABEL_RUN, "")
    if controller is None or run_number(controller.name, meta.labels.get(LABEL_JOB)) is not None:
        return None
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None


def _written_index(meta: ObjectMeta) -> str:
    return meta.annotations.get(COMPLETION_INDEX) or meta.labels.get(COMPLETION_INDEX) or ""


def _index(meta: ObjectMeta) -> int | None:
    index = _written_index(meta) or "0"
    return int(index) if index.isascii() and index.isdecimal() and len(index) <= 9 else None


_OVERDUE = "DeadlineExceeded"
"""The kubelet's reason for a pod that exceeded its own activeDeadlineSeconds.

For a pod without started containers, the kubelet has no other reason that the pod itself causes.
"""


def _refused(status: Raw) -> bool:
    """Whether the kubelet ended a pod before any container began. An example is a pod that the kubelet did not admit.

    There is no complete list of the reasons: UnexpectedAdmissionError, TopologyAffinityError, NodeAffinity, OutOf with
    the name of any resource (pkg/kubelet/lifecycle/predicate.go, cm/topologymanager), and those of later kubelets. So
    the function looks at the containers instead: if no container ran, no program of the pod can have failed. Evictions
    are reported as disruptions instead.
    """
    containers = [each for part in ("initContainerStatuses", "containerStatuses") for each in status.get(part) or ()]
    began = any(
        each.get("lastState") or any((each.get("state") or {}).get(state) for state in ("running", "terminated"))
        for each in containers
    )
    disrupted = true_condition(status, "DisruptionTarget") is not None
    return not began and not disrupted and status.get("reason") not in (None, "", _OVERDUE)


def _terminations(status: Raw) -> list[Raw]:
    """The terminations of the containers that have ended."""
    states = (container.get("state") or {} for container in status.get("containerStatuses") or ())
    return [state["terminated"] for state in states if state.get("terminated")]


def sentence(explained: Raw) -> str:
    """Reason and message of a condition, a status or a termination, in a line."""
    return ": ".join(part for part in (explained.get("reason"), explained.get("message")) if part)


def optional_instant(of: Raw, field: str) -> Instant | None:
    """The timestamp in a field, if there is one."""
    return parse_instant(of[field]) if of.get(field) else None


def since(condition: Raw | None) -> Instant | None:
    """The last transition of a condition, or None if there is no condition."""
    return None if condition is None else optional_instant(condition, "lastTransitionTime")
