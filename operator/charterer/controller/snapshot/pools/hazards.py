"""At which rate the nodes of each pool are taken back, from what its status remembers and the nodes that are there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from charterer.domain.ids import PoolId
from charterer.domain.nodes.hazard import Hazard, NodeLifetimes
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.rental import Rental
from charterer.domain.time import Instant, seconds_between
from charterer.estimate.nodes.hazard import hazard
from charterer.incremental import Memo

_STEP_MICROS = 300_000_000
"""Nodes that live longer change the rate with every second; it is estimated anew when one ends, and each 5 minutes."""


def with_hazards(
    pools: Mapping[PoolId, Pool], rentals: Iterable[Rental], now: Instant, memo: Memo
) -> Mapping[PoolId, Pool]:
    """The pools with their hazard: spot pools, and on-demand pools from which a node was taken."""
    dying = {
        name for name, pool in pools.items() if pool.capacity_type is CapacityType.SPOT or any(pool.lifetimes.deaths)
    }
    if not dying:
        return pools
    launched: dict[PoolId, list[Instant]] = defaultdict(list)
    for rental in rentals:
        if rental.pool in dying and rental.launched is not None and rental.ended is None:
            launched[rental.pool].append(rental.launched)
    at = Instant(now - now % _STEP_MICROS)
    return {
        name: pool
        if name not in dying
        else replace(pool, hazard=memo(_hazard, pool.lifetimes, tuple(sorted(launched[name])), at, pool.capacity_type))
        for name, pool in pools.items()
    }


def _hazard(lifetimes: NodeLifetimes, launched: Sequence[Instant], now: Instant, capacity_type: CapacityType) -> Hazard:
    ages = [max(seconds_between(since, now), 0.0) / 3600.0 for since in launched]
    return hazard(lifetimes, ages, now, capacity_type)
