"""The VMs of a scale set as domain values, and those that found no host."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final

from charterer.domain.ids import InstanceId, NodeName
from charterer.domain.pool import CapacityType, Instance, InstanceState, Pool
from charterer.domain.time import Instant, instant
from charterer.providers.azure.calls import meaning_of
from charterer.providers.codes import CodeMeaning, LaunchError
from charterer.providers.provider import NO_TEMPLATE, NodeTemplate

LAG_SECONDS: Final = 120.0
"""Seconds by which lists of VMs may be late. Azure documents no bound. The pause between two surveys of a pool that
changes is a twelfth of these seconds. This makes 6 reads of a scale set a minute, of the 12 that Azure allows.
"""
BILLING_MINIMUM: Final = 0
"""Least seconds that are billed. Azure has no billing minimum."""

_ON_A_HOST: Final = frozenset({"starting", "running", "stopping", "stopped", "deallocating", "deallocated"})
"""Power states of VMs that have a host or had one. A VM that failed without a host has none of these states."""
_FOUND_NO_HOST: Final = frozenset({CodeMeaning.CAPACITY, CodeMeaning.QUOTA, CodeMeaning.NOT_OFFERED})
_GROUP: Final = re.compile(r"(?<=/resourceGroups/)[^/]+", re.IGNORECASE)
_FRACTION: Final = re.compile(r"(\.\d{6})\d+")


@dataclass(frozen=True, slots=True)
class ListedVm:
    """A VM of a scale set.

    ``id``: its vmId, which no other VM ever has. Numbers within a scale set may be used again.
    ``path``: its ARM id.
    ``key``: its name in calls of the scale set.
    ``computer``: its name in calls of AKS.
    ``zone``: its zone as Charterer names it, or empty if it has none.
    ``created``: when it was created, or None if Azure does not say yet.
    ``failure``: why its provisioning failed, or None if it did not fail.
    """

    id: InstanceId
    path: str
    key: str
    computer: str
    zone: str
    provisioning: str
    power: str
    created: Instant | None
    failure: LaunchError | None

    @property
    def deleting(self) -> bool:
        """Whether it is being deleted."""
        return self.provisioning == "Deleting"

    @property
    def hostless(self) -> bool:
        """Whether the VM found no host. Such a VM is not billed, runs nothing, and never will.

        The state Failed alone does not show this. A running VM has the state too if a later change of the VM failed
        (kubernetes/autoscaler#5767).
        """
        if self.failure is None or self.power in _ON_A_HOST:
            return False
        known = meaning_of(self.failure.code, self.failure.message)
        return known is not None and known.meaning in _FOUND_NO_HOST

    @property
    def unnamed(self) -> bool:
        """Whether Azure has not yet given the VM a vmId.

        Such a VM is not listed under its path instead, because it would later seem to be another machine.
        """
        return self.id == self.path and self.provisioning == "Creating"

    @property
    def alive(self) -> bool:
        """Whether the VM has a host or looks for one, and has not begun to end."""
        return not (self.deleting or self.hostless)

    def to_domain(self, asked: Instant) -> Instance:
        """The machine as a survey at ``asked`` shows it. A VM that failed on its host is billed like any other VM."""
        return Instance(
            id=self.id,
            state=self._state,
            provider_id=f"azure://{_GROUP.sub(lambda name: name[0].lower(), self.path)}",
            node=NodeName(self.computer.lower()) if self.computer else None,
            launched=asked if self.created is None else self.created,
            ended=None,
            segments=(),
            billing_minimum_seconds=BILLING_MINIMUM,
        )

    @property
    def _state(self) -> InstanceState:
        if self.deleting:
            return InstanceState.STOPPING
        return InstanceState.PENDING if self.provisioning == "Creating" else InstanceState.RUNNING


def listed(row: Mapping[str, Any], location: str) -> ListedVm:
    """A VM of Azure's list, with its instance view."""
    properties = row["properties"]
    statuses: Sequence[Mapping[str, Any]] = (properties.get("instanceView") or {}).get("statuses") or ()
    codes = {str(each.get("code", "")): each for each in statuses}
    power = next((code.partition("/")[2] for code in codes if code.startswith("PowerState/")), "")
    zones = row.get("zones") or [""]
    created = properties.get("timeCreated")
    return ListedVm(
        id=InstanceId(properties.get("vmId") or row["id"]),
        path=row["id"],
        key=row.get("instanceId") or row["name"],
        computer=(properties.get("osProfile") or {}).get("computerName") or "",
        zone=f"{location}-{zones[0]}" if zones[0] else "",
        provisioning=properties["provisioningState"],
        power=power.lower(),
        created=None if created is None else _time(created),
        failure=_failure(properties["provisioningState"], codes, location, zones[0]),
    )


def _failure(state: str, codes: Mapping[str, Mapping[str, Any]], location: str, zone: str) -> LaunchError | None:
    """The failure in the instance view, in a status such as ProvisioningState/failed/AllocationFailed."""
    if state != "Failed":
        return None
    place = f"{location}-{zone}" if zone else ""
    for code, status in codes.items():
        kind, _, rest = code.partition("/")
        if kind == "ProvisioningState" and rest.lower().startswith("failed/"):
            return LaunchError(rest.partition("/")[2], str(status.get("message", "")), zone=place)
    return LaunchError("ProvisioningFailed", "Azure does not say why: look at the activity log", zone=place)


def _time(text: str) -> Instant:
    """A time with seven decimals of a second, of which the last is cut off."""
    return instant(datetime.fromisoformat(_FRACTION.sub(r"\1", text)))


# A scale set, or the scale set behind a node pool of AKS: its state, and the changes that Charterer makes to it.


@dataclass(frozen=True, slots=True)
class GroupState:
    """A scale set with its VMs, read at ``asked`` by the cloud's clock.

    ``id``: its ARM id.
    ``etag``: the etag of this version.
    ``capacity``: number of VMs that the set should have.
    ``updating``: whether a change of the set is under way.
    ``failed``: whether the last change failed.
    ``size``: the VM size.
    ``zones``: its zones, as Charterer names them.
    ``most``: the most VMs that the set may have, or None if unknown.
    ``reservation``: the ARM id of its capacity reservation group, or empty if it has none.
    ``wrong``: settings by which the set adds or ends nodes by itself, or sells another kind of node than the pool
    names.
    ``body``: the whole answer.
    ``nodes``: what the set declares about its nodes.
    """

    id: str
    etag: str
    capacity: int
    updating: bool
    failed: bool
    size: str
    zones: Sequence[str]
    most: int | None
    reservation: str
    wrong: Sequence[str]
    vms: Sequence[ListedVm]
    asked: Instant
    body: Mapping[str, Any]
    nodes: NodeTemplate = NO_TEMPLATE

    @property
    def alive(self) -> Sequence[ListedVm]:
        """The VMs that have a host or look for one."""
        return [vm for vm in self.vms if vm.alive]

    @property
    def hostless(self) -> Sequence[ListedVm]:
        """The VMs that found no host."""
        return [vm for vm in self.vms if vm.hostless]

    @property
    def wanted(self) -> int:
        """Number of VMs that the set should have. If the capacity is below the number of the set's VMs, the capacity is
        not believed.

        The API was seen to answer 0: kubernetes/autoscaler#9488.
        """
        return max(self.capacity, len(self.alive) + len(self.hostless))


class Group(ABC):
    """One kind of scale set. A method that changes the set returns the URL of the operation, or an empty text if Azure
    gives none.

    ``recounts``: whether a deletion also makes Azure bring the set to its capacity. If the capacity then differs from
    the number of VMs, the deletion ends or makes other VMs.
    """

    recounts: ClassVar[bool] = False

    @abstractmethod
    async def read(self, pool: Pool) -> GroupState:
        """Read its present state."""

    @abstractmethod
    async def set_capacity(self, pool: Pool, state: GroupState, capacity: int) -> str:
        """Change the number of VMs of this version of the set. Raises Busy if the set has another version by now."""

    @abstractmethod
    async def delete(self, pool: Pool, state: GroupState, vms: Sequence[ListedVm]) -> str:
        """Delete those VMs, which lowers the capacity by their number. Raises NotFoundInCloud if one does not exist any
        more.
        """


def sold_otherwise(pool: Pool, priority: str | None, eviction: str | None) -> Sequence[str]:
    """Why VMs of that priority and eviction policy are not what the pool names. Empty if they are."""
    sells = CapacityType.SPOT if (priority or "Regular").lower() in ("spot", "low") else CapacityType.ON_DEMAND
    if sells is not pool.capacity_type:
        return [f"it has {sells.value} nodes, but spec.capacityType is {pool.capacity_type.value}"]
    if sells is CapacityType.SPOT and (eviction or "Deallocate") != "Delete":
        return [f"its eviction policy is {eviction or 'Deallocate'}: make it with Delete, or disks stay and are billed"]
    return []
