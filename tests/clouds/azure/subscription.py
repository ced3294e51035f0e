"""A subscription of Azure: its stock, its VMs with their true bill, and what a test may do by hand."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

from tests.clouds.azure import scaling
from tests.clouds.azure.catalogue import SIZES, list_prices
from tests.clouds.azure.protocol import COMPUTE, CONTAINERS, Fault
from tests.clouds.azure.resources import (
    Cluster,
    LateFailure,
    NodePool,
    Operation,
    ReservationGroup,
    ScaleSet,
    Vm,
)
from tests.clouds.clock import Clock
from tests.clouds.faults import Faults

PLENTY = 10**6


@dataclass
class Role:
    """Actions that the caller may do, and those of them that it may not; both with ``*``."""

    actions: list[str] = field(default_factory=lambda: ["*"])
    not_actions: list[str] = field(default_factory=list)

    def allows(self, action: str) -> bool:
        """Whether the role grants an action; case does not matter."""

        def among(patterns: list[str]) -> bool:
            return any(fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)

        return among(self.actions) and not among(self.not_actions)


@dataclass
class Subscription:
    """Everything of one subscription. A test sets the fields.

    ``stock``: VMs that may still come, by size, zone (or region, for VMs without one) and priority; what is not named
    is plenty. ``stock_out``: the code of the failure where stock is missing; without it, the plain one.
    ``not_offered``: sizes by place that are refused at once. ``quotas``: limits by the name of the usage.
    ``start_seconds``: until a VM runs; ``operation_seconds``: until an operation ends; ``delete_seconds``: until a VM
    that is deleted is gone; ``operation_kept_seconds``: how long an operation can be asked for after its end.
    ``leaves_failed``: whether VMs that found no host stay, as Failed. ``conflicts``: whether a change of a set that is
    Updating is refused; otherwise it preempts the one that runs. ``late_failures``: of the next operations.
    ``undoes_deletions``: whether VMs whose deletion is preempted stay.
    ``zero_reads``: so many of the next reads of a set tell the capacity 0, as the API was seen to do
    (https://github.com/kubernetes/autoscaler/pull/9488). ``wraps_errors``: whether an operation tells its reason only
    in the details of a summary (https://github.com/jenkins-infra/helpdesk/issues/3584).
    ``calls``: every call that came: operation, path parameters, query, body. ``witness``: is called just before and
    just after (``before``, ``after``) a call takes effect, with its operation.
    """

    id: str = "11111111-2222-3333-4444-555555555555"
    clock: Clock = field(default_factory=Clock)
    faults: Faults = field(default_factory=Faults)
    location: str = "westeurope"
    groups: set[str] = field(default_factory=lambda: {"gpu-rg"})
    zones: tuple[str, ...] = ("1", "2", "3")
    stock: dict[tuple[str, str, str], int] = field(default_factory=dict)
    stock_out: dict[tuple[str, str, str], str] = field(default_factory=dict)
    not_offered: set[tuple[str, str]] = field(default_factory=set)
    quotas: dict[str, int] = field(default_factory=dict)
    quota_code: str = "OperationNotAllowed"
    prices: dict[tuple[str, str], Decimal] = field(default_factory=list_prices)
    start_seconds: float = 0.0
    operation_seconds: float = 0.0
    delete_seconds: float = 0.0
    operation_kept_seconds: float = 86400.0
    list_lag: float = 0.0
    page: int = 100
    leaves_failed: bool = True
    conflicts: bool = False
    undoes_deletions: bool = False
    zero_reads: int = 0
    wraps_errors: bool = False
    late_failures: list[LateFailure] = field(default_factory=list)
    tokens: set[str] = field(default_factory=lambda: {"token"})
    expired: set[str] = field(default_factory=set)
    roles: list[Role] = field(default_factory=lambda: [Role()])
    scale_sets: dict[str, ScaleSet] = field(default_factory=dict)
    vms: dict[str, Vm] = field(default_factory=dict)
    clusters: dict[str, Cluster] = field(default_factory=dict)
    reservation_groups: dict[str, ReservationGroup] = field(default_factory=dict)
    autoscale: list[tuple[str, str, bool]] = field(default_factory=list)
    operations: dict[str, Operation] = field(default_factory=dict)
    calls: list[tuple[str, Mapping[str, str], Mapping[str, str], Any]] = field(default_factory=list)
    witness: Callable[[str, str], None] = lambda when, operation: None
    lock: threading.RLock = field(default_factory=threading.RLock)

    # --- names -----------------------------------------------------------------------------------------------------

    def path(self, group: str, kind: str, name: str, provider: str = COMPUTE) -> str:
        """The ARM id of a resource."""
        return f"/subscriptions/{self.id}/resourceGroups/{group}/providers/{provider}/{kind}/{name}"

    def id_of(self, scale_set: ScaleSet) -> str:
        """The ARM id of a scale set."""
        return self.path(scale_set.group, "virtualMachineScaleSets", scale_set.name)

    def add_scale_set(self, name: str, size: str, group: str = "gpu-rg", **fields: Any) -> ScaleSet:
        """Make a scale set, with so many VMs as its ``capacity`` says, which run already."""
        made = ScaleSet(group, name, self.location, size, created=self.clock.now, **fields)
        self.groups.add(group)
        self.scale_sets[self.id_of(made).lower()] = made
        for _ in range(made.capacity):
            self.start_by_hand(made, raise_capacity=False)
        return made

    def add_pool(self, cluster: Cluster, pool: NodePool) -> ScaleSet:
        """Make a node pool with its scale set, whose VMs run already."""
        self.groups |= {cluster.group, cluster.node_group}
        self.clusters[self.path(cluster.group, "managedClusters", cluster.name, CONTAINERS).lower()] = cluster
        cluster.pools[pool.name] = pool
        tags = {"aks-managed-poolName": pool.name, **pool.tags}
        fields = {"zones": pool.zones, "priority": pool.priority, "eviction": pool.eviction, "tags": tags}
        more = {"capacity": pool.count, "pool": pool.name}
        return self.add_scale_set(pool.scale_set, pool.size, cluster.node_group, **fields, **more)

    def scale_set(self, group: str, name: str) -> ScaleSet:
        """A scale set by name; case does not matter."""
        key = self.path(group, "virtualMachineScaleSets", name).lower()
        if key not in self.scale_sets:
            raise self.not_found(group, f"Microsoft.Compute/virtualMachineScaleSets/{name}")
        return self.scale_sets[key]

    def not_found(self, group: str, what: str) -> Fault:
        """The error of a resource that is not there."""
        message = f"The Resource '{what}' under resource group '{group}' was not found."
        return Fault(404, "ResourceNotFound", message)

    # --- who may ---------------------------------------------------------------------------------------------------

    def check_token(self, header: str) -> None:
        """Refuse a caller without a good token.

        https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting/common-deployment-errors
        """
        kind, _, token = header.partition(" ")
        challenge = {"WWW-Authenticate": 'Bearer authorization_uri="https://login.windows.net/", error="invalid_token"'}
        if kind != "Bearer" or not token:
            text = "Authentication failed. The 'Authorization' header is missing."
            raise Fault(401, "AuthenticationFailed", text, challenge)
        if token in self.expired:
            text = "The access token expiry UTC time is earlier than current UTC time."
            raise Fault(401, "ExpiredAuthenticationToken", text, challenge)
        if token not in self.tokens:
            raise Fault(401, "InvalidAuthenticationToken", "The access token is invalid.", challenge)

    def check_action(self, action: str, scope: str) -> None:
        """Refuse what no role grants."""
        if not any(role.allows(action) for role in self.roles):
            raise Fault(
                403,
                "AuthorizationFailed",
                f"The client 'charterer' with object id 'charterer' does not have authorization to perform action "
                f"'{action}' over scope '{scope}' or the scope is invalid. If access was recently granted, please "
                "refresh your credentials.",
            )

    def deny(self, action: str) -> None:
        """Take an action from all roles."""
        for role in self.roles:
            role.not_actions.append(action)

    # --- looking ---------------------------------------------------------------------------------------------------

    @property
    def listed_at(self) -> datetime:
        """The time whose state the lists show."""
        return self.clock.now - timedelta(seconds=self.list_lag)

    def members(self, scale_set: ScaleSet) -> list[Vm]:
        """The VMs of a set that are not being deleted."""
        mine = self.id_of(scale_set)
        return [vm for vm in self.vms.values() if vm.scale_set == mine and vm.ending is None]

    def used(self, usage: str) -> int:
        """What counts against a quota: deallocated and failed VMs do as well, those of overprovisioning do not."""
        now = self.clock.now
        there = [vm for vm in self.vms.values() if vm.there_at(now) and (vm.hosted or vm.ending is None)]
        if usage == "virtualMachines":
            return len(there)
        if usage == "lowPriorityCores":
            return sum(SIZES[vm.size].vcpus for vm in there if vm.priority == "Spot")
        regular = [vm for vm in there if vm.priority == "Regular"]
        return sum(SIZES[vm.size].vcpus for vm in regular if usage in ("cores", SIZES[vm.size].family))

    def bill(self) -> dict[str, int]:
        """Micro-dollars of each VM until now, by its ARM id: the seconds in power states that cost, at its price."""
        now = self.clock.now
        return {
            vm.id: (int(self.prices[vm.size, vm.priority] * 10**6) * vm.billed_seconds(now) + 1800) // 3600
            for vm in self.vms.values()
        }

    def count(self) -> Mapping[str, int]:
        """Calls by operation."""
        return Counter(name for name, *_ in self.calls)

    # --- operations ------------------------------------------------------------------------------------------------

    def begin(self, name: str, target: str, provider: str = COMPUTE, seconds: float | None = None) -> Operation:
        """An operation that begins now."""
        now = self.clock.now
        ends = now + timedelta(seconds=self.operation_seconds if seconds is None else seconds)
        made = Operation(str(uuid.uuid4()), name, target, provider, self.location, now, ends)
        self.operations[made.id] = made
        return made

    # --- by hand ---------------------------------------------------------------------------------------------------

    def start_by_hand(self, scale_set: ScaleSet, *, raise_capacity: bool = True) -> Vm:
        """One more VM in a set, which runs at once, as if somebody had raised the capacity."""
        if raise_capacity:
            scale_set.capacity += 1
            scale_set.version += 1
        now = self.clock.now
        vm = scaling.make(self, scale_set, scaling.place_of(self, scale_set), scale_set.priority)
        vm.states = [(now, "Succeeded", "running")]
        return vm

    def end(self, id: str, *, lower_capacity: bool = True) -> None:
        """Delete a VM by its ARM id, as somebody else does; what is gone stays so."""
        vm = self.vms[id]
        if vm.ending is None:
            scaling.delete(self, vm, 0.0)
            if lower_capacity and vm.scale_set is not None:
                scale_set = self.scale_sets[vm.scale_set.lower()]
                scale_set.capacity -= 1
                scale_set.version += 1

    def evict(self, id: str) -> None:
        """Take a spot VM back: it is deleted, or deallocated if its set says so.

        https://learn.microsoft.com/azure/virtual-machine-scale-sets/use-spot: a deallocated VM stays in the set and
        counts against its quota. Deletion lowers the capacity: https://github.com/poseidon/typhoon/pull/1567.
        """
        vm = self.vms[id]
        assert vm.priority == "Spot", "only spot VMs are evicted"
        scale_set = self.scale_sets[vm.scale_set.lower()] if vm.scale_set else None
        if scale_set is not None and scale_set.eviction == "Deallocate":
            vm.become(self.clock.now, "Succeeded", "deallocated")
            vm.hosted = False
            return
        self.end(id)
