"""Nodes by EC2 CreateFleet of type instant. The answer has ids or refusals, for all instances or for none. By a token,
EC2 recognises a repeated call.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from charterer.clouds.aws import AwsFleet
from charterer.domain.ids import InstanceId, OrderToken
from charterer.domain.order import Ask, Order, Refusal, Reply
from charterer.domain.pool import CapacityType, Pool
from charterer.providers.aws.calls import Answer, Calls, Params, refusal, time_of
from charterer.providers.aws.listing import MOST_TOGETHER, gang_tags, gangs_of, instances_of
from charterer.providers.aws.permissions import CLUSTER_TAG, ORDER_TAG, POOL_TAG, RENTAL_TAG, Call
from charterer.providers.aws.renewals import abandon_tags
from charterer.providers.codes import LaunchError, LaunchRefused
from charterer.providers.errors import ProviderError
from charterer.providers.threads import in_waves

logger = logging.getLogger(__name__)

Tags: TypeAlias = Mapping[str, str]

_RESERVED: Final = ("on-demand-capacity-reservation", "capacity-block")


class FleetLauncher:
    """Launches the orders of pools with a launch template."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def ask(self, pool: Pool, fleet: AwsFleet, ask: Ask, cluster: str) -> Reply:
        """Launch orders. Orders that are needed together are launched in one call. Otherwise each order has its own
        call. ``cluster``: value of a tag.

        If the orders do not fit into the tags of one instance, they are launched one by one too.
        """
        tags = {CLUSTER_TAG: cluster, POOL_TAG: pool.id, **abandon_tags(fleet)}
        if ask.together and 1 < len(ask.orders) <= MOST_TOGETHER and not fleet.capacity_reservation:
            return await self._together(pool, fleet, ask.orders, tags)
        return await in_waves(ask.orders, lambda order: self._one(pool, fleet, order, tags))

    async def _one(self, pool: Pool, fleet: AwsFleet, order: Order, own: Tags) -> InstanceId | Refusal:
        tags = {**own, ORDER_TAG: order.token, RENTAL_TAG: order.rental}
        ids, refused = await self._create(pool, fleet, [order], order.token, tags)
        if not ids:
            return refused[order.token]
        return ids[0]

    async def _together(self, pool: Pool, fleet: AwsFleet, orders: Sequence[Order], own: Tags) -> Reply:
        """Launch all orders or none.

        An order that an earlier call launched, together with whatever other orders, is not launched again.
        """
        listed, _ = await instances_of(self._calls, pool.id, own[CLUSTER_TAG], pool.id)
        there, known = {row.order: row.id for row in listed if row.order is not None}, gangs_of(listed)
        launched = {order.token: there[order.token] for order in orders if order.token in there}
        missing = sorted((order for order in orders if order.token not in known), key=lambda order: order.token)
        if not missing:
            return Reply(launched)
        tokens = [order.token for order in missing]
        token = f"g{hashlib.sha256(' '.join(tokens).encode()).hexdigest()[:40]}"
        ids, refused = await self._create(pool, fleet, missing, token, {**own, **gang_tags(tokens)})
        if not ids:
            return Reply(launched, refused)
        pairs = list(zip(sorted(ids), missing, strict=False))
        await asyncio.gather(*(self._name(pool, id, order) for id, order in pairs))
        return Reply(launched | {order.token: id for id, order in pairs})

    async def _name(self, pool: Pool, id: InstanceId, order: Order) -> None:
        """Tag an instance with its own order.

        Without these tags, the instance's order can still be derived from the tags of the whole gang.
        """
        tags = _pairs({ORDER_TAG: order.token, RENTAL_TAG: order.rental})
        try:
            await self._calls(pool.id, Call.CREATE_TAGS, {"Resources": [id], "Tags": tags})
        except ProviderError as error:
            logger.warning("%s", error)

    async def _create(
        self, pool: Pool, fleet: AwsFleet, orders: Sequence[Order], token: str, tags: Tags
    ) -> tuple[Sequence[InstanceId], Mapping[OrderToken, Refusal]]:
        """The ids of all instances. If there are none, the reason."""
        params = fleet_request(pool, fleet, len(orders), tags) | {"ClientToken": token}
        try:
            answer = await self._calls(pool.id, Call.CREATE_FLEET, params)
            ids = [InstanceId(id) for each in answer.get("Instances", ()) for id in each["InstanceIds"]]
            errors, at = _errors(answer), time_of(answer)
        except LaunchRefused as refused:
            ids, errors, at = [], [refused.error], refused.at
        if ids:
            return ids, {}
        if not errors:
            errors = [LaunchError("EmptyAnswer", "CreateFleet launched nothing and gave no reason")]
        return (), {o.token: refusal(pool.id, errors, fleet.region, pool.capacity_type, at, o.token) for o in orders}


def _errors(answer: Answer) -> list[LaunchError]:
    rows = []
    for error in answer.get("Errors", ()):
        where = error.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
        place = (where.get("InstanceType", ""), where.get("AvailabilityZone", ""), where.get("SubnetId", ""))
        rows.append(LaunchError(error.get("ErrorCode", ""), error.get("ErrorMessage", ""), *place))
    return rows


def fleet_request(pool: Pool, fleet: AwsFleet, number: int, tags: Tags) -> Params:
    """The parameters of the call that launches ``number`` instances, without its token."""
    spot = pool.capacity_type is CapacityType.SPOT
    options: dict[str, Any] = {"AllocationStrategy": "price-capacity-optimized" if spot else "lowest-price"}
    if number > 1:
        options |= {"SingleAvailabilityZone": True, "MinTargetCapacity": number}
    if fleet.capacity_reservation:
        target = {"CapacityReservationIds": [fleet.capacity_reservation]}
        sold, field = "reserved-capacity", "ReservedCapacityOptions"
        options = {"ReservationTypes": list(_RESERVED), "CapacityReservationTarget": target}
    else:
        sold, field = ("spot", "SpotOptions") if spot else ("on-demand", "OnDemandOptions")
    placement = {"Placement": {"GroupName": fleet.placement_group}} if fleet.placement_group else {}
    overrides = [
        {"InstanceType": type_name, "SubnetId": subnet, **placement}
        for type_name in fleet.instance_types
        for subnet in fleet.subnets
    ]
    template = {"LaunchTemplateName": fleet.launch_template, "Version": fleet.version}
    return {
        "Type": "instant",
        "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": template, "Overrides": overrides}],
        "TargetCapacitySpecification": {"TotalTargetCapacity": number, "DefaultTargetCapacityType": sold},
        field: options,
        "TagSpecifications": [{"ResourceType": kind, "Tags": _pairs(tags)} for kind in ("instance", "volume")],
    }


def _pairs(tags: Tags) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
