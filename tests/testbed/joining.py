"""A bed with machines from a server that implements a cloud's API. The machines join the cluster as Nodes."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from charterer.cluster.errors import AlreadyExists, NotFound
from charterer.cluster.paths import NODES
from charterer.tools.fakecloud.nodes import HEARTBEAT, SILENT
from tests.testbed.bed import Bed, dismantle

_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Joining:
    """A machine as a Node. ``id`` is its id in the cloud and the Node's systemUUID. ``node`` is the Node's name.

    ``runs`` and ``ends`` describe its present state.
    """

    id: str
    node: str
    provider_id: str
    instance_type: str
    zone: str
    vcpus: int
    memory: str
    gpus: int
    gpu_type: str
    runs: bool
    ends: bool


@dataclass(slots=True)
class JoiningBed(Bed):
    """A bed with such a server."""

    @abstractmethod
    def joining(self) -> Sequence[Joining]:
        """Return all machines of the cloud in their present state."""

    async def join(self) -> None:
        """Until cancelled, let running machines join the cluster, and stop the simulated kubelets of ending ones."""
        joined: set[str] = set()
        while True:
            for machine in self.joining():
                if machine.id not in joined and machine.runs:
                    await self._register(machine)
                    joined.add(machine.id)
                elif machine.id in joined and machine.ends:
                    await self._silence(machine)
                    joined.remove(machine.id)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _register(self, machine: Joining) -> None:
        gpus = str(machine.gpus)
        resources = {"cpu": str(machine.vcpus), "memory": machine.memory, "pods": "110", "nvidia.com/gpu": gpus}
        labels = {
            "kubernetes.io/hostname": machine.node,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": machine.instance_type,
            "topology.kubernetes.io/zone": machine.zone,
            "nvidia.com/gpu.product": machine.gpu_type,
            "nvidia.com/gpu.count": gpus,
        }
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": machine.node, "annotations": {HEARTBEAT: "fake"}, "labels": labels},
            "spec": {
                "providerID": machine.provider_id,
                "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
            },
            "status": {"capacity": resources, "allocatable": resources, "nodeInfo": {"systemUUID": machine.id}},
        }
        try:
            await self.kube.post(NODES.all(), node)
        except AlreadyExists:  # continue with the existing object, as a kubelet does
            path = NODES.one(machine.node)
            await self.kube.merge_patch(f"{path}/status", {"status": node["status"]})
            await self.kube.merge_patch(path, {"metadata": {"labels": {SILENT: None}}})

    async def _silence(self, machine: Joining) -> None:
        with suppress(NotFound):
            await self.kube.merge_patch(NODES.one(machine.node), {"metadata": {"labels": {SILENT: "true"}}})


B = TypeVar("B", bound=JoiningBed)


@asynccontextmanager
async def while_they_join(bed: B) -> AsyncIterator[B]:
    """Yield the bed while its machines join the cluster, and dismantle it at the end."""
    joining = asyncio.create_task(bed.join(), name="join")
    try:
        yield bed
    finally:
        joining.cancel()
        await asyncio.gather(joining, return_exceptions=True)
        await dismantle(bed)
