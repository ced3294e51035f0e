"""The ledger beside bills: an entry for each rental and month, and sums of entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise

from charterer.domain.money import ZERO, Money, apportion, total
from charterer.ledger.reconciliation.bill_line import BillLine, Picos
from charterer.ledger.reconciliation.causes import BilledSums, DifferenceCause, causes_of
from charterer.ledger.reconciliation.ledger_side import (
    LedgerAmount,
    LedgerSide,
    RentalFacts,
    RentalMonth,
    overlap,
)
from charterer.ledger.reconciliation.matching import RentalMatcher
from charterer.ledger.reconciliation.months import CalendarMonths

_NO_COST = LedgerAmount(ZERO, ZERO, 0, 0)
_UTC = "UTC"


class Grouping(StrEnum):
    """What entries are summed up by."""

    MONTH = "month"
    BUDGET = "budget"
    POOL = "pool"
    RENTAL = "rental"


@dataclass(frozen=True, slots=True)
class Difference:
    """The ledger beside the bill, of one rental in one month or of a group of these.

    ``month`` is that of the budget's time zone, and of UTC for a machine that no rental had. ``machine``: as the bill
    names it. Empty fields: summed over, or unknown. ``outside``: what the ledger has at times that no bill covers; it
    is not in ``ledger``. ``billed - ledger`` is the sum of ``causes``.
    """

    month: str
    budget: str
    pool: str
    rental: str
    machine: str
    cloud: str
    rentals: int
    lines: int
    ledger: Money
    outside: Money
    billed: Money
    causes: Mapping[DifferenceCause, Money]

    @property
    def amount(self) -> Money:
        """Bill minus ledger."""
        return self.billed - self.ledger


def compare(ledger: LedgerSide, lines: Iterable[BillLine]) -> Sequence[Difference]:
    """An entry for each rental and month in which the ledger or the bill has anything, ordered by their names.

    A line that two months share is divided by the time that the rental lasted in each, or by time if it did not last.
    """
    matcher, months = RentalMatcher(ledger.rentals), CalendarMonths()
    found: dict[RentalMonth, BilledSums] = {}
    strangers: dict[tuple[str, str, str, str], BilledSums] = {}
    for line in lines:
        uid = matcher.rental_of(line)
        if uid is not None:
            rental = ledger.rentals[uid]
            for month, piece in by_month(line, months, rental.time_zone, rental):
                found.setdefault(RentalMonth(uid, month), BilledSums()).add(piece)
        elif line.tags.ours:
            for month, piece in by_month(line, months, _UTC, None):
                what = (month, line.tags.pool, line.resource or line.tags.rental, line.vendor)
                strangers.setdefault(what, BilledSums()).add(piece)
    known = [_known(key, ledger, found.get(key)) for key in ledger.amounts.keys() | found.keys()]
    entries = [*known, *(_stranger(*what, sums) for what, sums in strangers.items())]
    there = [entry for entry in entries if entry.lines or entry.ledger != ZERO or entry.outside != ZERO]
    return sorted(there, key=lambda entry: (entry.month, entry.budget, entry.pool, entry.rental, entry.machine))


def grouped(entries: Iterable[Difference], by: Sequence[Grouping]) -> Sequence[Difference]:
    """Sums of entries that agree in ``by``, causes included. A machine that no rental had stands for itself."""
    groups: dict[tuple[str, ...], list[Difference]] = {}
    for entry in entries:
        machine = entry.machine if Grouping.RENTAL in by and not entry.rental else ""
        groups.setdefault((*(str(getattr(entry, each.value)) for each in by), machine), []).append(entry)
    return [_sum(group, by) for _, group in sorted(groups.items())]


def by_month(
    line: BillLine, months: CalendarMonths, time_zone: str, rental: RentalFacts | None
) -> Sequence[tuple[str, BillLine]]:
    """The line by months of a time zone; parts of amounts add up exactly, seconds to their last decimal."""
    month = months.of(time_zone, line.start)
    if line.end <= month.end:
        return [(month.name, line)]
    bounds = [line.start]
    while month.end < line.end:
        bounds.append(month.end)
        month = months.of(time_zone, month.end)
    bounds.append(line.end)
    spans = rental.spans if rental is not None else ()
    pieces = list(pairwise(bounds))
    weights = [overlap(since, until, spans) for since, until in pieces]
    if not any(weights):
        weights = [until - since for since, until in pieces]
    parts = _parts(line, weights)
    return [
        (months.of(time_zone, since).name, replace(part, start=since, end=until))
        for (since, until), part, weight in zip(pieces, parts, weights, strict=True)
        if weight
    ]


def _parts(line: BillLine, weights: Sequence[int]) -> Sequence[BillLine]:
    shares = {str(at): weight for at, weight in enumerate(weights)}

    def amounts(whole: Picos) -> Sequence[Picos]:
        parts = apportion(Money(abs(whole)), shares)
        sign = 1 if whole >= 0 else -1
        return [Picos(sign * parts.get(str(at), ZERO).micros) for at in range(len(weights))]

    def seconds(whole: Decimal | None) -> Sequence[Decimal | None]:
        return [None if whole is None else whole * weight / sum(weights) for weight in weights]

    columns = zip(
        seconds(line.seconds),
        seconds(line.gpu_seconds),
        amounts(line.listed),
        amounts(line.contracted),
        amounts(line.effective),
        amounts(line.billed),
        amounts(line.commitment_credit),
        amounts(line.credit),
        strict=True,
    )
    return [
        replace(
            line,
            seconds=seconds_part,
            gpu_seconds=gpu_seconds,
            listed=listed,
            contracted=contracted,
            effective=effective,
            billed=billed,
            commitment_credit=commitment_credit,
            credit=credit,
        )
        for seconds_part, gpu_seconds, listed, contracted, effective, billed, commitment_credit, credit in columns
    ]


def _known(key: RentalMonth, ledger: LedgerSide, sums: BilledSums | None) -> Difference:
    rental, amount = ledger.rentals[key.rental_uid], ledger.amounts.get(key, _NO_COST)
    sums = BilledSums() if sums is None else sums
    billed, causes = causes_of(amount, sums, rental.machine.gpus)
    return Difference(
        month=key.month,
        budget=rental.budget,
        pool=rental.pool,
        rental=rental.name,
        machine=rental.machine.instance,
        cloud=rental.machine.cloud,
        rentals=1,
        lines=sums.lines,
        ledger=amount.cost,
        outside=amount.outside,
        billed=billed,
        causes=causes,
    )


def _stranger(month: str, pool: str, machine: str, vendor: str, sums: BilledSums) -> Difference:
    billed, _ = causes_of(_NO_COST, sums, 0)
    causes = {DifferenceCause.NOT_IN_LEDGER: billed} if billed != ZERO else {}
    return Difference(month, "", pool, "", machine, vendor, 0, sums.lines, ZERO, ZERO, billed, causes)


def _sum(group: Sequence[Difference], by: Sequence[Grouping]) -> Difference:
    first, causes = group[0], dict[DifferenceCause, int]()
    for entry in group:
        for cause, amount in entry.causes.items():
            causes[cause] = causes.get(cause, 0) + amount.micros
    return Difference(
        month=first.month if Grouping.MONTH in by else "",
        budget=first.budget if Grouping.BUDGET in by else "",
        pool=first.pool if Grouping.POOL in by else "",
        rental=first.rental if Grouping.RENTAL in by else "",
        machine=_common(entry.machine for entry in group) if Grouping.RENTAL in by else "",
        cloud=_common(entry.cloud for entry in group),
        rentals=len({(entry.budget, entry.pool, entry.rental) for entry in group if entry.rental}),
        lines=sum(entry.lines for entry in group),
        ledger=total(entry.ledger for entry in group),
        outside=total(entry.outside for entry in group),
        billed=total(entry.billed for entry in group),
        causes={cause: Money(micros) for cause, micros in causes.items() if micros},
    )


def _common(values: Iterable[str]) -> str:
    """The value that all have; empty if they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else ""
