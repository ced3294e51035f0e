"""The offers of pools, as far as menus depend on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from charterer.domain.ids import PoolId
from charterer.domain.job import SpotPolicy
from charterer.domain.money import Price
from charterer.domain.option import GPU
from charterer.domain.pool import CapacityType, Pool
from charterer.gpu_types import may_use
from charterer.incremental import Remember
from charterer.policy.options.interruptions import NodeHazard, node_hazard
from charterer.policy.options.menu_key import MenuKey


class PoolOffer(NamedTuple):
    """A pool's offer. ``price``: of a node, as it is decided by; None where it has no quote. ``gpus_per_node``: 0 where
    it has no offering; ``resource``: how its nodes name their GPUs or slices. ``start_seconds``: from asking for a node
    to its readiness. ``hazard``: at which rate nodes are taken back, None where none is. ``paid``: what a node is paid
    with where that is not ``price``, because it is paid for whether it is used or not. ``gave_nodes``: whether it ever
    gave one.
    """

    pool: PoolId
    gpu_type: str
    gpus_per_node: int
    price: Price | None
    max_nodes: int
    capacity_type: CapacityType
    start_seconds: float
    closed: bool
    resource: str = GPU
    hazard: NodeHazard | None = None
    paid: Price | None = None
    gave_nodes: bool = False


def pool_offer(pool: Pool) -> PoolOffer:
    """The offer of a pool."""
    return PoolOffer(
        pool=pool.id,
        gpu_type="" if pool.offering is None else pool.offering.gpu_type,
        gpus_per_node=pool.gpus_per_node,
        price=pool.marginal,
        max_nodes=pool.max_nodes,
        capacity_type=pool.capacity_type,
        start_seconds=pool.likely_start_seconds,
        closed=bool(pool.closed_because),
        resource=GPU if pool.offering is None else pool.offering.resource,
        hazard=node_hazard(pool.hazard),
        paid=None if pool.committed is None or pool.quote is None else pool.quote.price,
        gave_nodes=pool.gave_nodes,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """The offers of pools, by name; the same object for as long as nothing changes by which jobs choose."""

    offers: Mapping[PoolId, PoolOffer]

    def without(self, pools: Collection[PoolId]) -> Market:
        """The market if these pools were closed."""
        offers = self.offers.values()
        return market(offer._replace(closed=offer.closed or offer.pool in pools) for offer in offers)

    def open_to(self, key: MenuKey) -> list[tuple[PoolOffer, Price]]:
        """The pools that jobs of this key may use, each with the price of a node."""
        unfit = {pool for pool, pods in key.limits if not pods}
        return [
            (offer, offer.price)
            for offer in self.offers.values()
            if not offer.closed
            and offer.pool not in unfit
            and offer.price is not None
            and offer.gpus_per_node > 0
            and (offer.capacity_type is not CapacityType.SPOT or key.spot is SpotPolicy.ALLOWED)
            and may_use(offer.gpu_type, key.gpu_types, key.slices, key.shared_mib)
        ]


def market(offers: Iterable[PoolOffer]) -> Market:
    """The market of some pools."""
    return Market({offer.pool: offer for offer in offers})


def market_of(pools: Mapping[PoolId, Pool], remember: Remember) -> Market:
    """The market of these pools: the same one as long as they offer the same."""
    return remember(market, tuple([pool_offer(pools[name]) for name in sorted(pools)]))
