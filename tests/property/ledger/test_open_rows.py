"""What is on record and what the cluster's present state adds to it are what the ledger says, at any moment."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from charterer.cost_record import month_of
from charterer.domain.billing import accrued
from charterer.domain.cost_row import CostRow
from charterer.domain.money import total
from charterer.domain.pool import PriceSegment
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.time import Calendar, Instant, month_bounds
from charterer.ledger.cost_rows import next_part
from charterer.tools.commands.costs.answer import ledger_month, month_rows, open_rows
from charterer.tools.commands.shared.options import bounds
from tests.factory import balance, budget, rental, snapshot
from tests.factory.pools import PRICE
from tests.factory.times import at
from tests.property.ledger.test_cost_rows import DAY, histories, recorded


def known_at(rented: Rental, now: Instant) -> Rental:
    """The rental as it was on record at ``now``."""
    assert rented.ended is not None
    if rented.ended <= now:
        return rented
    uses = tuple(
        replace(use, until=None if use.until is None or use.until > now else use.until)
        for use in rented.uses
        if use.since <= now
    )
    return replace(rented, phase=RentalPhase.READY, ended=None, cost=None, released_because="", uses=uses)


@given(histories(), st.integers(0, 7 * DAY), st.integers(0, 8), st.integers(0, 2))
def test_rows_on_record_and_open_ones_are_what_the_ledger_says_by_month(
    history: tuple[Rental, str], passed: int, parts: int, unmarked: int
) -> None:
    """``unmarked`` parts were written, and the operator ended before the rental said so."""
    truth, zone = history
    assert truth.launched is not None
    now = Instant(truth.launched + passed)
    rented = known_at(truth, now)
    written: list[CostRow] = []
    marked = rented
    for number in range(parts + unmarked):
        part = next_part(rented, zone)
        if part is None or part.end > now:
            break
        rented, made = recorded(rented, zone)
        written += made
        if number < parts:
            marked = rented
    opened = month_bounds(zone, now)[0]
    team = budget(calendar=Calendar(zone), balance=balance(period_start=opened))
    still_open = open_rows(snapshot(team, marked, now=now), team)
    months = {month_of(row) for row in [*written, *still_open]}
    by_month = {
        month: total(row.cost for row, _ in month_rows(month, _of(month, written), still_open)) for month in months
    }
    assert total(by_month.values()) == accrued(marked, now)
    for month, amount in by_month.items():
        ledger = ledger_month(team, [marked], bounds(month, zone), now)
        assert ledger.is_open == (ledger.start <= now < ledger.end)
        assert ledger.spent in (None, amount)


def _of(month: str, rows: list[CostRow]) -> list[CostRow]:
    return [row for row in rows if month_of(row) == month]


def test_a_rental_that_has_cost_nothing_yet_adds_nothing() -> None:
    team = budget()
    assert open_rows(snapshot(team, rental()), team) == []


def test_a_part_that_was_written_and_not_marked_counts_once() -> None:
    """The operator ended after it had written a day, and before the rental said so."""
    team, began = budget(), at(-2 * 86_400)
    segments = (PriceSegment(began, PRICE),)
    rented = rental(phase=RentalPhase.READY, created=began, launched=began, ready=began, segments=segments)
    _, made = recorded(rented, "UTC")
    still_open = open_rows(snapshot(team, rented, now=at(0)), team)
    rows = list(month_rows("2026-03", made, still_open))
    assert made
    assert all(is_open for _, is_open in rows)
    assert total(row.cost for row, _ in rows) == accrued(rented, at(0))
