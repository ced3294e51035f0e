"""Every call that a subscription answers: its route, what it needs, and what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.clouds.azure import machines, market, polling, scale_sets
from tests.clouds.azure.protocol import COMPUTE, Answer, Call, Route, plain_route, route
from tests.clouds.azure.subscription import Subscription

Handler = Callable[[Subscription, Call], Answer]


@dataclass(frozen=True)
class Entry:
    """A call: its route, the provider, the right it needs, the models of its body and of its answer (of each row, if
    it is a list), and what it does."""

    route: Route
    provider: str
    action: str
    takes: str
    gives: str
    rows: bool
    act: Handler


def _entry(name: str, act: Handler, action: str, gives: str = "", takes: str = "", provider: str = COMPUTE) -> Entry:
    rows = gives.endswith("[]")
    return Entry(route(provider, name), provider, f"{provider}/{action}", takes, gives.removesuffix("[]"), rows, act)


_SETS, _VMS = "virtualMachineScaleSets", "virtualMachineScaleSets/virtualMachines"
_GROUPS = "capacityReservationGroups"
_OWN = "virtualMachines"

COMPUTE_CALLS = {
    "virtual_machine_scale_sets_get": (scale_sets.get, f"{_SETS}/read", "VirtualMachineScaleSet"),
    "virtual_machine_scale_sets_list": (scale_sets.list_in_group, f"{_SETS}/read", "VirtualMachineScaleSet[]"),
    "virtual_machine_scale_sets_list_all": (scale_sets.list_all, f"{_SETS}/read", "VirtualMachineScaleSet[]"),
    "virtual_machine_scale_sets_update": (
        scale_sets.update,
        f"{_SETS}/write",
        "VirtualMachineScaleSet",
        "VirtualMachineScaleSetUpdate",
    ),
    "virtual_machine_scale_sets_delete_instances": (
        scale_sets.delete_instances,
        f"{_SETS}/delete/action",
        "",
        "VirtualMachineScaleSetVMInstanceRequiredIDs",
    ),
    "virtual_machine_scale_sets_get_instance_view": (
        scale_sets.instance_view,
        f"{_SETS}/instanceView/read",
        "VirtualMachineScaleSetInstanceView",
    ),
    "virtual_machine_scale_set_vms_list": (machines.list_of_set, f"{_VMS}/read", "VirtualMachineScaleSetVM[]"),
    "virtual_machine_scale_set_vms_get": (machines.get_of_set, f"{_VMS}/read", "VirtualMachineScaleSetVM"),
    "virtual_machine_scale_set_vms_get_instance_view": (
        machines.instance_view_of_set,
        f"{_VMS}/instanceView/read",
        "VirtualMachineScaleSetVMInstanceView",
    ),
    "virtual_machine_scale_set_vms_delete": (machines.delete_of_set, f"{_VMS}/delete"),
    "virtual_machines_get": (machines.get, f"{_OWN}/read", "VirtualMachine"),
    "virtual_machines_list": (machines.list_in_group, f"{_OWN}/read", "VirtualMachine[]"),
    "virtual_machines_list_all": (machines.list_all, f"{_OWN}/read", "VirtualMachine[]"),
    "virtual_machines_instance_view": (
        machines.instance_view,
        f"{_OWN}/instanceView/read",
        "VirtualMachineInstanceView",
    ),
    "virtual_machines_update": (machines.update, f"{_OWN}/write", "VirtualMachine", "VirtualMachineUpdate"),
    "virtual_machines_delete": (machines.delete, f"{_OWN}/delete"),
    "virtual_machine_sizes_list": (market.list_sizes, "locations/vmSizes/read", "VirtualMachineSize[]"),
    "usage_list": (market.list_usage, "locations/usages/read", "Usage[]"),
    "resource_skus_list": (market.list_skus, "skus/read", "ResourceSku[]"),
    "capacity_reservation_groups_get": (market.get_reservation_group, f"{_GROUPS}/read", "CapacityReservationGroup"),
    "capacity_reservations_get": (
        market.get_reservation,
        f"{_GROUPS}/capacityReservations/read",
        "CapacityReservation",
    ),
    "capacity_reservations_list_by_capacity_reservation_group": (
        market.list_reservations,
        f"{_GROUPS}/capacityReservations/read",
        "CapacityReservation[]",
    ),
}


def _plain(method: str, path: str, version: str, action: str, act: Handler, *query: str) -> Entry:
    where = plain_route(method, f"/subscriptions/{{subscription_id}}/{path}", version, *query)
    return Entry(where, "", action, "", "", False, act)


OPERATIONS: dict[str, Entry] = {
    name: _entry(name, *details)  # type: ignore[arg-type]
    for name, details in COMPUTE_CALLS.items()
}
OPERATIONS |= {
    "operations_get": _plain(
        "GET",
        "providers/Microsoft.Compute/locations/{location}/operations/{operation_id}",
        polling.VERSIONS[COMPUTE],
        "Microsoft.Compute/locations/operations/read",
        polling.get_operation,
        "monitor",
    ),
    "permissions_list": _plain(
        "GET",
        "resourceGroups/{resource_group_name}/providers/Microsoft.Authorization/permissions",
        "2022-04-01",
        "Microsoft.Authorization/permissions/read",
        market.list_permissions,
    ),
    "autoscale_settings_list": _plain(
        "GET",
        "resourceGroups/{resource_group_name}/providers/Microsoft.Insights/autoscalesettings",
        "2022-10-01",
        "Microsoft.Insights/autoscalesettings/read",
        market.list_autoscale,
    ),
}
