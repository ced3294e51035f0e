"""Compute Engine's list of instances as domain values: the order of each, its state, and when it ends."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.pool import Instance, InstanceState
from charterer.domain.time import Instant, after, parse_instant
from charterer.providers.codes import LaunchError
from charterer.providers.gcp.calls import Calls, Json
from charterer.providers.gcp.permissions import Call

# Names and labels of instances. The name contains the order, and the labels contain the cluster and the pool.
#
# Labels of Google Cloud have lower-case letters, digits, hyphens and underscores, at most 63; names of instances at
# most 63 by RFC 1035 (https://cloud.google.com/compute/docs/naming-resources, .../docs/labeling-resources).


CLUSTER_LABEL: Final = "charterer-cluster"
"""The label whose value is the uid of the namespace kube-system."""
POOL_LABEL: Final = "charterer-pool"

_PREFIX: Final = "charterer-"
_NAME: Final = re.compile(rf"{_PREFIX}(c[-a-z0-9]{{1,51}})")
_SPACE: Final = uuid.UUID("6f1d3c0e-2f0f-5b0c-9a52-6f2d2c6d7a10")
"""The name space of request ids. Any other value would do as well, but it must never change."""


def labels_of(cluster: str, pool: PoolId) -> Mapping[str, str]:
    """The labels that each instance of a pool has."""
    return {CLUSTER_LABEL: cluster, POOL_LABEL: label_value(pool)}


def label_value(pool: PoolId) -> str:
    """A pool's name as a label. Dots become underscores, which no name of a Kubernetes object has."""
    text = pool.replace(".", "_")
    return text if len(text) <= 63 else f"{text[:30]}_{uuid.uuid5(_SPACE, pool).hex}"


def instance_name(order: OrderToken) -> str:
    """The name of the instance that serves an order, which is also the name of its Node."""
    return f"{_PREFIX}{order}"


def order_of(name: str) -> OrderToken | None:
    """The order that an instance of this name serves, or None if the name is not one of ours."""
    found = _NAME.fullmatch(name)
    return None if found is None else OrderToken(found[1])


def request_id(orders: Iterable[OrderToken], *about: str) -> str:
    """The id of a request for these orders, by which Google Cloud recognises the same request.

    ``about``: words that make it a different request.
    """
    return str(uuid.uuid5(_SPACE, " ".join([*sorted(orders), *about])))


def request_name(orders: Sequence[OrderToken], *about: str) -> str:
    """The name of the resize request for these orders. ``about``: as in ``request_id``."""
    return f"{_PREFIX}r{uuid.UUID(request_id(orders, *about)).hex}"


def last(link: str) -> str:
    """The name at the end of a link."""
    return link.rsplit("/", 1)[-1]


LAG_SECONDS: Final = 60.0
"""Seconds by which lists may be late. Lists show a new instance within seconds, but Google documents no bound."""
LISTED_SECONDS: Final = 3600.0
"""Seconds for which an ended instance is still reported, from the operations of its zone."""
BILLING_MINIMUM: Final = 60
"""Least seconds that are billed (https://cloud.google.com/compute/vm-instance-pricing)."""

_STATES: Final[Mapping[str, InstanceState]] = {
    "PROVISIONING": InstanceState.PENDING,
    "STAGING": InstanceState.PENDING,
    "PENDING": InstanceState.PENDING,
    "RUNNING": InstanceState.RUNNING,
    "REPAIRING": InstanceState.RUNNING,
    # a person did this and the following by hand; the instance can go on, so Charterer ends it
    "SUSPENDING": InstanceState.RUNNING,
    "SUSPENDED": InstanceState.RUNNING,
    "STOPPED": InstanceState.RUNNING,
    "TERMINATED": InstanceState.RUNNING,
    "PENDING_STOP": InstanceState.STOPPING,
    "STOPPING": InstanceState.STOPPING,
    "DEPROVISIONING": InstanceState.STOPPING,
}
"""The domain's state for each status. A stopped instance still has its disks. A deleted instance is no longer
listed.
"""


@dataclass(frozen=True, slots=True)
class ListedInstance:
    """An instance of a zone's list.

    ``cluster``, ``pool``: its labels, or empty if it has none. ``ends``: when Google Cloud deletes the instance by
    itself, or None if never.
    """

    id: InstanceId
    name: str
    zone: str
    cluster: str
    pool: str
    status: str
    launched: Instant
    ends: Instant | None
    ended: Instant | None = None

    @property
    def order(self) -> OrderToken | None:
        """The order that the instance serves, or None if its name is not one of ours."""
        return order_of(self.name)

    @property
    def state(self) -> InstanceState:
        """The instance's state. An instance that is being deleted is still billed."""
        return InstanceState.ENDED if self.ended is not None else _STATES[self.status]

    @property
    def alive(self) -> bool:
        """Whether it has not begun to end."""
        return self.state in (InstanceState.PENDING, InstanceState.RUNNING)

    def end(self, at: Instant) -> ListedInstance:
        """The instance once it has ended."""
        return replace(self, ended=at)

    def to_domain(self, project: str) -> Instance:
        """The instance as a domain value. Once its Node has joined, the provider's id identifies it."""
        return Instance(
            id=self.id,
            state=self.state,
            provider_id=f"gce://{project}/{self.zone}/{self.name}",
            node=None,
            launched=self.launched,
            ended=self.ended,
            segments=(),
            billing_minimum_seconds=BILLING_MINIMUM,
            order=self.order,
            ends=self.ends,
        )


async def instances_of(
    calls: Calls, pool: PoolId, zone: str, cluster: str
) -> tuple[Mapping[InstanceId, ListedInstance], Instant]:
    """The instances of this cluster in a zone, and the cloud's time. ``pool``: the pool that errors name.

    The list is made for one zone, because a list of all zones would fail if a single zone cannot be reached.
    """
    rows, asked = await calls.pages(
        pool, Call.LIST_INSTANCES, "items", zone=zone, filter=f"labels.{CLUSTER_LABEL} = {cluster}", max_results=_PAGE
    )
    listed = [listed_instance(row) for row in rows]
    return {row.id: row for row in listed}, asked


def listed_instance(row: Json) -> ListedInstance:
    """An instance as Compute Engine describes it."""
    labels = row.get("labels", {})
    ends = row.get("resource_status", {}).get("scheduling", {}).get("termination_timestamp")
    return ListedInstance(
        id=InstanceId(str(row["id"])),
        name=row["name"],
        zone=last(row["zone"]),
        cluster=labels.get(CLUSTER_LABEL, ""),
        pool=labels.get(POOL_LABEL, ""),
        status=row["status"],
        launched=parse_instant(row["creation_timestamp"]),
        ends=None if ends is None else parse_instant(ends),
    )


# The operations of zones: they show when instances began and ended, and the outcome of requests.
#
# A deleted instance leaves the list of instances at once, so only the operations of its zone show when it ended.


_PAGE: Final = 500
_NEWEST_FIRST: Final = "creationTimestamp desc"
_INSERT: Final = "insert"
_BULK_INSERT: Final = "bulkInsert"
_PREEMPTED: Final = "compute.instances.preempted"
_ENDING: Final = ("delete", _PREEMPTED, "compute.instances.repair.recreateInstance")
"""Types of operations that mean the end of an instance, if the instance is not listed. Sources: the page "Spot VMs"
(preempted), and "Repair VMs in a MIG".
"""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a zone.

    ``request``: the id of its request. ``ended``: when it ended, or None if it has not ended.
    """

    id: str
    kind: str
    request: str
    target: InstanceId
    name: str
    began: Instant
    ended: Instant | None
    errors: tuple[LaunchError, ...]

    @property
    def ends_instance(self) -> bool:
        """Whether the operation means the end of its target, if the target is not listed."""
        return self.kind in _ENDING and self.ended is not None and not self.errors


def operation_of(row: Json) -> Operation:
    """An operation as Compute Engine describes it."""
    link = row.get("target_link", "")
    done = row.get("status") == "DONE"
    ended = row.get("end_time") or row.get("insert_time", "")
    return Operation(
        id=str(row["id"]),
        kind=row.get("operation_type", ""),
        request=row.get("client_operation_id", ""),
        target=InstanceId(str(row.get("target_id", ""))),
        name=last(link) if "/instances/" in link else "",
        began=parse_instant(row["insert_time"]),
        ended=parse_instant(ended) if done else None,
        errors=errors_in(row.get("error", {})),
    )


def errors_in(error: Json) -> tuple[LaunchError, ...]:
    """The errors of an operation, or of an attempt."""
    return tuple([LaunchError(each.get("code", ""), each.get("message", "")) for each in error.get("errors", ())])


@dataclass(slots=True)
class _ZoneOperations:
    """The operations of a zone on instances with our names, by their ids. ``read``: when they were last read."""

    read: Instant | None = None
    operations: dict[str, Operation] = field(default_factory=dict)


class OperationHistory:
    """Reads each operation of the zones only once. It stores operations as long as ended instances are reported."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._zones: dict[str, _ZoneOperations] = {}

    async def read(self, pool: PoolId, zone: str) -> None:
        """Read the new operations of a zone. ``pool``: the pool that errors name.

        The operations are read without a filter, because no filter by time is documented. The newest come first, and
        reading stops at the first operations that are known.
        """
        known = self._zones.setdefault(zone, _ZoneOperations())
        rows, asked = await self._calls.pages(
            pool,
            Call.LIST_OPERATIONS,
            "items",
            lambda row, asked: parse_instant(row["insert_time"]) < _known_until(known, asked),
            zone=zone,
            order_by=_NEWEST_FIRST,
            max_results=_PAGE,
        )
        for operation in map(operation_of, rows):
            if order_of(operation.name) is not None or operation.kind == _BULK_INSERT:
                known.operations[operation.id] = operation
        horizon = after(asked, -LISTED_SECONDS)
        for id, operation in list(known.operations.items()):
            if operation.ended is not None and operation.ended < horizon:
                del known.operations[id]
        known.read = asked

    def operations(self, zone: str) -> Sequence[Operation]:
        """The stored operations of a zone that are not too old. They are the operations on instances with our names,
        and the bulk inserts.
        """
        return list(self._zones[zone].operations.values()) if zone in self._zones else ()

    def served(self, zone: str) -> frozenset[OrderToken]:
        """The orders whose instances have ended. They are not served again."""
        ended = (order_of(each.name) for each in self.operations(zone) if each.ends_instance)
        return frozenset(order for order in ended if order is not None)

    async def launch_of(self, pool: PoolId, zone: str, instance: InstanceId) -> Instant | None:
        """When an instance was made, by the operation that made it. None if that operation is no longer stored."""
        if not instance.isdecimal():
            return None
        rows, _ = await self._calls.pages(
            pool, Call.LIST_OPERATIONS, "items", zone=zone, filter=f"targetId = {instance}"
        )
        made = (each for each in map(operation_of, rows) if each.kind == _INSERT and not each.errors)
        return min((each.began for each in made), default=None)

    def end_of(self, zone: str, instance: InstanceId) -> Operation | None:
        """The operation that ended an instance which is not listed. None if no operation shows its end.

        If the instance was preempted, the operation is the preemption, whenever the instance was deleted. Otherwise it
        is the last operation that means its end.
        """
        ending = [each for each in self.operations(zone) if each.target == instance and each.ends_instance]
        return max(ending, key=lambda each: (each.kind == _PREEMPTED, each.ended), default=None)


def _known_until(known: _ZoneOperations, asked: Instant) -> Instant:
    """The time up to which operations need not be read. Earlier operations are known or too old."""
    if known.read is None:
        return after(asked, -LISTED_SECONDS)
    unfinished = (each.began for each in known.operations.values() if each.ended is None)
    return min([after(known.read, -LAG_SECONDS), *unfinished])
