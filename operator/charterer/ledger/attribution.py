"""Attribution of spending: to jobs that held the GPUs, and to starting, idle and ending nodes and incomplete gangs.

A rental's cost is apportioned by GPU-time, each moment at its price, and the parts add up to the cost exactly (the
largest remainders get the micro-dollars that division leaves over).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from charterer.domain.billing import accrued_in, opening_in, spent
from charterer.domain.budget import Budget
from charterer.domain.ids import RentalId
from charterer.domain.job import Job
from charterer.domain.jobs.job_cost import spans
from charterer.domain.money import ZERO, Money
from charterer.domain.period import period_bounds
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import PriceSegment
from charterer.domain.rental import Rental, RentalPhase, incomplete_gangs
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant

STARTING = "(starting)"
"""From the launch of a node until it first took pods."""
IDLE = "(idle)"
"""GPUs of ready nodes that no existing job held."""
ENDING = "(ending)"
"""From the last job's leaving a released node to the node's end."""
INCOMPLETE_GANG = "(incomplete gang)"
"""Nodes that no job held yet, while too few of those had come that a job needs at once."""
OPENING = "(opening)"
"""The budget's opening spend."""
EARLIER = "(earlier)"
"""Rentals of the period whose objects are already gone."""


@dataclass(frozen=True, slots=True)
class Holding:
    """``gpus`` of a rental held by a job (``namespace/name``) in [start, end)."""

    name: str
    rental: RentalId
    gpus: int
    start: Instant
    end: Instant


def holdings(job: Job, now: Instant) -> list[Holding]:
    """The GPUs that the job held, run by run, up to ``now``.

    A run that was resized in place counts with its present shape only, since its last change.
    """
    name = f"{job.namespace}/{job.name}"
    return [
        Holding(name, place.rental, place.gpus, start, end)
        for run, start, end in spans(job, now)
        for place in run.placements
    ]


def held_on(jobs: Iterable[Job], now: Instant) -> Mapping[RentalId, Sequence[Holding]]:
    """The GPUs that the jobs held up to ``now``, by rental."""
    held: dict[RentalId, list[Holding]] = defaultdict(list)
    for job in jobs:
        for holding in holdings(job, now):
            held[holding.rental].append(holding)
    return held


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
    rental: Rental, held: Sequence[Holding], gpus: int, start: Instant, now: Instant, *, in_vain: bool = False
) -> dict[str, Money]:
    """The rental's cost in [start, now) by purpose; it adds up to ``accrued_in(rental, start, now)`` exactly.

    ``gpus``: GPUs of the node. ``held``: holdings of this rental. ``in_vain``: it is of an incomplete gang. Empty if
    the rental has cost nothing.
    """
    amount = accrued_in(rental, start, now)
    if rental.launched is None or amount == ZERO:
        return {}
    begin = max(rental.launched, start)
    end = max(now if rental.ended is None else min(rental.ended, now), begin)
    weights: dict[str, int] = defaultdict(int)
    for since, until, price in _intervals(rental, held, begin, end):
        using = [holding for holding in held if holding.start <= since and holding.end >= until]
        for holding in using:
            weights[holding.name] += holding.gpus * (until - since) * price
        free = max(gpus - sum(holding.gpus for holding in using), 0)
        weights[_without_job(rental, held, since, in_vain)] += free * (until - since) * price
    if not any(weights.values()):
        weights = defaultdict(int, {_without_job(rental, held, begin, in_vain): 1})
    return apportion(amount, weights)


def _intervals(
    rental: Rental, held: Sequence[Holding], begin: Instant, end: Instant
) -> Iterable[tuple[Instant, Instant, int]]:
    """[begin, end) cut wherever anything changes, each piece with its price in micro-dollars an hour."""
    segments = rental.segments or (PriceSegment(begin, rental.worst),)
    cuts = {begin, end, *(segment.since for segment in segments), *(item.start for item in held)}
    cuts |= {item.end for item in held} | ({rental.ready} if rental.ready is not None else set())
    for since, until in pairwise(sorted(cut for cut in cuts if begin <= cut <= end)):
        begun = [segment for segment in segments if segment.since <= since] or segments[:1]
        yield since, until, begun[-1].price.micros_per_hour


def _without_job(rental: Rental, held: Sequence[Holding], at: Instant, in_vain: bool) -> str:
    if in_vain and all(holding.start > at for holding in held):
        return INCOMPLETE_GANG
    if rental.ready is None or at < rental.ready:
        return STARTING
    released = rental.phase is RentalPhase.DRAINING or (rental.phase is RentalPhase.ENDED and rental.released_because)
    if released and all(holding.end <= at for holding in held):
        return ENDING
    return IDLE


def apportion(amount: Money, weights: Mapping[str, int]) -> dict[str, Money]:
    """Divide ``amount`` in proportion to ``weights`` (not negative, not all zero), exactly: by largest remainder."""
    whole = sum(weights.values())
    parts = {name: divmod(amount.micros * weight, whole) for name, weight in weights.items()}
    left = amount.micros - sum(quotient for quotient, _ in parts.values())
    first = sorted(parts, key=lambda name: (-parts[name][1], name))[:left]
    return {name: Money(quotient + (name in first)) for name, (quotient, _) in parts.items() if weights[name] > 0}


def attribute(budget: Budget, snapshot: Snapshot) -> list[tuple[str, Money]]:
    """The budget's spending of the current period by purpose, the largest first; it adds up to ``spent`` exactly.

    Jobs are named ``namespace/name``, the rest as in parentheses above. GPUs held by a job that no longer exists count
    as idle.
    """
    now, balance = snapshot.now, budget.balance
    start = period_bounds(budget.time_zone, now)[0] if balance is None else balance.period_start
    rentals = [rental for rental in snapshot.rentals.values() if rental.budget == budget.id]
    held = held_on(snapshot.jobs.values(), now)
    vain = in_vain(rentals, snapshot)
    sums: dict[str, int] = defaultdict(int)
    for rental in rentals:
        gpus, used = gpus_of(rental, snapshot), held.get(rental.id, ())
        for name, amount in by_purpose(rental, used, gpus, start, now, in_vain=rental.id in vain).items():
            sums[name] += amount.micros
    opening = opening_in(budget, start)
    sums[OPENING] += opening.micros
    sums[EARLIER] += spent(budget, rentals, now).micros - sum(sums.values())
    amounts = ((name, Money(micros)) for name, micros in sums.items() if micros)
    return sorted(amounts, key=lambda item: (-item[1].micros, item[0]))
