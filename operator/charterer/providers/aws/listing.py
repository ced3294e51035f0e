"""EC2's list of instances as domain values: the order of each, its state, and when it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.pool import Instance, InstanceState, PriceSegment
from charterer.domain.time import Instant, instant, seconds_between
from charterer.providers.aws.calls import Calls
from charterer.providers.aws.permissions import CLUSTER_TAG, GANG_TAG, ORDER_TAG, POOL_TAG, Call

LAG_SECONDS: Final = 60.0
"""Seconds by which lists may be late. DescribeInstances shows a new instance within seconds, but AWS documents no
bound.
"""
LISTED_SECONDS: Final = 3600.0
BILLING_MINIMUM: Final = 60
"""Least seconds that are billed. Linux instances are billed by the second, and for at least a minute."""
_PAGE: Final = 1000
_VALUES: Final = 200
"""Most values in one filter of a call."""
_TOKENS_IN_A_TAG: Final = 7
_MOST_GANG_TAGS: Final = 40
MOST_TOGETHER: Final = _TOKENS_IN_A_TAG * _MOST_GANG_TAGS

_STATES: Final[Mapping[str, InstanceState]] = {
    "pending": InstanceState.PENDING,
    "running": InstanceState.RUNNING,
    "stopping": InstanceState.RUNNING,  # a person has stopped it by hand; it can be started again, so Charterer ends it
    "stopped": InstanceState.RUNNING,
    "shutting-down": InstanceState.STOPPING,
    "terminated": InstanceState.ENDED,
}
_ENDED_AT: Final = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")


@dataclass(frozen=True, slots=True)
class ListedInstance:
    """An instance of EC2's list.

    ``lifecycle``: spot, capacity-block and so on, or empty for on demand.
    ``reservation``: the id of the reservation in which the instance is, or empty if it is in none.
    ``order``: the order for which the instance was launched. None if the order is not known, or not yet.
    """

    id: InstanceId
    pool: PoolId
    type: str
    zone: str
    lifecycle: str
    reservation: str
    state: InstanceState
    launched: Instant
    ended: Instant | None
    tags: Mapping[str, str]
    order: OrderToken | None

    @property
    def spot(self) -> bool:
        """Whether the instance is billed at spot prices."""
        return self.lifecycle == "spot"

    @property
    def alive(self) -> bool:
        """Whether it has not begun to end."""
        return self.state in (InstanceState.PENDING, InstanceState.RUNNING)

    def to_domain(self, segments: Sequence[PriceSegment], ends: Instant | None) -> Instance:
        """The instance with these prices. ``ends``: when EC2 ends the instance, if that is known."""
        return Instance(
            id=self.id,
            state=self.state,
            provider_id=f"aws:///{self.zone}/{self.id}",
            node=None,
            launched=self.launched,
            ended=self.ended,
            segments=tuple(segments),
            billing_minimum_seconds=BILLING_MINIMUM,
            order=self.order,
            ends=ends,
        )


async def instances_of(
    calls: Calls, pool: PoolId, cluster: str, only: PoolId | None = None
) -> tuple[Sequence[ListedInstance], Instant]:
    """All instances of this cluster, those that ended lately included, and the cloud's time.

    ``only``: a pool to which the list is limited. ``pool``: the pool that errors name.
    """
    filters = [{"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]}]
    if only is not None:
        filters.append({"Name": f"tag:{POOL_TAG}", "Values": [only]})
    params = {"Filters": filters, "MaxResults": _PAGE}
    reservations, asked = await calls.pages(pool, Call.DESCRIBE_INSTANCES, params, "Reservations")
    rows = [_listed(row) for reservation in reservations for row in reservation["Instances"]]
    return recognised(rows, asked), asked


async def instances_named(calls: Calls, pool: PoolId, names: Sequence[InstanceId]) -> Sequence[ListedInstance]:
    """The instances with these ids that EC2 knows. ``pool``: the pool that errors name."""
    rows: list[ListedInstance] = []
    for start in range(0, len(names), _VALUES):
        filters = [{"Name": "instance-id", "Values": names[start : start + _VALUES]}]
        params = {"Filters": filters, "MaxResults": _PAGE}
        reservations, _ = await calls.pages(pool, Call.DESCRIBE_INSTANCES, params, "Reservations")
        rows += [_listed(row) for reservation in reservations for row in reservation["Instances"]]
    return rows


def _listed(row: Mapping[str, Any]) -> ListedInstance:
    tags = {tag["Key"]: tag["Value"] for tag in row.get("Tags", ())}
    order = tags.get(ORDER_TAG)
    reason = row.get("StateTransitionReason", "")
    state = _STATES[row["State"]["Name"]]
    told = _ENDED_AT.search(reason) if state in (InstanceState.STOPPING, InstanceState.ENDED) else None
    ended = None if told is None else datetime.strptime(told[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    return ListedInstance(
        id=InstanceId(row["InstanceId"]),
        pool=PoolId(tags.get(POOL_TAG, "")),
        type=row["InstanceType"],
        zone=row["Placement"]["AvailabilityZone"],
        lifecycle=row.get("InstanceLifecycle", ""),
        reservation=row.get("CapacityReservationId", ""),
        state=state,
        launched=instant(row["LaunchTime"]),
        ended=None if ended is None else instant(ended),
        tags=tags,
        order=None if order is None else OrderToken(order),
    )


def recognised(rows: Sequence[ListedInstance], asked: Instant) -> Sequence[ListedInstance]:
    """The rows whose order is known, and the rows whose order will never be known.

    Instances that were launched together have tags with the orders of all of them, until each has its own tags. Once
    all of them are listed, their ids are sorted, and so each gets one of the orders. Until then they are left out,
    because a list may be late, but may not name a wrong order.
    """
    gangs: dict[tuple[OrderToken, ...], list[ListedInstance]] = {}
    for row in rows:
        if tokens := _gang(row.tags):
            gangs.setdefault(tokens, []).append(row)
    orders: dict[InstanceId, OrderToken | None] = {}
    for tokens, members in gangs.items():
        nameless = sorted((row for row in members if row.order is None), key=lambda row: row.id)
        if len(members) < len(tokens) and any(_fresh(row, asked) for row in nameless):
            continue
        left = sorted(set(tokens) - {row.order for row in members if row.order is not None})
        orders |= {row.id: token for row, token in zip(nameless, left, strict=False)}
    return [
        row if row.id not in orders else _ordered(row, orders[row.id])
        for row in rows
        if row.order is not None or row.id in orders or not _fresh(row, asked)
    ]


def _fresh(row: ListedInstance, asked: Instant) -> bool:
    return seconds_between(row.launched, asked) < LAG_SECONDS


def _ordered(row: ListedInstance, order: OrderToken | None) -> ListedInstance:
    return replace(row, order=order)


def _gang(tags: Mapping[str, str]) -> tuple[OrderToken, ...]:
    """The orders for which instances were launched together, by the tags of one of them."""
    parts = sorted((key, value) for key, value in tags.items() if key.startswith(GANG_TAG))
    return tuple(sorted(OrderToken(token) for _, value in parts for token in value.split()))


def gang_tags(tokens: Sequence[OrderToken]) -> dict[str, str]:
    """The tags that name the orders of instances launched together. There are at most ``MOST_TOGETHER`` such orders."""
    ordered = sorted(tokens)
    parts = [ordered[i : i + _TOKENS_IN_A_TAG] for i in range(0, len(ordered), _TOKENS_IN_A_TAG)]
    return {f"{GANG_TAG}{number:02d}": " ".join(part) for number, part in enumerate(parts)}


def gangs_of(rows: Sequence[ListedInstance]) -> frozenset[OrderToken]:
    """The orders for which the listed instances were launched, together or one by one."""
    alone = {row.order for row in rows if row.order is not None}
    return frozenset(alone | {token for row in rows for token in _gang(row.tags)})
