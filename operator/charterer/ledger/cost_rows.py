"""The rows that a rental adds to the record of costs: part by part, each within one day of the budget's time zone.

A part is what is recorded at once: from where the record of the rental ends to the end of that day, or to the rental's
own end. The rows of all parts add up to the rental's cost to the micro-dollar. What a day costs is what had accrued at its
end, less what had at its beginning (``billing.accrued``), as the budget's periods are cut; where that is negative, since a
price fell within a billing minimum, and where what was recorded before turns out wrong, a row of its own makes up for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from charterer.domain.billing import accrued
from charterer.domain.budget import Budget, Cause
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental
from charterer.domain.spending.cost_row import CostRow, Machine
from charterer.domain.spending.use import Recorded
from charterer.domain.time import Instant, instant, moment
from charterer.ledger.shares import Purpose, Share, shares

_MICROS = 1_000_000
_HOUR = 3_600


@dataclass(frozen=True, slots=True)
class Part:
    """The next part of a rental's cost: [start, end), which may be empty, and what is on record after it."""

    start: Instant
    end: Instant
    after: Recorded


def day_bounds(time_zone: str, at: Instant) -> tuple[Instant, Instant]:
    """The day of ``time_zone`` that holds ``at``: its first instant and that of the day after it.

    Where a clock change hides or repeats midnight, days begin as months do (``period.period_bounds``), so that each day
    lies in one month.
    """
    zone = ZoneInfo(time_zone)
    day = moment(at).astimezone(zone).date()
    if at >= (following := _midnight(zone, day.toordinal() + 1)):
        return following, _midnight(zone, day.toordinal() + 2)
    return _midnight(zone, day.toordinal()), following


def _midnight(zone: ZoneInfo, ordinal: int) -> Instant:
    day = datetime.fromordinal(ordinal)
    return instant(day.replace(tzinfo=zone))


def next_part(rental: Rental, time_zone: str) -> Part | None:
    """The part that is to be recorded next, once it is over; None if all of an ended rental's cost is on record.

    A rental that is not launched has cost nothing yet.
    """
    done, cost = rental.recorded, rental.cost
    start = rental.launched if done is None else done.through
    if rental.ended is not None and rental.launched is None:  # a machine of which nothing was ever read
        first = rental.named or rental.created
        start = max(first, day_bounds(time_zone, rental.ended)[0]) if done is None else done.through
        start = min(start, rental.ended)
    if start is None or (rental.ended is not None and cost is not None and _all_on_record(done, rental.ended, cost)):
        return None
    end = day_bounds(time_zone, start)[1]
    if rental.ended is not None:
        end = max(min(end, rental.ended), start)
    return Part(start, end, Recorded(end, accrued(rental, end), 1 if done is None else done.parts + 1))


def _all_on_record(done: Recorded | None, ended: Instant, cost: Money) -> bool:
    if done is None:
        return cost == ZERO
    return done.through >= ended and done.cost == cost


def rows(part: Part, rental: Rental, budget: Budget, pool: Pool | None, gpus: int, *, in_vain: bool) -> list[CostRow]:
    """The rows of the part; they add up to what ``part.after`` adds to the cost on record.

    ``pool``: the rental's, None if it is gone. ``gpus``: of its node. ``in_vain``: it is of an incomplete gang.
    """
    before = ZERO if rental.recorded is None else rental.recorded.cost
    at_start = ZERO if rental.recorded is None else accrued(rental, part.start)
    amount = part.after.cost - at_start
    made: list[CostRow] = []
    for correction in (at_start - before, min(amount, ZERO)):
        if correction != ZERO:
            made.append(_row(part, rental, budget, pool, gpus, Purpose(Cause.IDLE), None, correction))
    parts = shares(rental, gpus, part.start, part.end, max(amount, ZERO), in_vain=in_vain)
    made += [_row(part, rental, budget, pool, gpus, purpose, share, share.cost) for purpose, share in parts.items()]
    return [row for row in made if row.cost != ZERO or row.gpu_seconds]
