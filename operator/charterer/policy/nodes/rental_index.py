"""The rentals of a snapshot by the budget that pays and the pool, and what follows from them alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import BudgetId, NodeName, PoolId, RentalId
from charterer.domain.rental import Rental, RentalPhase, by_gang
from charterer.domain.time import Instant
from charterer.incremental import Memo

BudgetPool = tuple[BudgetId, PoolId]


@dataclass(frozen=True, slots=True, eq=False)
class PoolRentals:
    """The rentals of one pool that one budget pays for, in order of creation; not empty.

    ``live``: those that have not ended; ``staying``: live ones that do not drain. ``ready``: staying ones whose nodes
    take pods; ``booting``: staying ones whose nodes are still to come. ``launched``: when staying ones were launched.
    ``deleting``: live ones whose object is being deleted. ``nodes``: of the live ones, with their rentals.
    ``billed``: micro-dollars an hour of those that cost money now. ``gangs``: those of gangs, by the gang's name.
    """

    rentals: Sequence[Rental]
    live: Sequence[Rental]
    staying: Mapping[RentalId, Rental]
    ready: Sequence[Rental]
    booting: Sequence[Rental]
    launched: Sequence[Instant]
    deleting: Sequence[Rental]
    nodes: Mapping[NodeName, RentalId]
    billed: Mapping[RentalId, int]
    gangs: Mapping[str, Sequence[Rental]]


def pool_rentals(rentals: Sequence[Rental]) -> PoolRentals:
    """Rentals of one pool and budget, given in order of creation."""
    live = [rental for rental in rentals if rental.phase is not RentalPhase.ENDED]
    staying = [rental for rental in live if rental.phase is not RentalPhase.DRAINING]
    return PoolRentals(
        rentals=rentals,
        live=live,
        staying={rental.id: rental for rental in staying},
        ready=[rental for rental in staying if rental.phase is RentalPhase.READY],
        booting=[rental for rental in staying if rental.phase is not RentalPhase.READY],
        launched=[rental.launched for rental in staying if rental.launched is not None],
        deleting=[rental for rental in live if rental.deleting],
        nodes={rental.node: rental.id for rental in live if rental.node is not None},
        billed={rental.id: rental.price.micros_per_hour for rental in rentals if rental.billed},
        gangs=by_gang(rentals),
    )


@dataclass(frozen=True, slots=True)
class RentalIndex:
    """All rentals of a snapshot by budget and pool, and the rentals of all nodes."""

    by_pool: Mapping[BudgetPool, PoolRentals]
    rental_of: Mapping[NodeName, RentalId]

    def of(self, pool: PoolId) -> Sequence[PoolRentals]:
        """The rentals of a pool, by budget."""
        return [rentals for (_, name), rentals in self.by_pool.items() if name == pool]


def rental_index(rentals: Mapping[RentalId, Rental], memo: Memo) -> RentalIndex:
    """Index the rentals of a snapshot."""
    return memo(_index, memo.each(pool_rentals, memo.grouped(_budget_pool, _order, rentals)))


def _index(by_pool: Mapping[BudgetPool, PoolRentals]) -> RentalIndex:
    by_pool = dict(sorted(by_pool.items()))
    return RentalIndex(by_pool, _rental_of(by_pool.values()))


def _budget_pool(rental: Rental) -> BudgetPool:
    return rental.budget, rental.pool


def _order(rental: Rental) -> tuple[Instant, RentalId]:
    return rental.created, rental.id


def _rental_of(pools: Iterable[PoolRentals]) -> Mapping[NodeName, RentalId]:
    """The newest rental wins where several have a node of the same name, since the machines of the others have gone."""
    live = sorted((rental for pool in pools for rental in pool.live), key=_order)
    return {rental.node: rental.id for rental in live if rental.node is not None}
