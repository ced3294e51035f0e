"""GPU-time that runs held: of a rental, and of a budget in its period by GPU type (ADR 30).

GPU-time is counted in whole GPU-microseconds, so that sums are exact: the time for which runs hold GPUs. The time of
starting and idle nodes is not counted. Clocks are those of the uses of rentals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from charterer.domain.budget import Budget
from charterer.domain.cost_row import Use
from charterer.domain.ids import PoolId
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental
from charterer.domain.time import LAST, Instant


def gpu_type_of(rental: Rental, pools: Mapping[PoolId, Pool]) -> str:
    """The GPU type of the rental's node: as recorded with its first use, else as its pool offers now; empty if neither
    is known."""
    pool = pools.get(rental.pool)
    offered = "" if pool is None or pool.offering is None else pool.offering.gpu_type
    return rental.gpu_type or offered


def held_by_use(use: Use, start: Instant, end: Instant) -> int:
    """GPU-microseconds of the use in [start, end). A use that goes on lasts until ``end``."""
    until = end if use.until is None else min(use.until, end)
    return use.gpus * max(until - max(use.since, start), 0)


def _end(rental: Rental, now: Instant) -> Instant:
    return now if rental.ended is None else min(now, rental.ended)


def held_in(rental: Rental, start: Instant, now: Instant) -> int:
    """GPU-microseconds for which runs held the rental's GPUs in [start, now), and not after its machine's end."""
    end = _end(rental, now)
    return rental.dropped_since(start) + sum([held_by_use(use, start, end) for use in rental.uses])


def ended_in(rental: Rental, start: Instant) -> int:
    """The part of ``held_in`` since ``start`` of uses that have ended, which does not depend on the time."""
    end = _end(rental, LAST)
    ended = [held_by_use(use, start, end) for use in rental.uses if use.until is not None]
    return rental.dropped_since(start) + sum(ended)


def held_on(rental: Rental, start: Instant, now: Instant) -> int:
    """The other part, of uses that go on."""
    end = _end(rental, now)
    return sum([held_by_use(use, start, end) for use in rental.uses if use.until is None])


def gpu_time(
    budget: Budget, rentals: Iterable[Rental], pools: Mapping[PoolId, Pool], now: Instant
) -> Mapping[str, int]:
    """GPU-microseconds by GPU type that runs held in the budget's current period up to ``now``.

    As with dollars (``billing.spent``), each rental counts once: in the balance if the balance lists its uid, otherwise
    by its uses. Rentals of other budgets are ignored.
    """
    balance = budget.balance
    start = budget.calendar.bounds(now)[0] if balance is None else balance.period_start
    found: dict[str, int] = {} if balance is None else dict(balance.gpu_time)
    folded = frozenset() if balance is None else balance.folded
    for rental in rentals:
        if rental.budget == budget.id and rental.uid not in folded and (held := held_in(rental, start, now)):
            gpu_type = gpu_type_of(rental, pools)
            found[gpu_type] = found.get(gpu_type, 0) + held
    return found
