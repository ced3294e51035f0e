"""Nodes in an Auto Scaling group by LaunchInstances. The answer has ids or refusals. Each call has one token."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from charterer.clouds.aws import AwsGroup
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Order, Refusal, Reply
from charterer.domain.pool import CapacityType, Pool
from charterer.providers.aws.calls import Calls, meaning_of, refusal, time_of
from charterer.providers.aws.permissions import CLUSTER_TAG, ORDER_TAG, POOL_TAG, RENTAL_TAG, Call
from charterer.providers.aws.renewals import abandon_tags
from charterer.providers.codes import CodeMeaning, LaunchError, LaunchRefused
from charterer.providers.errors import InvalidRequest, NotFoundInCloud, ProviderError
from charterer.providers.provider import NodeTemplate
from charterer.providers.threads import Sleep, in_waves

# What the tags of an Auto Scaling group say about its nodes. The tags are those of the cluster autoscaler and EKS's
# own.
#
# https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler/cloudprovider/aws


_TEMPLATE: Final = "k8s.io/cluster-autoscaler/node-template"
_NODE_GROUP: Final = "eks:nodegroup-name"
"""The tag in which EKS writes the name of the managed node group of a group."""
_CAPACITY: Final[Mapping[str, str]] = {"OnDemand": "ON_DEMAND", "Spot": "SPOT"}
"""How a managed node group's instances are sold, in the words of EKS."""


def node_template(row: Mapping[str, Any], sells: str) -> NodeTemplate:
    """The template of a group's nodes, from EC2's description. ``sells``: OnDemand or Spot, or both."""
    tags = {tag["Key"]: tag.get("Value", "") for tag in row.get("Tags", ())}
    return NodeTemplate(
        {**_under("label", tags), **_managed(tags, row, sells)},
        tuple(_under("taint", tags).items()),
        _under("resources", tags),
    )


def _under(kind: str, tags: Mapping[str, str]) -> Mapping[str, str]:
    beginning = f"{_TEMPLATE}/{kind}/"
    return {key.removeprefix(beginning): value for key, value in tags.items() if key.startswith(beginning)}


def _managed(tags: Mapping[str, str], row: Mapping[str, Any], sells: str) -> Mapping[str, str]:
    """The labels that EKS gives to nodes of its node groups (the page managed-node-groups of its user guide).

    The group shows the capacity type only if its policy names the purchase options. A Capacity Block, for example, is
    named only in the launch template.
    """
    if _NODE_GROUP not in tags:
        return {}
    capacity = _CAPACITY.get(sells) if "MixedInstancesPolicy" in row else None
    of_capacity = {} if capacity is None else {"eks.amazonaws.com/capacityType": capacity}
    return {"eks.amazonaws.com/nodegroup": tags[_NODE_GROUP], **of_capacity}


# Launch templates of EC2: how to read a version, and which settings would keep instances from launching or ending.


_READABLE: Final = re.compile(r"[0-9a-zA-Z\-_+=,.@:]{1,255}")
"""The form of tag keys that an instance may read about itself. With another key EC2 does not launch the instance, as
EC2's error says.
"""


async def read_template(calls: Calls, pool: Pool, name: str, version: str) -> Mapping[str, Any]:
    """One version of a launch template, with its number and its data. Raises NotFoundInCloud if it does not exist."""
    answer = await calls(pool.id, Call.DESCRIBE_TEMPLATE, {"LaunchTemplateName": name, "Versions": [version]})
    [found] = answer["LaunchTemplateVersions"]
    row: Mapping[str, Any] = found
    return row


def problems_with_tags(data: Mapping[str, Any]) -> Sequence[str]:
    """Why EC2 would refuse to launch an instance whose metadata shows its tags."""
    if not _shows_tags(data):
        return []
    specified = [each for each in data.get("TagSpecifications", ()) if each.get("ResourceType") == "instance"]
    keys = [tag["Key"] for each in specified for tag in each.get("Tags", ())]
    unfit = ", ".join(repr(key) for key in keys if not _READABLE.fullmatch(key))
    if not unfit:
        return []
    return [f"MetadataOptions.InstanceMetadataTags is enabled, so EC2 refuses the tags {unfit}: remove them"]


def problems_with_ending_itself(data: Mapping[str, Any]) -> Sequence[str]:
    """Why an instance could not see that nobody renews it, or would still exist after it has shut itself down."""
    wrong = []
    if data.get("InstanceInitiatedShutdownBehavior") != "terminate":
        behaviour = data.get("InstanceInitiatedShutdownBehavior", "stop")
        wrong.append(f"has InstanceInitiatedShutdownBehavior {behaviour}: set it to terminate, or disks keep billing")
    if data.get("MetadataOptions", {}).get("HttpEndpoint") == "disabled":
        wrong.append("has MetadataOptions.HttpEndpoint disabled: enable it, instances read there that they are renewed")
    if not _shows_tags(data):
        wrong.append("has MetadataOptions.InstanceMetadataTags not enabled: enable it, the renewal is a tag")
    return wrong


def _shows_tags(data: Mapping[str, Any]) -> bool:
    return bool(data.get("MetadataOptions", {}).get("InstanceMetadataTags") == "enabled")


logger = logging.getLogger(__name__)

_SETTINGS_SECONDS: Final = 300.0
"""Seconds for which a group's settings are used before they are read again."""
_FIGHTING: Final = ("AZRebalance", "ReplaceUnhealthy", "InstanceRefresh")
_UNKNOWN_PAUSES: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds to wait after each attempt to tag an instance that EC2 does not know yet."""
_NO_MEMBER: Final = "No managed instance found"


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """A group as EC2 Auto Scaling describes it.

    ``tags``: the tags that the group gives to its instances.
    ``size``: the group's maximum size.
    ``nodes``: what the group declares about its nodes.
    ``row``: the whole answer.
    """

    arn: str
    zones: Sequence[str]
    subnets: Sequence[str]
    types: Sequence[str]
    tags: dict[str, str]
    size: int
    nodes: NodeTemplate
    row: dict[str, Any]


class GroupLauncher:
    """Launches the orders of pools with an Auto Scaling group.

    ``clock``: seconds of a clock that never goes back. ``sleep``: waits between attempts.
    """

    def __init__(self, calls: Calls, clock: Callable[[], float], sleep: Sleep) -> None:
        self._calls = calls
        self._clock = clock
        self._sleep = sleep
        self._settings: dict[str, tuple[float, GroupSettings]] = {}
        self._unanswered: dict[PoolId, dict[OrderToken, str]] = {}
        """For each order, the zone whose call got no answer. A machine may have been launched in that zone."""

    async def settings(self, pool: Pool, group: AwsGroup) -> GroupSettings:
        """The group's settings. Raises NotFoundInCloud if there is no such group."""
        known = self._settings.get(group.auto_scaling_group)
        if known is None or self._clock() - known[0] > _SETTINGS_SECONDS:
            known = self._clock(), await self._read(pool, group)
            self._settings[group.auto_scaling_group] = known
        return known[1]

    async def ask(self, pool: Pool, group: AwsGroup, ask: Ask, cluster: str) -> Reply:
        """Make one call for each order, in one zone after the other, until a zone has room.

        Raises InvalidRequest if the group would end or add nodes by itself, or if no survey could find its nodes.
        """
        settings = await self.settings(pool, group)
        if wrong := problems_of(pool, settings, cluster):
            raise InvalidRequest(pool.id, Call.LAUNCH_INSTANCES.full_name, "UnfitGroup", "; ".join(wrong))
        unanswered = self._unanswered.setdefault(pool.id, {})
        for given_up in unanswered.keys() - {order.token for order in ask.orders}:
            del unanswered[given_up]
        return await in_waves(ask.orders, lambda order: self._one(pool, group, settings, order))

    async def _one(self, pool: Pool, group: AwsGroup, settings: GroupSettings, order: Order) -> InstanceId | Refusal:
        """The instance. If no zone has room, the refusal.

        If a zone's call got no answer, that zone is asked first. There the same call returns the instance that it
        launched before. A call in another zone would launch a second instance.
        """
        errors: list[LaunchError] = []
        unanswered = self._unanswered[pool.id]
        for zone in sorted(settings.zones, key=lambda zone: zone != unanswered.get(order.token)):
            unanswered[order.token] = zone
            digest = hashlib.sha256(f"{order.token} {zone}".encode()).hexdigest()[:32]
            params = {
                "AutoScalingGroupName": group.auto_scaling_group,
                "RequestedCapacity": 1,
                "ClientToken": digest,
                "AvailabilityZones": [zone],
                "RetryStrategy": "none",
            }
            try:
                answer = await self._calls(pool.id, Call.LAUNCH_INSTANCES, params)
                at = time_of(answer)
                errors += [_error(row) for row in answer.get("Errors", ())]
            except LaunchRefused as refused:
                answer, at = {}, refused.at
                errors.append(refused.error)
            unanswered.pop(order.token, None)
            for row in answer.get("Instances", ()):
                for id in row["InstanceIds"]:
                    await self._name(pool, InstanceId(id), order)
                    return InstanceId(id)
            if any(not _elsewhere(error) for error in errors):
                break
        errors = errors or [LaunchError("EmptyAnswer", "LaunchInstances launched nothing and gave no reason")]
        return refusal(pool.id, errors, group.region, pool.capacity_type, at, order.token)

    async def _name(self, pool: Pool, id: InstanceId, order: Order) -> None:
        """Tag an instance with its order. The call may be repeated, because EC2 may know the instance only seconds
        later.
        """
        tags = [{"Key": ORDER_TAG, "Value": order.token}, {"Key": RENTAL_TAG, "Value": order.rental}]
        for pause in _UNKNOWN_PAUSES:
            try:
                await self._calls(pool.id, Call.CREATE_TAGS, {"Resources": [id], "Tags": tags})
            except NotFoundInCloud:
                await self._sleep(pause)
            except ProviderError as error:
                logger.warning("%s", error)
                return
            else:
                return
        logger.warning("GPUPool %s: EC2 does not know instance %s, which was just launched", pool.id, id)

    async def terminate(self, pool: Pool, instance: InstanceId) -> bool:
        """End a member of the group, without a replacement. Returns False if no group has it."""
        params = {"InstanceId": instance, "ShouldDecrementDesiredCapacity": True}
        try:
            await self._calls(pool.id, Call.TERMINATE_IN_GROUP, params)
        except InvalidRequest as error:
            if _NO_MEMBER not in error.message:
                raise
            return False
        return True

    async def _read(self, pool: Pool, group: AwsGroup) -> GroupSettings:
        name = group.auto_scaling_group
        rows, _ = await self._calls.pages(
            pool.id, Call.DESCRIBE_GROUPS, {"AutoScalingGroupNames": [name]}, "AutoScalingGroups"
        )
        if not rows:
            message = f"spec.aws.autoScalingGroup: no Auto Scaling group has the name {name!r} in {group.region}"
            raise NotFoundInCloud(pool.id, Call.DESCRIBE_GROUPS.full_name, "NoSuchGroup", message)
        [row] = rows
        overrides = _template(row).get("Overrides", ())
        if any("InstanceType" not in each for each in overrides):
            message = f"spec.aws.autoScalingGroup: an override of {name} names no instance type: name it there"
            raise InvalidRequest(pool.id, Call.DESCRIBE_GROUPS.full_name, "NoInstanceType", message)
        types = [each["InstanceType"] for each in overrides] or await self._template_types(pool, row)
        return GroupSettings(
            arn=row["AutoScalingGroupARN"],
            zones=sorted(row["AvailabilityZones"]),
            subnets=[subnet for subnet in row.get("VPCZoneIdentifier", "").split(",") if subnet],
            types=types,
            tags={tag["Key"]: tag["Value"] for tag in row.get("Tags", ()) if tag.get("PropagateAtLaunch")},
            size=int(row["MaxSize"]),
            nodes=node_template(row, _sells(row)),
            row=dict(row),
        )

    async def _template_types(self, pool: Pool, row: dict[str, Any]) -> Sequence[str]:
        name, version = template_of(pool, row)
        data = (await read_template(self._calls, pool, name, version))["LaunchTemplateData"]
        type_name = data.get("InstanceType")
        if type_name is None:
            message = f"spec.aws.autoScalingGroup: launch template {name} names no instance type"
            raise InvalidRequest(pool.id, Call.DESCRIBE_TEMPLATE.full_name, "NoInstanceType", message)
        return [type_name]


def template_of(pool: Pool, row: dict[str, Any]) -> tuple[str, str]:
    """Name and version of a group's launch template. Raises InvalidRequest if the group has none."""
    template = row.get("LaunchTemplate") or _template(row).get("LaunchTemplateSpecification")
    if not template:
        message = "spec.aws.autoScalingGroup: the group has no launch template: give it one"
        raise InvalidRequest(pool.id, Call.DESCRIBE_GROUPS.full_name, "NoLaunchTemplate", message)
    return template["LaunchTemplateName"], template.get("Version", "$Default")


def problems_of(pool: Pool, settings: GroupSettings, cluster: str) -> Sequence[str]:
    """Settings of the group by which it would add or end nodes by itself, hide nodes, or sell the wrong kind of
    node.
    """
    row, name = settings.row, settings.row["AutoScalingGroupName"]
    wrong = []
    abandon = abandon_tags(pool.cloud) if isinstance(pool.cloud, AwsGroup) else {}
    for key, value in {CLUSTER_TAG: cluster, POOL_TAG: pool.id, **abandon}.items():
        if settings.tags.get(key) != value:
            has = settings.tags.get(key)
            found = f"{has!r} is another's" if has is not None else "is missing"
            wrong.append(f"the tag {key} {found}: set it to {value!r} on group {name}, with PropagateAtLaunch")
    if row["MinSize"] > 0:
        wrong.append(f"MinSize is {row['MinSize']}: set it to 0, or nodes that nobody uses are kept")
    suspended = {process["ProcessName"] for process in row.get("SuspendedProcesses", ())}
    if active := [process for process in _FIGHTING if process not in suspended]:
        wrong.append(f"suspend the processes {', '.join(active)}: they replace nodes that jobs run on")
    if row.get("MaxInstanceLifetime"):
        wrong.append(f"MaxInstanceLifetime is {row['MaxInstanceLifetime']} s: remove it, or it ends nodes in use")
    if row.get("WarmPoolConfiguration"):
        wrong.append("it has a warm pool, whose nodes are billed: delete the warm pool")
    sells = _sells(row)
    if sells != pool.capacity_type.value:
        wrong.append(f"it launches {sells} nodes, but spec.capacityType is {pool.capacity_type.value}")
    return wrong


def _sells(row: dict[str, Any]) -> str:
    distribution = row.get("MixedInstancesPolicy", {}).get("InstancesDistribution", {})
    base, on_demand_percent = (
        distribution.get("OnDemandBaseCapacity", 0),
        distribution.get("OnDemandPercentageAboveBaseCapacity", 100),
    )
    if on_demand_percent == 100:
        return CapacityType.ON_DEMAND.value
    return CapacityType.SPOT.value if on_demand_percent == 0 and base == 0 else "OnDemand and Spot"


def _template(row: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = row.get("MixedInstancesPolicy", {}).get("LaunchTemplate", {})
    return found


def _error(row: dict[str, Any]) -> LaunchError:
    return LaunchError(
        row.get("ErrorCode", ""),
        row.get("ErrorMessage", ""),
        row.get("InstanceType", ""),
        row.get("AvailabilityZone", ""),
        row.get("SubnetId", ""),
    )


def _elsewhere(error: LaunchError) -> bool:
    """Whether another zone may have room, given this error."""
    known = meaning_of(error.code)
    return known is not None and known.meaning is CodeMeaning.CAPACITY
