"""The rows of the record of costs, summed up by rental and month, and cut to the time that the bills cover."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from charterer.domain.money import Money
from charterer.domain.spending.cost_row import BilledMachine, CostRow
from charterer.domain.time import Instant
from charterer.ledger.reconciliation.bill_line import VENDORS
from charterer.ledger.reconciliation.months import CalendarMonths

Span = tuple[Instant, Instant]
"""A stretch of time, [start, end)."""


class RentalMonth(NamedTuple):
    """A rental in a month of its budget's time zone; ``month`` is like ``2026-10``."""

    rental_uid: str
    month: str


@dataclass(frozen=True, slots=True)
class RentalFacts:
    """What the record says of a rental; ``spans``: when it cost something, in order, without overlaps."""

    budget: str
    time_zone: str
    pool: str
    name: str
    machine: BilledMachine
    spans: Sequence[Span]


@dataclass(frozen=True, slots=True)
class LedgerAmount:
    """``cost``: of the time that bills cover, ``outside``: of other time.

    ``lasted``: microseconds of the covered time. ``priced``: the integral of the price over it, in micro-dollars an
    hour times microseconds.
    """

    cost: Money
    outside: Money
    lasted: int
    priced: int


@dataclass(frozen=True, slots=True)
class LedgerSide:
    """``covered``: the time that the bills of each vendor cover. ``left_out``: cost of rentals of other vendors."""

    rentals: Mapping[str, RentalFacts]
    amounts: Mapping[RentalMonth, LedgerAmount]
    left_out: Mapping[str, Money]


@dataclass(slots=True)
class _Sums:
    cost: int = 0
    outside: int = 0
    priced_spans: list[tuple[Instant, Instant, int]] = field(default_factory=list)


def ledger_side(rows: Iterable[CostRow], covered: Mapping[str, Sequence[Span]]) -> LedgerSide:
    """The rows as amounts to compare. ``covered``: by vendor, the time that its bills cover, merged.

    A row that is covered in part counts in part, by time. A rental of Karpenter's is compared with all bills.
    """
    everything = merged(span for spans in covered.values() for span in spans)
    first: dict[str, CostRow] = {}
    sums: dict[RentalMonth, _Sums] = {}
    left_out: dict[str, int] = {}
    months = CalendarMonths()
    for row in rows:
        vendor = VENDORS.get(row.machine.cloud)
        if vendor is not None and vendor not in covered:
            left_out[row.machine.cloud] = left_out.get(row.machine.cloud, 0) + row.cost.micros
            continue
        known = first.setdefault(row.rental_uid, row)
        if row.machine.instance and not known.machine.instance:
            first[row.rental_uid] = row
        key = RentalMonth(row.rental_uid, months.of(row.time_zone, row.start).name)
        _add(sums.setdefault(key, _Sums()), row, everything if vendor is None else covered[vendor])
    spans: dict[str, list[Span]] = {}
    for (uid, _), found in sums.items():
        spans.setdefault(uid, []).extend((start, end) for start, end, _ in found.priced_spans)
    rentals = {uid: _facts(row, merged(spans.get(uid, ()))) for uid, row in first.items()}
    amounts = {key: _amount(found) for key, found in sums.items()}
    return LedgerSide(rentals, amounts, {cloud: Money(micros) for cloud, micros in left_out.items()})


def merged(spans: Iterable[Span]) -> Sequence[Span]:
    """The same time in order, without overlaps and without seams."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif start < end:
            found.append((start, end))
    return found


def overlap(start: Instant, end: Instant, spans: Sequence[Span]) -> int:
    """Microseconds of [start, end) that lie in the spans, which do not overlap each other."""
    return sum(max(min(end, until) - max(start, since), 0) for since, until in spans)


def _add(sums: _Sums, row: CostRow, covered: Sequence[Span]) -> None:
    whole = row.end - row.start
    if whole > 0:
        inside = overlap(row.start, row.end, covered)
        cost = row.cost.micros * inside // whole
    else:
        cost = row.cost.micros if any(since <= row.start < until for since, until in covered) else 0
    sums.cost += cost
    sums.outside += row.cost.micros - cost
    if not row.correction:
        for since, until in covered:
            start, end = max(row.start, since), min(row.end, until)
            if start < end:
                sums.priced_spans.append((start, end, row.hourly.micros))


def _amount(sums: _Sums) -> LedgerAmount:
    """Several rows may share a moment, because several jobs share a node: it lasts once."""
    lasted = priced = 0
    reached = Instant(0)
    for start, end, hourly in sorted(sums.priced_spans):
        new = max(end - max(start, reached), 0)
        lasted, priced, reached = lasted + new, priced + new * hourly, max(reached, end)
    return LedgerAmount(Money(sums.cost), Money(sums.outside), lasted, priced)


def _facts(row: CostRow, spans: Sequence[Span]) -> RentalFacts:
    return RentalFacts(row.budget, row.time_zone, row.pool, row.rental, row.machine, spans)
