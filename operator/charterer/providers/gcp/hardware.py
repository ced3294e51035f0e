"""The hardware of a pool's node: the GPUs of its machine type, or those that its template attaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from charterer.domain.ids import PoolId
from charterer.domain.pool import Offering, Pool
from charterer.gpu_types.accelerators import accelerator_of, counted_otherwise, gce_gpu, label_advice, part_of_a_gpu
from charterer.providers.errors import InvalidRequest, NotFoundInCloud
from charterer.providers.gcp.calls import Calls
from charterer.providers.gcp.permissions import Call
from charterer.providers.gcp.template import Template


@dataclass(frozen=True, slots=True)
class MachineType:
    """A machine type: its own GPUs by accelerator type, virtual CPUs, and MiB of memory.

    ``told_otherwise``: that Compute Engine lists another number of GPUs than Charterer's table, by which they count.
    """

    gpus: Mapping[str, int]
    told_otherwise: str
    vcpus: int
    memory: int


class GceHardware:
    """Reads machine types, whose facts never change, once."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._types: dict[tuple[str, str], MachineType] = {}

    async def offering(self, pool: Pool, template: Template, zone: str, group: str, said: str) -> Offering:
        """One node of the pool; InvalidRequest where it has no GPU. ``said``: the spec's GPU type."""
        gpus = await self.gpus(pool.id, template, zone)
        own = gce_gpu(accelerator_of(template.machine_type))
        if template.machine_type in own.parts:
            message = part_of_a_gpu(template.machine_type, f"an {accelerator_of(template.machine_type)}")
            raise InvalidRequest(pool.id, "spec.gcp", "PartOfAGpu", message)
        if not gpus:
            message = (
                f"{template.machine_type} has no GPU, and instance template {template.name} attaches none: "
                "make a template with NVIDIA GPUs"
            )
            raise InvalidRequest(pool.id, "spec.gcp", "NoGpu", message)
        [(accelerator, count), *others] = gpus.items()
        if others:
            message = f"instance template {template.name} attaches several types of GPUs: make one with one type"
            raise InvalidRequest(pool.id, "spec.gcp", "SeveralGpus", message)
        product = said or gce_gpu(accelerator).label
        if not product:
            message = label_advice(accelerator, gce_gpu(accelerator))
            raise InvalidRequest(pool.id, "spec.gcp.gpuType", "UnknownGpu", message)
        attached = f"+{accelerator}" if template.accelerators and template.machine_type.startswith("n1-") else ""
        machine, env = await self._type(pool.id, template, zone), template.env
        room = {
            "cpu": env.left("cpu", machine.vcpus * 1000),
            "memory": env.left("memory", machine.memory * 2**20 * 1000),
        }
        traits = env.nodes.traits(room)
        return Offering(product, count, f"{template.machine_type}{attached}", zone, group, traits=traits)

    async def gpus(self, pool: PoolId, template: Template, zone: str) -> Mapping[str, int]:
        """GPUs of a node by accelerator type; InvalidRequest where the zone does not offer the machine type."""
        return (await self._type(pool, template, zone)).gpus or template.accelerators

    async def told_otherwise(self, pool: PoolId, template: Template, zone: str) -> str:
        """That Compute Engine lists another number of GPUs than a machine type has; empty if it does not."""
        return (await self._type(pool, template, zone)).told_otherwise

    async def _type(self, pool: PoolId, template: Template, zone: str) -> MachineType:
        key = template.machine_type, zone
        if key not in self._types:
            try:
                answer = await self._calls(pool, Call.GET_TYPE, zone=zone, machine_type=template.machine_type)
            except NotFoundInCloud as error:
                message = (
                    f"instance template {template.name} names machine type {template.machine_type!r}, which {zone} "
                    "does not offer: choose another type, or another zone"
                )
                raise InvalidRequest(pool, Call.GET_TYPE.full_name, error.code, message) from error
            row = answer.body
            listed = {
                each["guest_accelerator_type"]: int(each["guest_accelerator_count"])
                for each in row.get("accelerators", ())
            }
            name = template.machine_type
            known = {kind: gce_gpu(kind).gpus.get(name, count) for kind, count in listed.items()}
            wrong = "; ".join(filter(None, (counted_otherwise(name, listed[kind], known[kind]) for kind in listed)))
            self._types[key] = MachineType(known, wrong, int(row.get("guest_cpus", 0)), int(row.get("memory_mb", 0)))
        return self._types[key]
