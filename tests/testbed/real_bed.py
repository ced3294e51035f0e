"""A bed with real nodes. Each machine of the fake cloud boots a kubelet, and is switched off when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from charterer.cluster.errors import NotFound
from charterer.cluster.paths import NODES
from tests.testbed import images, node_programs, ports
from tests.testbed.bed import Bed, dismantle, install_charts, parts_of_bed
from tests.testbed.controlplane import ControlPlane
from tests.testbed.dns import ClusterDns
from tests.testbed.node_host import NodeHost
from tests.testbed.nodes import MOST, Ground, RealNode
from tests.testbed.operators import Around, OperatorProcess

TAINT: Mapping[str, str] = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
_LOOK_SECONDS = 0.1
_ANSWER_SECONDS = 10.0


@dataclass(slots=True)
class RealCluster:
    """A control plane with Charterer's charts that real nodes can reach, and the running nodes."""

    ground: Ground
    nodes: dict[str, RealNode] = field(default_factory=dict)
    """Running nodes by name."""
    _numbers: set[int] = field(default_factory=lambda: set(range(1, MOST + 1)))
    """Numbers not in use."""

    @property
    def plane(self) -> ControlPlane:
        """The control plane."""
        return self.ground.plane

    def boot(
        self,
        name: str,
        *,
        gpus: int = 0,
        provider_id: str = "",
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        proxy: bool = False,
    ) -> RealNode:
        """Start a node like ``RealNode.boot``. Any thread may call this."""
        number = self._numbers.pop()
        more: dict[str, Any] = {"gpus": gpus, "provider_id": provider_id, "labels": labels, "taints": taints}
        try:
            self.nodes[name] = node = RealNode.boot(self.ground, number, name, **more, proxy=proxy)
        except BaseException:
            self._numbers.add(number)
            raise
        return node

    def power_off(self, name: str) -> None:
        """Switch a node off. Its Node object stays until a controller deletes it."""
        node = self.nodes.pop(name)
        node.power_off()
        self._numbers.add(node.number)


@contextmanager
def open_cluster(directory: Path) -> Iterator[RealCluster]:
    """Open a cluster without nodes, with its logs in the empty folder ``directory``. BuildError if impossible here.

    The function waits until no other process on this machine has one.
    """
    programs = node_programs.locate()
    archive = images.base_images(directory / "images", programs.pause)
    logs = directory / "nodes"
    logs.mkdir()
    with NodeHost.open() as host, ControlPlane.start(directory / "plane", kwok=False, address=host.address) as plane:
        install_charts(plane)
        dns = ClusterDns(plane, host.address)
        cluster = RealCluster(Ground(host, plane, programs, archive, logs))
        try:
            yield cluster
        finally:
            for name in list(cluster.nodes):
                cluster.power_off(name)
            dns.stop()


@dataclass(slots=True)
class RealBed(Bed):
    """A bed and its real nodes. A node has the name of its instance."""

    cluster: RealCluster = field(kw_only=True)
    groups: Mapping[str, Mapping[str, Any]] = field(kw_only=True)
    """The cloud's groups by name."""
    proxies: bool = False
    """Whether machines boot with kube-proxy, which their pods need to reach Services."""
    _booted: set[str] = field(default_factory=set)
    """Machines that were booted and whose end is not processed yet, including those that a test switched off."""

    def operator(
        self, name: str = "charterer-0", *, killer: Around | None = None, nameless: bool = False, **changes: Any
    ) -> OperatorProcess:
        """Start an operator with a progress endpoint that pods can reach."""
        host = self.cluster.ground.host.address
        port = ports.reserve(host)
        reachable = {"host": host, "progress_port": port, "progress_url": f"https://{host}:{port}"}
        return Bed.operator(self, name, killer=killer, nameless=nameless, **{**reachable, **changes})

    async def switch_off(self, name: str) -> None:
        """Simulate a power failure of the machine. The cloud continues to report it as Running."""
        await asyncio.to_thread(self.cluster.power_off, name)

    def switch_all_off(self) -> None:
        """Switch off all machines of the cloud."""
        for name in self._booted & set(self.cluster.nodes):
            self.cluster.power_off(name)

    async def keep_machines(self) -> None:
        """Until cancelled, boot running machines and switch ended ones off.

        Delete their Nodes as a cloud controller does.
        """
        while True:
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    running = {each["id"]: each for each in await self.instances() if each["state"] == "Running"}
            except (aiohttp.ClientError, TimeoutError):  # the cloud restarts, or its address has changed
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            new = [machine for name, machine in running.items() if name not in self._booted]
            ended = self._booted - set(running)
            await asyncio.gather(*map(self._boot, new), *map(self._end, ended))
            await asyncio.sleep(_LOOK_SECONDS)

    async def _boot(self, machine: Mapping[str, Any]) -> None:
        self._booted.add(machine["id"])
        group = self.groups[machine["group"]]
        labels = {
            "node.kubernetes.io/instance-type": group["instanceType"],
            "nvidia.com/gpu.product": group["gpuType"],
            "nvidia.com/gpu.count": str(group["gpusPerInstance"]),
            "topology.kubernetes.io/zone": group["zone"],
        }
        await asyncio.to_thread(
            self.cluster.boot,
            machine["id"],
            gpus=group["gpusPerInstance"],
            provider_id=machine["providerId"],
            labels=labels,
            taints=[TAINT],
            proxy=self.proxies,
        )

    async def _end(self, name: str) -> None:
        self._booted.remove(name)
        if name in self.cluster.nodes:
            await asyncio.to_thread(self.cluster.power_off, name)
        with suppress(NotFound):
            await self.kube.delete(NODES.one(name))


@asynccontextmanager
async def open_real_bed(
    cluster: RealCluster, directory: Path, groups: Sequence[Mapping[str, Any]]
) -> AsyncIterator[RealBed]:
    """Open a bed whose fake cloud has these groups."""
    address = cluster.ground.host.address
    parts = await parts_of_bed(cluster.plane, directory, groups, simulated_nodes=False, cloud_address=address)
    bed = RealBed(*parts, cluster=cluster, groups={group["name"]: group for group in groups})
    keeping = asyncio.create_task(bed.keep_machines(), name="machines")
    try:
        yield bed
    finally:
        keeping.cancel()
        (ended,) = await asyncio.gather(keeping, return_exceptions=True)
        await dismantle(bed)
        bed.switch_all_off()
        if isinstance(ended, Exception):
            raise ended
