"""How scale sets grow and shrink: quota, stock, placement, overprovisioning, deletion."""

from __future__ import annotations

import uuid
from collections import Counter
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

from tests.clouds.azure.catalogue import MESSAGES, SIZES
from tests.clouds.azure.protocol import Fault
from tests.clouds.azure.resources import Operation, ScaleSet, Vm

if TYPE_CHECKING:
    from tests.clouds.azure.subscription import Subscription

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _base36(number: int) -> str:
    """Six digits, as computer names end: https://learn.microsoft.com/azure/virtual-machine-scale-sets/virtual-machine-scale-sets-instance-ids"""
    return "".join(_DIGITS[number // 36**power % 36] for power in range(5, -1, -1))


# --- refusals at once ----------------------------------------------------------------------------------------------


def check_room(sub: Subscription, scale_set: ScaleSet, capacity: int) -> None:
    """Refuse what is beyond a quota, or a size that is not offered there, before anything changes."""
    wanted = priorities(sub, scale_set, capacity)
    places = scale_set.zones or (scale_set.location,)
    if wanted and all((scale_set.size, place) in sub.not_offered for place in places):
        where = (
            f"'{scale_set.location}'" if not scale_set.zones else f"'{scale_set.location}' zones '{','.join(places)}'"
        )
        raise Fault(
            409,
            "SkuNotAvailable",
            f"The requested VM size for resource '{scale_set.name}' is currently not available in location {where}. "
            "Please try another size or deploy to a different location or different zone. See "
            "https://aka.ms/azureskunotavailable for details.",
        )
    vcpus = SIZES[scale_set.size].vcpus
    for priority, number in Counter(wanted).items():
        names = ("lowPriorityCores",) if priority == "Spot" else (SIZES[scale_set.size].family, "cores")
        for name in names:
            if name in sub.quotas and sub.used(name) + number * vcpus > sub.quotas[name]:
                raise quota_exceeded(sub, name, number * vcpus)


def quota_exceeded(sub: Subscription, name: str, more: int) -> Fault:
    """https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting/error-resource-quota"""
    title = {"cores": "Total Regional Cores", "lowPriorityCores": "LowPriorityCores"}.get(name, f"{name} Cores")
    limit, used = sub.quotas[name], sub.used(name)
    message = (
        f"Operation could not be completed as it results in exceeding approved {title} quota. Additional details - "
        f"Deployment Model: Resource Manager, Location: {sub.location}, Current Limit: {limit}, Current Usage: {used}, "
        f"Additional Required: {more}, (Minimum) New Limit Required: {used + more}. Submit a request for Quota "
        "increase at https://aka.ms/quotaincrease by specifying parameters listed in the 'Details' section for "
        "deployment to succeed. Please read more about quota limits at https://aka.ms/quotalimits"
    )
    return Fault(409, sub.quota_code, message)


def priorities(sub: Subscription, scale_set: ScaleSet, capacity: int) -> list[str]:
    """The priorities of the VMs that are missing.

    https://learn.microsoft.com/azure/virtual-machine-scale-sets/spot-priority-mix
    """
    there = sub.members(scale_set)
    missing = max(capacity - len(there), 0)
    if scale_set.mix is None:
        return [scale_set.priority] * missing
    base, percent = scale_set.mix
    regular = min(capacity, base) + -(-max(capacity - base, 0) * percent // 100)
    more = min(missing, max(regular - sum(vm.priority == "Regular" for vm in there), 0))
    return ["Regular"] * more + ["Spot"] * (missing - more)


# --- growing -------------------------------------------------------------------------------------------------------


def place_of(sub: Subscription, scale_set: ScaleSet) -> str | None:
    """The zone of the next VM: the emptiest; None for a set without zones."""
    counts = Counter(vm.zone for vm in sub.members(scale_set))
    return min(scale_set.zones, key=lambda zone: counts[zone]) if scale_set.zones else None


def make(sub: Subscription, scale_set: ScaleSet, zone: str | None, priority: str) -> Vm:
    """One more VM of a set, which is being created."""
    now, number = sub.clock.now, _next_number(sub, scale_set)
    uniform = scale_set.orchestration == "Uniform"
    name = f"{scale_set.name}_{number}" if uniform else f"{scale_set.name}_{uuid.uuid4().hex[:8]}"
    mine = sub.id_of(scale_set)
    id = f"{mine}/virtualMachines/{number}" if uniform else sub.path(scale_set.group, "virtualMachines", name)
    if (former := sub.vms.pop(id, None)) is not None:
        former.id = f"{id}#{former.vm_id}"
        sub.vms[former.id] = former
    vm = Vm(
        id=id,
        name=name,
        instance_id=str(number) if uniform else name,
        computer=f"{scale_set.name}{_base36(number).lower()}",
        vm_id=str(uuid.uuid4()),
        size=scale_set.size,
        group=scale_set.group,
        location=scale_set.location,
        zone=zone,
        priority=priority,
        scale_set=mine,
        created=now,
        states=[(now, "Creating", "creating")],
        tags=[(now, dict(scale_set.tags))],
    )
    sub.vms[vm.id] = vm
    return vm


def _next_number(sub: Subscription, scale_set: ScaleSet) -> int:
    if scale_set.reuses_numbers:
        taken = {vm.name.rpartition("_")[2] for vm in sub.members(scale_set)}
        return next(number for number in count() if str(number) not in taken)
    scale_set.next_number += 1
    return scale_set.next_number - 1


def _reserved(sub: Subscription, scale_set: ScaleSet, zone: str | None) -> str | None:
    """The ARM id of a reservation with a free place for one more VM."""
    held = sub.reservation_groups.get((scale_set.reservation_group or "").lower())
    for reservation in held.reservations.values() if held else ():
        if (reservation.size, reservation.zone) == (scale_set.size, zone) and held is not None:
            parent = sub.path(held.group, "capacityReservationGroups", held.name)
            id = f"{parent}/capacityReservations/{reservation.name}"
            if sum(vm.reserved == id and vm.ending is None for vm in sub.vms.values()) < reservation.capacity:
                return id
    return None


def _take(sub: Subscription, scale_set: ScaleSet, priority: str) -> tuple[str | None, str | None] | str:
    """Zone and reservation for one more VM; the code of the failure when there is no host."""
    counts = Counter(vm.zone for vm in sub.members(scale_set))
    order: list[str | None] = [*sorted(scale_set.zones, key=lambda zone: counts[zone])] or [None]
    for zone in order:
        if id := _reserved(sub, scale_set, zone):
            return zone, id
    for zone in order:
        key = (scale_set.size, zone or scale_set.location, priority)
        if (scale_set.size, zone or scale_set.location) in sub.not_offered:
            continue
        if key not in sub.stock:
            return zone, None
        if sub.stock[key] > 0:
            sub.stock[key] -= 1
            return zone, None
    plain = "ZonalAllocationFailed" if scale_set.zones else "AllocationFailed"
    return sub.stock_out.get((scale_set.size, order[0] or scale_set.location, priority), plain)


def grow(sub: Subscription, scale_set: ScaleSet, operation: Operation) -> None:
    """Make the VMs that are missing.

    What finds a host comes, although others do not; the capacity stays at what was asked, and VMs without a host stay
    as Failed (seen in https://github.com/kubernetes/autoscaler/issues/5548).
    """
    now, ends = sub.clock.now, operation.ends
    wanted = priorities(sub, scale_set, scale_set.capacity)
    if wanted and scale_set.overprovision and scale_set.orchestration == "Uniform":
        _overprovision(sub, scale_set, -(-len(wanted) // 5), operation)
    late = sub.late_failures.pop(0) if wanted and sub.late_failures else None
    for priority in wanted:
        found = _take(sub, scale_set, priority)
        if isinstance(found, str):
            operation.error = operation.error or (found, MESSAGES.get(found, found))
            if sub.leaves_failed:
                vm = make(sub, scale_set, place_of(sub, scale_set), priority)
                vm.states.append((ends, "Failed", ""))
                vm.failure, vm.hosted = (found, MESSAGES.get(found, found)), False
            continue
        zone, reserved = found
        vm = make(sub, scale_set, zone, priority)
        vm.reserved = reserved
        runs = now + timedelta(seconds=sub.start_seconds)
        if late is not None:
            vm.states += [(min(runs, ends), "Creating", "running"), (ends, "Failed", "running")]
            vm.failure = operation.error = (late.code, late.message)
        else:
            vm.states.append((runs, "Succeeded", "running"))


def _overprovision(sub: Subscription, scale_set: ScaleSet, extra: int, operation: Operation) -> None:
    """VMs beyond what was asked, which Azure deletes when the operation ends, and which it does not bill.

    https://learn.microsoft.com/azure/virtual-machine-scale-sets/virtual-machine-scale-sets-design-overview
    """
    for _ in range(extra):
        vm = make(sub, scale_set, place_of(sub, scale_set), scale_set.priority)
        vm.ending, vm.ended, vm.hosted = sub.clock.now, operation.ends, False


# --- shrinking -----------------------------------------------------------------------------------------------------


def delete(sub: Subscription, vm: Vm, seconds: float) -> None:
    """Delete a VM, which is gone after so many seconds; its place is free again."""
    now = sub.clock.now
    _, power = vm.state_at(now)
    vm.ending, vm.ended = now, now + timedelta(seconds=seconds)
    vm.become(now, "Deleting", power)
    key = (vm.size, vm.place, vm.priority)
    if vm.hosted and vm.reserved is None and key in sub.stock:
        sub.stock[key] += 1
    vm.hosted = False


def begin_deletion(sub: Subscription, scale_set: ScaleSet, vms: list[Vm], *, force: bool) -> Operation:
    """An operation that deletes VMs of a set and lowers its capacity by as many."""
    seconds = 0.0 if force else sub.delete_seconds
    operation = begin_change(sub, scale_set, "delete", seconds)
    operation.deletes = vms
    for vm in vms:
        delete(sub, vm, seconds)
    scale_set.capacity -= len(vms)
    return operation


def _undo_deletion(sub: Subscription, scale_set: ScaleSet, operation: Operation) -> None:
    """What is not gone yet stays, and counts again."""
    for vm in operation.deletes:
        vm.ending = vm.ended = None
        vm.become(sub.clock.now, "Succeeded", "running")
        vm.hosted = True
        key = (vm.size, vm.place, vm.priority)
        if vm.reserved is None and key in sub.stock:
            sub.stock[key] -= 1
        scale_set.capacity += 1


def shrink(sub: Subscription, scale_set: ScaleSet) -> None:
    """Delete what is too much: from the fullest zone, of Uniform sets the highest number, of Flexible ones the oldest.

    https://learn.microsoft.com/azure/virtual-machine-scale-sets/virtual-machine-scale-sets-scale-in-policy
    """
    there = sub.members(scale_set)
    while len(there) > scale_set.capacity:
        counts = Counter(vm.zone for vm in there)
        fullest = [vm for vm in there if counts[vm.zone] == max(counts.values())]
        chosen = fullest[-1] if scale_set.orchestration == "Uniform" else fullest[0]
        there.remove(chosen)
        delete(sub, chosen, sub.delete_seconds)


def begin_change(sub: Subscription, scale_set: ScaleSet, name: str, seconds: float | None = None) -> Operation:
    """An operation that changes the set: it preempts the one that runs, or is refused.

    OperationPreempted: https://github.com/kubernetes/autoscaler/pull/9835, where a deletion was preempted and had to be
    asked for again. The conflict with a concurrent request is
    what others meet with HTTP 409; which of both comes when is not documented.
    """
    now, running = sub.clock.now, scale_set.latest
    if running is not None and now < running.ends:
        if sub.conflicts:
            raise Fault(409, "Conflict", "The request failed due to conflict with a concurrent request.")
        running.ends, running.error = now, ("OperationPreempted", MESSAGES["OperationPreempted"])
        if sub.undoes_deletions:
            _undo_deletion(sub, scale_set, running)
    scale_set.latest = sub.begin(name, sub.id_of(scale_set), seconds=seconds)
    scale_set.version += 1
    return scale_set.latest
