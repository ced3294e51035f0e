"""Whatever is billed and recorded, causes add up to differences, and no cent of a bill is lost or counted twice."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.cost_row import CostRow
from charterer.domain.money import Money
from charterer.domain.time import Instant, format_instant, parse_instant
from charterer.tools.reconciliation import (
    PICOS_IN_A_MICRO,
    BillLine,
    Charge,
    DifferenceCause,
    Grouping,
    LineKind,
    OurTags,
    Picos,
    compare,
    grouped,
    ledger_side,
)
from tests.factory.cost_rows import MACHINE, cost_row

FIRST = parse_instant("2026-10-25T00:00:00Z")
LAST = parse_instant("2026-11-08T00:00:00Z")
RENTALS = ("a100-1", "a100-2")
instants = st.integers(FIRST, LAST).map(Instant)
amounts = st.integers(-(10**20), 10**20).map(Picos)
seconds = st.none() | st.integers(0, 10**7).map(Decimal)


@st.composite
def lines(draw: st.DrawFn) -> BillLine:
    start, end = sorted((draw(instants), draw(instants)))
    return BillLine(
        vendor="aws",
        resource=draw(st.sampled_from(["i-a100-1", "i-a100-2", "i-stranger", "vol-1"])),
        name="",
        tags=draw(st.sampled_from([OurTags(), OurTags(pool="a100"), OurTags(rental="a100-1")])),
        kind=draw(st.sampled_from(LineKind)),
        charge=draw(st.sampled_from(Charge)),
        start=start,
        end=Instant(end + 1),
        seconds=draw(seconds),
        gpu_seconds=draw(seconds),
        listed=draw(amounts),
        contracted=draw(amounts),
        effective=draw(amounts),
        billed=draw(amounts),
        commitment_credit=draw(amounts),
        credit=draw(amounts),
        committed=draw(st.booleans()),
    )


@st.composite
def rows(draw: st.DrawFn) -> CostRow:
    name = draw(st.sampled_from(RENTALS))
    start = draw(instants)
    end = Instant(start + draw(st.integers(0, 86_400_000_000)))
    instance = draw(st.sampled_from([f"i-{name}", ""]))
    return cost_row(
        Money(draw(st.integers(-(10**9), 10**12))).decimal(),
        start=format_instant(start),
        end=format_instant(end),
        time_zone=draw(st.sampled_from(["UTC", "Asia/Kolkata", "America/Los_Angeles"])),
        rental=name,
        rental_uid=name,
        machine=replace(MACHINE, instance=instance),
        hourly=Money(draw(st.integers(0, 10**8))),
        correction=draw(st.booleans()),
    )


@given(st.lists(rows(), max_size=6), st.lists(lines(), max_size=6), instants, instants)
def test_causes_add_up_and_nothing_is_lost(
    recorded: list[CostRow], billed: list[BillLine], one: Instant, other: Instant
) -> None:
    covered = {"aws": [(min(one, other), max(one, other))]}
    entries = compare(ledger_side(recorded, covered), billed)
    for each in (*entries, *grouped(entries, []), *grouped(entries, [Grouping.MONTH, Grouping.POOL])):
        assert sum(part.micros for part in each.causes.values()) == each.amount.micros
    ledger = sum(each.ledger.micros + each.outside.micros for each in entries)
    assert ledger == sum(row.cost.micros for row in recorded)
    known = {row.machine.instance for row in recorded}
    matched = sum(line.billed for line in billed if line.tags.ours or line.resource in known)
    shown = sum(each.billed.micros for each in entries) * PICOS_IN_A_MICRO
    assert abs(shown - matched) <= PICOS_IN_A_MICRO // 2 * len(entries)
    strangers = [each for each in entries if not each.rental]
    assert all(set(each.causes) <= {DifferenceCause.NOT_IN_LEDGER} for each in strangers)
