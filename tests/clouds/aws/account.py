"""An account of AWS in one region: its stock, its machines with their true bill, and what a test may do by hand."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from tests.clouds.aws.catalogue import TYPES
from tests.clouds.aws.protocol import Fault, Params
from tests.clouds.clock import Clock
from tests.clouds.faults import Faults

TERMINATED_LISTED = timedelta(hours=1)
MINIMUM_SECONDS = 60
PLENTY = 10**6


@dataclass(frozen=True)
class Subnet:
    """A subnet: its zone and the addresses that are free in it."""

    id: str
    zone: str
    free: int = 250


@dataclass
class Machine:
    """An instance. ``tags``: what it carries, with the time from which it does; times are the cloud's."""

    id: str
    type: str
    subnet: Subnet
    lifecycle: str
    launched: datetime
    runs: datetime
    token: str
    tags: list[tuple[datetime, Mapping[str, str]]]
    group: str | None = None
    reservation: str | None = None
    ending: datetime | None = None
    terminated: datetime | None = None
    reason: tuple[str, str] = ("", "")

    def tags_at(self, at: datetime) -> dict[str, str]:
        """The tags at a time."""
        return {key: value for since, tags in self.tags if since <= at for key, value in tags.items()}

    def state_at(self, at: datetime) -> str:
        """The state at a time."""
        if self.terminated is not None and self.terminated <= at:
            return "terminated"
        if self.ending is not None and self.ending <= at:
            return "shutting-down"
        return "running" if self.runs <= at else "pending"


@dataclass
class Group:
    """An Auto Scaling group and the settings that preflight looks at. ``notes``: tags that its instances do not get."""

    name: str
    template: str
    types: tuple[str, ...]
    subnets: tuple[str, ...]
    tags: dict[str, str]
    lifecycle: str = "on-demand"
    on_demand_percent: int | None = None
    least: int = 0
    most: int = 100
    desired: int = 0
    suspended: tuple[str, ...] = ("AZRebalance", "ReplaceUnhealthy", "InstanceRefresh")
    max_lifetime: int | None = None
    policies: tuple[str, ...] = ()
    scheduled: tuple[str, ...] = ()
    warm: bool = False
    notes: dict[str, str] = field(default_factory=dict)


@dataclass
class Account:
    """Everything of one account. A test sets the fields.

    ``blocks``: the end dates of reservations that are Capacity Blocks.
    ``calls``: every call that came, with its parameters; ``callers``: the keys that signed those of each operation.
    ``witness``: is called just before and just after (``before``, ``after``) a call takes effect, with its operation.
    """

    clock: Clock = field(default_factory=Clock)
    region: str = "us-east-1"
    number: str = "111122223333"
    faults: Faults = field(default_factory=Faults)
    subnets: dict[str, Subnet] = field(default_factory=dict)
    templates: dict[str, dict[str, Params]] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    stock: dict[tuple[str, str, str], int] = field(default_factory=dict)
    not_offered: set[tuple[str, str]] = field(default_factory=set)
    reservations: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    blocks: dict[str, datetime] = field(default_factory=dict)
    quota: dict[str, int] = field(default_factory=lambda: {"on-demand": PLENTY, "spot": PLENTY})
    prices: dict[str, Decimal] = field(default_factory=lambda: {name: facts.price for name, facts in TYPES.items()})
    unpriced: set[str] = field(default_factory=set)
    spot_history: dict[tuple[str, str], list[tuple[datetime, Decimal]]] = field(default_factory=dict)
    pending_seconds: float = 0.0
    ending_seconds: float = 0.0
    list_lag: float = 0.0
    page: int = 1000
    denied: set[str] = field(default_factory=set)
    expired: set[str] = field(default_factory=set)
    roles: set[str] = field(default_factory=set)
    queue: list[tuple[datetime, str, str]] = field(default_factory=list)
    machines: dict[str, Machine] = field(default_factory=dict)
    tokens: dict[tuple[str, str], tuple[Params, Params]] = field(default_factory=dict)
    callers: dict[str, set[str]] = field(default_factory=dict)
    calls: list[tuple[str, Params]] = field(default_factory=list)
    witness: Callable[[str, str], None] = lambda when, operation: None
    lock: threading.RLock = field(default_factory=threading.RLock)

    def add_subnet(self, id: str, zone: str, free: int = 250) -> None:
        """Make a subnet."""
        self.subnets[id] = Subnet(id, zone, free)

    def add_template(self, name: str, **data: object) -> None:
        """Make the next version of a launch template."""
        versions = self.templates.setdefault(name, {})
        versions[str(len(versions) + 1)] = {"ImageId": "ami-0123456789abcdef0", **data}

    def check_caller(self, operation: str, key: str) -> None:
        """Refuse who may not make the call."""
        self.callers.setdefault(operation, set()).add(key)
        ec2 = operation.startswith("ec2:")
        if key in self.expired:
            raise Fault("RequestExpired" if ec2 else "ExpiredToken", "The security token in the request is expired")
        if operation in self.denied:
            code = "UnauthorizedOperation" if ec2 else "AccessDenied"
            raise Fault(code, f"You are not authorized to perform: {operation}", 403)

    # --- launching -------------------------------------------------------------------------------------------------

    def refused(self, type_name: str, subnet: str, lifecycle: str) -> tuple[str, str] | None:
        """The code and message with which one more machine would be refused; None when there is room."""
        if subnet not in self.subnets:
            return "InvalidSubnetID.NotFound", f"The subnet ID '{subnet}' does not exist"
        zone = self.subnets[subnet].zone
        if (type_name, zone) in self.not_offered:
            return "Unsupported", f"Your requested instance type ({type_name}) is not supported in {zone}."
        used = sum(TYPES[m.type].vcpus for m in self.alive() if m.lifecycle == lifecycle)
        if used + TYPES[type_name].vcpus > self.quota[lifecycle]:
            if lifecycle == "spot":
                return "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"
            return (
                "VcpuLimitExceeded",
                f"You have requested more vCPU capacity than your limit of {self.quota[lifecycle]}",
            )
        if sum(m.subnet.id == subnet for m in self.alive()) >= self.subnets[subnet].free:
            return "InsufficientFreeAddressesInSubnet", f"There are not enough free addresses in subnet '{subnet}'."
        if self.stock.get((type_name, zone, lifecycle), PLENTY) < 1:
            return (
                "InsufficientInstanceCapacity",
                f"We currently do not have sufficient {type_name} capacity in {zone}.",
            )
        return None

    def launch(
        self, type_name: str, subnet: str, lifecycle: str, token: str, tags: Mapping[str, str], **facts: str | None
    ) -> Machine:
        """One more machine; there is room."""
        now, place = self.clock.now, self.subnets[subnet]
        where = (type_name, place.zone, lifecycle)
        if where in self.stock:
            self.stock[where] -= 1
        machine = Machine(
            id=f"i-{len(self.machines) + 1:017x}",
            type=type_name,
            subnet=place,
            lifecycle=lifecycle,
            launched=now,
            runs=now + timedelta(seconds=self.pending_seconds),
            token=token,
            tags=[(now, dict(tags))],
            group=facts.get("group"),
            reservation=facts.get("reservation"),
        )
        self.machines[machine.id] = machine
        return machine

    def once(self, operation: str, params: Params, result: Params | None) -> Params | None:
        """The answer that the same token had before, or None; with ``result``, remember that for the token."""
        key = (operation, params["ClientToken"])
        if result is not None:
            self.tokens[key] = (params, result)
        before = self.tokens.get(key)
        if before is not None and before[0] != params:
            code = "IdempotentParameterMismatch" if operation.startswith("ec2") else "IdempotentParameterMismatchError"
            raise Fault(code, "The client token was used with other parameters")
        return None if before is None else before[1]

    # --- looking ---------------------------------------------------------------------------------------------------

    def alive(self) -> list[Machine]:
        """The machines that are billed now."""
        return [m for m in self.machines.values() if m.ending is None]

    @property
    def listed_at(self) -> datetime:
        """The time whose state the lists show."""
        return self.clock.now - timedelta(seconds=self.list_lag)

    def listed(self) -> list[Machine]:
        """The machines that a list shows: not the newest, if it lags, and no longer those that ended long ago."""
        at = self.listed_at
        gone = [m for m in self.machines.values() if m.terminated and m.terminated + TERMINATED_LISTED < self.clock.now]
        return [m for m in self.machines.values() if m.launched <= at and m not in gone]

    def bill(self) -> dict[str, int]:
        """Micro-dollars of each machine until now: its seconds, at least a minute, at the price of each second."""
        return {m.id: self._bill_of(m) for m in self.machines.values()}

    def _bill_of(self, m: Machine) -> int:
        end = m.ending or self.clock.now
        seconds = max(-(-(end - m.launched) // timedelta(seconds=1)), MINIMUM_SECONDS)
        changes = [(m.launched, self.prices[m.type])]
        if m.lifecycle == "spot":
            history = self.spot_history.get((m.type, m.subnet.zone), [])
            at_launch = [price for since, price in history if since <= m.launched]
            changes = [(m.launched, at_launch[-1])] + [(since, p) for since, p in history if m.launched < since < end]
        cuts = [round((since - m.launched).total_seconds()) for since, _ in changes] + [seconds]
        parts = [(cuts[i + 1] - cuts[i], price) for i, (_, price) in enumerate(changes)]
        return sum(_part(length, price) for length, price in parts)

    # --- by hand ---------------------------------------------------------------------------------------------------

    def end(self, id: str, code: str = "Client.UserInitiatedShutdown", by: str = "User initiated") -> None:
        """End a machine, as its owner or the cloud does; what has ended stays as it is."""
        machine, now = self.machines[id], self.clock.now
        if machine.ending is not None:
            return
        machine.ending, machine.terminated = now, now + timedelta(seconds=self.ending_seconds)
        machine.reason = (code, by)
        where = (machine.type, machine.subnet.zone, machine.lifecycle)
        if where in self.stock:
            self.stock[where] += 1

    def start_by_hand(self, type_name: str, subnet: str, tags: Mapping[str, str]) -> Machine:
        """A machine that nobody ordered."""
        return self.launch(type_name, subnet, "on-demand", "", tags)

    def set_spot_price(self, type_name: str, zone: str, price: str) -> None:
        """From now on spot machines of that type cost that much there."""
        self.spot_history.setdefault((type_name, zone), []).append((self.clock.now, Decimal(price)))

    def warn(self, body: str) -> None:
        """Put an event on the queue."""
        self.queue.append((self.clock.now, f"m-{len(self.calls)}-{len(self.queue)}", body))

    def count(self) -> Mapping[str, int]:
        """Calls by operation."""
        counts: dict[str, int] = defaultdict(int)
        for name, _ in self.calls:
            counts[name] += 1
        return counts


def _part(seconds: int, price: Decimal) -> int:
    micros = int(price * 10**6)
    return (micros * seconds + 1800) // 3600
