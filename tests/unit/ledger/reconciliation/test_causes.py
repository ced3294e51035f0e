"""Each cause of a difference once: one machine of $16 an hour for an hour, beside a bill that differs in one way."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from charterer.domain.money import Money
from charterer.domain.time import parse_instant
from charterer.tools.reconciliation import (
    BillLine,
    Charge,
    Difference,
    LineKind,
    OurTags,
    Picos,
    compare,
    ledger_side,
    picos,
)
from charterer.tools.reconciliation import DifferenceCause as Why
from tests.factory.cost_rows import MACHINE, cost_row

START, END = parse_instant("2026-11-03T10:00:00Z"), parse_instant("2026-11-03T11:00:00Z")
NOVEMBER = {"aws": [(parse_instant("2026-11-01T00:00:00Z"), parse_instant("2026-12-01T00:00:00Z"))]}


def amount(dollars: str) -> Picos:
    return picos(Decimal(dollars))


def line(dollars: str = "16", seconds: str | None = "3600", **fields: Any) -> BillLine:
    """An hour of the machine; all four amounts are ``dollars`` unless one is given."""
    prices: dict[str, Any] = dict.fromkeys(("listed", "contracted", "effective", "billed"), amount(dollars))
    plain: dict[str, Any] = {
        "vendor": "aws",
        "resource": MACHINE.instance,
        "name": "",
        "tags": OurTags(),
        "kind": LineKind.MACHINE,
        "charge": Charge.USAGE,
        "start": START,
        "end": END,
        "seconds": None if seconds is None else Decimal(seconds),
        "gpu_seconds": None,
    }
    return BillLine(**{**plain, **prices, **fields})


def difference(lines: Sequence[BillLine], cost: str = "16.00", **row: Any) -> Difference:
    """The only entry."""
    (entry,) = compare(ledger_side([cost_row(cost, **row)], NOVEMBER), lines)
    assert sum(each.micros for each in entry.causes.values()) == entry.amount.micros
    return entry


def why(*lines: BillLine, cost: str = "16.00", **row: Any) -> dict[Why, str]:
    return {cause: part.decimal() for cause, part in difference(lines, cost, **row).causes.items()}


def test_a_bill_that_agrees_has_no_cause() -> None:
    assert why(line()) == {}


def test_seconds_that_are_rounded_up_are_rounding() -> None:
    assert why(line("16.004444444444", "3601")) == {Why.ROUNDING: "0.004444"}


def test_decimals_below_a_micro_dollar_are_rounding() -> None:
    assert why(line("8.0000003", "1800"), line("8.0000004", "1800")) == {Why.ROUNDING: "0.000001"}


def test_a_machine_of_some_seconds_that_is_billed_for_a_minute_has_a_minimum_charge() -> None:
    end = "2026-11-03T10:00:20Z"
    assert why(line("0.266667", "60"), cost="0.088889", end=end) == {Why.MINIMUM_CHARGE: "0.177778"}


def test_the_seconds_of_a_node_that_jobs_share_count_once() -> None:
    """Three jobs for 25 s are 25 s of the machine, less than a minute."""
    end = "2026-11-03T10:00:25Z"
    rows = [cost_row("0.037037", end=end) for _ in range(3)]
    (entry,) = compare(ledger_side(rows, NOVEMBER), [line("0.266667", "60")])
    assert entry.causes.keys() == {Why.MINIMUM_CHARGE}


def test_a_minimum_that_the_ledger_counts_as_well_is_no_difference() -> None:
    assert why(line("0.266667", "60"), cost="0.266667", end="2026-11-03T10:00:20Z") == {}


def test_more_hours_on_the_bill_are_time() -> None:
    assert why(line("24", "5400")) == {Why.TIME: "8.00"}


def test_another_price_is_told_apart_from_another_time() -> None:
    assert why(line("27", "5400")) == {Why.TIME: "8.00", Why.PRICE: "3.00"}


def test_without_hours_on_the_bill_price_and_time_are_one_cause() -> None:
    assert why(line("17", None)) == {Why.PRICE_OR_TIME: "1.00"}


def test_gpus_that_are_billed_apart_count_the_hours_of_the_machine() -> None:
    gpus = line("12", None, gpu_seconds=Decimal(8 * 3600))
    assert why(gpus, line("5", None)) == {Why.PRICE: "1.00"}


def test_a_negotiated_discount_is_the_step_from_list_to_contract() -> None:
    assert why(line("14", listed=amount("16"))) == {Why.DISCOUNT: "-2.00"}


def test_a_ledger_at_the_contracts_price_has_no_discount() -> None:
    assert why(line("14", listed=amount("16")), cost="14.00", hourly=Money.parse("14.00")) == {}


def test_a_savings_plan_saves_and_the_rest_is_paid_elsewhere() -> None:
    covered = line("16", effective=amount("10"), billed=amount("0"), committed=True)
    assert why(covered) == {Why.COMMITMENT: "-6.00", Why.PREPAID: "-10.00"}


def test_a_ledger_at_the_savings_plans_rate_differs_by_what_is_paid_elsewhere_only() -> None:
    covered = line("16", effective=amount("10"), billed=amount("0"), committed=True)
    assert why(covered, cost="10.00", hourly=Money.parse("10.00")) == {Why.PREPAID: "-10.00"}


def test_googles_credits_are_a_commitment_or_a_credit() -> None:
    after = amount("13.5")
    two, half = amount("-2"), amount("-0.5")
    credited = line("16", effective=after, billed=after, commitment_credit=two, credit=half)
    assert why(credited) == {Why.COMMITMENT: "-2.00", Why.CREDIT: "-0.50"}


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"charge": Charge.CREDIT}, Why.CREDIT),
        ({"charge": Charge.ADJUSTMENT}, Why.ADJUSTMENT),
        ({"charge": Charge.TAX}, Why.TAX),
        ({"kind": LineKind.DISK}, Why.DISK),
        ({"kind": LineKind.NETWORK}, Why.NETWORK),
        ({"kind": LineKind.OTHER}, Why.OTHER),
    ],
)
@pytest.mark.parametrize("dollars", ["1.25", "-1.25"])
def test_what_is_charged_beside_the_machines_time_is_a_cause_of_its_own(
    fields: dict[str, Any], cause: Why, dollars: str
) -> None:
    assert why(line(), line(dollars, None, **fields)) == {cause: Money.parse(dollars).decimal()}


def test_a_rental_that_no_line_is_of_is_not_on_the_bill() -> None:
    assert why() == {Why.NOT_ON_BILL: "-16.00"}


def test_a_disk_alone_does_not_put_its_machine_on_the_bill() -> None:
    assert why(line("1", None, kind=LineKind.DISK)) == {Why.NOT_ON_BILL: "-16.00", Why.DISK: "1.00"}


def test_huge_amounts_stay_exact() -> None:
    dollars = "99999999999999999999999999.999999999999"
    entry = difference([line(dollars, None)])
    assert entry.billed == Money(10**32)
    assert entry.amount.micros == sum(part.micros for part in entry.causes.values()) == 10**32 - 16_000_000
