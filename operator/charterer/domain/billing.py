"""The cost of a rental: the billing rule of docs/fakecloud.md, and the cost accrued by an instant or in a period.

All amounts are exact micro-dollars. Billed time is in whole seconds, rounded as the billing rule says. Times of a
rental are the cloud's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from charterer.domain.budget import Budget
from charterer.domain.money import ZERO, Money, Price, total
from charterer.domain.pool import PriceSegment
from charterer.domain.rental import Rental
from charterer.domain.time import Instant

_MICROS = 1_000_000
_HOUR = 3_600
"""Seconds in the unit of prices, which are per hour."""


def cost(segments: Sequence[PriceSegment], billing_minimum_seconds: int, launched: Instant, ended: Instant) -> Money:
    """The bill of an instance from ``launched`` to ``ended``, by "The rule of the bill" in docs/fakecloud.md.

    The billed time is the span, rounded up to whole seconds and at least the billing minimum. Every segment except
    the last lasts from its ``since`` to the ``since`` of the next segment, rounded down to whole seconds. The last
    segment gets the remaining seconds. A segment that begins after ``ended`` does not count, unless it is the first.
    ValueError without any segment, because an unknown price is not a price of zero.
    """
    if not segments:
        raise ValueError("cannot bill without a price: give at least one price segment")
    left = max(-((launched - ended) // _MICROS), billing_minimum_seconds, 0)
    if len(segments) == 1:
        return segments[0].price.cost(left)
    known = [segments[0], *(segment for segment in segments[1:] if segment.since <= ended)]
    amount = ZERO
    for segment, following in pairwise(known):
        seconds = min(_lasted(segment, following, launched), left)
        amount += segment.price.cost(seconds)
        left -= seconds
    return amount + known[-1].price.cost(left)


def _lasted(segment: PriceSegment, following: PriceSegment, launched: Instant) -> int:
    return max((max(following.since, launched) - max(segment.since, launched)) // _MICROS, 0)


def abridged(segments: tuple[PriceSegment, ...], launched: Instant, most: int) -> tuple[PriceSegment, ...]:
    """At most ``most`` (at least 4) segments with the same total cost: two segments replace the oldest segments.

    The two segments last as many whole seconds as the replaced segments and cost the same to the micro-dollar. The
    first segment has the average price. The second segment lasts an hour and corrects the remainder, because an hour
    can cost any whole number of micro-dollars. Segments are replaced ``most`` / 2 at a time, so that the two seldom
    change when a segment is added.
    """
    if len(segments) <= most:
        return segments
    block = most // 2
    number = -((most - 2 - len(segments)) // block) * block
    paid, seconds = ZERO, 0
    for segment, following in pairwise(segments[: number + 1]):
        lasted = _lasted(segment, following, launched)
        paid, seconds = paid + segment.price.cost(lasted), seconds + lasted
    begun, rest = segments[number].since, segments[number:]
    end = min(seconds, _HOUR)
    average = Price(paid.micros * _HOUR // seconds) if seconds else Price(0)
    lacking = paid - average.cost(seconds - end)
    last = Price((lacking.micros * _HOUR + end // 2) // end) if end else average
    since = Instant(begun - seconds * _MICROS)
    if seconds == end:
        return (PriceSegment(since, last), *rest)
    return (PriceSegment(since, average), PriceSegment(Instant(begun - end * _MICROS), last), *rest)


def accrued(rental: Rental, now: Instant) -> Money:
    """The rental's cost up to ``now``: zero before its launch, its final cost once it has ended.

    For a running rental, this is the bill as if the rental ended now, including the billing minimum. A rental without
    recorded price segments accrues at its worst price.
    """
    if rental.ended is not None and rental.cost is not None and now >= rental.ended:
        return rental.cost
    if rental.launched is None or now < rental.launched:
        return ZERO
    segments = rental.segments or (PriceSegment(rental.launched, rental.worst),)
    until = now if rental.ended is None else min(now, rental.ended)
    return cost(segments, rental.billing_minimum_seconds, rental.launched, until)


def accrued_in(rental: Rental, start: Instant, now: Instant) -> Money:
    """The part of ``accrued(rental, now)`` that accrued since the period's ``start``; never negative."""
    return max(accrued(rental, now) - accrued_before(rental, start), ZERO)


def accrued_before(rental: Rental, start: Instant) -> Money:
    """The rental's cost at ``start``, the beginning of a period; zero if the rental was launched then or later."""
    return ZERO if rental.launched is None or rental.launched >= start else accrued(rental, start)


def opening_in(budget: Budget, period_start: Instant) -> Money:
    """The budget's opening spend if the budget was created in the period that begins at ``period_start``, otherwise
    zero."""
    opening = budget.opening_spend
    return opening if opening is not None and budget.created >= period_start else ZERO


def spent(budget: Budget, rentals: Iterable[Rental], now: Instant) -> Money:
    """The amount spent in the budget's current period up to ``now``. Rentals of other budgets are ignored.

    The amount is the sum of settled cost, opening spend, and the accrued cost of rentals that are not yet folded. So
    each rental counts once: in the balance if the balance lists its uid, otherwise by its accrual. If the budget's
    first period is not open yet, the period that holds ``now`` counts.
    """
    balance = budget.balance
    start = budget.calendar.bounds(now)[0] if balance is None else balance.period_start
    settled = ZERO if balance is None else balance.settled
    folded = frozenset() if balance is None else balance.folded
    running = total(
        accrued_in(rental, start, now) for rental in rentals if rental.budget == budget.id and rental.uid not in folded
    )
    return settled + opening_in(budget, start) + running
