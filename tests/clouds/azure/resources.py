"""What a subscription has: VMs with their history, scale sets, node pools, reservations, and operations that run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

BILLED = frozenset({"starting", "running", "stopping", "stopped"})
"""Power states that cost; "creating" and "deallocated" do not.

https://learn.microsoft.com/azure/virtual-machines/states-billing
"""


@dataclass
class Vm:
    """A VM. Times are the cloud's.

    ``states``: (since, provisioning state, power state), also of the future; a VM that found no host has no power
    state. ``instance_id``: in a Uniform set its number, otherwise the VM's name. ``ending``: when its deletion began;
    ``ended``: from when it is gone. ``hosted``: whether it holds a place on a host. ``failure``: code and message.
    """

    id: str
    name: str
    instance_id: str
    computer: str
    vm_id: str
    size: str
    group: str
    location: str
    zone: str | None
    priority: str
    scale_set: str | None
    created: datetime
    states: list[tuple[datetime, str, str]]
    tags: list[tuple[datetime, Mapping[str, str]]]
    reserved: str | None = None
    ending: datetime | None = None
    ended: datetime | None = None
    hosted: bool = True
    failure: tuple[str, str] | None = None

    @property
    def place(self) -> str:
        """Where it takes stock: its zone, or its region."""
        return self.zone or self.location

    def there_at(self, at: datetime) -> bool:
        """Whether the VM exists."""
        return self.created <= at and (self.ended is None or at < self.ended)

    def state_at(self, at: datetime) -> tuple[str, str]:
        """Provisioning state and power state at a time."""
        _, provisioning, power = [s for s in self.states if s[0] <= at][-1]
        return provisioning, power

    def tags_at(self, at: datetime) -> dict[str, str]:
        """The tags at a time; each entry of the history has them all."""
        return dict([tags for since, tags in self.tags if since <= at][-1])

    def become(self, now: datetime, provisioning: str, power: str) -> None:
        """Another state from now on, whatever was to come."""
        self.states = [s for s in self.states if s[0] <= now] + [(now, provisioning, power)]

    def billed_seconds(self, until: datetime) -> int:
        """Seconds in states that cost."""
        end = until if self.ended is None else min(until, self.ended)
        total = timedelta()
        cuts = [since for since, _, _ in self.states[1:]] + [end]
        for (since, _, power), cut in zip(self.states, cuts, strict=True):
            if power in BILLED:
                total += max(min(cut, end) - since, timedelta())
        return -(-total // timedelta(seconds=1))


@dataclass
class Operation:
    """An asynchronous operation on ``target``; ``error``: code and message with which it ends; ``deletes``: VMs."""

    id: str
    name: str
    target: str
    provider: str
    location: str
    began: datetime
    ends: datetime
    error: tuple[str, str] | None = None
    deletes: list[Vm] = field(default_factory=list)

    def status_at(self, at: datetime) -> str:
        """The status as its GET tells it."""
        if at < self.ends:
            return "InProgress"
        return "Succeeded" if self.error is None else "Failed"


@dataclass
class ScaleSet:
    """A scale set and the settings that preflight looks at.

    ``mix``: base count of regular VMs and their percentage above it, of a set whose priority is Spot.
    ``settings``: further fields of ``properties``, as they are on the wire. ``reuses_numbers``: the number of a VM that
    is gone is the next one's, and with it path and computer name; "the instance IDs may be reused":
    https://learn.microsoft.com/azure/virtual-machine-scale-sets/virtual-machine-scale-sets-instance-ids
    """

    group: str
    name: str
    location: str
    size: str
    orchestration: str = "Uniform"
    capacity: int = 0
    zones: tuple[str, ...] = ()
    priority: str = "Regular"
    eviction: str = "Delete"
    mix: tuple[int, int] | None = None
    reservation_group: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    overprovision: bool = False
    upgrade_mode: str = "Manual"
    repairs: bool = False
    spot_restore: bool = False
    zone_rebalancing: bool = False
    single_placement_group: bool = False
    fault_domains: int = 1
    settings: dict[str, object] = field(default_factory=dict)
    created: datetime | None = None
    version: int = 1
    next_number: int = 0
    reuses_numbers: bool = False
    latest: Operation | None = None
    marked_for_deletion: bool = False
    pool: str | None = None

    @property
    def etag(self) -> str:
        """The tag of this version."""
        return f'"{self.version}"'

    def provisioning_at(self, at: datetime) -> str:
        """The provisioning state."""
        status = "Succeeded" if self.latest is None else self.latest.status_at(at)
        return "Updating" if status == "InProgress" else status


@dataclass
class NodePool:
    """An agent pool of an AKS cluster; ``autoscaling``: its smallest and largest count, if AKS scales it itself."""

    name: str
    scale_set: str
    size: str
    count: int
    mode: str = "User"
    kind: str = "VirtualMachineScaleSets"
    zones: tuple[str, ...] = ()
    priority: str = "Regular"
    eviction: str = "Delete"
    autoscaling: tuple[int, int] | None = None
    scale_down: str = "Delete"
    tags: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    version: int = 1
    latest: Operation | None = None
    doing: str = "Updating"

    @property
    def etag(self) -> str:
        """The tag of this version."""
        return f"00000000-0000-4000-8000-{self.version:012x}"

    def provisioning_at(self, at: datetime) -> str:
        """The provisioning state; a word of what runs while an operation does."""
        status = "Succeeded" if self.latest is None else self.latest.status_at(at)
        return self.doing if status == "InProgress" else status


@dataclass
class Cluster:
    """An AKS cluster; the VMs of its pools are in ``node_group``."""

    group: str
    name: str
    location: str
    node_group: str
    pools: dict[str, NodePool] = field(default_factory=dict)
    state: str = "Succeeded"
    power: str = "Running"
    provisioning_mode: str = "Manual"


@dataclass
class Reservation:
    """A capacity reservation: so many VMs of a size, in one zone or the region."""

    name: str
    size: str
    capacity: int
    zone: str | None = None
    state: str = "Succeeded"


@dataclass
class ReservationGroup:
    """A group of capacity reservations."""

    group: str
    name: str
    location: str
    zones: tuple[str, ...] = ()
    reservations: dict[str, Reservation] = field(default_factory=dict)


@dataclass(frozen=True)
class LateFailure:
    """How the next operation that makes VMs fails: the VMs are there and run, but their state is Failed."""

    code: str
    message: str
