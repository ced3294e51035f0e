"""Answers of the fake cloud's API (docs/fakecloud.md) as domain values. An answer of another
shape raises ValueError, KeyError or TypeError, which the adapter reports as MalformedAnswer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from charterer.domain.ids import InstanceId, NodeName
from charterer.domain.money import Price
from charterer.domain.pool import (
    FailureKind,
    Instance,
    InstanceState,
    LaunchFailure,
    Notice,
    Offering,
    Pool,
    PriceSegment,
    Quote,
    Survey,
)
from charterer.domain.time import Instant, parse_instant

Json = Mapping[str, Any]

_FAILURES = {
    "InsufficientInstanceCapacity": FailureKind.STOCK_OUT,
    "InstanceLimitExceeded": FailureKind.QUOTA_EXCEEDED,
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
        ended_because=answer["endedBecause"],
    )


def _failures(answer: Json) -> tuple[LaunchFailure, ...]:
    failed = (activity for activity in answer["activities"] if activity["status"] == "Failed")
    return tuple(
        LaunchFailure(
            at=parse_instant(activity["at"]),
            kind=_FAILURES.get(activity["code"], FailureKind.OTHER),
            message=f"{activity['code']}: {activity['message']}",
        )
        for activity in failed
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
        target=int(group["target"]),
        instances=tuple(_instance(instance) for instance in instances["instances"]),
        failures=_failures(activities),
        notices=_notices(instances),
        asked=min(now(answer) for answer in (group, instances, activities)),
        lag_seconds=float(group["listLagSeconds"]),
        listed_seconds=float(group["listedSeconds"]),
        offering=Offering(
            gpu_type=group["gpuType"],
            gpus_per_node=int(group["gpusPerInstance"]),
            instance_type=group["instanceType"],
            zone=group["zone"],
            group_id=group["id"],
        ),
    )


def quote(answer: Json, source: str) -> Quote:
    """A price answer; ``source`` says whose price list it is."""
    return Quote(
        price=Price.parse(answer["hourlyPrice"]),
        worst=Price.parse(answer["worstHourlyPrice"]),
        billing_minimum_seconds=int(answer["billingMinimumSeconds"]),
        source=source,
        as_of=parse_instant(answer["asOf"]),
    )
