"""Answers of the fake cloud's API (docs/fakecloud.md) as domain values. An answer of another
shape raises ValueError, KeyError or TypeError, which the adapter reports as MalformedAnswer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from charterer.clouds.fake import of_gpu_type
from charterer.domain.ids import InstanceId, NodeName, OrderToken
from charterer.domain.money import Price
from charterer.domain.order import Refusal, RefusalKind, Reply, Scope, Traits
from charterer.domain.pool import (
    Instance,
    InstanceState,
    Notice,
    Offering,
    Pool,
    PriceSegment,
    Quote,
    Survey,
)
from charterer.domain.time import Instant, parse_instant
from charterer.providers.node_template import NodeTemplate

Json = Mapping[str, Any]

_REFUSALS = {
    "InsufficientInstanceCapacity": (RefusalKind.STOCK_OUT, Scope.POOL),
    "InstanceLimitExceeded": (RefusalKind.QUOTA_EXCEEDED, Scope.FAMILY),
}


def _instance(answer: Json) -> Instance:
    ended = answer["endedAt"]
    segments = [PriceSegment(parse_instant(s["since"]), Price.parse(s["hourlyPrice"])) for s in answer["segments"]]
    return Instance(
        id=InstanceId(answer["id"]),
        state=InstanceState(answer["state"]),
        provider_id=answer["providerId"],
        node=NodeName(answer["nodeName"]) if answer["nodeName"] else None,
        launched=parse_instant(answer["launchedAt"]),
        ended=None if ended is None else parse_instant(ended),
        segments=tuple(segments),
        billing_minimum_seconds=int(answer["billingMinimumSeconds"]),
        order=_order(answer),
    )


def _order(answer: Json) -> OrderToken | None:
    return OrderToken(answer["order"]) if answer["order"] else None


def _refusals(group: Json, answer: Json) -> tuple[Refusal, ...]:
    """The failed activities. Where the group replies, its reply has said them already."""
    if group["orders"] == "replying":
        return ()
    failed = (activity for activity in answer["activities"] if activity["status"] == "Failed")
    return tuple([_refusal(group, each, parse_instant(each["at"]), _order(each)) for each in failed])


def _refusal(group: Json, error: Json, at: Instant, order: OrderToken | None) -> Refusal:
    kind, scope = _REFUSALS.get(error["code"], (RefusalKind.UNKNOWN_CODE, Scope.POOL))
    where = group["name"] if scope is Scope.POOL else of_gpu_type(group["gpuType"]).within(scope)
    return Refusal(kind, scope, where, error["code"], error["message"], at, order)


def reply(group: Json, answer: Json) -> Reply:
    """The outcome of each order."""
    launched: dict[OrderToken, InstanceId] = {}
    refused: dict[OrderToken, Refusal] = {}
    for each in answer["orders"]:
        token = OrderToken(each["order"])
        if each["instance"] is not None:
            launched[token] = InstanceId(each["instance"])
        elif each["error"] is not None:
            refused[token] = _refusal(group, each["error"], now(answer), token)
    return Reply(launched, refused)


def traits(group: Json) -> Traits:
    """The traits of a group, by how machines are asked of it."""
    orders = group["orders"]
    return Traits(
        named=orders != "counted",
        keeps_trying=orders != "replying",
        together=orders != "counted",
        lag_seconds=float(group["listLagSeconds"]),
        listed_seconds=float(group["listedSeconds"]),
    )


def _notices(answer: Json) -> tuple[Notice, ...]:
    return tuple(
        Notice(InstanceId(instance["id"]), parse_instant(instance["interruption"]["at"]))
        for instance in answer["instances"]
        if instance["interruption"] is not None
    )


def now(answer: Json) -> Instant:
    """The cloud's time of an answer."""
    return parse_instant(answer["now"])


def survey(pool: Pool, group: Json, instances: Json, activities: Json) -> Survey:
    """The three answers about one group as one survey, as old as the oldest of them."""
    return Survey(
        pool=pool.id,
        target=None if group["target"] is None else int(group["target"]),
        ordered=frozenset([OrderToken(order) for order in group["ordered"]]),
        instances=tuple(_instance(instance) for instance in instances["instances"]),
        refusals=_refusals(group, activities),
        notices=_notices(instances),
        asked=min(now(answer) for answer in (group, instances, activities)),
        traits=traits(group),
        offering=Offering(
            gpu_type=group["gpuType"],
            gpus_per_node=int(group["gpusPerInstance"]),
            instance_type=group["instanceType"],
            zone=group["zone"],
            group_id=group["id"],
            group_size=int(group["maxSize"]),
            traits=_nodes(group).traits({}),
        ),
    )


def _nodes(group: Json) -> NodeTemplate:
    """What a group says of its Nodes."""
    taints = [(taint["key"], f"{taint['value']}:{taint['effect']}") for taint in group["taints"]]
    return NodeTemplate(dict(group["labels"]), taints, dict(group["resources"]))


def quote(answer: Json, source: str) -> Quote:
    """A price answer; ``source`` says whose price list it is."""
    return Quote(
        price=Price.parse(answer["hourlyPrice"]),
        worst=Price.parse(answer["worstHourlyPrice"]),
        billing_minimum_seconds=int(answer["billingMinimumSeconds"]),
        source=source,
        as_of=parse_instant(answer["asOf"]),
    )
