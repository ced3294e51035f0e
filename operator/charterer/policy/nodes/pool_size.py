"""How many GPUs each pool can have in the long run, and what sets the limit.

A pool that had no node to give is as large as what it has. It is asked again after its cooldown, and then has as long
again to show that there are nodes: without that, every end of a cooldown would move prices and exchange rates, and the
next failure, seconds later, would move them back. A node launched after the failure ends the doubt at once.

The operator's own limits are of all pools together. Here each pool has all that they allow; ``pool_quota`` keeps to
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import PoolId
from charterer.domain.order import CoolDown, RefusalKind
from charterer.domain.plan import Limit
from charterer.domain.pool import Pool
from charterer.domain.snapshot import OperatorLimits, Snapshot
from charterer.domain.time import Instant
from charterer.policy.nodes.rental_index import PoolRentals, RentalIndex


@dataclass(frozen=True, slots=True)
class PoolSize:
    """``nodes`` of ``gpus_per_node`` GPUs; ``until``: when a limit other than ``spec.maxNodes`` is taken to be over."""

    nodes: int
    gpus_per_node: int
    limit: Limit
    until: Instant | None

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.nodes * self.gpus_per_node


def pool_sizes(snapshot: Snapshot, rentals: RentalIndex) -> Mapping[PoolId, PoolSize]:
    """The room of every pool that may be rented from, by name."""
    return {
        name: _pool_size(pool, pool.offering.gpus_per_node, rentals.of(name), snapshot.now, snapshot.limits)
        for name, pool in sorted(snapshot.pools.items())
        if pool.offering is not None and not pool.closed_because
    }


def on_probation(snapshot: Snapshot, rentals: RentalIndex) -> Mapping[PoolId, CoolDown]:
    """The cool-downs of pools of which it is not known whether they have nodes again."""
    probations = {
        name: _probation(pool, rentals.of(name), snapshot.now)
        for name, pool in snapshot.pools.items()
        if pool.cool_down
    }
    return {name: cooled for name, cooled in probations.items() if cooled is not None}


def _probation(pool: Pool, by_budget: Sequence[PoolRentals], now: Instant) -> CoolDown | None:
    cooled = pool.cool_down
    if cooled is None or now >= cooled.probation_until:
        return None
    gave = any(launched > cooled.since for here in by_budget for launched in here.launched)
    return None if gave else cooled


def _pool_size(
    pool: Pool, gpus_per_node: int, by_budget: Sequence[PoolRentals], now: Instant, limits: OperatorLimits
) -> PoolSize:
    has = min(sum([len(here.launched) for here in by_budget]), pool.max_nodes)
    if (cooled := _probation(pool, by_budget, now)) is not None and has < pool.max_nodes:
        limit = Limit.QUOTA if cooled.kind is RefusalKind.QUOTA_EXCEEDED else Limit.STOCK
        return PoolSize(has, gpus_per_node, limit, cooled.probation_until)
    allowed = max(_allowed(pool, limits), has)
    if allowed < pool.max_nodes:
        return PoolSize(allowed, gpus_per_node, Limit.OPERATOR, None)
    return PoolSize(pool.max_nodes, gpus_per_node, Limit.MAX_NODES, None)


def _allowed(pool: Pool, limits: OperatorLimits) -> int:
    """The most nodes that the operator's limits allow, were all of them in this pool."""
    most = pool.max_nodes if limits.nodes is None else min(limits.nodes, pool.max_nodes)
    worst = 0 if pool.quote is None else pool.quote.worst.micros_per_hour
    return most if limits.hourly is None or worst <= 0 else min(most, limits.hourly.micros_per_hour // worst)
