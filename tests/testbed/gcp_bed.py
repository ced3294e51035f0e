"""A bed with Google Cloud nodes: the SDK calls our own server, and this server's machines join the cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence, Sized
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from charterer.clouds.gcp import GcpGroup, GcpTemplate
from charterer.cluster.paths import NAMESPACES
from charterer.domain.ids import PoolId
from charterer.domain.pool import Pool
from charterer.providers.accounts import Environment, OwnCluster, adapter_for
from charterer.providers.gcp.calls import Sdk
from charterer.providers.gcp.cloud import GcpCloud
from charterer.providers.gcp.listing import LAG_SECONDS, LISTED_SECONDS, labels_of
from charterer.providers.gcp.prices import PriceTable
from charterer.providers.objects import Objects
from charterer.providers.provider import Provider
from tests.clouds.clock import WallClock
from tests.clouds.gcp.catalogue import TYPES
from tests.clouds.gcp.project import Project
from tests.clouds.gcp.server import GcpServer
from tests.clouds.gcp.state import Vm
from tests.contract.gcp_pools import PROJECT, ZONE, table
from tests.testbed.bed import parts_of_bed
from tests.testbed.controlplane import ControlPlane
from tests.testbed.joining import Joining, JoiningBed, while_they_join

TYPE = "a2-highgpu-8g"
GPU_TYPE = "NVIDIA-A100-SXM4-40GB"
_BEHIND_SECONDS = 120
"""Seconds by which the project's clock is behind the operator's.

Machines are billed and kept for a minute at least. Because of the offset, this minute is over when a machine joins.
"""


@dataclass(frozen=True, slots=True)
class GcpAt:
    """Makes an operator's Google Cloud adapters call ``endpoint`` with test credentials and prices."""

    endpoint: str
    prices: PriceTable

    def __call__(self, pool: Pool, environ: Environment, objects: Objects | None = None) -> Provider:
        if not isinstance(pool.cloud, GcpGroup | GcpTemplate):
            return adapter_for(pool, environ, objects)
        assert objects is not None
        from google.oauth2.credentials import Credentials

        sdk = Sdk(self.endpoint, Credentials("a-token"))  # type: ignore[no-untyped-call]
        return GcpCloud(pool.cloud.project, OwnCluster(objects), sdk, prices=self.prices)


@dataclass(slots=True)
class GcpBed(JoiningBed):
    """A bed and its Google Cloud project."""

    project: Project = field(kw_only=True)

    async def gcp_pool(self, name: str = "gcp", *, group: bool = False, spot: bool = False, **spec: object) -> None:
        """Create a pool of machines with eight A100s each, from a template or with ``group`` from an instance group."""
        system = await self.kube.get(NAMESPACES.one("kube-system"))
        labels = labels_of(system["metadata"]["uid"], PoolId(name))
        model = "SPOT" if spot else "STANDARD"
        with self.project.lock:
            self.project.add_template(name, TYPE, model=model, labels=labels if group else {})
            if group:
                self.project.add_group(name, ZONE, name)
        cloud = {"instanceGroup": name} if group else {"instanceTemplate": name}
        common = {"maxNodes": 10, "startSeconds": 3, "cooldownSeconds": 300}
        capacity = {"capacityType": "Spot" if spot else "OnDemand"}
        gcp = {"project": PROJECT, "zone": ZONE, **cloud}
        await self.create("GPUPool", name, {"gcp": gcp, **common, **capacity, **spec})

    async def instances(self) -> list[Mapping[str, Any]]:
        """Return the machines that are billed now."""
        with self.project.lock:
            return [{"id": str(vm.id)} for vm in self.project.alive()]

    async def bill(self) -> tuple[Sized, int]:
        """Return the cost of each machine ever launched, and the sum."""
        with self.project.lock:
            lines = self.project.bill()
        return lines, sum(lines.values())

    async def settle(self) -> None:
        """Once all machines have ended, advance the clock by an hour, so that surveys no longer list them."""
        await self.given_back()
        self.project.clock.advance(LISTED_SECONDS + LAG_SECONDS)

    def joining(self) -> Sequence[Joining]:
        """Return all machines of the project in their present state."""
        with self.project.lock:
            machines, now = list(self.project.instances.values()), self.project.clock.now
        return [
            Joining(
                id=vm.name,
                node=vm.name,
                provider_id=provider_id(vm),
                instance_type=vm.type,
                zone=vm.zone,
                vcpus=TYPES[vm.type].vcpus,
                memory="680Gi",
                gpus=TYPES[vm.type].gpus,
                gpu_type=GPU_TYPE,
                runs=vm.status_at(now) == "RUNNING",
                ends=vm.stopping is not None,
            )
            for vm in machines
        ]


def provider_id(vm: Vm) -> str:
    """Return the providerID of the machine's Node."""
    return f"gce://{PROJECT}/{vm.zone}/{vm.name}"


@asynccontextmanager
async def open_gcp_bed(
    plane: ControlPlane, directory: Path, *, pace: float = 1.0, behind_seconds: float = _BEHIND_SECONDS
) -> AsyncIterator[GcpBed]:
    """Open a bed with a project of unlimited capacity.

    ``pace`` is seconds of the project's clock per second of the operator's. The project's clock starts
    ``behind_seconds`` behind.
    """
    project = Project(clock=WallClock(pace), pending_seconds=1.0)
    project.clock.advance(-behind_seconds)
    with GcpServer(project) as server:
        parts = await parts_of_bed(plane, directory, ())
        bed = GcpBed(*parts, adapters=GcpAt(server.url, table(project)), project=project)
        async with while_they_join(bed):
            yield bed
