"""A scale set, or the one behind a node pool of AKS: what it is like now, and the three changes that are made of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from charterer.domain.pool import CapacityType, Pool
from charterer.domain.time import Instant
from charterer.providers.azure.listing import ListedVm
from charterer.providers.node_template import NO_TEMPLATE, NodeTemplate


@dataclass(frozen=True, slots=True)
class GroupState:
    """A scale set with its VMs, read at ``asked`` by the cloud's clock.

    ``id``: its ARM id. ``etag``: of this version. ``capacity``: how many VMs it wants. ``updating``: whether a change
    of it runs. ``failed``: whether the last one failed. ``size``: the VM size. ``zones``: as Charterer names them.
    ``most``: how many VMs it takes, where that is known. ``reservation``: the ARM id of its capacity reservation group.
    ``wrong``: settings that end or add nodes behind our back, or sell another kind of node than the pool says.
    ``body``: the whole answer. ``nodes``: what it says of its nodes.
    """

    id: str
    etag: str
    capacity: int
    updating: bool
    failed: bool
    size: str
    zones: Sequence[str]
    most: int | None
    reservation: str
    wrong: Sequence[str]
    vms: Sequence[ListedVm]
    asked: Instant
    body: Mapping[str, Any]
    nodes: NodeTemplate = NO_TEMPLATE

    @property
    def alive(self) -> Sequence[ListedVm]:
        """The VMs that have a host or look for one."""
        return [vm for vm in self.vms if vm.alive]

    @property
    def hostless(self) -> Sequence[ListedVm]:
        """The VMs that found none."""
        return [vm for vm in self.vms if vm.hostless]

    @property
    def wanted(self) -> int:
        """How many VMs it wants; a read that tells a capacity of less than its VMs is not believed.

        The API was seen to tell 0: kubernetes/autoscaler#9488.
        """
        return max(self.capacity, len(self.alive) + len(self.hostless))


class Group(ABC):
    """One kind of scale set. A change says where its operation can be asked for; empty where Azure says nothing.

    ``recounts``: whether a deletion also makes the set as large as its capacity says, so that one below or above the
    number of VMs ends or makes others.
    """

    recounts: ClassVar[bool] = False

    @abstractmethod
    async def read(self, pool: Pool) -> GroupState:
        """What it is like now."""

    @abstractmethod
    async def set_capacity(self, pool: Pool, state: GroupState, capacity: int) -> str:
        """Change the number of VMs, of this version only: Busy when it is another by now."""

    @abstractmethod
    async def delete(self, pool: Pool, state: GroupState, vms: Sequence[ListedVm]) -> str:
        """Delete those VMs, which lowers the capacity by as many; NotFoundInCloud when one is gone."""


def sold_otherwise(pool: Pool, priority: str | None, eviction: str | None) -> Sequence[str]:
    """Why VMs of that priority and eviction policy are not what the pool says."""
    sells = CapacityType.SPOT if (priority or "Regular").lower() in ("spot", "low") else CapacityType.ON_DEMAND
    if sells is not pool.capacity_type:
        return [f"it has {sells.value} nodes, but spec.capacityType is {pool.capacity_type.value}"]
    if sells is CapacityType.SPOT and (eviction or "Deallocate") != "Delete":
        return [f"its eviction policy is {eviction or 'Deallocate'}: make it with Delete, or disks stay and are billed"]
    return []
