"""Taints and conditions that others write on a Node when its machine goes away, each with who writes it.

Not here, because they do not say that a machine goes:

- ``DeletionCandidateOfClusterAutoscaler`` (PreferNoSchedule): every idle node has it, and loses it with its next pod;
- ``VMEventScheduled`` of AKS: also true before a freeze of seconds and a reboot;
- ``node.kubernetes.io/unschedulable``, ``not-ready`` and ``unreachable``: what Charterer and people do themselves, and
  what the condition Ready tells with its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from charterer.api.metadata import Raw, true_condition
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


def departure(spec: Raw, status: Raw) -> Departure | None:
    """The end that a Node's taints and conditions announce; None where none do."""
    taints = [taint.get("key", "") for taint in spec.get("taints") or () if taint.get("effect") != "PreferNoSchedule"]
    for key in taints:
        if key in GOES:
            return Departure(f"taint {key}")
    for condition in GOES_WHEN_TRUE:
        if true_condition(status, condition) is not None:
            return Departure(f"condition {condition}")
    risky = next((key for key in taints if key in MAY_GO), None)
    return None if risky is None else Departure(f"taint {risky}", certain=False)
