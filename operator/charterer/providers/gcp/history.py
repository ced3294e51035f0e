"""The operations of zones: when instances began and ended, and what became of requests.

A deleted instance leaves the list of instances at once, so that only the operations of its zone tell when it ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.time import Instant, after, parse_instant
from charterer.providers.gcp.calls import Calls, Json
from charterer.providers.gcp.errors import LaunchError
from charterer.providers.gcp.listing import LAG_SECONDS, LISTED_SECONDS, ListedInstance
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
    told: str

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self.ended is not None

    @property
    def ends_instance(self) -> bool:
        """Whether its target is gone after it, unless it is listed."""
        return self.kind in _ENDING and self.done and not self.errors


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
        told=row.get("status_message", ""),
    )


def errors_in(error: Json) -> tuple[LaunchError, ...]:
    """The errors of an operation, or of an attempt."""
    return tuple([LaunchError(each.get("code", ""), each.get("message", "")) for each in error.get("errors", ())])


@dataclass(slots=True)
class _Zone:
    """What is known of a zone: since when all is read, the operations of our instances, and instances seen alive."""

    read: Instant | None = None
    operations: dict[str, Operation] = field(default_factory=dict)
    seen: dict[InstanceId, ListedInstance] = field(default_factory=dict)
    began: dict[InstanceId, Instant] = field(default_factory=dict)


class History:
    """Reads the operations of zones, each but once, for as long as ended instances are told."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._zones: dict[str, _Zone] = {}

    async def read(self, pool: PoolId, zone: str) -> Sequence[Operation]:
        """The operations of a zone on instances of our names, and all bulk inserts, of about the last hour.

        ``pool``: the pool that errors name. Those that were not done are read again, with all that are newer.
        """
        known = self._zones.setdefault(zone, _Zone())
        begin = self._begin(known)
        rows, asked = await self._calls.pages(
            pool,
            Call.LIST_OPERATIONS,
            "items",
            lambda row: begin is not None and parse_instant(row["insert_time"]) < begin,
            zone=zone,
            order_by=_NEWEST_FIRST,
            max_results=_PAGE,
        )
        horizon = after(asked, -LISTED_SECONDS)
        for operation in (operation_of(row) for row in rows):
            if order_of(operation.name) is not None or operation.kind == _BULK_INSERT:
                known.operations[operation.id] = operation
        known.operations = {
            id: each for id, each in known.operations.items() if (each.ended or asked) >= horizon or not each.done
        }
        known.read = asked
        return list(known.operations.values())

    @staticmethod
    def _begin(known: _Zone) -> Instant | None:
        """From when on operations may be new. The first time there is no such time: all that are kept count."""
        if known.read is None:
            return None
        unfinished = [each.began for each in known.operations.values() if not each.done]
        return min([after(known.read, -LAG_SECONDS), *unfinished])

    def served(self, zone: str) -> frozenset[OrderToken]:
        """The orders whose instances have ended, as far as the operations that were read tell: they are not served again."""
        known = self._zones.get(zone, _Zone())
        return frozenset(
            order for each in known.operations.values() if each.ends_instance and (order := order_of(each.name))
        )

    async def ended(
        self,
        pool: PoolId,
        zone: str,
        listed: Mapping[InstanceId, ListedInstance],
        missing: Collection[InstanceId],
        own: Iterable[str],
    ) -> Sequence[ListedInstance]:
        """The instances of a zone that ended lately, with their ends.

        ``missing``: those that are known otherwise and are not listed; ``own``: names that are ours beside these.
        """
        raise NotImplementedError
