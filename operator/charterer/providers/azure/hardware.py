"""The hardware of a VM size, as the list of SKUs of a location tells it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from charterer.clouds.azure import series_of
from charterer.domain.pool import Offering, Pool
from charterer.providers.azure.calls import Calls
from charterer.providers.azure.groups import GroupState
from charterer.providers.azure.permissions import Call
from charterer.providers.errors import InvalidRequest, ProviderError

_log = logging.getLogger(__name__)

_SECONDS: Final = 6 * 3600.0
"""For how long the list of a location, which has some thousand rows, is used before it is read again."""
PRODUCTS: Final[Mapping[str, str]] = {
    "NCas_T4_v3": "Tesla-T4",
    "NCs_v3": "Tesla-V100-PCIE-16GB",
    "NDrs_v2": "Tesla-V100-SXM2-32GB",
    "NCads_A100_v4": "NVIDIA-A100-80GB-PCIe",
    "NDasr_v4": "NVIDIA-A100-SXM4-40GB",
    "NDamsr_A100_v4": "NVIDIA-A100-SXM4-80GB",
    "NCads_H100_v5": "NVIDIA-H100-NVL",
    "NCadis_H100_v5": "NVIDIA-H100-NVL",
    "NDisr_H100_v5": "NVIDIA-H100-80GB-HBM3",
    "NDisr_H200_v5": "NVIDIA-H200",
}
"""The node label nvidia.com/gpu.product by the series of a size. The label is the name that the driver gives the GPU,
with hyphens; the GPUs of a series are those of Microsoft's pages of sizes."""
_OTHER_GPUS: Final = ("MI300X", "MI325X", "V620", "V710", "MI25")
"""GPUs of AMD, which are in the names of their sizes."""


@dataclass(frozen=True, slots=True)
class VmSize:
    """A VM size in a location. ``memory``: GiB. ``family``: the name of its quota.

    ``closed``: where this subscription may not have it: zones as Charterer names them, or the location.
    """

    name: str
    gpus: int
    vcpus: int
    memory: float
    family: str
    closed: frozenset[str]


class AzureHardware:
    """Reads the sizes of locations. ``clock``: seconds that only grow."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._clock = clock
        self._sizes: dict[str, tuple[float, Mapping[str, VmSize]]] = {}

    async def offering(self, pool: Pool, location: str, state: GroupState, said: str) -> Offering:
        """One node of the pool; InvalidRequest when its size has no GPU. ``said``: the spec's GPU type."""
        size = await self.size(pool, location, state.size)
        if not size.gpus or any(name in size.name for name in _OTHER_GPUS):
            message = f"VM size {size.name} has no GPU that a pod could have: take one with whole NVIDIA GPUs"
            raise InvalidRequest(pool.id, "spec.azure", "InvalidSpec", message)
        product = said or PRODUCTS.get(series_of(size.name))
        if product is None:
            message = f"set it to the node label nvidia.com/gpu.product of {size.name}, whose GPU is not known here"
            raise InvalidRequest(pool.id, "spec.azure.gpuType", "InvalidSpec", message)
        zone = ",".join(sorted(state.zones)) or location
        traits = state.nodes.traits({"cpu": str(size.vcpus), "memory": f"{size.memory:f}Gi"})
        return Offering(product, size.gpus, size.name, zone, state.id.lower(), state.most, traits=traits)

    async def size(self, pool: Pool, location: str, name: str) -> VmSize:
        """A size; InvalidRequest when the location does not have it."""
        known = self._sizes.get(location)
        if known is None or self._clock() - known[0] > _SECONDS:
            known = self._sizes[location] = self._clock(), await self._sizes_of(pool, location)
        if name not in known[1]:
            message = f"Azure does not list VM size {name!r} in {location}: take a size that it sells there"
            raise InvalidRequest(pool.id, Call.LIST_SKUS.full_name, "UnknownSize", message)
        return known[1][name]

    async def _sizes_of(self, pool: Pool, location: str) -> Mapping[str, VmSize]:
        """All sizes of a location; those known before where it cannot be asked now: machines must still be seen."""
        try:
            rows = (await self._calls(pool.id, Call.LIST_SKUS, {"filter": f"location eq '{location}'"})).body
        except ProviderError as error:
            if location not in self._sizes:
                raise
            _log.warning("%s", error)
            return self._sizes[location][1]
        return {row["name"]: _read(row, location) for row in rows if _is_vm(row)}


def _is_vm(row: Mapping[str, Any]) -> bool:
    return str(row.get("resourceType")) == "virtualMachines"


def _read(row: Mapping[str, Any], location: str) -> VmSize:
    able = {each["name"]: each["value"] for each in row.get("capabilities") or ()}
    closed: set[str] = set()
    for each in row.get("restrictions") or ():
        zones: Sequence[str] = (each.get("restrictionInfo") or {}).get("zones") or ()
        closed |= {f"{location}-{zone}" for zone in zones} if each.get("type") == "Zone" else {location}
    vcpus, memory, gpus = int(able.get("vCPUs", 0)), float(able.get("MemoryGB", 0)), able.get("GPUs", "0")
    count = int(gpus) if gpus.isdigit() else 0
    return VmSize(row["name"], count, vcpus, memory, row.get("family", ""), frozenset(closed))
