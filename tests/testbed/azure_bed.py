"""A bed with Azure nodes: the operator's SDK calls our own servers, and these servers' VMs join the cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence, Sized
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

from charterer.clouds.azure import AzureNodePool, AzureScaleSet
from charterer.domain.pool import Pool
from charterer.lifecycle.view import MISSING_SECONDS
from charterer.providers.accounts import Environment, adapter_for
from charterer.providers.azure.calls import Address, Sdk
from charterer.providers.azure.cloud import AzureCloud
from charterer.providers.azure.listing import LAG_SECONDS
from charterer.providers.objects import Objects
from charterer.providers.provider import Provider
from tests.clouds.azure.catalogue import SIZES
from tests.clouds.azure.credential import Credential
from tests.clouds.azure.resources import Cluster, NodePool, ScaleSet, Vm
from tests.clouds.azure.retail import Feed, RetailServer
from tests.clouds.azure.server import AzureServer
from tests.clouds.azure.subscription import Subscription
from tests.clouds.clock import WallClock
from tests.testbed.bed import parts_of_bed
from tests.testbed.controlplane import ControlPlane
from tests.testbed.joining import Joining, JoiningBed, while_they_join

SIZE = "Standard_ND96asr_v4"
GPU_TYPE = "NVIDIA-A100-SXM4-40GB"
_GROUP, _NODES, _CLUSTER = "gpu-rg", "MC_gpu-rg_prod_westeurope", "prod"
CHANGES = (
    "virtual_machine_scale_sets_update",
    "virtual_machine_scale_sets_delete_instances",
    "agent_pools_create_or_update",
    "agent_pools_delete_machines",
)
"""Operations that rent or end VMs."""
_STARTS_SECONDS = 1
_LATE_SECONDS = _STARTS_SECONDS + int(LAG_SECONDS)
"""Maximum seconds per VM by which the ledger exceeds the bill: until the VM runs, and until a list omits it."""
_AFTERWARDS = LAG_SECONDS + MISSING_SECONDS + 1
"""Seconds after which lists must be current, so that a VM missing in them has ended."""


@dataclass(frozen=True, slots=True)
class AzureAt:
    """Makes an operator's Azure adapters call this address with test credentials."""

    address: Address

    def __call__(self, pool: Pool, environ: Environment, objects: Objects | None = None) -> Provider:
        if not isinstance(pool.cloud, AzureScaleSet | AzureNodePool):
            return adapter_for(pool, environ, objects)
        subscription = pool.cloud.subscription
        return AzureCloud(subscription, "", "", Sdk(subscription, "", "", self.address, Credential()))


@dataclass(slots=True)
class AzureBed(JoiningBed):
    """A bed and its Azure subscription."""

    subscription: Subscription = field(kw_only=True)

    async def azure_pool(
        self, kind: str, name: str = "azure", *, spot: bool = False, reuses_numbers: bool = False, **spec: object
    ) -> ScaleSet:
        """Create a pool of VMs with eight A100s each. ``kind``: uniform or flexible (scale set), or aks (node pool)."""
        priority, capacity = ("Spot", "Spot") if spot else ("Regular", "OnDemand")
        sub = self.subscription
        cloud: dict[str, object] = {"subscription": sub.id, "resourceGroup": _GROUP, "location": sub.location}
        if kind == "aks":
            cluster = Cluster(_GROUP, _CLUSTER, sub.location, _NODES)
            made = sub.add_pool(cluster, NodePool(name, f"aks-{name}-vmss", SIZE, 0, priority=priority))
            cloud["aks"] = {"cluster": _CLUSTER, "nodePool": name}
        else:
            made = sub.add_scale_set(name, SIZE, orchestration=kind.capitalize(), priority=priority)
            cloud["scaleSet"] = name
        made.reuses_numbers = reuses_numbers
        common = {"maxNodes": 10, "startSeconds": 3, "cooldownSeconds": 300, "capacityType": capacity}
        await self.create("GPUPool", name, {"azure": cloud, **common, **spec})
        return made

    def alive(self) -> list[Vm]:
        """Return the VMs that are not being deleted."""
        with self.subscription.lock:
            return [vm for vm in self.subscription.vms.values() if vm.ending is None]

    async def instances(self) -> list[Mapping[str, Any]]:
        """Return the VMs that are billed now."""
        return [{"id": vm.vm_id} for vm in self.alive()]

    async def bill(self) -> tuple[Sized, int]:
        """Return the cost of each VM ever launched, and the sum."""
        with self.subscription.lock:
            lines = self.subscription.bill()
        return lines, sum(lines.values())

    def most_above_bill(self) -> int:
        """Return how far the ledger may exceed the bill.

        Azure reports neither the start of billing nor the end of a VM.
        """
        prices = self.subscription.prices
        hourly = [prices[vm.size, vm.priority] * 10**6 for vm in self.subscription.vms.values()]
        return sum(ceil(_LATE_SECONDS * price / 3600) for price in hourly)

    async def settle(self) -> None:
        """Once lists omit all ended VMs, advance the clock until the operator counts them as ended."""
        missing = "missingSince"
        await self.until(lambda: all(raw["status"].get(missing) for raw in self.rentals()))
        self.subscription.clock.advance(_AFTERWARDS)

    def let_lists_show_all(self) -> None:
        """Advance the clock by the minutes after which a VM missing in a list counts as ended."""
        self.subscription.clock.advance(_AFTERWARDS)

    def joining(self) -> Sequence[Joining]:
        """Return all VMs of the subscription in their present state."""
        with self.subscription.lock:
            vms, now = list(self.subscription.vms.values()), self.subscription.clock.now
        return [
            Joining(
                id=vm.vm_id,
                node=vm.computer,
                provider_id=f"azure://{vm.id.replace(vm.group, vm.group.lower(), 1)}",
                instance_type=vm.size,
                zone="0",
                vcpus=SIZES[vm.size].vcpus,
                memory="900Gi",
                gpus=SIZES[vm.size].gpus,
                gpu_type=GPU_TYPE,
                runs=vm.ending is None and vm.state_at(now) == ("Succeeded", "running"),
                ends=vm.ending is not None,
            )
            for vm in vms
        ]


@asynccontextmanager
async def open_azure_bed(
    plane: ControlPlane, directory: Path, *, pace: float = 1.0, behind_seconds: float = 0.0
) -> AsyncIterator[AzureBed]:
    """Open a bed with a subscription of unlimited capacity.

    ``pace`` is seconds of the subscription's clock per second of the operator's. The subscription's clock starts
    ``behind_seconds`` behind.
    """
    clock = WallClock(pace)
    clock.advance(-behind_seconds)
    subscription = Subscription(clock=clock, start_seconds=_STARTS_SECONDS)
    with AzureServer(subscription) as server, RetailServer(Feed(clock=clock)) as retail:
        parts = await parts_of_bed(plane, directory, ())
        address = Address(server.url, retail.url, str(server.certificate))
        bed = AzureBed(*parts, adapters=AzureAt(address), subscription=subscription)
        async with while_they_join(bed):
            yield bed
