"""The operations of zones: when instances began and ended, and what became of requests.

A deleted instance leaves the list of instances at once, so that only the operations of its zone tell when it ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.time import Instant, after, parse_instant
from charterer.providers.codes import LaunchError
from charterer.providers.gcp.calls import Calls, Json
from charterer.providers.gcp.listing import LAG_SECONDS, LISTED_SECONDS
from charterer.providers.gcp.names import last, order_of
from charterer.providers.gcp.permissions import Call

_PAGE: Final = 500
_NEWEST_FIRST: Final = "creationTimestamp desc"
_INSERT: Final = "insert"
_BULK_INSERT: Final = "bulkInsert"
_PREEMPTED: Final = "compute.instances.preempted"
_ENDING: Final = ("delete", _PREEMPTED, "compute.instances.repair.recreateInstance")
"""Types of operations after which an instance that is not listed has ended. Source: the page "Spot VMs" (preempted),
and "Repair VMs in a MIG"."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a zone. ``request``: the id with which it was asked for. ``ended``: None while it is not done."""

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
        """Whether its target is gone after it, unless it is listed."""
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
    """When the operations of a zone were read last, and those on instances of our names, by their ids."""

    read: Instant | None = None
    operations: dict[str, Operation] = field(default_factory=dict)


class OperationHistory:
    """Reads the operations of zones, each but once, and keeps them for as long as ended instances are told."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._zones: dict[str, _ZoneOperations] = {}

    async def read(self, pool: PoolId, zone: str) -> None:
        """Read what is new in a zone. ``pool``: the pool that errors name.

        All operations are read, because a time in a filter is not documented, newest first, until those that are known.
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
        """The operations of a zone that were read and are not too old: on instances of our names, and bulk inserts."""
        return list(self._zones[zone].operations.values()) if zone in self._zones else ()

    def served(self, zone: str) -> frozenset[OrderToken]:
        """The orders whose instances have ended: they are not served again."""
        ended = (order_of(each.name) for each in self.operations(zone) if each.ends_instance)
        return frozenset(order for order in ended if order is not None)

    async def launch_of(self, pool: PoolId, zone: str, instance: InstanceId) -> Instant | None:
        """When an instance was made, by the operation that made it; None where that is not kept any more."""
        if not instance.isdecimal():
            return None
        rows, _ = await self._calls.pages(
            pool, Call.LIST_OPERATIONS, "items", zone=zone, filter=f"targetId = {instance}"
        )
        made = (each for each in map(operation_of, rows) if each.kind == _INSERT and not each.errors)
        return min((each.began for each in made), default=None)

    def end_of(self, zone: str, instance: InstanceId) -> Operation | None:
        """The operation after which an instance that is not listed had ended; None where none tells.

        A preemption ends it, whenever what is left is deleted; otherwise the last operation counts.
        """
        ending = [each for each in self.operations(zone) if each.target == instance and each.ends_instance]
        return max(ending, key=lambda each: (each.kind == _PREEMPTED, each.ended), default=None)


def _known_until(known: _ZoneOperations, asked: Instant) -> Instant:
    """Operations that began before need not be read: they are known, or too old."""
    if known.read is None:
        return after(asked, -LISTED_SECONDS)
    unfinished = (each.began for each in known.operations.values() if each.ended is None)
    return min([after(known.read, -LAG_SECONDS), *unfinished])
