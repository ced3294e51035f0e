"""Calls of VMs: those of Uniform sets by their number in the set, all others by their name."""

from __future__ import annotations

import re
from datetime import datetime

from tests.clouds.azure import scaling
from tests.clouds.azure.polling import accepted, page, written
from tests.clouds.azure.protocol import Answer, Body, Call, Fault
from tests.clouds.azure.resources import Vm
from tests.clouds.azure.scale_sets import named, not_active
from tests.clouds.azure.subscription import Subscription

_FILTER = re.compile(r"'?virtualMachineScaleSet/id'? eq '?([^']+)'?", re.IGNORECASE)
"""The one filter of lists of VMs, as the SDK's documentation words it."""


def _statuses(vm: Vm, at: datetime) -> list[Body]:
    provisioning, power = vm.state_at(at)
    code = f"ProvisioningState/{provisioning.lower()}"
    first: Body = {"level": "Info", "displayStatus": f"Provisioning {provisioning.lower()}", "time": written(at)}
    if provisioning == "Failed" and vm.failure is not None:
        code = f"{code}/{vm.failure[0]}"
        first |= {"level": "Error", "message": vm.failure[1]}
    rows = [{"code": code, **first}]
    return rows + ([{"code": f"PowerState/{power}", "level": "Info", "displayStatus": f"VM {power}"}] if power else [])


def _common(sub: Subscription, vm: Vm, at: datetime, with_view: bool) -> Body:
    properties: Body = {
        "vmId": vm.vm_id,
        "provisioningState": vm.state_at(at)[0],
        "timeCreated": written(vm.created),
        "osProfile": {"computerName": vm.computer},
        "hardwareProfile": {"vmSize": vm.size},
    }
    if with_view:
        properties["instanceView"] = {"computerName": vm.computer, "statuses": _statuses(vm, at)}
    body: Body = {"id": vm.id, "name": vm.name, "location": vm.location, "properties": properties}
    body["tags"] = vm.tags_at(at)
    return body | ({"zones": [vm.zone]} if vm.zone else {})


def _uniform(sub: Subscription, vm: Vm, at: datetime, with_view: bool) -> Body:
    body = _common(sub, vm, at, with_view)
    body["properties"]["latestModelApplied"] = True
    kind = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines"
    return body | {"type": kind, "instanceId": vm.instance_id, "sku": {"name": vm.size, "tier": "Standard"}}


def _flexible(sub: Subscription, vm: Vm, at: datetime, with_view: bool) -> Body:
    body = _common(sub, vm, at, with_view)
    properties = body["properties"]
    if vm.scale_set is not None:
        properties["virtualMachineScaleSet"] = {"id": vm.scale_set}
        properties["priority"] = vm.priority
        if vm.priority == "Spot":
            properties["evictionPolicy"] = sub.scale_sets[vm.scale_set.lower()].eviction
    if vm.reserved is not None:
        group = vm.reserved.rpartition("/capacityReservations/")[0]
        properties["capacityReservation"] = {"capacityReservationGroup": {"id": group}}
    return body | {"type": "Microsoft.Compute/virtualMachines", "etag": '"1"'}


# --- of Uniform sets -----------------------------------------------------------------------------------------------


def _in_set(sub: Subscription, call: Call) -> Vm:
    scale_set = named(sub, call)
    id = f"{sub.id_of(scale_set)}/virtualMachines/{call.args['instance_id']}"
    if id not in sub.vms or not sub.vms[id].there_at(sub.clock.now):
        raise not_active(call.args["instance_id"]) if scale_set.orchestration == "Uniform" else _only_uniform()
    return sub.vms[id]


def _only_uniform() -> Fault:
    """https://learn.microsoft.com/azure/virtual-machine-scale-sets/virtual-machine-scale-sets-orchestration-modes"""
    return Fault(400, "BadRequest", "VMs of a set in Flexible orchestration have the API of virtual machines")


def list_of_set(sub: Subscription, call: Call) -> Answer:
    """The VMs of a Uniform set."""
    scale_set, at = named(sub, call), sub.listed_at
    if scale_set.orchestration != "Uniform":
        raise _only_uniform()
    if call.query.get("$expand", "instanceView") != "instanceView" or {"$filter", "$select"} & set(call.query):
        raise Fault(400, "InvalidParameter", "this server knows $expand=instanceView only")
    mine = sub.id_of(scale_set)
    rows = [vm for vm in sub.vms.values() if vm.scale_set == mine and vm.there_at(at)]
    return page(sub, call, [_uniform(sub, vm, at, "$expand" in call.query) for vm in rows])


def get_of_set(sub: Subscription, call: Call) -> Answer:
    """One VM of a Uniform set."""
    return Answer(_uniform(sub, _in_set(sub, call), sub.clock.now, call.query.get("$expand") == "instanceView"))


def instance_view_of_set(sub: Subscription, call: Call) -> Answer:
    """The state of one VM of a Uniform set."""
    vm = _in_set(sub, call)
    return Answer({"computerName": vm.computer, "statuses": _statuses(vm, sub.clock.now)})


def delete_of_set(sub: Subscription, call: Call) -> Answer:
    """Delete one VM of a Uniform set, whose capacity is lowered."""
    scale_set, vm = named(sub, call), _in_set(sub, call)
    if vm.ending is not None:
        raise not_active(vm.instance_id)
    force = call.query.get("forceDeletion") == "true"
    operation = scaling.begin_deletion(sub, scale_set, [vm], force=force)
    return accepted(sub, call, operation, 202)


# --- of their own --------------------------------------------------------------------------------------------------


def _by_name(sub: Subscription, call: Call) -> Vm:
    id = sub.path(call.group, "virtualMachines", call.args["vm_name"]).lower()
    found = [vm for vm in sub.vms.values() if vm.id.lower() == id and vm.there_at(sub.clock.now)]
    if not found:
        raise sub.not_found(call.group, f"Microsoft.Compute/virtualMachines/{call.args['vm_name']}")
    return found[0]


def get(sub: Subscription, call: Call) -> Answer:
    """One VM."""
    return Answer(_flexible(sub, _by_name(sub, call), sub.clock.now, call.query.get("$expand") == "instanceView"))


def instance_view(sub: Subscription, call: Call) -> Answer:
    """The state of one VM."""
    vm = _by_name(sub, call)
    return Answer({"computerName": vm.computer, "statuses": _statuses(vm, sub.clock.now)})


def _listed(sub: Subscription, call: Call, group: str | None) -> Answer:
    at, wanted, expand = sub.listed_at, None, call.query.get("$expand")
    if "$filter" in call.query:
        match = _FILTER.fullmatch(call.query["$filter"])
        if match is None:
            raise Fault(400, "InvalidParameter", f"The filter {call.query['$filter']!r} is not supported")
        wanted = match[1].lower()
    elif expand is not None:
        raise Fault(400, "InvalidParameter", "$expand can only be specified if a valid $filter option is specified")
    with_view = expand == "instanceView" or call.query.get("statusOnly") == "true"
    rows = [vm for vm in sub.vms.values() if "/virtualMachineScaleSets/" not in vm.id and vm.there_at(at)]
    rows = [vm for vm in rows if group is None or vm.group.lower() == group.lower()]
    rows = [vm for vm in rows if wanted is None or (vm.scale_set or "").lower() == wanted]
    return page(sub, call, [_flexible(sub, vm, at, with_view) for vm in rows])


def list_in_group(sub: Subscription, call: Call) -> Answer:
    """The VMs of a resource group; those of Uniform sets are not among them."""
    return _listed(sub, call, call.group)


def list_all(sub: Subscription, call: Call) -> Answer:
    """The VMs of the subscription; those of Uniform sets are not among them."""
    return _listed(sub, call, None)


def update(sub: Subscription, call: Call) -> Answer:
    """Set all tags of a VM; what else an update may say, this server does not act out and so refuses."""
    vm = _by_name(sub, call)
    if set(call.body) != {"tags"}:
        raise Fault(400, "InvalidParameter", "this server acts out an update of the tags only")
    vm.tags.append((sub.clock.now, dict(call.body["tags"])))
    return Answer(_flexible(sub, vm, sub.clock.now, False))


def delete(sub: Subscription, call: Call) -> Answer:
    """Delete a VM; its set's capacity is lowered. What is not there is no error.

    https://learn.microsoft.com/rest/api/compute/virtual-machines/delete: 204 for a VM that does not exist.
    """
    try:
        vm = _by_name(sub, call)
    except Fault:
        return Answer(None, 204)
    seconds = 0.0 if call.query.get("forceDeletion") == "true" else sub.delete_seconds
    operation = sub.begin("delete", vm.id, seconds=seconds)
    if vm.ending is None:
        scaling.delete(sub, vm, seconds)
        if vm.scale_set is not None:
            scale_set = sub.scale_sets[vm.scale_set.lower()]
            scale_set.capacity -= 1
            scale_set.version += 1
    return accepted(sub, call, operation, 202)
