"""Costs as FOCUS 1.2, judged by the specification's own validator, and as 1.4, judged by the one that knows it."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from charterer.domain.budget import Cause
from charterer.domain.cost_row import CostRow
from charterer.domain.money import Money, total
from charterer.tools.commands.costs.document import COLUMNS, focus_csv
from tests import awaited
from tests.factory.cost_rows import MACHINE, cost_row, payer
from tests.testbed import focus_validator

SPOT = replace(MACHINE, cloud="gcp", region="europe-west4", zone="europe-west4-a", instance="", capacity_type="Spot")
UNKNOWN = replace(MACHINE, cloud="karpenter", account="", region="", zone="", instance_type="", gpu_type="", gpus=0)
ROWS = [
    cost_row("10.123456", payer(), gpu_seconds=12_345),
    cost_row("0.000001", gpu_seconds=7),
    cost_row("3.3", cause=Cause.STARTING, gpu_seconds=0),
    cost_row("-0.5", correction=True, gpu_seconds=0, end="2026-11-03T10:00:00Z"),
    cost_row(
        "5", payer("nlp/bert", {"team": "=cmd|' /C calc'!A0"}, user="@bob"), machine=SPOT, time_zone="Europe/Berlin"
    ),
    cost_row("7", payer("nlp/bert", {}), machine=UNKNOWN),
    cost_row("8", cause=Cause.INCOMPLETE_GANG),
    cost_row("0.1", cause=Cause.ENDING),
]


def charges(rows: list[CostRow], version: str = "1.2") -> list[dict[str, str]]:
    file = io.StringIO()
    focus_csv("2026-11", ((row, False) for row in rows), file, version)
    return list(csv.DictReader(io.StringIO(file.getvalue())))


@pytest.mark.needs("focus")
def test_the_validator_finds_only_that_an_invoice_has_no_name_and_must_have_one(tmp_path: Path) -> None:
    awaited.present("focus", focus_validator.missing)
    file = tmp_path / "focus.csv"
    with file.open("w") as opened:
        focus_csv("2026-11", ((row, False) for row in ROWS), opened, "1.2")
    verdict = focus_validator.validate(file)
    assert {name: "InvoiceId MUST be NULL" in said for name, said in verdict.failed.items()} == {
        "InvoiceId-C-004-C": True
    }
    assert verdict.passed >= 290


def test_charges_add_up_to_the_rows_to_the_micro_dollar() -> None:
    found = charges(ROWS)
    whole = total(row.cost for row in ROWS)
    assert total(Money.parse(charge["BilledCost"]) for charge in found) == whole
    assert sum(int(charge["x_CostMicrodollars"]) for charge in found) == whole.micros


def test_waste_is_a_charge_of_its_own_and_of_no_namespace() -> None:
    starting = charges(ROWS)[2]
    assert (starting["x_Purpose"], starting["SubAccountId"], starting["x_Job"]) == ("starting", "", "")
    assert starting["ChargeDescription"].startswith("no job: starting (8 x NVIDIA-A100")
    assert (starting["PricingQuantity"], starting["PricingUnit"], starting["ListUnitPrice"]) == (
        "1",
        "Units",
        "3.300000",
    )


def test_a_month_is_the_budgets_own_written_in_utc() -> None:
    berlin = charges(ROWS)[4]
    assert (berlin["BillingPeriodStart"], berlin["BillingPeriodEnd"]) == (
        "2026-10-31T23:00:00Z",
        "2026-11-30T23:00:00Z",
    )
    assert (berlin["InvoiceId"], berlin["PricingCategory"], berlin["ResourceId"]) == (
        "research-2026-11",
        "Dynamic",
        "uid-a100-7",
    )


def test_no_cell_is_executed_by_a_spreadsheet() -> None:
    bob = charges(ROWS)[4]
    assert bob["x_User"] == "'@bob"
    assert not [value for charge in charges(ROWS) for name, value in charge.items() if value[:1] in "=+@\t" and value]


def test_no_cell_has_what_a_terminal_would_obey() -> None:
    row = replace(cost_row("1", payer("a\x1b[31m/b\x07")), budget="c\x00", pool="d\x7f", rental="e\x9b")
    assert not [value for value in charges([row])[0].values() if not value.isprintable()]


@pytest.mark.needs("focus")
def test_the_model_of_1_4_finds_nothing(tmp_path: Path) -> None:
    awaited.present("focus", focus_validator.missing)
    file = tmp_path / "focus.csv"
    with file.open("w") as opened:
        focus_csv("2026-11", ((row, False) for row in ROWS), opened, "1.4")
    assert focus_validator.lint_1_4(file) == []


def test_1_4_names_who_sells_and_who_hosts() -> None:
    (charge,) = charges([cost_row("8", payer())], "1.4")
    assert (charge["ServiceProviderName"], charge["HostProviderName"]) == ("Amazon Web Services",) * 2
    assert {"ProviderName", "PublisherName"}.isdisjoint(charge)


@pytest.mark.parametrize("version", COLUMNS)
def test_every_column_is_there_once(version: str) -> None:
    assert len(set(COLUMNS[version])) == len(COLUMNS[version])
    assert set(charges(ROWS, version)[0]) == set(COLUMNS[version])
