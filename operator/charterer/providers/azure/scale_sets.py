"""Scale sets in Uniform and Flexible orchestration, by azure-mgmt-compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from charterer.clouds.azure import AzureScaleSet
from charterer.domain.ids import PoolId
from charterer.domain.pool import Pool
from charterer.providers.azure.calls import Calls
from charterer.providers.azure.groups import Group, GroupState, sold_otherwise
from charterer.providers.azure.listing import ListedVm, listed
from charterer.providers.azure.node_tags import template_of_set
from charterer.providers.azure.permissions import Call
from charterer.providers.errors import InvalidRequest, NotFoundInCloud

_ONE_PLACEMENT_GROUP: Final = 100
"""The most VMs of a scale set that is confined to one placement group.

Source: the page virtual-machine-scale-sets-placement-groups of Microsoft's documentation.
"""
_FIGHTING: Final = {
    "automaticRepairsPolicy": "replaces nodes that jobs run on",
    "spotRestorePolicy": "makes nodes anew that nobody asked for",
    "resiliencyPolicy.automaticZoneRebalancingPolicy": "moves nodes that jobs run on",
}
"""Policies that must not be enabled, and what Azure does otherwise."""


class ScaleSets(Group):
    """The scale set of a pool with spec.azure.scaleSet."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def read(self, pool: Pool) -> GroupState:
        """The set and its VMs; NotFoundInCloud when there is no such set."""
        cloud = scale_set_of(pool)
        names = {"resource_group_name": cloud.resource_group, "vm_scale_set_name": cloud.scale_set}
        try:
            answer = await self._calls(pool.id, Call.GET_SET, names)
        except NotFoundInCloud as error:
            message = f"spec.azure.scaleSet: {cloud.resource_group} has no scale set {cloud.scale_set!r}"
            raise NotFoundInCloud(pool.id, error.call, error.code, message) from error
        row = answer.body
        location = str(row["location"]).lower()
        flexible = row["properties"].get("orchestrationMode") == "Flexible"
        names = {"resource_group_name": cloud.resource_group}
        if flexible:
            names["filter"] = f"'virtualMachineScaleSet/id' eq '{row['id']}'"
            rows = await self._calls(pool.id, Call.LIST_FLEXIBLE_VMS, {**names, "expand": "instanceView"})
        else:
            rows = await uniform_vms(self._calls, pool.id, cloud.resource_group, cloud.scale_set)
        properties = row["properties"]
        profile = properties.get("virtualMachineProfile") or {}
        reserved = (profile.get("capacityReservation") or {}).get("capacityReservationGroup") or {}
        mine = str(row["id"]).lower()
        return GroupState(
            id=row["id"],
            etag=row["etag"],
            capacity=int(row["sku"]["capacity"]),
            updating=properties["provisioningState"] not in ("Succeeded", "Failed", "Canceled"),
            failed=properties["provisioningState"] == "Failed",
            size=row["sku"]["name"],
            zones=[f"{location}-{zone}" for zone in row.get("zones") or ()],
            most=_ONE_PLACEMENT_GROUP if properties.get("singlePlacementGroup") else None,
            reservation=reserved.get("id", ""),
            wrong=problems_of(pool, cloud, row),
            vms=[listed(each, location) for each in rows.body if not flexible or _set_of(each).lower() == mine],
            asked=min(answer.at, rows.at),
            body=row,
            nodes=template_of_set(row),
        )

    async def set_capacity(self, pool: Pool, state: GroupState, capacity: int) -> str:
        """PATCH of the capacity and of nothing else."""
        cloud = scale_set_of(pool)
        params: dict[str, Any] = {
            "resource_group_name": cloud.resource_group,
            "vm_scale_set_name": cloud.scale_set,
            "parameters": {"sku": {**state.body["sku"], "capacity": capacity}},
            "etag": state.etag,
        }
        answer = await self._calls(pool.id, Call.UPDATE_SET, params)
        return answer.headers.get("Azure-AsyncOperation", "")

    async def delete(self, pool: Pool, state: GroupState, vms: Sequence[ListedVm]) -> str:
        """Those VMs: of a Uniform set by their numbers, of a Flexible one by their names."""
        cloud = scale_set_of(pool)
        params: dict[str, Any] = {
            "resource_group_name": cloud.resource_group,
            "vm_scale_set_name": cloud.scale_set,
            "vm_instance_i_ds": {"instanceIds": [vm.key for vm in vms]},
        }
        answer = await self._calls(pool.id, Call.DELETE_INSTANCES, params)
        return answer.headers.get("Azure-AsyncOperation", "")


async def uniform_vms(calls: Calls, pool: PoolId, resource_group: str, scale_set: str) -> Any:
    """The VMs of a Uniform set, with their instance views."""
    names = {"resource_group_name": resource_group, "virtual_machine_scale_set_name": scale_set}
    return await calls(pool, Call.LIST_UNIFORM_VMS, {**names, "expand": "instanceView"})


def scale_set_of(pool: Pool) -> AzureScaleSet:
    """The pool's scale set."""
    if not isinstance(pool.cloud, AzureScaleSet):
        raise InvalidRequest(pool.id, "spec.azure", "NoScaleSet", "this is no pool with a scale set of Azure")
    return pool.cloud


def _set_of(row: Mapping[str, Any]) -> str:
    """The ARM id of a VM's scale set: a filter that Azure leaves out of account shows other people's VMs."""
    return str((row["properties"].get("virtualMachineScaleSet") or {}).get("id", ""))


def problems_of(pool: Pool, cloud: AzureScaleSet, row: Mapping[str, Any]) -> Sequence[str]:
    """Settings of a set that end or add nodes behind our back, bill what nobody uses, or sell another kind of node."""
    properties = row["properties"]
    profile = properties.get("virtualMachineProfile") or {}
    wrong = []
    if str(row["location"]).lower() != cloud.location:
        wrong.append(f"it is in {row['location']}, but spec.azure.location is {cloud.location}")
    wrong += sold_otherwise(pool, profile.get("priority"), profile.get("evictionPolicy"))
    if properties.get("priorityMixPolicy"):
        wrong.append("it has a priorityMixPolicy, so that prices of its nodes differ: make a set for each priority")
    if properties.get("skuProfile"):
        wrong.append("it has a skuProfile, so that its nodes differ: make a set of one size")
    flexible = properties.get("orchestrationMode") == "Flexible"
    if not flexible and properties.get("overprovision", True):
        wrong.append("overprovision is true: set it to false, or Azure makes more nodes than asked and ends some")
    for setting, effect in _FIGHTING.items():
        if (_at(properties, setting) or {}).get("enabled"):
            wrong.append(f"{setting} is enabled: disable it, or Azure {effect}")
    mode = (properties.get("upgradePolicy") or {}).get("mode", "Manual")
    if mode != "Manual":
        wrong.append(f"upgradePolicy.mode is {mode}: set it to Manual, or Azure makes nodes anew that jobs run on")
    return wrong


def _at(properties: Mapping[str, Any], path: str) -> Any:
    found: Any = properties
    for key in path.split("."):
        found = (found or {}).get(key)
    return found
