"""Attribution of spending to jobs that held the GPUs, to starting, idle and ending nodes, and to incomplete gangs."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from charterer.domain.billing import accrued_in, opening_in, spent
from charterer.domain.budget import Budget, Cause, JobTime
from charterer.domain.cost_row import WHOLE, Payer, Use
from charterer.domain.ids import PoolId, RentalId
from charterer.domain.money import ZERO, Money, apportion, total
from charterer.domain.option import GPU
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import Pool, PriceSegment
from charterer.domain.rental import ENDED_BY_ITSELF, Rental, RentalPhase, incomplete_gangs
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import LAST, Instant

# The cost of a rental by purpose: the runs that held its GPUs, and the time without a job.
#
# The cost is apportioned by GPU-time, at the price of each moment. The shares add up to the cost exactly, because
# remainders of the division go to the largest fractions.


class Purpose(NamedTuple):
    """What a rental was paid for: a run of a job (with ``Cause.JOB``), or a cause without a job."""

    cause: Cause
    namespace: str = ""
    job: str = ""
    job_uid: str = ""
    run: int = 0


@dataclass(frozen=True, slots=True)
class Share:
    """The share of a purpose: its cost, its GPU-time in microseconds, and the span that contains this time.

    ``went_to``: the known uses of a job's cost (``CostRow.went_to``).
    """

    payer: Payer | None
    cost: Money
    gpu_micros: int
    first: Instant
    last: Instant
    went_to: Mapping[JobTime, Money] = field(default_factory=dict)


def shares(
    rental: Rental, gpus: int, start: Instant, end: Instant, amount: Money, *, in_vain: bool
) -> Mapping[Purpose, Share]:
    """``amount`` by purpose in [start, end). The node must have been rented during the whole interval.

    ``gpus``: GPUs of the node; 0 if unknown. ``in_vain``: the rental belongs to an incomplete gang.
    """
    held = [use for use in rental.uses if use.since < end and _until(use) > start]
    weights: dict[Purpose, int] = defaultdict(int)
    times: dict[Purpose, int] = defaultdict(int)
    did: dict[Purpose, dict[JobTime, int]] = defaultdict(lambda: defaultdict(int))
    spans: dict[Purpose, tuple[Instant, Instant]] = {}
    payers = {_purpose(use): use.payer for use in held}
    for since, until, price, using in _intervals(rental, held, start, end):
        counts: dict[Purpose, int] = defaultdict(int)
        for use in using:
            purpose = _purpose(use)
            counts[purpose] += use.gpus
            for kind, part in use.did(since):
                did[purpose][kind] += use.gpus * (until - since) * price * part
        free = max(gpus - sum(counts.values()), 0)
        if free or not counts:
            counts[Purpose(_without_job(rental, since, in_vain))] = free
        for purpose, count in counts.items():
            times[purpose] += count * (until - since)
            weights[purpose] += count * (until - since) * price
            spans[purpose] = spans.get(purpose, (since, until))[0], until
    if not spans:
        purpose = Purpose(_without_job(rental, start, in_vain))
        times[purpose], spans[purpose] = 0, (start, end)
    if not any(weights.values()):
        weights = times if any(times.values()) else defaultdict(int, {purpose: 1 for purpose in times})
    costs = apportion(amount, weights)
    return {
        purpose: Share(
            payers.get(purpose),
            costs.get(purpose, ZERO),
            times[purpose],
            first,
            last,
            divided(costs.get(purpose, ZERO), did[purpose], weights[purpose] * WHOLE) if purpose in did else {},
        )
        for purpose, (first, last) in sorted(spans.items())
        if times[purpose] or purpose in costs
    }


def divided(amount: Money, known: Mapping[JobTime, int], whole: int) -> Mapping[JobTime, Money]:
    """The dollars of ``amount`` whose use is known: each use gets its weight ÷ ``whole``. What the rest was used for
    is unknown.

    The parts never add up to more than the amount.
    """
    weights = {str(kind): weight for kind, weight in known.items() if weight > 0}
    if amount <= ZERO or not weights:
        return {}
    rest = max(whole - sum(weights.values()), 0)
    parts = apportion(amount, {**weights, "": rest})
    return {JobTime(kind): part for kind, part in parts.items() if kind and part != ZERO}


def _purpose(use: Use) -> Purpose:
    return Purpose(Cause.JOB, use.payer.namespace, use.payer.job, use.payer.job_uid, use.payer.run)


def _until(use: Use) -> Instant:
    return LAST if use.until is None else use.until


def _intervals(
    rental: Rental, held: Sequence[Use], begin: Instant, end: Instant
) -> Iterator[tuple[Instant, Instant, int, Sequence[Use]]]:
    """[begin, end) divided wherever the price or the uses change: each interval with its price in micro-dollars per
    hour and its uses."""
    segments = rental.segments or (PriceSegment(begin, rental.worst),)
    begun = [segment.since for segment in segments]
    cuts = {begin, end, *begun, *(use.since for use in held), *(_until(use) for use in held)}
    cuts |= {at for at in (rental.ready, rental.released) if at is not None}
    cuts |= {spell.since for use in held for spell in use.spells}
    waiting = sorted(held, key=lambda use: use.since, reverse=True)
    using: list[Use] = []
    for since, until in pairwise(sorted(cut for cut in cuts if begin <= cut <= end)):
        while waiting and waiting[-1].since <= since:
            using.append(waiting.pop())
        using = [use for use in using if _until(use) >= until]
        yield since, until, segments[max(bisect_right(begun, since) - 1, 0)].price.micros_per_hour, using


def _without_job(rental: Rental, at: Instant, in_vain: bool) -> Cause:
    first = rental.uses[0].since if rental.uses else LAST
    if in_vain and at < first and (rental.uses_since is None or at < rental.uses_since):
        return Cause.INCOMPLETE_GANG
    if rental.ready is None or at < rental.ready:
        return Cause.STARTING
    released = rental.phase is RentalPhase.DRAINING or (
        rental.phase is RentalPhase.ENDED
        and rental.released_because != ""
        and rental.released_because not in ENDED_BY_ITSELF
    )
    if released and (rental.released is None or at >= rental.released):
        return Cause.IDLE if any(_until(use) > at for use in rental.uses) else Cause.ENDING
    return Cause.IDLE


# The spending of a budget in its present period by cause. The amounts add up to ``spent`` to the micro-dollar.
#
# The ledger counts costs by cause about once a minute, over all periods (``ledger.balance``). The costs of this period
# are the increases of these counts since the period began. The spending since the last count is a separate amount.


@dataclass(frozen=True, slots=True)
class SpentByCause:
    """Spending by cause. ``opening``: the budget's opening spend. ``uncounted``: spent since the last count.

    ``uncounted`` is negative if the last count was too high, because a machine had ended before the cloud reported
    its end.
    """

    spent: Money
    causes: Mapping[Cause, Money]
    opening: Money
    uncounted: Money


def spent_by_cause(budget: Budget, rentals: Iterable[Rental], now: Instant) -> SpentByCause:
    """The amounts of the present period, which add up to ``spent``."""
    balance = budget.balance
    start = budget.calendar.bounds(now)[0] if balance is None else balance.period_start
    causes: Mapping[Cause, Money] = {}
    if balance is not None:
        before = balance.costs.before
        grown = {cause: amount - before.get(cause, ZERO) for cause, amount in balance.costs.by_cause.items()}
        causes = {cause: grown[cause] for cause in Cause if grown.get(cause, ZERO) != ZERO}
    whole, opening = spent(budget, rentals, now), opening_in(budget, start)
    return SpentByCause(whole, causes, opening, whole - opening - total(causes.values()))


STARTING = "(starting)"
"""Name of the time from a node's launch until it first took pods."""
IDLE = "(idle)"
"""Name of GPUs of ready nodes that no job held."""
ENDING = "(ending)"
"""Name of nodes without a job, from the decision to end them to their end."""
INCOMPLETE_GANG = "(incomplete gang)"
"""Name of nodes that no job held yet, because too few nodes of their gang had come."""
OPENING = "(opening)"
"""Name of the budget's opening spend."""
EARLIER = "(earlier)"
"""Name of two kinds of cost: rentals of the period whose objects are deleted, and uses that a rental's object no
longer lists."""

_NAMES: Final[Mapping[Cause, str]] = {
    Cause.STARTING: STARTING,
    Cause.IDLE: IDLE,
    Cause.ENDING: ENDING,
    Cause.INCOMPLETE_GANG: INCOMPLETE_GANG,
}


def gpus_of(rental: Rental, snapshot: Snapshot) -> int:
    """The number of GPUs that the rental's pool offers on a node, or else that its Node has; 0 if neither is
    known."""
    pool = snapshot.pools.get(rental.pool)
    node = None if rental.node is None else snapshot.nodes.get(rental.node)
    offered = 0 if pool is None else pool.gpus_per_node
    return offered or (0 if node is None else node.count(GPU if pool is None else pool.resource))


def in_vain(rentals: Sequence[Rental], snapshot: Snapshot) -> frozenset[RentalId]:
    """The rentals of incomplete gangs, and rentals that were given back because their gang was incomplete."""
    incomplete = incomplete_gangs(rentals, snapshot.jobs)
    waiting = {rental.id for members in incomplete.values() for rental in members if rental.stays}
    ended = {rental.id for rental in rentals if rental.released_because == ReasonCode.INCOMPLETE_GANG}
    return frozenset(waiting | ended)


def by_purpose(
    rental: Rental, gpus: int, start: Instant, now: Instant, *, in_vain: bool = False
) -> Mapping[Purpose, Share]:
    """The rental's cost in [start, now) by purpose, which adds up to ``accrued_in(rental, start, now)`` exactly.

    ``gpus``: GPUs of the node. ``in_vain``: the rental belongs to an incomplete gang. Empty if nothing was spent.
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
    """As ``by_purpose`` from ``start`` to now, but only for the time for which the rental's object still lists its
    uses."""
    listed = max(start, rental.uses_since or start)
    return by_purpose(rental, gpus_of(rental, snapshot), listed, snapshot.now, in_vain=in_vain)


def attribute(budget: Budget, snapshot: Snapshot) -> list[tuple[str, Money]]:
    """The budget's spending in the period by purpose, the largest first. The amounts add up to ``spent`` exactly.

    Jobs are named ``namespace/name``, other purposes by the names in parentheses above. A deleted job keeps its costs.
    """
    now, balance = snapshot.now, budget.balance
    start = budget.calendar.bounds(now)[0] if balance is None else balance.period_start
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


# How much of a commitment was used in the present period, and what one node less or more would have changed.
#
# The figures come from the rentals on record: which jobs held their GPUs, at which price. One committed node less
# would have saved its price. But while jobs were on all committed nodes at once, another node would have been rented
# at the list price instead. One committed node more would have cost its price. While jobs used a rented node with the
# same GPUs, the committed node would have replaced the rented one. Nodes that are in the cluster anyway have no list
# price, so the price of the cheapest rented node with the same GPUs is used. The objects of ended nodes are soon
# deleted, and their savings are then missing. So the true saving of one node more is at least the saving that is
# shown.


_HOUR = 3600e6
"""Microseconds of an hour."""


@dataclass(frozen=True, slots=True)
class CommitmentUse:
    """The use of a committed pool in the present period.

    ``used``, ``unused``: dollars for used and unused GPUs; further fields have the GPU-hours. ``node_less``,
    ``node_more``: dollars that would have been saved with one node less or one node more (negative: additional cost).
    ``part``: the pool's fraction of all GPU-hours of the budget's jobs.
    """

    pool: PoolId
    used: Money
    unused: Money
    used_gpu_hours: float
    unused_gpu_hours: float
    node_less: Money
    node_more: Money
    part: float


def commitment_uses(budget: Budget, snapshot: Snapshot) -> Sequence[CommitmentUse]:
    """The use of each of the budget's commitments that had a billed node in the period."""
    start = budget.calendar.bounds(snapshot.now)[0]
    own = [rental for rental in snapshot.rentals.values() if rental.budget == budget.id and rental.launched]
    found = (_use(pool, own, start, snapshot) for pool in snapshot.committed_to(budget).values())
    return [use for use in found if use.used_gpu_hours or use.unused_gpu_hours]


def _use(pool: Pool, own: Sequence[Rental], start: Instant, snapshot: Snapshot) -> CommitmentUse:
    nodes = [rental for rental in own if rental.pool == pool.id]
    shares: list[tuple[Cause, Share]] = []
    for rental in nodes:
        shares += [(purpose.cause, share) for purpose, share in listed_by_purpose(rental, snapshot, start).items()]
    held = [share for cause, share in shares if cause is Cause.JOB]
    others = [share for cause, share in shares if cause is not Cause.JOB]
    committed = pool.price_override.dollars_per_hour if pool.price_override is not None else 0.0
    alike = [rental for rental in own if rental.pool != pool.id and _alike(rental, pool, snapshot)]
    listed = committed if pool.quote is None else pool.quote.list_price.dollars_per_hour
    if not pool.cloud.rents:
        quotes = [quote for rental in alike if (quote := snapshot.pools[rental.pool].quote) is not None]
        listed = min([quote.list_price.dollars_per_hour for quote in quotes], default=0.0)
    since = max(start, min([rental.launched for rental in nodes if rental.launched is not None], default=start))
    whole = committed * (snapshot.now - since) / _HOUR
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
        part=_part(nodes, own, start, snapshot.now),
    )


def _part(nodes: Iterable[Rental], own: Iterable[Rental], start: Instant, now: Instant) -> float:
    """The fraction of all jobs' GPU-hours that was spent on the ``own`` nodes."""
    here, everywhere = (
        sum(
            [
                use.gpus * max(min(use.until or now, now) - max(use.since, start), 0)
                for each in those
                for use in each.uses
            ]
        )
        for those in (nodes, own)
    )
    return here / everywhere if everywhere else 0.0


def _alike(rental: Rental, pool: Pool, snapshot: Snapshot) -> bool:
    """Whether the rental's node has the same GPUs and capacity type, and belongs to no commitment."""
    other = snapshot.pools.get(rental.pool)
    if other is None or other.offering is None or pool.offering is None or other.committed is not None:
        return False
    same = (other.offering.gpu_type, other.offering.gpus_per_node) == (
        pool.offering.gpu_type,
        pool.offering.gpus_per_node,
    )
    return same and other.capacity_type is pool.capacity_type


def _hours_with(rentals: Iterable[Rental], least: int, start: Instant, now: Instant) -> float:
    """Hours in which jobs were on at least ``least`` of the nodes at once."""
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
    """The times in which any job held GPUs of the node, without overlaps."""
    found: list[tuple[Instant, Instant]] = []
    spans = [(max(use.since, start), min(use.until or now, now)) for use in rental.uses]
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found
