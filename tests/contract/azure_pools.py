"""Pools of Azure for contract tests: each test has a subscription of its own behind one server a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from charterer.clouds.azure import AzureNodePool, AzureScaleSet
from charterer.domain.ids import InstanceId, OrderToken, PoolId, RentalId
from charterer.domain.order import Ask, Order, Reply
from charterer.domain.pool import CapacityType, Pool, Survey
from charterer.providers.azure.calls import Answer
from charterer.providers.azure.cloud import AzureCloud
from charterer.providers.azure.permissions import Call
from tests import factory
from tests.clouds.azure.resources import Cluster, NodePool, ScaleSet, Vm
from tests.clouds.azure.retail import Feed
from tests.clouds.azure.subscription import Subscription
from tests.contract.wire import EMPTY, Wire, surveyed

SUBSCRIPTION = Subscription().id
GROUP, NODES, CLUSTER, NAME = "gpu-rg", "MC_gpu-rg_prod_westeurope", "prod", "gpu"
SIZE = "Standard_ND96asr_v4"
BEHIND = "aks-gpu-12345678-vmss"
KINDS = ("uniform", "flexible", "aks")
SET = AzureScaleSet(SUBSCRIPTION, GROUP, "westeurope", NAME)
NODE_POOL = AzureNodePool(SUBSCRIPTION, GROUP, "westeurope", CLUSTER, NAME)


def azure_pool(sub: Subscription, kind: str, capacity: CapacityType = CapacityType.ON_DEMAND, **changes: Any) -> Pool:
    """A pool as its user declared it, and the scale set or node pool that it names, unless that is there already."""
    spot: dict[str, Any] = {"priority": "Spot" if capacity is CapacityType.SPOT else "Regular"}
    if kind == "aks":
        if not sub.clusters:
            cluster = Cluster(GROUP, CLUSTER, sub.location, NODES)
            sub.add_pool(cluster, NodePool(NAME, BEHIND, SIZE, 0, labels={"team": "a"}, **spot))
    elif not sub.scale_sets:
        sub.add_scale_set(NAME, SIZE, orchestration=kind.capitalize(), **spot)
    cloud = NODE_POOL if kind == "aks" else SET
    fields = {"id": PoolId("azure"), "uid": "uid-azure", "offering": None, "quote": None, "max_nodes": 4, **changes}
    return factory.pool(**{"cloud": cloud, "capacity_type": capacity, **fields})


@dataclass(frozen=True, slots=True)
class AzureMarket:
    """A subscription, a pool in it and a provider to reach it by."""

    sub: Subscription
    feed: Feed
    provider: AzureCloud
    pool: Pool
    wire: Wire[Call, Answer]

    @property
    def scale_set(self) -> ScaleSet:
        """The pool's scale set."""
        aks = isinstance(self.pool.cloud, AzureNodePool)
        return self.sub.scale_set(NODES, BEHIND) if aks else self.sub.scale_set(GROUP, NAME)

    async def survey(self) -> Survey:
        """The pool's survey; its error is raised."""
        return await surveyed(self.provider, self.pool)

    async def ask(self, at_least: int, *names: str) -> Reply:
        """Ask for so many nodes, for those orders."""
        orders = tuple([Order(OrderToken(f"c{name}"), RentalId(f"azure-{name}")) for name in names])
        return await self.provider.ask(self.pool, Ask(orders, at_least))

    async def withdraw(self, keep: int) -> None:
        """Lower what is wanted to ``keep``."""
        await self.provider.withdraw(self.pool, [], keep)

    async def terminate(self, instance: str) -> None:
        """End one instance."""
        await self.provider.terminate(self.pool, InstanceId(instance), EMPTY)

    def members(self) -> Sequence[Vm]:
        """The VMs of the set that are not being deleted."""
        return self.sub.members(self.scale_set)

    def truth(self) -> Sequence[str]:
        """Ids of the VMs of the set that have a host."""
        return [vm.vm_id for vm in self.members() if vm.hosted]
