"""For every CEL rule about pools of Azure, a pool that it accepts and one that it refuses."""

from __future__ import annotations

from typing import Any

from tests.cluster.crd_cases import SMALLEST, Case, Json, make

_ID = "00000000-1111-2222-3333-444444444444"
_SET: Json = {"subscription": _ID, "resourceGroup": "gpu-rg", "location": "westeurope", "scaleSet": "gpu"}
_AKS: Json = {"cluster": "prod", "nodePool": "gpu"}


def azure(kind: str, **more: Any) -> Json:
    """An object of a kind with nodes of Azure instead of the fake cloud's; None leaves a field out."""
    nodes = {name: value for name, value in {**_SET, **more}.items() if value is not None}
    other = {name: value for name, value in SMALLEST[kind].items() if name != "fake"}
    return {**make(kind), "spec": {**other, "azure": nodes}}


AZURE_CASES: tuple[Case, ...] = tuple(
    Case(
        kind,
        "set exactly one of scaleSet and aks",
        azure(kind, scaleSet=None, aks=_AKS),
        azure(kind, aks=_AKS),
    )
    for kind in ("GPUPool", "GPURental")
)

AZURE_REFUSED: dict[str, Json] = {
    "a subscription by its name": azure("GPUPool", subscription="production"),
    "a location by its display name": azure("GPUPool", location="West Europe"),
    "a resource group that ends with a dot": azure("GPUPool", resourceGroup="gpu."),
    "a scale set by its ARM id": azure("GPUPool", scaleSet="/subscriptions/x/virtualMachineScaleSets/gpu"),
    "a node pool with a capital": azure("GPUPool", scaleSet=None, aks={**_AKS, "nodePool": "Gpu"}),
    "a node pool without a cluster": azure("GPUPool", scaleSet=None, aks={"nodePool": "gpu"}),
    "an identity by its name": azure("GPUPool", clientId="charterer"),
}
"""Pools that the schema refuses."""
AZURE_ACCEPTED: dict[str, Json] = {
    "all that a pool of Azure can have": azure(
        "GPUPool",
        resourceGroup="GPU_(rg).1-a",
        scaleSet="Gpu_set.1",
        gpuType="NVIDIA-H100-80GB-HBM3",
        tenantId=_ID.upper(),
        clientId=_ID,
    ),
}
"""Pools that the schema accepts."""
