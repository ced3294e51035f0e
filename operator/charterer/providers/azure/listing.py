"""The VMs of a scale set as domain values, and those that found no host."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from charterer.domain.ids import InstanceId, NodeName
from charterer.domain.pool import Instance, InstanceState
from charterer.domain.time import Instant, instant
from charterer.providers.azure.errors import meaning_of
from charterer.providers.codes import CodeMeaning, LaunchError

LAG_SECONDS: Final = 120.0
"""No bound is documented by which lists of VMs lag. A twelfth of this is the pause between two surveys of a pool in
motion: 6 reads of a scale set a minute, of the 12 that Azure allows."""
BILLING_MINIMUM: Final = 0
"""Seconds: there is no least that Azure bills."""

_ON_A_HOST: Final = frozenset({"starting", "running", "stopping", "stopped", "deallocating", "deallocated"})
"""Power states of VMs that have, or had, a host. Those that failed without one are in none, or "creating"."""
_FOUND_NO_HOST: Final = frozenset({CodeMeaning.CAPACITY, CodeMeaning.QUOTA, CodeMeaning.NOT_OFFERED})
_GROUP: Final = re.compile(r"(?<=/resourceGroups/)[^/]+", re.IGNORECASE)
_FRACTION: Final = re.compile(r"(\.\d{6})\d+")


@dataclass(frozen=True, slots=True)
class ListedVm:
    """A VM of a scale set.

    ``id``: its vmId, which no other VM ever has: the numbers of a scale set may be used again. ``key``: how calls of
    the scale set name it; ``computer``: how AKS does. ``zone``: as Charterer names it; empty: none. ``failure``: why it
    is Failed. ``created``: None while Azure does not say it.
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
        """Whether it found no host: it is not billed, runs nothing, and never will.

        A VM that runs is Failed as well when a later change of it failed (kubernetes/autoscaler#5767).
        """
        if self.failure is None or self.power in _ON_A_HOST:
            return False
        known = meaning_of(self.failure.code, self.failure.message)
        return known is not None and known.meaning in _FOUND_NO_HOST

    @property
    def unnamed(self) -> bool:
        """Whether Azure has yet to give it a vmId: under its path first, it would later be another machine."""
        return self.id == self.path and self.provisioning == "Creating"

    @property
    def alive(self) -> bool:
        """Whether it has a host, or looks for one, and has not begun to end."""
        return not (self.deleting or self.hostless)

    def to_domain(self, asked: Instant) -> Instance:
        """The machine, as a survey at ``asked`` shows it. What failed on its host is billed like any other."""
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
    """What the instance view says, in a status such as ProvisioningState/failed/AllocationFailed."""
    if state != "Failed":
        return None
    place = f"{location}-{zone}" if zone else ""
    for code, status in codes.items():
        kind, _, rest = code.partition("/")
        if kind == "ProvisioningState" and rest.lower().startswith("failed/"):
            return LaunchError(rest.partition("/")[2], str(status.get("message", "")), zone=place)
    return LaunchError("ProvisioningFailed", "Azure does not say why: look at the activity log", zone=place)


def _time(text: str) -> Instant:
    """A time with seven digits of a second, of which the last is left out."""
    return instant(datetime.fromisoformat(_FRACTION.sub(r"\1", text)))
