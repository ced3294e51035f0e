"""A rental's cost shared out by purpose: the runs that held its GPUs, and what it was paid for without a job.

The cost is apportioned by GPU-time, each moment at its price, and the shares add up to it exactly (the largest
remainders get the micro-dollars that division leaves over).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from charterer.domain.budget import Cause
from charterer.domain.money import Money, apportion
from charterer.domain.pool import PriceSegment
from charterer.domain.rental import ENDED_BY_ITSELF, Rental, RentalPhase
from charterer.domain.spending.cost_row import Payer
from charterer.domain.spending.use import Use
from charterer.domain.time import LAST, Instant


class Purpose(NamedTuple):
    """What a rental was paid for: a run of a job (then the cause is ``Cause.JOB``), or something without one."""

    cause: Cause
    namespace: str = ""
    job: str = ""
    job_uid: str = ""
    run: int = 0


@dataclass(frozen=True, slots=True)
class Share:
    """A purpose's share: its cost, its GPU-time in microseconds, and the span in which all of that lies."""

    payer: Payer | None
    cost: Money
    gpu_micros: int
    first: Instant
    last: Instant


def shares(
    rental: Rental, gpus: int, start: Instant, end: Instant, amount: Money, *, in_vain: bool
) -> Mapping[Purpose, Share]:
    """``amount``, shared out by what the rental was for in [start, end), in which it was rented.

    ``gpus``: GPUs of the node, 0 if that is not known. ``in_vain``: it is of an incomplete gang.
    """
    held = [use for use in rental.uses if use.since < end and _until(use) > start]
    weights: dict[Purpose, int] = defaultdict(int)
    times: dict[Purpose, int] = defaultdict(int)
    spans: dict[Purpose, tuple[Instant, Instant]] = {}
    payers = {_purpose(use): use.payer for use in held}
    for since, until, price, using in _intervals(rental, held, start, end):
        counts: dict[Purpose, int] = defaultdict(int)
        for use in using:
            counts[_purpose(use)] += use.gpus
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
        purpose: Share(payers.get(purpose), costs.get(purpose, Money(0)), times[purpose], first, last)
        for purpose, (first, last) in sorted(spans.items())
        if times[purpose] or purpose in costs
    }


def _purpose(use: Use) -> Purpose:
    return Purpose(Cause.JOB, use.payer.namespace, use.payer.job, use.payer.job_uid, use.payer.run)


def _until(use: Use) -> Instant:
    return LAST if use.until is None else use.until


def _intervals(
    rental: Rental, held: Sequence[Use], begin: Instant, end: Instant
) -> Iterator[tuple[Instant, Instant, int, Sequence[Use]]]:
    """[begin, end) cut wherever anything changes, each piece with its price in micro-dollars an hour and its uses."""
    segments = rental.segments or (PriceSegment(begin, rental.worst),)
    begun = [segment.since for segment in segments]
    cuts = {begin, end, *begun, *(use.since for use in held), *(_until(use) for use in held)}
    cuts |= {at for at in (rental.ready, rental.released) if at is not None}
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
