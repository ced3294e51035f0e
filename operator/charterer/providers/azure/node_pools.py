"""Node pools of AKS, by azure-mgmt-containerservice. Their VMs are read from the scale set behind each node pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from charterer.clouds.azure import AzureNodePool
from charterer.domain.pool import Pool
from charterer.providers.azure.calls import Answer, Calls
from charterer.providers.azure.listing import Group, GroupState, ListedVm, listed, sold_otherwise
from charterer.providers.azure.permissions import Call
from charterer.providers.azure.scale_sets import template_of_pool, uniform_vms
from charterer.providers.errors import InvalidRequest, NotFoundInCloud, ProviderError

_BEHIND_SECONDS: Final = 3600.0
"""Seconds for which it is stored which scale set is behind a node pool."""
_POOL_TAG: Final = "aks-managed-poolName"
"""The tag in which AKS names the node pool of a scale set."""
_SETTLED: Final = ("Succeeded", "Failed", "Canceled")


@dataclass(frozen=True, slots=True)
class Behind:
    """The scale set behind a node pool: its ARM id, its name, the resource group of the nodes, and the location."""

    id: str
    scale_set: str
    resource_group: str
    location: str


class NodePools(Group):
    """The node pools of pools with spec.azure.aks. ``clock``: seconds of a clock that never goes back."""

    recounts = True

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._clock = clock
        self._behind: dict[AzureNodePool, tuple[float, Behind]] = {}
        self._lists: dict[tuple[str, str], asyncio.Task[Answer]] = {}
        """For each cluster, the list of its node pools that is being read."""

    async def read(self, pool: Pool) -> GroupState:
        """The node pool and its VMs. Raises NotFoundInCloud if there is no such cluster or node pool."""
        cloud = node_pool_of(pool)
        answer = await self._pools_of(pool, cloud)
        row = next((row for row in answer.body if row["name"] == cloud.node_pool), None)
        if row is None:
            message = f"spec.azure.aks: cluster {cloud.cluster} has no node pool {cloud.node_pool!r}"
            raise NotFoundInCloud(pool.id, Call.LIST_POOLS.full_name, "NoNodePool", message)
        properties = row["properties"]
        behind = await self.behind(pool)
        try:
            rows = await uniform_vms(self._calls, pool.id, behind.resource_group, behind.scale_set)
        except ProviderError:
            self._behind.pop(cloud, None)  # AKS may have made another scale set
            raise
        state = properties["provisioningState"]
        return GroupState(
            id=behind.id,
            etag=properties["eTag"],
            capacity=int(properties["count"]),
            updating=state not in _SETTLED,
            failed=state == "Failed",
            size=properties["vmSize"],
            zones=[f"{behind.location}-{zone}" for zone in properties.get("availabilityZones") or ()],
            most=None,
            reservation=properties.get("capacityReservationGroupID") or "",
            wrong=problems_of(pool, cloud, properties, behind.location),
            vms=[listed(row, behind.location) for row in rows.body],
            asked=min(answer.at, rows.at),
            body=row,
            nodes=template_of_pool(properties),
        )

    async def set_capacity(self, pool: Pool, state: GroupState, capacity: int) -> str:
        """PUT the node pool as it was read, with another count. If a PUT left anything out, AKS would remove it."""
        names = _names(node_pool_of(pool))
        body = {**state.body, "properties": {**state.body["properties"], "count": capacity}}
        params = {**names, "parameters": body, "etag": state.etag}
        answer = await self._calls(pool.id, Call.UPDATE_POOL, params)
        return answer.headers.get("Azure-AsyncOperation", "")

    async def delete(self, pool: Pool, state: GroupState, vms: Sequence[ListedVm]) -> str:
        """Delete those machines by their names."""
        names = _names(node_pool_of(pool))
        params = {**names, "machines": {"machineNames": [vm.computer for vm in vms]}}
        answer = await self._calls(pool.id, Call.DELETE_MACHINES, params)
        return answer.headers.get("Azure-AsyncOperation", "")

    async def behind(self, pool: Pool) -> Behind:
        """The scale set behind the pool's node pool."""
        cloud = node_pool_of(pool)
        known = self._behind.get(cloud)
        if known is None or self._clock() - known[0] > _BEHIND_SECONDS:
            known = self._behind[cloud] = self._clock(), await self._find(pool, cloud)
        return known[1]

    async def _pools_of(self, pool: Pool, cloud: AzureNodePool) -> Answer:
        """The node pools of the cluster. If another call for the same list is under way, its answer is used.

        AKS allows 60 reads a minute for all clusters of a subscription. It does no harm if a list is some milliseconds
        old, because a change names the version that was read.
        """
        key = cloud.resource_group.lower(), cloud.cluster.lower()
        task = self._lists.get(key)
        if task is None:
            task = asyncio.ensure_future(self._named(pool, cloud, Call.LIST_POOLS, _cluster_of(cloud)))
            self._lists[key] = task
            task.add_done_callback(lambda done: self._listed(key, done))
        try:
            return await asyncio.shield(task)
        except ProviderError as error:
            raise error.about(pool.id) from error

    def _listed(self, key: tuple[str, str], done: asyncio.Task[Answer]) -> None:
        self._lists.pop(key, None)
        if not done.cancelled():
            done.exception()  # the waiting callers get the exception; if there are none, nobody needs it

    async def _find(self, pool: Pool, cloud: AzureNodePool) -> Behind:
        cluster = (await self._named(pool, cloud, Call.GET_CLUSTER, _cluster_of(cloud))).body
        group = cluster["properties"]["nodeResourceGroup"]
        rows = (await self._calls(pool.id, Call.LIST_SETS, {"resource_group_name": group})).body
        for row in rows:
            tags = {key.lower(): value for key, value in (row.get("tags") or {}).items()}
            if tags.get(_POOL_TAG.lower()) == cloud.node_pool:
                return Behind(row["id"], row["name"], group, str(cluster["location"]).lower())
        message = f"no scale set in {group} has the tag {_POOL_TAG} {cloud.node_pool!r}: is the pool of scale sets?"
        raise NotFoundInCloud(pool.id, Call.LIST_SETS.full_name, "NoScaleSet", f"spec.azure.aks.nodePool: {message}")

    async def _named(self, pool: Pool, cloud: AzureNodePool, call: Call, names: dict[str, Any]) -> Answer:
        try:
            return await self._calls(pool.id, call, names)
        except NotFoundInCloud as error:
            message = f"spec.azure.aks: {cloud.resource_group} has no cluster {cloud.cluster!r}"
            raise NotFoundInCloud(pool.id, error.call, error.code, message) from error


def node_pool_of(pool: Pool) -> AzureNodePool:
    """The pool's node pool."""
    if not isinstance(pool.cloud, AzureNodePool):
        raise InvalidRequest(pool.id, "spec.azure", "NoNodePool", "this is no pool with a node pool of AKS")
    return pool.cloud


def _cluster_of(cloud: AzureNodePool) -> dict[str, Any]:
    return {"resource_group_name": cloud.resource_group, "resource_name": cloud.cluster}


def _names(cloud: AzureNodePool) -> dict[str, Any]:
    return {**_cluster_of(cloud), "agent_pool_name": cloud.node_pool}


def problems_of(pool: Pool, cloud: AzureNodePool, properties: Mapping[str, Any], location: str) -> Sequence[str]:
    """Settings of a node pool by which it adds or ends nodes by itself, or sells another kind of node than the pool
    names.
    """
    wrong = []
    if location != cloud.location:
        wrong.append(f"its cluster is in {location}, but spec.azure.location is {cloud.location}")
    if properties.get("enableAutoScaling"):
        wrong.append("enableAutoScaling is true: disable it, or AKS adds and ends nodes by itself")
    if (kind := properties.get("type", "VirtualMachineScaleSets")) != "VirtualMachineScaleSets":
        wrong.append(f"its type is {kind}: make a node pool of type VirtualMachineScaleSets")
    if properties.get("mode", "User") != "User":
        wrong.append(f"its mode is {properties['mode']}: set it to User, others cannot shrink to no node")
    if properties.get("scaleDownMode", "Delete") != "Delete":
        wrong.append(f"scaleDownMode is {properties['scaleDownMode']}: set it to Delete, or disks stay and are billed")
    if (properties.get("powerState") or {}).get("code", "Running") != "Running":
        wrong.append("it is stopped: start it with az aks nodepool start")
    wrong += sold_otherwise(
        pool, properties.get("scaleSetPriority"), properties.get("scaleSetEvictionPolicy") or "Delete"
    )
    return wrong
