"""Pools that fail together: of one account, and asking for the same instance types in the same zones.

What one of them was refused says as much of the others, and asking all of them is one chance, not several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from charterer.domain.ids import PoolId
from charterer.domain.order import Scope
from charterer.domain.pool import Pool
from charterer.estimate.nodes.waits import with_others
from charterer.providers.accounts import Account, account_of


def with_correlated_launches(pools: Mapping[PoolId, Pool]) -> Mapping[PoolId, Pool]:
    """The pools, each with what was counted of those that fail together with it."""
    if not any(any(pool.launches.refused) for pool in pools.values()):
        return pools
    groups: dict[tuple[Account, frozenset[str]], list[PoolId]] = defaultdict(list)
    for name, pool in pools.items():
        places = frozenset(way.within(Scope.ZONE) for way in pool.ways)
        if places and "" not in places:
            groups[account_of(pool), places].append(name)
    added = {
        name: with_others(pools[name].launches, [pools[other].launches for other in names if other != name])
        for names in groups.values()
        if len(names) > 1
        for name in names
    }
    return {
        name: pool
        if added.get(name, pool.launches) == pool.launches
        else replace(pool, correlated_launches=added[name])
        for name, pool in pools.items()
    }
