"""Lines find their rentals, months are the budgets' own, and only what the bills cover is compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.cost_row import CostRow
from charterer.domain.money import Money
from charterer.domain.time import Instant, parse_instant
from charterer.tools.reconciliation import (
    BillLine,
    Charge,
    Difference,
    Grouping,
    LineKind,
    OurTags,
    compare,
    grouped,
    ledger_side,
    merged,
)
from charterer.tools.reconciliation import DifferenceCause as Why
from tests.factory.cost_rows import MACHINE, cost_row
from tests.unit.ledger.reconciliation.test_causes import NOVEMBER, amount, line


def at(text: str) -> Instant:
    return parse_instant(f"2026-{text}:00Z")


def named(**fields: Any) -> CostRow:
    """A row of a rental of its own, ``a100-8`` on ``i-0def``, unless fields say otherwise."""
    other: dict[str, Any] = {
        "rental": "a100-8",
        "rental_uid": "uid-a100-8",
        "machine": replace(MACHINE, instance="i-0def"),
    }
    return cost_row("16.00", **{**other, **fields})


def compared(rows: Sequence[CostRow], *lines: BillLine) -> Sequence[Difference]:
    return compare(ledger_side(rows, NOVEMBER), lines)


def test_lines_go_to_the_rental_whose_machine_they_name() -> None:
    entries = compared([cost_row("16.00"), named()], line(), line("17", resource="i-0def"))
    assert [(each.rental, each.machine, each.amount.decimal()) for each in entries] == [
        ("a100-7", "i-0abc", "0.00"),
        ("a100-8", "i-0def", "1.00"),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"tags": OurTags(pool="a100", rental="a100-7")},
        {"tags": OurTags(rental="a100-7")},
    ],
    ids=["pool-and-rental", "rental"],
)
def test_a_disk_goes_to_the_rental_that_its_tags_name(fields: dict[str, Any]) -> None:
    (entry,) = compared([cost_row("16.00")], line(), line("2", None, resource="vol-1", kind=LineKind.DISK, **fields))
    assert entry.causes.keys() == {Why.DISK}


def test_a_disk_with_the_name_of_a_machine_is_the_machines() -> None:
    """Google Cloud names a boot disk as its instance and gives it no label of its own."""
    machine = line(name="charterer-c7", vendor="google")
    disk = line("2", None, resource="99", name="charterer-c7", vendor="google", kind=LineKind.DISK)
    other = replace(disk, vendor="aws")
    (entry,) = compared([cost_row("16.00")], machine, disk, other)
    assert {cause: part.decimal() for cause, part in entry.causes.items()} == {Why.DISK: "2.00"}


def test_machines_with_one_name_are_not_one_machine() -> None:
    """People give one Name tag to many instances."""
    entries = compared([cost_row("16.00")], line(name="gpu"), line(resource="i-0web", name="gpu"))
    disk = line("2", None, resource="vol-1", name="gpu", kind=LineKind.DISK)
    assert [each.causes for each in entries] == [{}]
    assert [each.causes for each in compared([cost_row("16.00")], line(name="gpu"), disk)] == [{}]


def test_a_disk_with_the_claim_of_a_machine_is_the_machines() -> None:
    """Karpenter gives both the tag of their NodeClaim."""
    claimed = line(tags=OurTags(claim="a100-x1"))
    disk = line("2", None, resource="vol-1", kind=LineKind.DISK, tags=OurTags(claim="a100-x1"))
    other = replace(disk, tags=OurTags(claim="a100-x2"))
    (entry,) = compared([cost_row("16.00")], claimed, disk, other)
    assert {cause: part.decimal() for cause, part in entry.causes.items()} == {Why.DISK: "2.00"}


def test_a_machine_of_which_only_the_claim_was_recorded_is_found_by_it() -> None:
    row = cost_row("16.00", machine=replace(MACHINE, cloud="karpenter", instance="a100-x1"))
    (entry,) = compared([row], line(resource="i-0new", tags=OurTags(claim="a100-x1")))
    assert entry.causes == {}


def test_a_second_machine_with_a_rentals_tag_is_not_in_the_ledger() -> None:
    stray = line("16", resource="i-0bad", tags=OurTags("c1", "a100", "a100-7"))
    stranger, known = compared([cost_row("16.00")], line(), stray)
    assert known.causes == {}
    assert (stranger.budget, stranger.pool, stranger.rental, stranger.machine) == ("", "a100", "", "i-0bad")
    assert {cause: part.decimal() for cause, part in stranger.causes.items()} == {Why.NOT_IN_LEDGER: "16.00"}


def test_a_tag_finds_the_machine_of_a_rental_whose_instance_was_never_recorded() -> None:
    row = cost_row("16.00", machine=replace(MACHINE, instance=""))
    (entry,) = compared([row], line(resource="i-0new", tags=OurTags(rental="a100-7")))
    assert entry.causes == {}


def test_machines_without_our_tags_are_not_compared() -> None:
    assert [each.rental for each in compared([cost_row("16.00")], line(resource="i-0web"))] == ["a100-7"]


def test_months_are_those_of_the_budgets_zone_though_bills_are_in_utc() -> None:
    """At 23:30 UTC on 31 October it is November in Berlin."""
    start, end = at("10-31T23:30"), at("11-01T00:30")
    row = cost_row("16.00", start="2026-10-31T23:30:00Z", end="2026-11-01T00:30:00Z", time_zone="Europe/Berlin")
    covered = {"aws": [(at("10-01T00:00"), at("12-01T00:00"))]}
    (entry,) = compare(ledger_side([row], covered), [line(start=start, end=end)])
    assert (entry.month, entry.causes) == ("2026-11", {})


def test_a_day_that_two_months_share_is_divided_as_the_rental_lasted() -> None:
    """In Berlin 31 October (UTC) has an hour of November. The rental lasted 3 hours before and 1 hour after that."""
    zone: dict[str, Any] = {"time_zone": "Europe/Berlin"}
    rows = [
        cost_row("48.00", start="2026-10-31T20:00:00Z", end="2026-10-31T23:00:00Z", **zone),
        cost_row("16.00", start="2026-10-31T23:00:00Z", end="2026-11-01T00:00:00Z", **zone),
    ]
    covered = {"aws": [(at("10-01T00:00"), at("11-01T00:00"))]}
    day = line("64", str(4 * 3600), start=at("10-31T00:00"), end=at("11-01T00:00"))
    entries = compare(ledger_side(rows, covered), [day])
    assert [(each.month, each.billed.decimal(), each.causes) for each in entries] == [
        ("2026-10", "48.00", {}),
        ("2026-11", "16.00", {}),
    ]


def test_parts_of_a_divided_line_add_up_to_it() -> None:
    covered = {"aws": [(at("10-01T00:00"), at("12-01T00:00"))]}
    long = line("-0.000000000001", "1", start=at("10-30T00:00"), end=at("11-02T00:00"), charge=Charge.CREDIT)
    rows = [cost_row("0.00", start="2026-10-31T20:00:00Z", end="2026-11-01T01:00:00Z")]
    entries = compare(ledger_side(rows, covered), [long] * 3)
    assert sum(each.billed.micros for each in entries) == 0
    assert {each.month for each in entries} == {"2026-10", "2026-11"}


def test_what_the_bills_do_not_cover_is_left_out_and_told() -> None:
    """A bill of November UTC has 23 hours of a day that begins at 23:00 UTC on 31 October."""
    times: dict[str, Any] = {
        "start": "2026-10-31T23:00:00Z",
        "end": "2026-11-01T23:00:00Z",
        "time_zone": "Europe/Berlin",
    }
    row = cost_row("24.00", hourly=Money.parse("1.00"), **times)
    (entry,) = compared([row], line("23", str(23 * 3600), start=at("11-01T00:00"), end=at("11-01T23:00")))
    assert (entry.ledger.decimal(), entry.outside.decimal(), entry.causes) == ("23.00", "1.00", {})


def test_rentals_of_clouds_without_a_bill_are_left_out_and_told() -> None:
    google = replace(MACHINE, cloud="gcp", instance="1")
    side = ledger_side([cost_row("16.00"), named(machine=google)], NOVEMBER)
    assert side.rentals.keys() == {"uid-a100-7"}
    assert {cloud: left.decimal() for cloud, left in side.left_out.items()} == {"gcp": "16.00"}


def test_jobs_that_share_a_node_do_not_lengthen_its_time() -> None:
    halves = [cost_row("8.00"), cost_row("4.00"), cost_row("4.00", start="2026-11-03T10:30:00Z")]
    (entry,) = compared(halves, line())
    assert entry.causes == {}


def test_a_correction_changes_the_cost_and_not_the_time() -> None:
    rows = [cost_row("20.00", end="2026-11-03T11:15:00Z"), cost_row("-4.00", correction=True)]
    (agrees,) = compared(rows, line())
    assert agrees.causes == {}
    (longer,) = compared(rows, line("20", "4500"))
    assert {cause: part.decimal() for cause, part in longer.causes.items()} == {Why.TIME: "4.00"}


@pytest.mark.parametrize(
    ("by", "found"),
    [
        ([], [("", "", "", "", "3.00")]),
        ([Grouping.POOL], [("", "", "a100", "", "2.00"), ("", "", "v100", "", "1.00")]),
        (
            [Grouping.BUDGET, Grouping.RENTAL],
            [("", "research", "", "a100-7", "2.00"), ("", "research", "", "a100-8", "1.00")],
        ),
    ],
    ids=["all", "pool", "rental"],
)
def test_groups_are_sums_of_rentals(by: Sequence[Grouping], found: list[tuple[str, ...]]) -> None:
    entries = compared([cost_row("16.00"), named(pool="v100")], line("18"), line("17", resource="i-0def"))
    groups = grouped(entries, by)
    assert [(each.month, each.budget, each.pool, each.rental, each.amount.decimal()) for each in groups] == found
    for each in groups:
        assert sum(part.micros for part in each.causes.values()) == each.amount.micros


def test_spans_that_touch_or_overlap_are_one() -> None:
    one, two, three, four = (Instant(each) for each in (1, 2, 3, 4))
    assert merged([(three, four), (one, two), (two, three), (one, one)]) == [(one, four)]


def test_no_line_and_no_row_make_no_entry() -> None:
    assert compared([]) == []
    assert grouped([], [Grouping.MONTH]) == []
    assert amount("0") == 0
