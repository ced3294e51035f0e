"""Calls of scale sets."""

from __future__ import annotations

from collections import Counter

from tests.clouds.azure import scaling
from tests.clouds.azure.polling import accepted, check_match, page, written
from tests.clouds.azure.protocol import Answer, Body, Call, Fault
from tests.clouds.azure.resources import ScaleSet, Vm
from tests.clouds.azure.subscription import Subscription


def named(sub: Subscription, call: Call) -> ScaleSet:
    """The scale set that the path names."""
    name = call.args.get("vm_scale_set_name") or call.args["virtual_machine_scale_set_name"]
    return sub.scale_set(call.group, name)


def view(sub: Subscription, scale_set: ScaleSet) -> Body:
    """A scale set as the API tells it."""
    profile: Body = {"priority": scale_set.priority}
    if scale_set.priority == "Spot":
        profile |= {"evictionPolicy": scale_set.eviction, "billingProfile": {"maxPrice": -1.0}}
    if scale_set.reservation_group is not None:
        profile["capacityReservation"] = {"capacityReservationGroup": {"id": scale_set.reservation_group}}
    properties: Body = {
        "provisioningState": scale_set.provisioning_at(sub.clock.now),
        "orchestrationMode": scale_set.orchestration,
        "uniqueId": "22222222-2222-2222-2222-222222222222",
        "singlePlacementGroup": scale_set.single_placement_group,
        "platformFaultDomainCount": scale_set.fault_domains,
        "automaticRepairsPolicy": {"enabled": scale_set.repairs, "gracePeriod": "PT10M"},
        "spotRestorePolicy": {"enabled": scale_set.spot_restore, "restoreTimeout": "PT1H"},
        "resiliencyPolicy": {"automaticZoneRebalancingPolicy": {"enabled": scale_set.zone_rebalancing}},
        "virtualMachineProfile": profile,
        **scale_set.settings,
    }
    if scale_set.orchestration == "Uniform":
        properties["overprovision"] = scale_set.overprovision
        properties["upgradePolicy"] = {"mode": scale_set.upgrade_mode}
    if scale_set.mix is not None:
        base, percent = scale_set.mix
        mix = {"baseRegularPriorityCount": base, "regularPriorityPercentageAboveBase": percent}
        properties["priorityMixPolicy"] = mix
    if scale_set.created is not None:
        properties["timeCreated"] = written(scale_set.created)
    body: Body = {
        "id": sub.id_of(scale_set),
        "name": scale_set.name,
        "type": "Microsoft.Compute/virtualMachineScaleSets",
        "location": scale_set.location,
        "tags": scale_set.tags,
        "etag": scale_set.etag,
        "sku": {"name": scale_set.size, "tier": "Standard", "capacity": scale_set.capacity},
        "properties": properties,
    }
    return body | ({"zones": list(scale_set.zones)} if scale_set.zones else {})


def get(sub: Subscription, call: Call) -> Answer:
    """One scale set."""
    found = named(sub, call)
    body = view(sub, found)
    if sub.zero_reads > 0:
        sub.zero_reads -= 1
        body["sku"]["capacity"] = 0
    return Answer(body, headers={"ETag": found.etag})


def list_in_group(sub: Subscription, call: Call) -> Answer:
    """The scale sets of a resource group."""
    mine = [s for s in sub.scale_sets.values() if s.group.lower() == call.group.lower()]
    return page(sub, call, [view(sub, each) for each in mine])


def list_all(sub: Subscription, call: Call) -> Answer:
    """The scale sets of the subscription."""
    return page(sub, call, [view(sub, each) for each in sub.scale_sets.values()])


def update(sub: Subscription, call: Call) -> Answer:
    """Change the capacity or the tags; what else an update may say, this server does not act out and so refuses."""
    scale_set, body = named(sub, call), call.body
    if scale_set.marked_for_deletion:
        on = f"Virtual Machine Scale Set '{scale_set.name}' since it is marked for deletion."
        message = f"Operation 'Update Virtual Machine Scale Set' is not allowed on {on}"
        raise Fault(409, "OperationNotAllowed", message)
    check_match(call, scale_set.etag)
    if others := set(body) - {"sku", "tags"}:
        raise Fault(400, "InvalidParameter", f"this server does not act out an update of {sorted(others)}")
    sku = body.get("sku", {})
    if sku.get("name", scale_set.size) != scale_set.size or sku.get("tier", "Standard") != "Standard":
        raise Fault(400, "InvalidParameter", "this server does not act out an update of the size")
    capacity = sku.get("capacity", scale_set.capacity)
    if not 0 <= capacity <= 1000:
        raise Fault(400, "InvalidParameter", f"The value {capacity} of parameter 'sku.capacity' is out of range.")
    scaling.check_room(sub, scale_set, capacity)
    operation = scaling.begin_change(sub, scale_set, "update")
    scale_set.tags = dict(body.get("tags", scale_set.tags))
    scale_set.capacity = capacity
    if "capacity" in sku:
        scaling.grow(sub, scale_set, operation)
        scaling.shrink(sub, scale_set)
    return accepted(sub, call, operation, 200, view(sub, scale_set))


def delete_instances(sub: Subscription, call: Call) -> Answer:
    """Delete VMs of the set by their ids, and lower its capacity by as many."""
    scale_set, wanted = named(sub, call), call.body["instanceIds"]
    there = {vm.instance_id.lower(): vm for vm in sub.members(scale_set)}
    doomed: list[Vm] = []
    for id in dict.fromkeys(each.lower() for each in wanted):
        if id not in there:
            raise not_active(id)
        doomed.append(there[id])
    if not doomed:
        raise Fault(400, "InvalidParameter", "The value of parameter instanceIds is invalid.")
    force = call.query.get("forceDeletion") == "true"
    operation = scaling.begin_deletion(sub, scale_set, doomed, force=force)
    return accepted(sub, call, operation, 202)


def not_active(id: str) -> Fault:
    """A VM that is being deleted, or not in the set: no code of its own, only the text tells.

    https://github.com/microsoft/onefuzz/issues/2547, https://github.com/kubernetes-sigs/cloud-provider-azure/issues/2356.
    That reads are answered so too is a decision.
    """
    message = f"The provided instanceId {id} is not an active Virtual Machine Scale Set VM instanceId."
    return Fault(400, "InvalidParameter", message, target="instanceIds")


def instance_view(sub: Subscription, call: Call) -> Answer:
    """How many VMs of the set are in which state."""
    scale_set, at = named(sub, call), sub.listed_at
    mine = sub.id_of(scale_set)
    states = [vm.state_at(at)[0] for vm in sub.vms.values() if vm.scale_set == mine and vm.there_at(at)]
    counts = Counter(f"ProvisioningState/{state.lower()}" for state in states)
    state = scale_set.provisioning_at(sub.clock.now)
    return Answer(
        {
            "virtualMachine": {"statusesSummary": [{"code": code, "count": n} for code, n in counts.items()]},
            "statuses": [{"code": f"ProvisioningState/{state.lower()}", "level": "Info", "displayStatus": state}],
        }
    )
