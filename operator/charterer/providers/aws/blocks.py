"""Capacity Blocks end: EC2 ends what still runs in one from 30 minutes before its end date on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from charterer.clouds.aws import AwsFleet
from charterer.domain.ids import InstanceId, PoolId
from charterer.domain.order import Ask, Refusal, RefusalKind, Reply, Scope
from charterer.domain.pool import Pool
from charterer.domain.time import Instant, after, instant, seconds_between
from charterer.providers.aws.calls import Calls, time_of
from charterer.providers.aws.listing import ListedInstance
from charterer.providers.aws.permissions import Call
from charterer.providers.errors import ProviderError

logger = logging.getLogger(__name__)

_BLOCK: Final = "capacity-block"
"""The reservation's type, and the lifecycle of the instances in it."""
_ENDS_BEFORE_SECONDS: Final = 1800.0
"""Source: EC2 User Guide, capacity-blocks-monitor: instances are ended from 30 minutes before the end date."""
_LEAVING_SECONDS: Final = 600.0
"""How long before that its jobs leave at the earliest (``policy.nodes.known_ends``)."""
_KNOWN_SECONDS: Final = 60.0
"""For how long an end is used before it is read again: a block can be extended."""


@dataclass(frozen=True, slots=True)
class _Reservation:
    """A reservation as it was at ``read`` by our clock and at ``asked`` by the cloud's. ``end``: see ``ends``."""

    read: float
    asked: Instant
    end: Instant | None


def ends(row: Mapping[str, Any]) -> Instant | None:
    """When EC2 begins to end the instances of a reservation; None where it is no Capacity Block."""
    if row.get("ReservationType") != _BLOCK or row.get("EndDate") is None:
        return None
    return after(instant(row["EndDate"]), -_ENDS_BEFORE_SECONDS)


class CapacityBlocks:
    """The ends of Capacity Blocks. ``clock``: seconds that only grow."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._clock = clock
        self._known: dict[str, _Reservation] = {}

    async def ends_of(self, pool: PoolId, rows: Sequence[ListedInstance]) -> Mapping[InstanceId, Instant]:
        """The ends of the pool's instances in blocks, without those whose end cannot be read, which is logged."""
        found = {}
        for row in rows:
            if row.alive and row.lifecycle == _BLOCK and row.reservation:
                known = await self._reservation(pool, row.reservation)
                if known is not None and known.end is not None:
                    found[row.id] = known.end
        return found

    async def refusals(self, pool: Pool, fleet: AwsFleet, ask: Ask) -> Reply | None:
        """The reply where a node would be of use for less time than it starts; None where EC2 is to be asked."""
        reservation = fleet.capacity_reservation
        known = await self._reservation(pool.id, reservation) if reservation else None
        if known is None or known.end is None:
            return None
        now = after(known.asked, self._clock() - known.read)
        if seconds_between(now, known.end) > 2.0 * pool.start_seconds + _LEAVING_SECONDS:
            return None
        message = "the Capacity Block ends before a node would be of use: give the pool another, or set maxNodes to 0"
        what = RefusalKind.STOCK_OUT, Scope.POOL, reservation, "CapacityBlockEnds", message, now
        return Reply(refused={order.token: Refusal(*what, order.token) for order in ask.orders})

    async def _reservation(self, pool: PoolId, id: str) -> _Reservation | None:
        """The reservation as last read; None while it could never be read."""
        known = self._known.get(id)
        if known is not None and self._clock() - known.read <= _KNOWN_SECONDS:
            return known
        try:
            answer = await self._calls(pool, Call.DESCRIBE_RESERVATIONS, {"CapacityReservationIds": [id]})
        except ProviderError as error:
            logger.warning("%s", error)
            return known
        [row] = answer["CapacityReservations"]
        self._known[id] = _Reservation(self._clock(), time_of(answer), ends(row))
        return self._known[id]
