"""The rentals of one pool and budget as they stand now: with their nodes, and with who holds GPUs on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import NodeName, PoolId, RentalId
from charterer.domain.money import Money, Price
from charterer.domain.option import GPU
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.time import Instant
from charterer.incremental import Memo
from charterer.policy.nodes.hard_limit import Exposed, exposure
from charterer.policy.nodes.holdings import Holdings
from charterer.policy.nodes.rental_index import BudgetPool, PoolRentals, RentalIndex

_ANY_TIME = Instant(0)
"""The exposure of a rental that does not boot is the same at any time."""


@dataclass(frozen=True, slots=True, eq=False)
class PoolNodes:
    """Rentals of one pool and budget with their nodes.

    ``free``: GPUs that no job holds, of ready rentals whose nodes take pods, by name. ``not_ready``: ready rentals
    without a node, or with one that is not ready, and that node. ``unused``: staying rentals of which no job holds a
    GPU. ``exposed``: the most that live rentals which do not boot can still cost.
    """

    rentals: PoolRentals
    free: Mapping[RentalId, int]
    not_ready: Sequence[tuple[Rental, Node | None]]
    unused: Sequence[Rental]
    exposed: Exposed


def pool_nodes(
    index: RentalIndex, holdings: Holdings, snapshot: Snapshot, memo: Memo
) -> Mapping[BudgetPool, PoolNodes]:
    """All pools' rentals as they stand now, by budget and pool."""
    traits: list[tuple[PoolId, float, str]] = []
    for name in dict.fromkeys([name for _, name in index.by_pool]):
        survey, pool = snapshot.surveys.get(name), snapshot.pools.get(name)
        lag = 0.0 if survey is None else survey.traits.lag_seconds
        traits.append((name, lag, GPU if pool is None else pool.resource))
    return memo.within(_all_pool_nodes, index, holdings, snapshot.nodes, tuple(traits))


def _all_pool_nodes(
    index: RentalIndex,
    holdings: Holdings,
    nodes: Mapping[NodeName, Node],
    traits: Sequence[tuple[PoolId, float, str]],
    memo: Memo,
) -> Mapping[BudgetPool, PoolNodes]:
    """``traits``: of each pool how late its cloud's list may be, and how its nodes name their GPUs."""
    of_pool = {name: (lag, resource) for name, lag, resource in traits}
    return {
        place: memo(
            _pool_nodes,
            rentals,
            tuple([None if rental.node is None else nodes.get(rental.node) for rental in rentals.ready]),
            tuple([holdings.used.get(rental.id, 0) for rental in rentals.live]),
            tuple([holdings.grace.get(rental.id, 0) for rental in rentals.live]),
            *of_pool[place[1]],
        )
        for place, rentals in index.by_pool.items()
    }


def _pool_nodes(
    rentals: PoolRentals,
    nodes: Sequence[Node | None],
    used: Sequence[int],
    graces: Sequence[int],
    lag_seconds: float,
    resource: str,
) -> PoolNodes:
    """``nodes``: of the ready rentals; ``used`` and ``graces``: of the live ones; the cloud's list may lag behind.

    ``resource``: how the nodes name their GPUs.
    """
    used_of = {rental.id: gpus for rental, gpus in zip(rentals.live, used, strict=True)}
    with_nodes = list(zip(rentals.ready, nodes, strict=True))
    free = [
        (rental.id, node.count(resource) - node.foreign_gpus - used_of[rental.id])
        for rental, node in with_nodes
        if node is not None and node.ready and not node.unschedulable and not node.deleting and not node.refused
    ]
    return PoolNodes(
        rentals=rentals,
        free=dict(sorted(free)),
        not_ready=[(rental, node) for rental, node in with_nodes if node is None or node.not_ready_since is not None],
        unused=[rental for rental in rentals.live if not used_of[rental.id] and rental.id in rentals.staying],
        exposed=_exposed(rentals, graces, lag_seconds),
    )


def _exposed(rentals: PoolRentals, graces: Sequence[int], lag_seconds: float) -> Exposed:
    booting = {rental.id for rental in rentals.booting}
    alike: dict[tuple[Price, int], Money] = {}
    most: dict[RentalId, Money] = {}
    worst: dict[RentalId, Price] = {}
    for rental, grace in zip(rentals.live, graces, strict=True):
        if rental.id not in booting:
            kind = rental.dearest, grace
            if kind not in alike:
                alike[kind] = exposure(rental, grace, lag_seconds, _ANY_TIME)
            most[rental.id] = alike[kind]
            worst[rental.id] = rental.dearest
    return Exposed(
        each=most,
        worst=worst,
        micros=sum([money.micros for money in most.values()]),
        worst_micros=sum([price.micros_per_hour for price in worst.values()]),
    )
