"""The rows that a rental adds to the record of costs: part by part, each within one day of the budget's time zone.

A part is what is recorded at once: from where the record of the rental ends to the end of that day, or to the rental's
own end. The rows of all parts add up to the rental's cost to the micro-dollar. What a day costs is what had accrued at
its end, less what had at its beginning (``billing.accrued``), as the budget's periods are cut. Where that is negative,
since a price fell within a billing minimum, and where what was recorded before turns out wrong, a row of its own makes
up for it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise

from charterer.domain.billing import accrued
from charterer.domain.budget import Budget, Cause
from charterer.domain.cost_row import BilledMachine, CostRow, RecordedCost
from charterer.domain.money import ZERO, Money, total
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental
from charterer.domain.time import Instant, day_bounds
from charterer.ledger.attribution import shares

_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Part:
    """The next part of a rental's cost: [start, end), which may be empty, and what is on record after it."""

    start: Instant
    end: Instant
    after: RecordedCost


def next_part(rental: Rental, time_zone: str) -> Part | None:
    """The part that is to be recorded next, once it is over; None if all of an ended rental's cost is on record.

    A rental that is not launched has cost nothing yet.
    """
    done = rental.recorded
    start = rental.launched if done is None else done.through
    if rental.ended is not None and rental.launched is None:  # a machine of which nothing was ever read
        first = rental.named or rental.created
        start = max(first, day_bounds(time_zone, rental.ended)[0]) if done is None else done.through
        start = min(start, rental.ended)
    if start is None or _all_on_record(rental):
        return None
    end = day_bounds(time_zone, start)[1]
    if rental.ended is not None:
        end = max(min(end, rental.ended), start)
    return Part(start, end, RecordedCost(end, accrued(rental, end), 1 if done is None else done.parts + 1))


def _all_on_record(rental: Rental) -> bool:
    """Whether nothing is to be added; of a machine that was launched, that it costs nothing is put on record, too."""
    done = rental.recorded
    if rental.ended is None or rental.cost is None:
        return False
    if done is None:
        return rental.cost == ZERO and rental.launched is None
    return done.through >= rental.ended and done.cost == rental.cost and not done.correcting


def correction_begun(rental: Rental) -> RecordedCost | None:
    """What is marked before a part is written that only corrects what is on record; None where none is to be marked.

    If its file is written, its own mark is lost, and the cloud takes the correction back, nothing else would say that a
    part is there which must come to nothing.
    """
    done = rental.recorded
    if done is None or done.correcting or rental.ended is None or done.through < rental.ended:
        return None
    return None if done.cost == rental.cost else replace(done, correcting=True)


def rows(part: Part, rental: Rental, budget: Budget, pool: Pool | None, gpus: int, *, in_vain: bool) -> list[CostRow]:
    """The rows of the part, one at least; they add up to what ``part.after`` adds to the cost on record.

    A part that costs nothing has one that says so: it was another before, if the operator ended after its file.
    ``pool``: the rental's, None if it is gone. ``gpus``: of its node. ``in_vain``: it is of an incomplete gang.
    """
    on_record, had_cost = (
        (ZERO, ZERO) if rental.recorded is None else (rental.recorded.cost, accrued(rental, part.start))
    )
    amount = part.after.cost - had_cost
    parts = shares(rental, gpus, part.start, part.end, max(amount, ZERO), in_vain=in_vain)
    per_second = _MICROS * (1 if pool is None or pool.offering is None else pool.offering.slices_per_gpu)
    found = [
        CostRow(
            budget=budget.id,
            budget_uid=budget.uid,
            time_zone=budget.calendar.time_zone,
            rental=rental.id,
            rental_uid=rental.uid,
            pool=rental.pool,
            machine=_machine(rental, pool),
            start=share.first,
            end=share.last,
            cause=purpose.cause,
            payer=share.payer,
            gpu_seconds=(share.gpu_micros + per_second // 2) // per_second,
            hourly=_hourly(rental, share.first, share.last),
            cost=share.cost,
            part=part.after.parts - 1,
            version=int(rental.resource_version),
            edition=budget.generation,
            went_to=share.went_to,
        )
        for purpose, share in parts.items()
    ]
    corrections = total((had_cost - on_record, min(amount, ZERO)))
    if corrections != ZERO:
        at = replace(found[0], start=part.start, end=part.start, cause=Cause.IDLE, payer=None, gpu_seconds=0)
        found.append(replace(at, cost=corrections, correction=True, went_to={}))
    return [row for row in found if not row.void] or found[:1]


def _machine(rental: Rental, pool: Pool | None) -> BilledMachine:
    cloud, offering = rental.cloud, None if pool is None else pool.offering
    return BilledMachine(
        cloud=cloud.vendor,
        account=cloud.billed_account,
        region=cloud.billed_region,
        zone="" if offering is None else offering.zone,
        instance=billed_id(rental),
        instance_type="" if offering is None else offering.instance_type,
        gpu_type="" if offering is None else offering.gpu_type,
        gpus=0 if offering is None else offering.machine_gpus,
        capacity_type=rental.capacity_type.value,
    )


def billed_id(rental: Rental) -> str:
    """The id that bills give its machine, empty if none ever came.

    Azure's bills name VMs by their paths and not by vmId, and Karpenter knows its machines by the names of NodeClaims;
    the providerID has what the bill has.
    """
    scheme, _, path = rental.provider_id.partition("://")
    match scheme:
        case "azure":
            return path
        case "aws":
            return path.rpartition("/")[2]
        case _:
            return rental.instance or ""


def _hourly(rental: Rental, start: Instant, end: Instant) -> Money:
    """The price of the machine in [start, end), its average where it changed; rounded to the micro-dollar."""
    if not rental.segments:
        return Money(rental.price.micros_per_hour)
    since = [segment.since for segment in rental.segments]
    first = max(bisect_right(since, start) - 1, 0)
    last = max(bisect_left(since, end), first + 1)
    bounds = [start, *since[first + 1 : last], end]
    prices = [segment.price.micros_per_hour for segment in rental.segments[first:last]]
    if start >= end:
        return Money(prices[0])
    paid = sum((until - at) * price for (at, until), price in zip(pairwise(bounds), prices, strict=True))
    return Money((paid + (end - start) // 2) // (end - start))
