"""The rentals of one pool that one budget pays for, and what follows from them alone; all such blocks of a snapshot.

What ``cohort`` is for jobs. Nodes, and who holds GPUs on them, come in with ``site``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import BudgetId, NodeName, PoolId, RentalId
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.policy.identity_diff import identity_diff
from charterer.policy.nodes.accrued_cost import AccruedCosts


@dataclass(frozen=True, slots=True, eq=False)
class PoolRentals:
    """``rentals`` in order of creation, ``live`` those that have not ended, ``staying`` those that are not on their way
    out either. ``ready``: those of the staying whose nodes are to take pods; ``booting``: those that are still to come.

    ``launched``: when those of the staying were that are. ``deleting``: live ones whose object is being deleted.
    ``names`` and ``nodes``: of the live ones, the nodes with their rentals. ``billed``: micro-dollars an hour of those
    that cost money now.
    """

    rentals: Sequence[Rental]
    live: Sequence[Rental]
    names: frozenset[RentalId]
    staying: Mapping[RentalId, Rental]
    ready: Sequence[Rental]
    booting: Sequence[Rental]
    launched: Sequence[Instant]
    deleting: Sequence[Rental]
    nodes: Mapping[NodeName, RentalId]
    billed: Mapping[RentalId, int]
    bills: AccruedCosts


def pool_rentals(rentals: Iterable[Rental]) -> PoolRentals:
    """The block of some rentals."""
    everyone = sorted(rentals, key=lambda one: (one.created, one.id))
    live = [one for one in everyone if one.phase is not RentalPhase.ENDED]
    staying = [one for one in live if one.phase is not RentalPhase.DRAINING]
    return PoolRentals(
        rentals=everyone,
        live=live,
        names=frozenset(one.id for one in live),
        staying={one.id: one for one in staying},
        ready=[one for one in staying if one.phase is RentalPhase.READY],
        booting=[one for one in staying if one.phase is not RentalPhase.READY],
        launched=[one.launched for one in staying if one.launched is not None],
        deleting=[one for one in live if one.deleting],
        nodes={one.node: one.id for one in live if one.node is not None},
        billed={one.id: one.price.micros_per_hour for one in everyone if one.billed},
        bills=AccruedCosts(everyone),
    )


class RentalIndex:
    """The rentals of one snapshot in ``blocks``, by budget and pool. What is the same as before is taken over."""

    def __init__(self, snapshot: Snapshot, before: RentalIndex | None = None) -> None:
        known: Mapping[RentalId, Rental] = {} if before is None else before._rentals
        changed, gone = identity_diff(snapshot.rentals, known)
        new = [snapshot.rentals[name] for name in changed]
        old = [known[name] for name in (*gone, *changed) if name in known]
        self._rentals: Mapping[RentalId, Rental] = snapshot.rentals
        self.blocks: dict[tuple[BudgetId, PoolId], PoolRentals] = {} if before is None else dict(before.blocks)
        self._regroup(old, new)
        self.rental_of: Mapping[NodeName, RentalId]
        if before is not None and not new and not old:
            self.rental_of = before.rental_of
        else:
            self.rental_of = {node: name for _, one in sorted(self.blocks.items()) for node, name in one.nodes.items()}

    def _regroup(self, old: Iterable[Rental], new: Iterable[Rental]) -> None:
        """Take rentals out of their blocks and put others into theirs."""
        touched: dict[tuple[BudgetId, PoolId], list[Rental]] = {}
        leaving = {one.id for one in old}
        for one in (*old, *new):
            place = one.budget, one.pool
            if place not in touched:
                had = self.blocks.pop(place, None)
                touched[place] = [] if had is None else [has for has in had.rentals if has.id not in leaving]
        for one in new:
            touched[one.budget, one.pool].append(one)
        self.blocks |= {place: pool_rentals(mine) for place, mine in sorted(touched.items()) if mine}

    def of(self, pool: PoolId) -> Sequence[PoolRentals]:
        """The blocks of a pool."""
        return [one for (_, name), one in self.blocks.items() if name == pool]
