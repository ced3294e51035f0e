"""How much of a commitment was used in the present period, and what a node less or more would have changed.

It is read from the rentals on record: who held their GPUs, at which price. A node less would have saved its price, and
would have had to be rented at the list price while jobs were on all nodes at once. A node more would have cost its
price, and would have taken the place of another node with the same GPUs while jobs were on one. Nodes that have ended
are soon no longer on record, so that what a node more saves is at least what is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from charterer.domain.budget import Budget, Cause
from charterer.domain.ids import PoolId
from charterer.domain.money import ZERO, Money, total
from charterer.domain.period import period_bounds
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.ledger.attribution import listed_by_purpose
from charterer.ledger.shares import Share

_HOUR = 3600e6
"""Microseconds."""


@dataclass(frozen=True, slots=True)
class CommitmentUse:
    """The present period's use of a committed pool.

    ``used`` and ``unused``: dollars, with GPU-hours. ``node_less`` and ``node_more``: dollars that a node less, or one
    more, would have saved (negative: cost).
    """

    pool: PoolId
    used: Money
    unused: Money
    used_gpu_hours: float
    unused_gpu_hours: float
    node_less: Money
    node_more: Money


def commitment_uses(budget: Budget, snapshot: Snapshot) -> Sequence[CommitmentUse]:
    """The use of each commitment of the budget of which a node was billed in the period."""
    start = period_bounds(budget.time_zone, snapshot.now)[0]
    own = [rental for rental in snapshot.rentals.values() if rental.budget == budget.id and rental.launched]
    found = (_use(pool, own, start, snapshot) for pool in snapshot.committed_to(budget).values())
    return [use for use in found if use.used != ZERO or use.unused != ZERO]


def _use(pool: Pool, own: Sequence[Rental], start: Instant, snapshot: Snapshot) -> CommitmentUse:
    nodes = [rental for rental in own if rental.pool == pool.id]
    shares: list[tuple[Cause, Share]] = []
    for rental in nodes:
        shares += [(purpose.cause, share) for purpose, share in listed_by_purpose(rental, snapshot, start).items()]
    held = [share for cause, share in shares if cause is Cause.JOB]
    others = [share for cause, share in shares if cause is not Cause.JOB]
    committed = pool.price_override.dollars_per_hour if pool.price_override is not None else 0.0
    listed = committed if pool.quote is None else pool.quote.list_price.dollars_per_hour
    since = max(start, min([rental.launched for rental in nodes if rental.launched is not None], default=start))
    whole = committed * (snapshot.now - since) / _HOUR
    alike = [rental for rental in own if rental.pool != pool.id and _alike(rental, pool, snapshot)]
    full = _hours_with(nodes, pool.max_nodes, since, snapshot.now) if pool.max_nodes else 0.0
    elsewhere = _hours_with(alike, 1, since, snapshot.now)
    return CommitmentUse(
        pool=pool.id,
        used=total(share.cost for share in held),
        unused=total(share.cost for share in others),
        used_gpu_hours=sum(share.gpu_micros for share in held) / _HOUR,
        unused_gpu_hours=sum(share.gpu_micros for share in others) / _HOUR,
        node_less=Money.of(whole - listed * full),
        node_more=Money.of(listed * elsewhere - whole),
    )


def _alike(rental: Rental, pool: Pool, snapshot: Snapshot) -> bool:
    """Whether the rental's node has the same GPUs, is sold in the same way, and is nobody's commitment."""
    other = snapshot.pools.get(rental.pool)
    if other is None or other.offering is None or pool.offering is None or other.committed is not None:
        return False
    same = (other.offering.gpu_type, other.offering.gpus_per_node) == (
        pool.offering.gpu_type,
        pool.offering.gpus_per_node,
    )
    return same and other.capacity_type is pool.capacity_type


def _hours_with(rentals: Iterable[Rental], least: int, start: Instant, now: Instant) -> float:
    """Hours in which jobs were on at least so many of the nodes at once."""
    changes: list[tuple[Instant, int]] = []
    for rental in rentals:
        for begin, end in _busy(rental, start, now):
            changes += [(begin, 1), (end, -1)]
    hours, busy, before = 0.0, 0, start
    for at, change in sorted(changes):
        if busy >= least:
            hours += (at - before) / _HOUR
        busy, before = busy + change, at
    return hours


def _busy(rental: Rental, start: Instant, now: Instant) -> list[tuple[Instant, Instant]]:
    """When any job held GPUs of the node, without overlaps."""
    found: list[tuple[Instant, Instant]] = []
    spans = [(max(use.since, start), min(use.until or now, now)) for use in rental.uses]
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found
