"""Zonal managed instance groups: their settings, and what would end or add nodes behind our back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from charterer.clouds.gcp import GcpGroup
from charterer.domain.ids import PoolId
from charterer.domain.pool import Pool
from charterer.providers.errors import InvalidRequest, NotFoundInCloud
from charterer.providers.gcp.calls import Calls, Json
from charterer.providers.gcp.names import labels_of, last
from charterer.providers.gcp.permissions import Call
from charterer.providers.gcp.template import InstanceTemplates, Template, problems_of

FIELD: Final = "spec.gcp.instanceGroup"
_SETTINGS_SECONDS: Final = 300.0
"""For how long a group's settings are used before they are read again."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """A group as Compute Engine describes it (``row``), with its template, and the labels of its instances."""

    id: str
    name: str
    template: Template
    labels: Mapping[str, str]
    row: Json


class Groups:
    """Reads the settings of groups. ``clock``: seconds that only grow."""

    def __init__(self, calls: Calls, templates: InstanceTemplates, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._templates = templates
        self._clock = clock
        self._settings: dict[tuple[str, str], tuple[float, GroupSettings]] = {}

    async def settings(self, pool: Pool, group: GcpGroup) -> GroupSettings:
        """The group's settings; InvalidRequest when there is no such group in the pool's zone."""
        key = group.zone, group.group
        known = self._settings.get(key)
        if known is None or self._clock() - known[0] > _SETTINGS_SECONDS:
            known = self._clock(), await self._read(pool, group)
            self._settings[key] = known
        return known[1]

    async def fit(self, pool: Pool, group: GcpGroup, cluster: str) -> GroupSettings:
        """The settings of a group that leaves its nodes alone; InvalidRequest for any other."""
        settings = await self.settings(pool, group)
        if wrong := problems_of_group(pool, group, settings, cluster):
            raise InvalidRequest(pool.id, FIELD, "UnfitGroup", f"{group.group}: {'; '.join(wrong)}")
        return settings

    async def _read(self, pool: Pool, group: GcpGroup) -> GroupSettings:
        try:
            answer = await self._calls(pool.id, Call.GET_GROUP, zone=group.zone, instance_group_manager=group.group)
        except NotFoundInCloud as error:
            message = await self._whereabouts(pool.id, group)
            raise InvalidRequest(pool.id, FIELD, error.code, message) from error
        row = answer.body
        [first, *_] = row.get("versions") or [{}]
        link = row.get("instance_template") or first.get("instance_template", "")
        template = await self._templates.read(pool.id, link, FIELD)
        everywhere = row.get("all_instances_config", {}).get("properties", {}).get("labels", {})
        return GroupSettings(str(row["id"]), group.group, template, {**template.labels, **everywhere}, row)

    async def _whereabouts(self, pool: PoolId, group: GcpGroup) -> str:
        """What to do about a group that is not in its pool's zone."""
        missing = f"there is no managed instance group {group.group!r} in {group.zone} of project {group.project}"
        answer = await self._calls(pool, Call.FIND_GROUPS, filter=f"name = {group.group}")
        found = [
            scope.partition("/")
            for scope, those in answer.body.get("items", {}).items()
            if those.get("instance_group_managers")
        ]
        zones = [place for kind, _, place in found if kind == "zones"]
        regions = [place for kind, _, place in found if kind == "regions"]
        if zones:
            return f"{missing}, but in {', '.join(zones)}: set spec.gcp.zone to that"
        if regions:
            return f"{missing}: the one in {', '.join(regions)} is regional; make a zonal one"
        return f"{missing}: check its name, spec.gcp.zone and spec.gcp.project"


def problems_of_group(pool: Pool, group: GcpGroup, settings: GroupSettings, cluster: str) -> Sequence[str]:
    """Settings that would end or add nodes behind our back, hide them, keep something billed, or sell another kind."""
    row = settings.row
    wrong = [
        *_unlabelled(pool, settings, cluster),
        *_autonomous(row),
        *_changing(row),
        *(f"instance template {settings.template.name}: {each}" for each in _of_template(pool, group, settings)),
    ]
    return wrong


def _of_template(pool: Pool, group: GcpGroup, settings: GroupSettings) -> Sequence[str]:
    return problems_of(pool, settings.template, flex=group.run_seconds is not None)


def _unlabelled(pool: Pool, settings: GroupSettings, cluster: str) -> Sequence[str]:
    wrong = []
    for key, value in labels_of(cluster, pool.id).items():
        has = settings.labels.get(key)
        if has != value:
            found = f"{has!r} is another's" if has is not None else "is missing"
            wrong.append(f"the label {key} {found}: set it to {value!r} in its template or its allInstancesConfig")
    return wrong


def _autonomous(row: Json) -> Sequence[str]:
    """Parts that end or add nodes by themselves."""
    wrong = []
    if scaler := row.get("status", {}).get("autoscaler"):
        wrong.append(f"autoscaler {last(scaler)} would add and end nodes: delete it")
    action = row.get("instance_lifecycle_policy", {}).get("default_action_on_failure", "REPAIR")
    if action != "DO_NOTHING":
        wrong.append(
            f"instanceLifecyclePolicy.defaultActionOnFailure is {action}, which makes nodes again that nobody ordered: "
            "set it to DO_NOTHING"
        )
    if row.get("auto_healing_policies"):
        wrong.append("autoHealingPolicies would make nodes again that jobs run on: remove them")
    return wrong


def _changing(row: Json) -> Sequence[str]:
    """Settings with which it replaces nodes, makes nodes of another kind, or keeps what is billed."""
    wrong = []
    update = row.get("update_policy", {}).get("type_", "PROACTIVE")
    if update != "OPPORTUNISTIC":
        wrong.append(f"updatePolicy.type is {update}, which replaces nodes that jobs run on: set it to OPPORTUNISTIC")
    if len(row.get("versions", ())) > 1:
        wrong.append("it has several versions, whose nodes differ: leave one")
    if row.get("instance_flexibility_policy"):
        wrong.append("instanceFlexibilityPolicy makes nodes of several machine types, whose prices differ: remove it")
    if row.get("target_size_policy", {}).get("mode") == "BULK":
        wrong.append("targetSizePolicy.mode is BULK, which makes no node by itself: set it to INDIVIDUAL")
    for field in ("target_stopped_size", "target_suspended_size"):
        if size := int(row.get(field, 0)):
            kind = field.split("_")[1]
            wrong.append(f"it keeps {size} {kind} nodes, whose disks are billed: set that number to 0")
    if row.get("stateful_policy", {}).get("preserved_state", {}).get("disks"):
        wrong.append("statefulPolicy keeps disks of deleted nodes, which are billed: remove it")
    return wrong
