"""The cloud as a state machine. Calls and the passing of time are its input, and durable records are its output. The
cloud has no clock of its own.

``advance`` does what is due: scheduled changes, replacements of dead machines, and launches. It is called before every
call and at ``next_due``. Everything is synchronous, so calls in one event loop never interleave.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from charterer.tools.fakecloud.config import SECOND, BillSegment, CloudConfig, GroupSpec
from charterer.tools.fakecloud.records import (
    Activity,
    CloudAccount,
    InstanceGroup,
    Machine,
    NodePhase,
    TargetSet,
    WaitingOrders,
)
from charterer.tools.fakecloud.state import State

# Refusals of calls. Each has a code, an HTTP status, and a message that says what to do.


class RefusedCall(Exception):
    """An error as the answer to a call. ``details``: further fields of the answer's error object."""

    def __init__(self, status: int, code: str, message: str, details: Mapping[str, int] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.details = dict(details or {})


def group_not_found(group: str) -> RefusedCall:
    """The refusal if there is no group of that name."""
    return RefusedCall(404, "GroupNotFound", f"there is no group {group!r}; GET /v1/groups lists them")


def instance_not_found(instance: str, where: str) -> RefusedCall:
    """The refusal if there is no such machine, or if it ended too long ago to be listed."""
    return RefusedCall(404, "InstanceNotFound", f"there is no instance {instance!r} in {where}")


def would_terminate(group: str, target: int, members: int) -> RefusedCall:
    """The refusal of a target below the number of machines. The cloud would otherwise have to choose a machine to
    end.
    """
    message = f"target {target} of group {group!r} is below its {members} instances; DELETE the instance to end instead"
    return RefusedCall(409, "WouldTerminate", message)


def target_changed(group: str, expected: int, target: int) -> RefusedCall:
    """The refusal if the expected target is out of date. The answer contains the present target."""
    message = f"the target of group {group!r} is {target}, not {expected} as expected; decide again"
    return RefusedCall(409, "TargetChanged", message, {"target": target})


def max_size_exceeded(group: str, target: int, max_size: int) -> RefusedCall:
    """The refusal of a target above the group's maxSize."""
    return RefusedCall(400, "MaxSizeExceeded", f"target {target} is above maxSize {max_size} of group {group!r}")


def min_size_reached(group: str, target: int, min_size: int) -> RefusedCall:
    """The refusal of a target below the group's minSize."""
    return RefusedCall(409, "MinSizeReached", f"target {target} would be below minSize {min_size} of group {group!r}")


def other_orders(group: str, orders: str) -> RefusedCall:
    """The refusal of a call that a group with this kind of orders does not accept."""
    call = f"PUT /v1/groups/{group}/target" if orders == "counted" else f"POST /v1/groups/{group}/orders"
    return RefusedCall(400, "InvalidRequest", f"the orders of group {group!r} are {orders}: use {call}")


def order_launched(group: str, order: str, instance: str) -> RefusedCall:
    """The refusal to withdraw an order that has a machine."""
    message = f"order {order!r} of group {group!r} has instance {instance!r}; DELETE the instance to end it"
    return RefusedCall(409, "OrderLaunched", message)


def invalid(message: str) -> RefusedCall:
    """The refusal of a call with invalid content."""
    return RefusedCall(400, "InvalidRequest", message)


Clock = Callable[[], int]
"""The time in microseconds since 1970-01-01T00:00:00Z."""


class Failure(NamedTuple):
    """Why a machine was not launched."""

    code: str
    message: str


class FakeAccount:
    """One account of the fake cloud. Calls that the cloud refuses raise RefusedCall and change nothing."""

    def __init__(self, state: State, clock: Clock, config: CloudConfig) -> None:
        """Continue from ``state``. New and changed groups are taken from the configuration."""
        self._state = state
        self._clock = clock
        self._latest = max((machine.launched for machine in state.machines.values()), default=0)
        self._declare(config)
        self.advance()

    # --- time -----------------------------------------------------------------------------------------------------

    def now(self) -> int:
        """The cloud's time. It never goes back, whatever the clock does."""
        self._latest = max(self._latest, self._clock())
        return self._latest

    def next_due(self) -> int | None:
        """The time at which ``advance`` next has something to do, if nobody calls before. None if there is nothing to
        do.
        """
        due: list[int] = []
        for group in self._state.groups.values():
            members = self._members(group)
            if group.waiting or self._missing(group):
                due.append(group.retry)
            due += [self._heals(group, member) for member in members if member.ends is not None]
            due += [self._change_due(group)] if group.changes_done < len(group.spec.changes) else []
        return min(due, default=None)

    def advance(self) -> None:
        """Do what is due by now: make scheduled changes, replace dead machines, and launch missing machines."""
        now = self.now()
        due = self.next_due()
        if due is None or due > now:
            return
        with self._state.transaction():
            for name in self._state.groups:
                self._advance_group(name, now)

    def _advance_group(self, name: str, now: int) -> None:
        while (group := self._state.groups[name]).changes_done < len(group.spec.changes):
            if self._change_due(group) > now:
                break
            change = group.spec.changes[group.changes_done]
            self._respec(replace(group, changes_done=group.changes_done + 1), group.spec.patched(change.patch), now)
        group = self._state.groups[name]
        for member in self._members(group):
            if member.ends is not None and self._heals(group, member) <= now:
                self._state.put_machine(replace(member, detached=now))
        self._launch_missing(group, now)

    # --- the account and its groups ---------------------------------------------------------------------------------

    @property
    def account(self) -> CloudAccount:
        """The present account."""
        if self._state.account is None:
            raise RuntimeError("the cloud has not been started")
        return self._state.account

    def _declare(self, config: CloudConfig) -> None:
        now = self.now()
        quotas = tuple(sorted(config.quotas.items()))
        with self._state.transaction():
            if self._state.account is None:
                self._state.put_account(CloudAccount(now, config.seed, quotas, quotas))
            elif self.account.declared_quotas != quotas:
                self._state.put_account(replace(self.account, quotas=quotas, declared_quotas=quotas))
            for spec in config.groups:
                group = self._state.groups.get(spec.name)
                if group is None:
                    self._create(spec, now)
                elif group.declared != spec:
                    self._respec(replace(group, declared=spec, changes_done=0), spec, now)

    def _create(self, spec: GroupSpec, now: int) -> None:
        self._state.put_group(InstanceGroup(spec, spec, (TargetSet(now, spec.initial_target),)))

    def _respec(self, group: InstanceGroup, spec: GroupSpec, now: int) -> None:
        self._state.put_group(replace(group, spec=spec))
        if not spec.reprice_running or spec.spot_factor == group.spec.spot_factor:
            return
        running = [m for m in self._state.machines.values() if m.group == group.name and not m.ended(now)]
        for machine in running:
            segment = BillSegment(now, spec.price_of(machine.list_price))
            self._state.put_machine(replace(machine, segments=(*machine.segments, segment)))

    def groups(self) -> Sequence[InstanceGroup]:
        """All groups by name."""
        self.advance()
        return tuple(self._state.groups.values())

    def group(self, name: str) -> InstanceGroup:
        """One group."""
        self.advance()
        return self._group(name)

    def _group(self, name: str) -> InstanceGroup:
        if name not in self._state.groups:
            raise group_not_found(name)
        return self._state.groups[name]

    def change_group(self, name: str, patch: dict[str, Any]) -> InstanceGroup:
        """Change some fields of a group, or create it. pydantic.ValidationError if the fields are invalid."""
        self.advance()
        group = self._state.groups.get(name)
        spec = GroupSpec.model_validate(patch | {"name": name}) if group is None else group.spec.patched(patch)
        if spec.name != name:
            raise invalid(f"group {name!r} cannot be renamed to {spec.name!r}")
        with self._state.transaction():
            if group is None:
                self._create(spec, self.now())
            else:
                self._respec(group, spec, self.now())
        return self.group(name)

    def change_quotas(self, quotas: dict[str, int | None]) -> CloudAccount:
        """Set quotas by GPU type. The value None removes a quota."""
        self.advance()
        merged: dict[str, int | None] = {**dict(self.account.quotas), **quotas}
        kept = tuple(sorted((gpu_type, gpus) for gpu_type, gpus in merged.items() if gpus is not None))
        with self._state.transaction():
            self._state.put_account(replace(self.account, quotas=kept))
        return self.account

    # --- reading ------------------------------------------------------------------------------------------------------

    def machines(self) -> Sequence[Machine]:
        """Every machine ever launched, in the order of launch, with its present state."""
        self.advance()
        return tuple(self._state.machines.values())

    def listed(self, name: str) -> tuple[int, Sequence[Machine]]:
        """A group's list of machines, and the instant whose state the list shows."""
        group = self.group(name)
        seen = group.seen_at(self.now())
        machines = (machine for machine in self._state.machines.values() if machine.group == name)
        return seen, tuple(m for m in machines if m.launched <= seen and self._listed(m, group, seen))

    def _listed(self, machine: Machine, group: InstanceGroup, at: int) -> bool:
        return machine.ends is None or machine.ends > at - round(group.spec.listed_seconds * SECOND)

    def activities(self, name: str) -> Sequence[Activity]:
        """A group's latest attempts to launch, as the group's list shows them. The newest is first."""
        seen = self.group(name).seen_at(self.now())
        return tuple(activity for activity in reversed(self._state.activities[name]) if activity.at <= seen)

    # --- the calls that change something ------------------------------------------------------------------------------

    def set_target(self, name: str, target: int, expected: int | None = None) -> InstanceGroup:
        """Set the group's target. If ``expected`` is given and is not the present target, the call is refused."""
        group = self.group(name)
        if group.spec.orders != "counted":
            raise other_orders(name, group.spec.orders)
        if expected is not None and expected != group.target:
            raise target_changed(name, expected, group.target)
        if target > group.spec.max_size:
            raise max_size_exceeded(name, target, group.spec.max_size)
        if target < group.spec.min_size:
            raise min_size_reached(name, target, group.spec.min_size)
        if target < (members := len(self._members(group))):
            raise would_terminate(name, target, members)
        now = self.now()
        with self._state.transaction():
            self._launch_missing(group.with_target(target, now), now)
        return self._group(name)

    def place(self, name: str, orders: Sequence[str], *, together: bool) -> Mapping[str, Machine | Failure | None]:
        """Launch a machine for each order. The answer for an order that was placed before is its machine, or that it
        still waits.

        If orders of the group are answered at once (``replying``), a failure is the answer, and no order is left
        waiting. If orders of the group are ``named``, an order without a machine waits (None) until it is withdrawn.
        ``together``: whether all new orders are launched or none.
        """
        group = self.group(name)
        if group.spec.orders == "counted":
            raise other_orders(name, group.spec.orders)
        placed = {m.order: m for m in self._state.machines.values() if m.group == name and m.order}
        waiting = set(group.ordered)
        new = [order for order in dict.fromkeys(orders) if order not in placed and order not in waiting]
        alive = len(self._members(group)) + len(waiting)
        if alive + len(new) > group.spec.max_size:
            raise max_size_exceeded(name, alive + len(new), group.spec.max_size)
        now = self.now()
        with self._state.transaction():
            parts = (
                [WaitingOrders(tuple(new), together=True)] if together else [WaitingOrders((o,), False) for o in new]
            )
            group = replace(group, waiting=(*group.waiting, *(part for part in parts if part.names)), retry=0)
            failures = self._launch_missing(group, now)
            if group.spec.orders == "replying":
                self._state.put_group(replace(self._state.groups[name], waiting=()))
            else:
                failures = {}
        placed = {m.order: m for m in self._state.machines.values() if m.group == name and m.order}
        return {order: placed.get(order, failures.get(order)) for order in orders}

    def withdraw(self, name: str, order: str) -> InstanceGroup:
        """Give up a waiting order. An order that was never placed counts as given up."""
        group = self.group(name)
        for machine in self._state.machines.values():
            if machine.group == name and machine.order == order:
                raise order_launched(name, order, machine.id)
        left = [replace(part, names=tuple(n for n in part.names if n != order)) for part in group.waiting]
        with self._state.transaction():
            self._state.put_group(replace(group, waiting=tuple(part for part in left if part.names)))
        return self._group(name)

    def terminate(self, name: str, instance: str, *, decrement: bool) -> Machine:
        """End one machine. A repeated call changes nothing.

        If ``decrement``, the group's target falls by one. Otherwise the group replaces the machine.
        """
        group = self.group(name)
        now = self.now()
        machine = self._state.machines.get(instance)
        if machine is None or machine.group != name or not self._listed(machine, group, group.seen_at(now)):
            raise instance_not_found(instance, f"group {name!r}")
        if machine.detached is not None:
            return machine
        if decrement and group.spec.orders == "counted" and group.target <= group.spec.min_size:
            raise min_size_reached(name, group.target - 1, group.spec.min_size)
        if not machine.ended(now):
            ending = machine.ending(now + round(group.spec.stop_seconds * SECOND), "Terminated")
            machine = replace(ending, stops=now)
        with self._state.transaction():
            self._state.put_machine(replace(machine, detached=now))
            counted = decrement and group.spec.orders == "counted"
            self._launch_missing(group.with_target(group.target - 1, now) if counted else group, now)
        return self._state.machines[instance]

    # --- what happens to machines -------------------------------------------------------------------------------------

    def machine(self, instance: str) -> Machine:
        """A machine, running or ended. Raises RefusedCall if there never was one."""
        self.advance()
        if instance not in self._state.machines:
            raise instance_not_found(instance, "this cloud")
        return self._state.machines[instance]

    def kill(self, instance: str, *, node_stays: bool) -> Machine:
        """Let the machine die at once. Its Node object is deleted later, or remains without a kubelet."""
        machine = self.machine(instance)
        now = self.now()
        if machine.ended(now):
            return machine
        return self._put(replace(machine.ending(now, "Died"), stays=node_stays))

    def interrupt(self, instance: str, notice_seconds: float) -> Machine:
        """Take the machine back ``notice_seconds`` after its warning. If the machine ends earlier anyway, it ends
        then.
        """
        machine = self.machine(instance)
        now = self.now()
        if machine.ended(now):
            return machine
        at = now + round(notice_seconds * SECOND)
        ending = machine.ending(at, "SpotInterruption")
        return self._put(replace(ending, interrupt_noticed=now, interrupt_at=ending.ends))

    def silence(self, instance: str) -> Machine:
        """Let the machine's kubelet stop reporting, while the machine runs on."""
        return self._put(replace(self.machine(instance), silenced=True))

    def node_done(self, instance: str, phase: NodePhase) -> None:
        """Record the last action on the machine's Node."""
        self._put(replace(self._state.machines[instance], node=phase))

    def _put(self, machine: Machine) -> Machine:
        with self._state.transaction():
            self._state.put_machine(machine)
        self.advance()
        return self._state.machines[machine.id]

    # --- launching ----------------------------------------------------------------------------------------------------

    def _members(self, group: InstanceGroup) -> list[Machine]:
        return list(self._state.members[group.name].values())

    def _missing(self, group: InstanceGroup) -> int:
        """Number of machines that a group with a target lacks."""
        return max(group.target - len(self._members(group)), 0) if group.spec.orders == "counted" else 0

    def _heals(self, group: InstanceGroup, member: Machine) -> int:
        return (member.ends or 0) + round(group.spec.heal_seconds * SECOND)

    def _change_due(self, group: InstanceGroup) -> int:
        return self.account.born + round(group.spec.changes[group.changes_done].after_seconds * SECOND)

    def _launch_missing(self, group: InstanceGroup, now: int) -> Mapping[str, Failure]:
        """Launch the missing machines. Returns the failures of waiting orders."""
        if group.retry > now:
            self._state.put_group(group)
            return {}
        counted = (WaitingOrders(("",), together=False) for _ in range(self._missing(group)))
        failures: dict[str, Failure] = {}
        waiting: list[WaitingOrders] = []
        for part in (*group.waiting, *counted):
            failure = self._launch_failure(group.spec, len(part.names), now)
            if failure is None:
                for order in part.names:
                    self._launch(group.spec, now, order)
                continue
            for order in part.names:
                self._record(group.name, now, code=failure.code, message=failure.message, order=order)
            group = replace(group, retry=now + round(group.spec.retry_seconds * SECOND))
            if not any(part.names):
                break
            failures |= dict.fromkeys(part.names, failure)
            waiting.append(part)
        self._state.put_group(replace(group, waiting=tuple(waiting)))
        return failures

    def _launch_failure(self, spec: GroupSpec, machines: int, now: int) -> Failure | None:
        """Why ``machines`` machines cannot be launched now, or None if they can."""
        alive = [machine for machine in self._state.machines.values() if not machine.ended(now)]
        in_group = sum(machine.group == spec.name for machine in alive)
        if spec.stock is not None and in_group + machines > spec.stock:
            message = f"no {spec.instance_type} is left in {spec.zone}; try again later"
            return Failure("InsufficientInstanceCapacity", message)
        used = sum(machine.gpus for machine in alive if machine.gpu_type == spec.gpu_type)
        quota = self.account.quota(spec.gpu_type)
        if quota is not None and used + machines * spec.gpus_per_instance > quota:
            message = f"{used} of {quota} {spec.gpu_type} GPUs of the account's quota are in use"
            return Failure("InstanceLimitExceeded", message)
        return None

    def _launch(self, spec: GroupSpec, now: int, order: str) -> None:
        ordinal = self.account.machines + 1
        self._state.put_account(replace(self.account, machines=ordinal))
        draws = random.Random(f"{self.account.seed}/{ordinal}")
        startup = draws.choice(spec.startup_draws) * spec.startup_scale
        machine = Machine(
            id="i-" + hashlib.sha256(f"{self.account.born}/{self.account.seed}/{ordinal}".encode()).hexdigest()[:17],
            group=spec.name,
            zone=spec.zone,
            gpu_type=spec.gpu_type,
            gpus=spec.gpus_per_instance,
            list_price=spec.list_price,
            billing_minimum=spec.billing_minimum_seconds,
            segments=(BillSegment(now, spec.price_of(spec.list_price)),),
            launched=now,
            runs=now + round(startup * SECOND),
            stays=spec.node_object == "silent",
            order=order,
        )
        if spec.capacity_type == "Spot" and spec.lifetime_seconds is not None:
            at = now + round(draws.choice(spec.lifetime_seconds) * SECOND)
            noticed = max(now, at - round(spec.notice_seconds * SECOND))
            machine = replace(machine.ending(at, "SpotInterruption"), interrupt_noticed=noticed, interrupt_at=at)
        self._state.put_machine(machine, ordinal)
        self._record(spec.name, now, instance=machine.id, order=order)

    def _record(
        self, group: str, now: int, *, code: str = "", message: str = "launched", instance: str = "", order: str = ""
    ) -> None:
        ordinal = self.account.activities + 1
        self._state.put_account(replace(self.account, activities=ordinal))
        activity = Activity(f"a-{ordinal}", group, now, not code, code, message, instance, order)
        self._state.add_activity(activity, ordinal)
