"""The rows of a month: those on record, and those that the cluster's present state adds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from charterer.cost_record.files import month_of
from charterer.domain.billing import accrued, opening_in, spent
from charterer.domain.budget import Budget
from charterer.domain.money import ZERO, Money
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.spending.cost_row import CostRow
from charterer.domain.spending.use import RecordedCost
from charterer.domain.time import Instant
from charterer.ledger.attribution import gpus_of, in_vain
from charterer.ledger.cost_rows import Part, next_part, rows


@dataclass(frozen=True, slots=True)
class LedgerMonth:
    """What a budget's ledger says of a month in [start, end). ``is_open``: it goes on.

    ``spent`` includes ``opening``; None where the ledger does not know the month. ``amount``: what the budget had to
    spend, None where that is not known. ``with_below``: what it and the budgets below it have in all; None without any.
    """

    start: Instant
    end: Instant
    is_open: bool
    spent: Money | None
    opening: Money = ZERO
    amount: Money | None = None
    with_below: Money | None = None


def ledger_month(
    budget: Budget, rentals: Sequence[Rental], bounds: tuple[Instant, Instant], now: Instant
) -> LedgerMonth:
    """The ledger of the month that lies in ``bounds``."""
    start, end = bounds
    balance = budget.balance
    if balance is not None and start <= balance.period_start < end:
        opening = opening_in(budget, balance.period_start)
        share = budget.share
        with_below = None if share is None or share.below <= ZERO else share.in_all
        return LedgerMonth(start, end, True, spent(budget, rentals, now), opening, budget.own_aim, with_below)
    for past in () if balance is None else balance.history:
        if start <= past.start < end:
            opening = opening_in(budget, past.start) if budget.created < end else ZERO
            return LedgerMonth(start, end, False, past.spent, opening, past.aim)
    return LedgerMonth(start, end, now < end, None)


def open_rows(snapshot: Snapshot, budget: Budget) -> list[CostRow]:
    """What the budget's rentals cost up to now and is not in the record of costs, as it will be there."""
    rentals = [rental for rental in snapshot.rentals.values() if rental.budget == budget.id]
    vain = in_vain(rentals, snapshot)
    return [
        row
        for rental in rentals
        for part, then in _open_parts(rental, budget, snapshot.now)
        for row in rows(
            part,
            then,
            budget,
            snapshot.pools.get(rental.pool),
            gpus_of(rental, snapshot),
            in_vain=rental.id in vain,
        )
    ]


def _open_parts(rental: Rental, budget: Budget, now: Instant) -> Iterator[tuple[Part, Rental]]:
    """The parts that are not on record, the last one up to now; each with the rental as it is when that is recorded."""
    while (part := next_part(rental, budget.time_zone)) is not None and part.start <= now:
        if part.end > now:
            part = replace(part, end=now, after=RecordedCost(now, accrued(rental, now), part.after.parts))
        yield part, rental
        if part.end >= (now if rental.ended is None else min(now, rental.ended)):
            return
        rental = replace(rental, recorded=part.after)


def month_rows(
    month: str, recorded: Iterable[CostRow], still_open: Sequence[CostRow]
) -> Iterator[tuple[CostRow, bool]]:
    """Each row of the month, and whether it is still open.

    ``recorded``: of the month, from the record of costs, which was read after the cluster. ``still_open``: of all
    months, from the cluster. What was recorded meanwhile is still open here, and counts once.
    """
    first: dict[str, int] = {}
    for row in still_open:
        first[row.rental_uid] = min(row.part, first.get(row.rental_uid, row.part))
    for row in recorded:
        if row.rental_uid not in first or row.part < first[row.rental_uid]:
            yield row, False
    for row in still_open:
        if month_of(row) == month:
            yield row, True
