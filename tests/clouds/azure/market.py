"""What is sold and what is allowed: sizes, quotas, reservations, rights, and autoscale settings."""

from __future__ import annotations

import re

from tests.clouds.azure.catalogue import SIZES
from tests.clouds.azure.polling import page
from tests.clouds.azure.protocol import Answer, Body, Call, Fault
from tests.clouds.azure.resources import Reservation, ReservationGroup
from tests.clouds.azure.subscription import PLENTY, Subscription

_AT = re.compile(r"location eq '([^']+)'")


def _sku(sub: Subscription, name: str) -> Body:
    facts = SIZES[name]
    closed = [zone for zone in sub.zones if (name, zone) in sub.not_offered]
    info = {"type": "Zone", "locations": [sub.location], "restrictionInfo": {"locations": [sub.location]}}
    restrictions: list[Body] = []
    if (name, sub.location) in sub.not_offered:
        restrictions.append(
            {
                "type": "Location",
                "values": [sub.location],
                "restrictionInfo": {"locations": [sub.location]},
                "reasonCode": "NotAvailableForSubscription",
            }
        )
    if closed:
        info = {"locations": [sub.location], "zones": closed}
        reason = "NotAvailableForSubscription"
        restrictions.append({"type": "Zone", "values": [sub.location], "restrictionInfo": info, "reasonCode": reason})
    capabilities = {"vCPUs": facts.vcpus, "MemoryGB": facts.memory, "LowPriorityCapable": True}
    if facts.gpus:
        capabilities["GPUs"] = facts.gpus
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "tier": "Standard",
        "size": name.removeprefix("Standard_"),
        "family": facts.family,
        "locations": [sub.location],
        "locationInfo": [{"location": sub.location, "zones": list(sub.zones), "zoneDetails": []}],
        "capabilities": [{"name": key, "value": str(value)} for key, value in capabilities.items()],
        "restrictions": restrictions,
    }


def list_skus(sub: Subscription, call: Call) -> Answer:
    """What is sold, of all kinds; the only filter is the location.

    https://learn.microsoft.com/rest/api/compute/resource-skus/list
    """
    if "$filter" in call.query:
        match = _AT.fullmatch(call.query["$filter"])
        if match is None:
            raise Fault(400, "InvalidParameter", f"The filter {call.query['$filter']!r} is not supported")
        if match[1].lower() != sub.location:
            return page(sub, call, [])
    disk = {"resourceType": "disks", "name": "Premium_LRS", "tier": "Premium", "locations": [sub.location]}
    return page(sub, call, [disk, *(_sku(sub, name) for name in SIZES)])


def _check_location(sub: Subscription, call: Call) -> None:
    if call.args["location"].lower() != sub.location:
        raise Fault(400, "NoRegisteredProviderFound", f"No registered resource provider for {call.args['location']}")


def list_sizes(sub: Subscription, call: Call) -> Answer:
    """The sizes of a location; this list tells no GPUs."""
    _check_location(sub, call)
    rows = [
        {"name": name, "numberOfCores": facts.vcpus, "memoryInMB": facts.memory * 1024, "maxDataDiskCount": 32}
        for name, facts in SIZES.items()
    ]
    return Answer({"value": rows})


def list_usage(sub: Subscription, call: Call) -> Answer:
    """The quotas of a location and how much of them is used."""
    _check_location(sub, call)
    titles = {
        "cores": "Total Regional vCPUs",
        "virtualMachines": "Virtual Machines",
        "lowPriorityCores": "Total Regional Low-priority vCPUs",
    }
    titles |= {facts.family: f"{facts.family} vCPUs" for facts in SIZES.values()}
    rows = [
        {
            "unit": "Count",
            "currentValue": sub.used(name),
            "limit": sub.quotas.get(name, PLENTY),
            "name": {"value": name, "localizedValue": title},
        }
        for name, title in titles.items()
    ]
    return page(sub, call, rows)


# --- reservations --------------------------------------------------------------------------------------------------


def _group(sub: Subscription, call: Call) -> ReservationGroup:
    name = call.args["capacity_reservation_group_name"]
    found = sub.reservation_groups.get(sub.path(call.group, "capacityReservationGroups", name).lower())
    if found is None:
        raise sub.not_found(call.group, f"Microsoft.Compute/capacityReservationGroups/{name}")
    return found


def _reservation(sub: Subscription, group: ReservationGroup, reservation: Reservation, with_view: bool) -> Body:
    parent = sub.path(group.group, "capacityReservationGroups", group.name)
    id = f"{parent}/capacityReservations/{reservation.name}"
    users = [{"id": vm.id} for vm in sub.vms.values() if vm.reserved == id and vm.ending is None]
    properties: Body = {"provisioningState": reservation.state, "virtualMachinesAssociated": users}
    if with_view:
        use = {"currentCapacity": reservation.capacity, "virtualMachinesAllocated": users}
        properties["instanceView"] = {"utilizationInfo": use}
    body: Body = {
        "id": id,
        "name": reservation.name,
        "type": "Microsoft.Compute/capacityReservationGroups/capacityReservations",
        "location": group.location,
        "sku": {"name": reservation.size, "capacity": reservation.capacity},
        "properties": properties,
    }
    return body | ({"zones": [reservation.zone]} if reservation.zone else {})


def get_reservation_group(sub: Subscription, call: Call) -> Answer:
    """A group of reservations."""
    group = _group(sub, call)
    rows = [_reservation(sub, group, each, False) for each in group.reservations.values()]
    users = [user for row in rows for user in row["properties"]["virtualMachinesAssociated"]]
    members = [{"id": row["id"]} for row in rows]
    body: Body = {
        "id": sub.path(group.group, "capacityReservationGroups", group.name),
        "name": group.name,
        "type": "Microsoft.Compute/capacityReservationGroups",
        "location": group.location,
        "properties": {"capacityReservations": members, "virtualMachinesAssociated": users},
    }
    return Answer(body | ({"zones": list(group.zones)} if group.zones else {}))


def get_reservation(sub: Subscription, call: Call) -> Answer:
    """One reservation; with ``$expand=instanceView`` also how much of it is used."""
    group, name = _group(sub, call), call.args["capacity_reservation_name"]
    if name not in group.reservations:
        raise sub.not_found(call.group, f"Microsoft.Compute/capacityReservationGroups/{group.name}/{name}")
    return Answer(_reservation(sub, group, group.reservations[name], "$expand" in call.query))


def list_reservations(sub: Subscription, call: Call) -> Answer:
    """The reservations of a group."""
    group = _group(sub, call)
    return page(sub, call, [_reservation(sub, group, each, False) for each in group.reservations.values()])


# --- rights and autoscale ------------------------------------------------------------------------------------------


def list_permissions(sub: Subscription, call: Call) -> Answer:
    """What the caller's roles grant, one row for each.

    https://learn.microsoft.com/rest/api/authorization/permissions/list-for-resource-group
    """
    rows = [
        {"actions": role.actions, "notActions": role.not_actions, "dataActions": [], "notDataActions": []}
        for role in sub.roles
    ]
    return page(sub, call, rows)


def list_autoscale(sub: Subscription, call: Call) -> Answer:
    """The autoscale settings of a resource group.

    https://learn.microsoft.com/rest/api/monitor/autoscale-settings/list-by-resource-group
    """
    rows = [
        {
            "id": sub.path(call.group, "autoscalesettings", name, "microsoft.insights"),
            "name": name,
            "type": "Microsoft.Insights/autoscaleSettings",
            "location": sub.location,
            "properties": {"name": name, "enabled": enabled, "targetResourceUri": target, "profiles": []},
        }
        for name, target, enabled in sub.autoscale
    ]
    return page(sub, call, rows)
