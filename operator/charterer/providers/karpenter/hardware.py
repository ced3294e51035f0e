"""The hardware of a pool's node: as its Nodes say, and until there is one as the pool's spec says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from charterer.api.names import AMD_TYPE_LABEL, GPU_RESOURCES, GPU_TYPE_LABEL
from charterer.clouds.karpenter import NodeClaims
from charterer.domain.pool import Offering
from charterer.gpu_types import SHARED_SUFFIX, slice_profile
from charterer.gpu_types.accelerators import gpus_of
from charterer.providers.karpenter.claims import INSTANCE_TYPE
from charterer.providers.karpenter.objects import Json, Objects

_NODES: Final = "/api/v1/nodes"
_REPLICAS: Final = "nvidia.com/gpu.replicas"
"""The label for how many places a GPU has; 1 on a node whose GPUs are not shared, 0 where it could not be read."""
_COUNT: Final = "nvidia.com/gpu.count"


@dataclass(frozen=True, slots=True)
class Hardware:
    """Type and number of the GPUs of a node; ``seen``: whether a Node says so."""

    gpu_type: str
    gpus: int
    seen: bool

    def offering(self, cloud: NodeClaims) -> Offering:
        """One node of the pool."""
        return Offering(self.gpu_type, self.gpus, cloud.instance_type, cloud.zone)


async def find(objects: Objects, cloud: NodeClaims) -> Hardware | None:
    """As the Nodes of this instance type say, in whatever pool; else as declared; else as the table of accelerators
    knows EC2's and Google Cloud's types; None where nobody says it."""
    listed = await objects.list(_NODES, labels=f"{INSTANCE_TYPE}={cloud.instance_type}")
    for node in listed.items:
        seen = _of_node(node)
        if seen is not None:
            return seen
    label, gpus = gpus_of(cloud.instance_type)
    declared = Hardware(cloud.gpu_type or label, cloud.gpus or gpus, seen=False)
    return declared if declared.gpu_type and declared.gpus else None


def _of_node(node: Json) -> Hardware | None:
    """The GPUs of a Node that has the labels of NVIDIA's GPU feature discovery or AMD's node labeller.

    None where it shows slices instead.

    Where jobs share GPUs, the product may end with -SHARED, and the Node counts places: its label has the GPUs
    (https://github.com/NVIDIA/k8s-device-plugin, internal/lm/resource.go).
    """
    labels = node["metadata"].get("labels") or {}
    named = str(labels.get(GPU_TYPE_LABEL) or labels.get(AMD_TYPE_LABEL) or "")
    gpu_type = named.removesuffix(SHARED_SUFFIX)
    shared = str(labels.get(_REPLICAS) or "1") not in ("0", "1") or named != gpu_type
    capacity = (node.get("status") or {}).get("capacity") or {}
    gpus = str(labels.get(_COUNT, "") if shared else next((capacity[r] for r in GPU_RESOURCES if r in capacity), ""))
    whole = gpu_type and not slice_profile(gpu_type)
    return Hardware(gpu_type, int(gpus), seen=True) if whole and gpus.isdigit() and int(gpus) > 0 else None
