"""Every call that a subscription answers: its route, what it needs, and what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.clouds.azure import aks, machines, market, polling, scale_sets
from tests.clouds.azure.protocol import COMPUTE, CONTAINERS, Answer, Call, Route, plain_route, route
from tests.clouds.azure.subscription import Subscription

Handler = Callable[[Subscription, Call], Answer]


@dataclass(frozen=True)
class Entry:
    """A call: its name in the SDK, its route, the provider, the right it needs, the models of its body and of its
    answer (of each row, if it is a list), and what it does."""

    name: str
    route: Route
    provider: str
    action: str
    takes: str
    gives: str
    rows: bool
    act: Handler


def _of(provider: str, name: str, act: Handler, action: str, gives: str, takes: str) -> Entry:
    where, rows = route(provider, name), gives.endswith("[]")
    return Entry(name, where, provider, f"{provider}/{action}", takes, gives.removesuffix("[]"), rows, act)


def _compute(name: str, act: Handler, action: str, gives: str = "", takes: str = "") -> Entry:
    return _of(COMPUTE, name, act, action, gives, takes)


def _containers(name: str, act: Handler, action: str, gives: str = "", takes: str = "") -> Entry:
    return _of(CONTAINERS, name, act, action, gives, takes)


def _plain(name: str, act: Handler, action: str, path: str, version: str, *query: str) -> Entry:
    where = plain_route("GET", f"/subscriptions/{{subscription_id}}/{path}", version, *query)
    return Entry(name, where, action.partition("/")[0], action, "", "", False, act)


_SETS, _MEMBERS, _VMS = "virtualMachineScaleSets", "virtualMachineScaleSets/virtualMachines", "virtualMachines"
_GROUPS, _HELD = "capacityReservationGroups", "capacityReservationGroups/capacityReservations"
_CLUSTERS, _POOLS = "managedClusters", "managedClusters/agentPools"
_IN_GROUP = "resourceGroups/{resource_group_name}/providers"
_POLL = "locations/{location}/operations/{operation_id}"

_ENTRIES = [
    _compute("virtual_machine_scale_sets_get", scale_sets.get, f"{_SETS}/read", "VirtualMachineScaleSet"),
    _compute("virtual_machine_scale_sets_list", scale_sets.list_in_group, f"{_SETS}/read", "VirtualMachineScaleSet[]"),
    _compute("virtual_machine_scale_sets_list_all", scale_sets.list_all, f"{_SETS}/read", "VirtualMachineScaleSet[]"),
    _compute(
        "virtual_machine_scale_sets_update",
        scale_sets.update,
        f"{_SETS}/write",
        "VirtualMachineScaleSet",
        "VirtualMachineScaleSetUpdate",
    ),
    _compute(
        "virtual_machine_scale_sets_delete_instances",
        scale_sets.delete_instances,
        f"{_SETS}/delete/action",
        takes="VirtualMachineScaleSetVMInstanceRequiredIDs",
    ),
    _compute(
        "virtual_machine_scale_sets_get_instance_view",
        scale_sets.instance_view,
        f"{_SETS}/instanceView/read",
        "VirtualMachineScaleSetInstanceView",
    ),
    _compute(
        "virtual_machine_scale_set_vms_list", machines.list_of_set, f"{_MEMBERS}/read", "VirtualMachineScaleSetVM[]"
    ),
    _compute("virtual_machine_scale_set_vms_get", machines.get_of_set, f"{_MEMBERS}/read", "VirtualMachineScaleSetVM"),
    _compute(
        "virtual_machine_scale_set_vms_get_instance_view",
        machines.instance_view_of_set,
        f"{_MEMBERS}/instanceView/read",
        "VirtualMachineScaleSetVMInstanceView",
    ),
    _compute("virtual_machine_scale_set_vms_delete", machines.delete_of_set, f"{_MEMBERS}/delete"),
    _compute("virtual_machines_get", machines.get, f"{_VMS}/read", "VirtualMachine"),
    _compute("virtual_machines_list", machines.list_in_group, f"{_VMS}/read", "VirtualMachine[]"),
    _compute("virtual_machines_list_all", machines.list_all, f"{_VMS}/read", "VirtualMachine[]"),
    _compute(
        "virtual_machines_instance_view",
        machines.instance_view,
        f"{_VMS}/instanceView/read",
        "VirtualMachineInstanceView",
    ),
    _compute("virtual_machines_update", machines.update, f"{_VMS}/write", "VirtualMachine", "VirtualMachineUpdate"),
    _compute("virtual_machines_delete", machines.delete, f"{_VMS}/delete"),
    _compute("virtual_machine_sizes_list", market.list_sizes, "locations/vmSizes/read", "VirtualMachineSize[]"),
    _compute("usage_list", market.list_usage, "locations/usages/read", "Usage[]"),
    _compute("resource_skus_list", market.list_skus, "skus/read", "ResourceSku[]"),
    _compute(
        "capacity_reservation_groups_get", market.get_reservation_group, f"{_GROUPS}/read", "CapacityReservationGroup"
    ),
    _compute("capacity_reservations_get", market.get_reservation, f"{_HELD}/read", "CapacityReservation"),
    _compute(
        "capacity_reservations_list_by_capacity_reservation_group",
        market.list_reservations,
        f"{_HELD}/read",
        "CapacityReservation[]",
    ),
    _containers("managed_clusters_get", aks.get_cluster, f"{_CLUSTERS}/read", "ManagedCluster"),
    _containers("agent_pools_get", aks.get_pool, f"{_POOLS}/read", "AgentPool"),
    _containers("agent_pools_list", aks.list_pools, f"{_POOLS}/read", "AgentPool[]"),
    _containers("agent_pools_create_or_update", aks.create_or_update_pool, f"{_POOLS}/write", "AgentPool", "AgentPool"),
    _containers(
        "agent_pools_delete_machines",
        aks.delete_machines,
        f"{_POOLS}/deleteMachines/action",
        takes="AgentPoolDeleteMachinesParameter",
    ),
    _containers("machines_list", aks.list_machines, f"{_POOLS}/machines/read", "Machine[]"),
    _containers("machines_get", aks.get_machine, f"{_POOLS}/machines/read", "Machine"),
    *(
        _plain(
            name,
            polling.get_operation,
            f"{provider}/locations/operations/read",
            f"providers/{provider}/{_POLL}",
            polling.VERSIONS[provider],
            "monitor",
        )
        for name, provider in (("operations_get", COMPUTE), ("container_operations_get", CONTAINERS))
    ),
    _plain(
        "permissions_list",
        market.list_permissions,
        "Microsoft.Authorization/permissions/read",
        f"{_IN_GROUP}/Microsoft.Authorization/permissions",
        "2022-04-01",
    ),
    _plain(
        "autoscale_settings_list",
        market.list_autoscale,
        "Microsoft.Insights/autoscalesettings/read",
        f"{_IN_GROUP}/Microsoft.Insights/autoscalesettings",
        "2022-10-01",
    ),
]

OPERATIONS: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}
