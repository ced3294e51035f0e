"""The hardware of a pool's node: the GPUs of its instance types, and the zones of its subnets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from charterer.domain.pool import Offering, Pool
from charterer.gpu_types.accelerators import counted_otherwise, ec2_gpu, label_advice, part_of_a_gpu
from charterer.providers.aws.calls import Calls
from charterer.providers.aws.permissions import Call
from charterer.providers.errors import InvalidRequest
from charterer.providers.provider import NO_TEMPLATE, NodeTemplate


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs of an instance type.

    ``count``: number of whole GPUs.
    ``name``, ``memory``: EC2's name of a GPU, and its MiB.
    ``part``: the part of a GPU that an instance has, such as 0.25. It is 0 if the instance has whole GPUs or none.
    ``told_otherwise``: a sentence if EC2 lists another number of GPUs than Charterer's table. The table's number is
    used. Otherwise empty.
    """

    count: int
    name: str
    memory: int
    part: float = 0.0
    told_otherwise: str = ""

    def __str__(self) -> str:
        return f"{self.count} × {self.name} of {self.memory} MiB" if self.count else "no GPU"


@dataclass(frozen=True, slots=True)
class InstanceType:
    """An instance type. ``memory``: MiB. ``classes``: how it is sold, such as on-demand and spot."""

    name: str
    gpus: Gpus
    vcpus: int
    memory: int
    classes: frozenset[str]


class AwsHardware:
    """Reads instance types and subnets. Each is read only once, because these facts never change."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._types: dict[str, InstanceType] = {}
        self._zones: dict[str, str] = {}

    async def offering(
        self,
        pool: Pool,
        types: Sequence[str],
        zones: Sequence[str],
        group: str,
        said: str,
        nodes: NodeTemplate = NO_TEMPLATE,
    ) -> Offering:
        """One node of the pool. Raises InvalidRequest if the pool's types have no GPUs, or if their GPUs differ.

        ``said``: the GPU type in the pool's spec. ``nodes``: what the group declares about its nodes.
        """
        found = [await self._type(pool, name) for name in types]
        for each in found:
            if each.gpus.part:
                what = f"an {each.gpus.name} ({each.gpus.part:g})"
                raise _wrong(pool, "spec.aws.instanceTypes", part_of_a_gpu(f"instance type {each.name}", what))
            if not each.gpus.count:
                message = f"instance type {each.name} has no GPU that a pod could have: name one with NVIDIA GPUs"
                raise _wrong(pool, "spec.aws.instanceTypes", message)
        if len({each.gpus for each in found}) > 1:
            differ = ", ".join(f"{each.name} has {each.gpus}" for each in found)
            message = f"the nodes of a pool have equal GPUs, but {differ}: make a GPUPool for each"
            raise _wrong(pool, "spec.aws.instanceTypes", message)
        gpus = found[0].gpus
        sold = ec2_gpu(gpus.name, gpus.memory)
        product = said or sold.label
        if not product:
            raise _wrong(pool, "spec.aws.gpuType", label_advice(f"{found[0].name} ({gpus})", sold))
        cpus, memory = min(each.vcpus for each in found), min(each.memory for each in found)
        traits = nodes.traits({"cpu": str(cpus), "memory": f"{memory}Mi"})
        return Offering(product, gpus.count, ",".join(types), ",".join(sorted(set(zones))), group, traits=traits)

    async def sold_as(self, pool: Pool, name: str) -> frozenset[str]:
        """How an instance type is sold."""
        return (await self._type(pool, name)).classes

    async def told_otherwise(self, pool: Pool, names: Sequence[str]) -> str:
        """Sentences on instance types for which EC2 lists another number of GPUs than Charterer's table. Empty if there
        are none.
        """
        return "; ".join(filter(None, [(await self._type(pool, name)).gpus.told_otherwise for name in names]))

    async def vcpus(self, pool: Pool, name: str) -> int:
        """Number of virtual CPUs of an instance type, which quotas count."""
        return (await self._type(pool, name)).vcpus

    async def zones(self, pool: Pool, subnets: Sequence[str]) -> Sequence[str]:
        """The zone of each subnet. Raises InvalidRequest if a subnet does not exist."""
        if any(subnet not in self._zones for subnet in subnets):
            rows, _ = await self._calls.pages(pool.id, Call.DESCRIBE_SUBNETS, {"SubnetIds": list(subnets)}, "Subnets")
            self._zones |= {row["SubnetId"]: row["AvailabilityZone"] for row in rows}
        return [self._zones[subnet] for subnet in subnets]

    async def _type(self, pool: Pool, name: str) -> InstanceType:
        if name not in self._types:
            answer = await self._calls(pool.id, Call.DESCRIBE_TYPES, {"InstanceTypes": [name]})
            [row] = answer["InstanceTypes"]
            self._types[name] = _read(row)
        return self._types[name]


def _read(row: Mapping[str, Any]) -> InstanceType:
    vcpus = int(row.get("VCpuInfo", {}).get("DefaultVCpus", 0))
    memory = int(row.get("MemoryInfo", {}).get("SizeInMiB", 0))
    return InstanceType(row["InstanceType"], _gpus(row), vcpus, memory, frozenset(row.get("SupportedUsageClasses", ())))


def _gpus(row: Mapping[str, Any]) -> Gpus:
    all_gpus = [gpu for gpu in row.get("GpuInfo", {}).get("Gpus", ()) if gpu.get("Manufacturer") == "NVIDIA"]
    if not all_gpus:
        return Gpus(0, "", 0)
    gpu = all_gpus[0]
    count = int(gpu["Count"])
    part = 0.0 if count else float(gpu.get("GpuPartitionSize", 0.0))
    mib, name = int(gpu["MemoryInfo"]["SizeInMiB"]), row["InstanceType"]
    known = ec2_gpu(gpu["Name"], mib).gpus.get(name)
    told_otherwise = counted_otherwise(name, count, known)
    return Gpus(count if known is None else known, gpu["Name"], mib, part, told_otherwise)


def _wrong(pool: Pool, field: str, message: str) -> InvalidRequest:
    return InvalidRequest(pool.id, field, "InvalidSpec", message)
