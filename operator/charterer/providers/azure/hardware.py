"""The hardware of a VM size, from the list of SKUs of a location."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from charterer.clouds.azure import cpus_of, series_of
from charterer.domain.option import GPU
from charterer.domain.pool import Offering, Pool
from charterer.gpu_types.accelerators import AZURE_OTHER, azure_gpu, counted_otherwise, label_advice, part_of_a_gpu
from charterer.providers.azure.calls import Calls
from charterer.providers.azure.listing import GroupState
from charterer.providers.azure.permissions import Call
from charterer.providers.errors import InvalidRequest, ProviderError

_log = logging.getLogger(__name__)

_SECONDS: Final = 6 * 3600.0
"""Seconds for which the list of a location is used before it is read again. The list has some thousand rows."""


@dataclass(frozen=True, slots=True)
class VmSize:
    """A VM size in a location.

    ``gpus``: number of GPUs, by Charterer's table if it has the size.
    ``listed``: number of GPUs that Azure lists, which may be wrong (https://github.com/Azure/azure-cli/issues/31176).
    ``memory``: GiB.
    ``family``: the name of its quota.
    ``closed``: the zones in which this subscription may not have the size, as Charterer names them. It may also contain
    the location.
    """

    name: str
    gpus: int
    listed: int
    vcpus: int
    memory: float
    family: str
    closed: frozenset[str]

    @property
    def told_otherwise(self) -> str:
        """A sentence if Azure lists another number of GPUs than the size has, or an empty text if the numbers agree."""
        return counted_otherwise(self.name, self.listed, self.gpus)


class AzureHardware:
    """Reads the sizes of locations. ``clock``: seconds of a clock that never goes back."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._clock = clock
        self._sizes: dict[str, tuple[float, Mapping[str, VmSize]]] = {}

    async def offering(self, pool: Pool, location: str, state: GroupState, said: str) -> Offering:
        """One node of the pool. Raises InvalidRequest if the pool's size has no GPU. ``said``: the GPU type in the
        pool's spec.
        """
        size = await self.size(pool, location, state.size)
        sold, cpus = azure_gpu(series_of(size.name)), cpus_of(size.name)
        if cpus in sold.parts:
            raise InvalidRequest(pool.id, "spec.azure", "InvalidSpec", part_of_a_gpu(f"VM size {size.name}", "a GPU"))
        if not size.gpus or any(name in size.name for name in AZURE_OTHER):
            message = f"VM size {size.name} has no GPU that a pod could have: take one with whole GPUs"
            raise InvalidRequest(pool.id, "spec.azure", "InvalidSpec", message)
        if (sold.resource or GPU) != pool.device and cpus in sold.gpus:
            message = f"the GPUs of VM size {size.name} are {sold.resource or GPU}: make the pool anew with that"
            raise InvalidRequest(pool.id, "spec.resource", "InvalidSpec", message)
        product = said or sold.label
        if not product:
            raise InvalidRequest(pool.id, "spec.azure.gpuType", "InvalidSpec", label_advice(size.name, sold))
        zone = ",".join(sorted(state.zones)) or location
        traits = state.nodes.traits({"cpu": str(size.vcpus), "memory": f"{size.memory:f}Gi"})
        return Offering(product, size.gpus, size.name, zone, state.id.lower(), state.most, traits=traits)

    async def size(self, pool: Pool, location: str, name: str) -> VmSize:
        """The size with that name. Raises InvalidRequest if the location does not have it."""
        known = self._sizes.get(location)
        if known is None or self._clock() - known[0] > _SECONDS:
            known = self._sizes[location] = self._clock(), await self._sizes_of(pool, location)
        if name not in known[1]:
            message = f"Azure does not list VM size {name!r} in {location}: take a size that it sells there"
            raise InvalidRequest(pool.id, Call.LIST_SKUS.full_name, "UnknownSize", message)
        return known[1][name]

    async def _sizes_of(self, pool: Pool, location: str) -> Mapping[str, VmSize]:
        """All sizes of a location. If the list cannot be read now, the last known sizes are returned, because surveys
        must still show the machines.
        """
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
    listed = int(gpus) if gpus.isdigit() else 0
    count = azure_gpu(series_of(row["name"])).gpus.get(cpus_of(row["name"]), listed)
    return VmSize(row["name"], count, listed, vcpus, memory, row.get("family", ""), frozenset(closed))
