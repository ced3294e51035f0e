"""Attribution of spending: to jobs that held the GPUs, and to starting, idle and ending nodes and incomplete gangs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from charterer.domain.billing import accrued_in, opening_in, spent
from charterer.domain.budget import Budget, Cause
from charterer.domain.ids import RentalId
from charterer.domain.money import ZERO, Money
from charterer.domain.period import period_bounds
from charterer.domain.plan import ReasonCode
from charterer.domain.rental import Rental, incomplete_gangs
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.ledger.shares import Purpose, Share, shares

STARTING = "(starting)"
"""From the launch of a node until it first took pods."""
IDLE = "(idle)"
"""GPUs of ready nodes that no job held."""
ENDING = "(ending)"
"""Nodes without a job from the decision to end them to their end."""
INCOMPLETE_GANG = "(incomplete gang)"
"""Nodes that no job held yet, while too few of those had come that a job needs at once."""
OPENING = "(opening)"
"""The budget's opening spend."""
EARLIER = "(earlier)"
"""Rentals of the period whose objects are already gone, and uses of long ones that their objects no longer list."""

_NAMES: Final[Mapping[Cause, str]] = {
    Cause.STARTING: STARTING,
    Cause.IDLE: IDLE,
    Cause.ENDING: ENDING,
    Cause.INCOMPLETE_GANG: INCOMPLETE_GANG,
}


def gpus_of(rental: Rental, snapshot: Snapshot) -> int:
    """GPUs of the rental's node: what its pool offers, else what its Node has; 0 while neither is known."""
    pool = snapshot.pools.get(rental.pool)
    node = None if rental.node is None else snapshot.nodes.get(rental.node)
    offered = 0 if pool is None else pool.gpus_per_node
    return offered or (0 if node is None else node.gpus or sum(node.slices.values()))


def in_vain(rentals: Sequence[Rental], snapshot: Snapshot) -> frozenset[RentalId]:
    """The rentals of gangs that are incomplete, or that were given back because they were."""
    incomplete = incomplete_gangs(rentals, snapshot.jobs)
    waiting = {rental.id for members in incomplete.values() for rental in members if rental.stays}
    ended = {rental.id for rental in rentals if rental.released_because == ReasonCode.INCOMPLETE_GANG}
    return frozenset(waiting | ended)


def by_purpose(
    rental: Rental, gpus: int, start: Instant, now: Instant, *, in_vain: bool = False
) -> Mapping[Purpose, Share]:
    """The rental's cost in [start, now) by purpose; it adds up to ``accrued_in(rental, start, now)`` exactly.

    ``gpus``: GPUs of the node. ``in_vain``: it is of an incomplete gang. Empty if the rental has cost nothing.
    """
    amount = accrued_in(rental, start, now)
    if rental.launched is None or amount == ZERO:
        return {}
    begin = max(rental.launched, start)
    end = max(now if rental.ended is None else min(rental.ended, now), begin)
    return shares(rental, gpus, begin, end, amount, in_vain=in_vain)


def listed_by_purpose(
    rental: Rental, snapshot: Snapshot, start: Instant, *, in_vain: bool = False
) -> Mapping[Purpose, Share]:
    """The same from ``start`` to now, as far as the rental's object lists its uses."""
    listed = max(start, rental.uses_since or start)
    return by_purpose(rental, gpus_of(rental, snapshot), listed, snapshot.now, in_vain=in_vain)


def attribute(budget: Budget, snapshot: Snapshot) -> list[tuple[str, Money]]:
    """The budget's spending of the current period by purpose, the largest first; it adds up to ``spent`` exactly.

    Jobs are named ``namespace/name``, the rest as in parentheses above. A job that was deleted keeps what it used.
    """
    now, balance = snapshot.now, budget.balance
    start = period_bounds(budget.time_zone, now)[0] if balance is None else balance.period_start
    rentals = [rental for rental in snapshot.rentals.values() if rental.budget == budget.id]
    vain = in_vain(rentals, snapshot)
    sums: dict[str, int] = defaultdict(int)
    for rental in rentals:
        for purpose, share in listed_by_purpose(rental, snapshot, start, in_vain=rental.id in vain).items():
            name = _NAMES.get(purpose.cause) or f"{purpose.namespace}/{purpose.job}"
            sums[name] += share.cost.micros
    opening = opening_in(budget, start)
    sums[OPENING] += opening.micros
    sums[EARLIER] += spent(budget, rentals, now).micros - sum(sums.values())
    amounts = ((name, Money(micros)) for name, micros in sums.items() if micros)
    return sorted(amounts, key=lambda item: (-item[1].micros, item[0]))
