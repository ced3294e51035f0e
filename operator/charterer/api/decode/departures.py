"""Taints and conditions that others write on a Node when its machine goes away, each with who writes it.

So do conditions of GPU health: a machine with broken GPUs is left and given back, whoever would repair it. A condition
that a fault of the job itself can cause is a doubt: what runs there goes on, and nothing new begins.

Not here, because they do not say that a machine goes:

- ``DeletionCandidateOfClusterAutoscaler`` (PreferNoSchedule): every idle node has it, and loses it with its next pod;
- ``VMEventScheduled`` of AKS: also true before a freeze of seconds and a reboot;
- ``node.kubernetes.io/unschedulable``, ``not-ready`` and ``unreachable``: what Charterer and people do themselves, and
  what the condition Ready tells with its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from charterer.api.metadata import Raw
from charterer.domain.snapshot import Departure

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
"""Taints with which a machine goes, by key: whose they are. Of these only effects that keep pods off count."""
MAY_GO: Final[Mapping[str, str]] = {
    "aws-node-termination-handler/rebalance-recommendation": "aws-node-termination-handler pkg/node/node.go",
}
"""Taints of machines that are likelier than others to be taken back."""
GOES_WHEN_TRUE: Final[Mapping[str, str]] = {
    "PreemptionScheduled": "AKS node-problem-detector, as karpenter-provider-azure reads it",
    "PreemptScheduled": "AKS node-problem-detector, scheduled events",
    "RedeployScheduled": "AKS node-problem-detector, scheduled events",
    "TerminateScheduled": "AKS node-problem-detector, scheduled events",
}
"""Conditions with which a machine goes when they are true."""


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
"""Conditions that say of GPUs, or of what joins them, that they are broken, if they are true."""
BROKEN_WHEN_FALSE: Final[Mapping[str, str]] = {
    "AcceleratedHardwareReady": "eks-node-monitoring-agent; Karpenter's repair and EKS auto repair act on it",
}
"""The same, if they are false."""
MAY_BE_BROKEN: Final[Mapping[str, str]] = {
    "XIDErrors": f"{_AKS}: also of faults of programs",
    "IBLinkFlapping": f"{_AKS}: InfiniBand",
    "SysLogsXIDError": f"{_NVSENTINEL}; also of faults of programs",
    "GpuThermalWatch": _NVSENTINEL,
    "GpuPowerWatch": _NVSENTINEL,
}
"""Conditions that put GPUs in doubt, if they are true."""


def departure(spec: Raw, status: Raw) -> Departure | None:
    """The end, or the broken GPUs, that a Node's taints and conditions tell of; None where none do."""
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
