"""Which pools may be asked for nodes now: not one that ran out a while ago, is full, unknown or being deleted."""

from __future__ import annotations

from charterer.domain.plan import ReasonCode
from charterer.domain.pool import Pool
from charterer.domain.time import Instant


def refusal(pool: Pool, surveyed: bool, live_rentals: int, more: int, now: Instant) -> ReasonCode | None:
    """Why the pool cannot be asked for ``more`` nodes beside ``live_rentals`` now; None when it can.

    A pool that cools is not asked, but nodes it has, ready or booting, are used. A pool whose cloud has not answered
    yet (``surveyed`` False) is not asked blindly.
    """
    if pool.deleting:
        return ReasonCode.POOL_DELETED
    if pool.cooled_until is not None and pool.cooled_until > now:
        return ReasonCode.POOL_COOLING
    if live_rentals + more > pool.max_nodes:
        return ReasonCode.POOL_FULL
    if not surveyed or pool.quote is None or pool.offering is None:
        return ReasonCode.NO_OPTION
    return None
