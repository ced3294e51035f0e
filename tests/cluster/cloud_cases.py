"""For every CEL rule about a cloud of a pool, a pool that it accepts and one that it refuses."""

from __future__ import annotations

from typing import Any

from tests.cluster.crd_cases import SMALLEST, Case, Json, make

_NODE_CLASS: Json = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}


def _karpenter(kind: str = "GPUPool", **more: Any) -> Json:
    """The smallest object of a kind with Karpenter's nodes instead of the fake cloud's."""
    claims = {"nodeClassRef": _NODE_CLASS, "instanceType": "p5.48xlarge", "zone": "us-east-1a", **more}
    other = {name: value for name, value in SMALLEST[kind].items() if name != "fake"}
    return {**make(kind), "spec": {**other, "karpenter": claims}}


CLOUD_CASES: tuple[Case, ...] = tuple(
    Case(
        kind,
        "set both gpuType and gpusPerNode, or neither",
        _karpenter(kind, gpuType="NVIDIA-H100-80GB-HBM3", gpusPerNode=8),
        _karpenter(kind, gpusPerNode=8),
    )
    for kind in ("GPUPool", "GPURental")
)
