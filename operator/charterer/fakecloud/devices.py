"""How a Node shows its GPUs: by its maker's device plugin and labels, or by its DRA driver (ResourceSlices)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from charterer.fakecloud.config import GroupSpec
from charterer.fakecloud.records import Machine

DRIVER = "gpu.nvidia.com"
_UNITS = 7
"""Compute units of a GPU, and one less than its parts of memory."""


def extended_resources(machine: Machine, spec: GroupSpec) -> Mapping[str, str]:
    """What the device plugin puts into the Node's capacity."""
    cut = spec.cut
    if spec.jobs_per_gpu is not None:
        return {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": str(machine.gpus * spec.jobs_per_gpu)}
    if cut is None:
        return {spec.resource: str(machine.gpus)}
    slices = str(machine.gpus * cut.slices_per_gpu)
    match cut.published:
        case "single":
            return {"nvidia.com/gpu": slices}
        case "mixed":
            return {"nvidia.com/gpu": "0", f"nvidia.com/mig-{cut.profile}": slices}
        case "dra":
            return {}


def labels(machine: Machine, spec: GroupSpec) -> Mapping[str, str]:
    """Those of NVIDIA's feature discovery, which counts slices as GPUs where they are named so, or AMD's labeller."""
    if spec.resource != "nvidia.com/gpu":
        return {"amd.com/gpu.product-name": machine.gpu_type} if spec.resource == "amd.com/gpu" else {}
    cut, found = spec.cut, {"nvidia.com/gpu.present": "true"}
    if cut is None or cut.published != "single":
        return {**found, "nvidia.com/gpu.product": machine.gpu_type, "nvidia.com/gpu.count": str(machine.gpus)}
    return {
        **found,
        "nvidia.com/gpu.product": f"{machine.gpu_type}-MIG-{cut.profile}",
        "nvidia.com/gpu.count": str(machine.gpus * cut.slices_per_gpu),
    }


def resource_slices(machine: Machine, spec: GroupSpec, uid: str) -> Sequence[dict[str, Any]]:
    """The ResourceSlices of the machine's Node with this uid: counters of each GPU, and the slices that consume them.

    Counters and devices may not be in one ResourceSlice. Empty where no DRA driver runs.
    """
    cut = spec.cut
    if cut is None or cut.published != "dra":
        return ()
    units = int(cut.profile[0])
    devices = []
    for gpu in range(machine.gpus):
        for at in range(cut.slices_per_gpu):
            attributes = {"type": "mig", "profile": cut.profile, "parentUUID": f"GPU-{machine.id}-{gpu}"}
            devices.append(
                {
                    "name": f"gpu-{gpu}-mig-{cut.profile.replace('.', '')}-{at}",
                    "attributes": {name: {"string": value} for name, value in attributes.items()},
                    "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": {"units": {"value": str(units)}}}],
                }
            )
    counters = [{"name": f"gpu-{gpu}", "counters": {"units": {"value": str(_UNITS)}}} for gpu in range(machine.gpus)]
    return [
        _resource_slice(machine, uid, "counters", {"sharedCounters": counters}),
        _resource_slice(machine, uid, "devices", {"devices": devices}),
    ]


def _resource_slice(machine: Machine, uid: str, part: str, content: Mapping[str, Any]) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Node", "name": machine.id, "uid": uid}
    pool = {"name": machine.id, "generation": 1, "resourceSliceCount": 2}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{machine.id}-{part}", "ownerReferences": [owner]},
        "spec": {"driver": DRIVER, "nodeName": machine.id, "pool": pool, **content},
    }
