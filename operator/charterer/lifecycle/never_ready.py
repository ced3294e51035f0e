"""Machines that ended before their Nodes were ready: paid for in vain, so that the pool is not asked for more at once.

A wrong image or network makes every machine of a pool such a one. Each costs a quarter of an hour until it is given up.
"""

from __future__ import annotations

from collections.abc import Sequence

from charterer.domain.order import Refusal, RefusalKind, Scope
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.rental import Rental
from charterer.domain.time import Instant
from charterer.lifecycle.pool_records.lifetimes import TAKEN


def never_ready(pool: Pool, rentals: Sequence[Rental], now: Instant) -> Refusal | None:
    """The pool's newest machine that was never ready, as a refusal.

    None where the pool has cooled since that machine was asked for, or another one was ready since then.
    """
    failed = [rental for rental in rentals if _never_ready(rental)]
    if not failed:
        return None
    newest = max(failed, key=lambda rental: (rental.created, rental.id))
    cooled = any(each.kind is RefusalKind.NEVER_READY and each.since >= newest.created for each in pool.cooled)
    ready = last_ready(rentals)
    if cooled or (ready is not None and ready > newest.created):
        return None
    cut = pool.partition
    shows = "" if cut is None else f", and whether its Node shows {cut.resource}, as {cut.field} says"
    looks = f"look at its image, network and start-up{shows}"
    text = f"instance {newest.instance} ended, and its Node was never ready: {looks}"
    return Refusal(RefusalKind.NEVER_READY, Scope.POOL, pool.id, newest.released_because, text, now)


def last_ready(rentals: Sequence[Rental]) -> Instant | None:
    """When a Node of these was ready last, which shows that the pool's machines can be."""
    return max((rental.ready for rental in rentals if rental.ready is not None), default=None)


def _never_ready(rental: Rental) -> bool:
    """Whether its machine was given up, ended or was taken back before it was ready; spot machines are taken back."""
    if rental.launched is None or rental.ready is not None:
        return False
    if rental.capacity_type is CapacityType.SPOT:
        return rental.released_because == ReasonCode.LOST_NODE
    return rental.released_because in TAKEN
