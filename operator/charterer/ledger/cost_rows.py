"""The rows that a rental adds to the record of costs: part by part, each within one day of the budget's time zone.

Each part is recorded in one write. A part begins where the rental's record ends, and ends with that day or with the
rental. The rows of all parts add up to the rental's cost to the micro-dollar. The cost of a day is the cost accrued at
its end minus that at its beginning (``billing.accrued``), which is also how costs are assigned to a budget's periods.
The cost of a day is negative if a price fell within a billing minimum. A separate row corrects such a cost, and earlier
rows that turned out wrong.
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
    """The next part of a rental's cost: [start, end), which may be empty. ``after``: what is on record once the part
    is written."""

    start: Instant
    end: Instant
    after: RecordedCost


def next_part(rental: Rental, time_zone: str) -> Part | None:
    """The next part to record. None if the part's time is not over yet, or if all of an ended rental's cost is on
    record.

    The result is also None if the rental is not launched and has not ended.
    """
    done = rental.recorded
    start = rental.launched if done is None else done.through
    if rental.ended is not None and rental.launched is None:  # The rental ended before any machine of it was observed.
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
    """Whether all of the rental's cost is on record. If a machine was launched, a cost of zero must be recorded
    too."""
    done = rental.recorded
    if rental.ended is None or rental.cost is None:
        return False
    if done is None:
        return rental.cost == ZERO and rental.launched is None
    return done.through >= rental.ended and done.cost == rental.cost and not done.correcting


def correction_begun(rental: Rental) -> RecordedCost | None:
    """The entry of the GPURental's status that must be written before a part that only corrects the record; None if
    none is needed.

    The entry keeps a correction from being forgotten. Without the entry, the operator could write a correction and
    end before the status says so. If the cloud then reverses the correction, nothing would show that the correction
    is on file and must be set back to zero.
    """
    done = rental.recorded
    if done is None or done.correcting or rental.ended is None or done.through < rental.ended:
        return None
    return None if done.cost == rental.cost else replace(done, correcting=True)


def rows(part: Part, rental: Rental, budget: Budget, pool: Pool | None, gpus: int, *, in_vain: bool) -> list[CostRow]:
    """The rows of the part, at least one. Their sum is the cost in ``part.after`` minus the recorded cost.

    A part without cost has one row of zero, which replaces an earlier version of the part. The operator may have
    written such a version to the record just before the operator ended. ``pool``: the rental's pool; None if it is
    deleted. ``gpus``: GPUs of its node. ``in_vain``: the rental belongs to an incomplete gang.
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
    """The id of the rental's machine on bills; empty if no machine ever came.

    Azure's bills name VMs by their paths and not by vmId, and Karpenter knows its machines by the names of NodeClaims.
    So for these, the id comes from the providerID.
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
    """The average price of the machine in [start, end), rounded to a micro-dollar per hour."""
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
