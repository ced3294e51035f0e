"""A column that a file does not have makes unknown what follows from it; it neither hides nor invents anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from charterer.tools.cloud_bills.formats import UnreadableBill
from charterer.tools.cloud_bills.reader import open_bills
from charterer.tools.reconciliation import OurTags
from tests.unit.cloud_bills.bill_files import SCALE_SET, Row, aws_focus, azure_focus, cur, google_focus, written

VM = f"{SCALE_SET}/virtualMachines/3".lower()
MACHINES = ["i-0abc", "8765432109876543210", VM]


def without(row: Row, *columns: str) -> Row:
    return {name: value for name, value in row.items() if name not in columns}


def as_1_4(row: Row) -> Row:
    """FOCUS 1.4 has no ProviderName and no PublisherName."""
    named = {"ServiceProviderName": row["ProviderName"], "HostProviderName": row["ProviderName"]}
    return {**without(row, "ProviderName", "PublisherName"), **named}


def bare(row: Row) -> Row:
    return without(row, "ProviderName", "PublisherName", "InvoiceIssuerName")


@pytest.mark.parametrize(("row", "vendor"), [
    (aws_focus("1"), "aws"), (azure_focus("1"), "microsoft"), (google_focus("1"), "google"),
], ids=["aws", "azure", "google"])  # fmt: skip
@pytest.mark.parametrize("form", [as_1_4, bare], ids=["focus-1.4", "by-resource"])
def test_who_bills_is_known_without_provider_name(
    tmp_path: Path, row: Row, vendor: str, form: Callable[[Row], Row]
) -> None:
    with open_bills([written(tmp_path / "bill.csv", [form(row)])], MACHINES) as bills:
        assert [line.vendor for line in bills.lines()] == [vendor]
        assert list(bills.covered) == [vendor]


def test_an_issuer_of_invoices_is_enough(tmp_path: Path) -> None:
    row = {**bare(aws_focus("1", ResourceId="0abc")), "InvoiceIssuerName": "Amazon Web Services EMEA SARL"}
    with open_bills([written(tmp_path / "bill.csv", [row])], ["0abc"]) as bills:
        assert [line.vendor for line in bills.lines()] == ["aws"]


def test_a_line_of_which_nothing_says_whose_it_is_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "bill.csv", [bare(aws_focus("1", ResourceId="0abc"))])
    with pytest.raises(UnreadableBill, match="neither this, ServiceProviderName, InvoiceIssuerName nor the form"):
        open_bills([path], ["0abc"]).__enter__()


@pytest.mark.parametrize(
    ("column", "key"), [("resource_tags", "user_charterer_dev_pool"), ("tags", "resourceTags/charterer.dev:pool")]
)
def test_cur_has_tags_in_either_column(tmp_path: Path, column: str, key: str) -> None:
    path = tmp_path / "cur.parquet"
    values = ", ".join(f"'{value}' AS {name}" for name, value in without(cur("1", "i-0stray"), "resource_tags").items())
    duckdb.sql(f"COPY (SELECT {values}, MAP {{'{key}': 'a100'}} AS {column}) TO '{path}' (FORMAT parquet)")
    with open_bills([path], []) as bills:
        assert [line.tags for line in bills.lines()] == [OurTags(pool="a100")]
        assert bills.unknown == [[]]


@pytest.mark.parametrize("name", ["bill.csv", "bill.parquet"])
@pytest.mark.parametrize("null", ["NULL", "null", "Null", ""])
def test_text_that_means_null_is_null(tmp_path: Path, name: str, null: str) -> None:
    row = aws_focus("1", EffectiveCost="0", ContractedCost="0", CommitmentDiscountId=null, ResourceName=null, Tags=null)
    with open_bills([written(tmp_path / name, [row])], MACHINES) as bills:
        (line,) = bills.lines()
    assert (line.committed, line.name, line.effective, line.contracted) == (False, "", line.billed, line.billed)


@pytest.mark.parametrize(
    ("row", "columns", "unknown"),
    [
        (aws_focus("1"), ["Tags"], "whether it bills a machine with Charterer's tags that no rental had"),
        (aws_focus("1"), ["ConsumedUnit", "PricingUnit"], "how long a machine is billed for"),
        (aws_focus("1"), ["CommitmentDiscountId"], "what a commitment pays for"),
        (aws_focus("1"), ["EffectiveCost"], "what commitments that were paid before make of a price"),
        (google_focus("1"), ["x_Labels"], "whether it bills a machine with Charterer's tags"),
        (azure_focus("1"), ["ListCost"], "what the list prices are"),
        (cur("1"), ["resource_tags"], "whether it bills a machine with Charterer's tags that no rental had"),
        (cur("1"), ["savings_plan_savings_plan_effective_cost"], "what a savings plan pays for"),
    ],
    ids=["tags", "units", "commitments", "effective", "labels", "list", "cur-tags", "savings-plans"],
)
def test_what_a_missing_column_hides_is_told(tmp_path: Path, row: Row, columns: list[str], unknown: str) -> None:
    def told(name: str, rows: Row) -> list[str]:
        with open_bills([written(tmp_path / name, [rows])], MACHINES) as bills:
            return list(bills.unknown[0])

    assert told("whole.csv", row) == []
    (found,) = told("lacking.csv", without(row, *columns))
    assert found.startswith(unknown)
    assert columns[0] in found


def contradictions(*paths: Path) -> tuple[int, list[str]]:
    with open_bills(paths, MACHINES) as bills:
        found = bills.contradiction
        return found.charges, [path.name for path in found.files]


def a_day(hours: str, day: int = 5) -> Row:
    times = {"ChargePeriodStart": f"2026-10-{day:02}T00:00:00Z", "ChargePeriodEnd": f"2026-10-{day + 1:02}T00:00:00Z"}
    return azure_focus(hours, ConsumedQuantity=hours, **times)


def test_more_hours_than_a_day_has_are_two_exports(tmp_path: Path) -> None:
    before = written(tmp_path / "day5.csv", [a_day("24", 4), a_day("17")])
    after = written(tmp_path / "day6.csv", [a_day("24", 4), a_day("24")])
    assert contradictions(before, after) == (1, ["day5.csv", "day6.csv"])


def test_two_exports_are_seen_by_what_counts_no_hours(tmp_path: Path) -> None:
    hours = [google_focus("1", ChargeDescription=f"core of series {n}") for n in range(3)]
    last = google_focus("1", ChargeDescription="GPU")
    before = written(tmp_path / "one.csv", [*hours, last])
    after = written(tmp_path / "two.csv", [*hours, {**last, "ConsumedQuantity": "9", "BilledCost": "2"}])
    assert contradictions(before, after) == (1, ["one.csv", "two.csv"])


def test_parts_of_one_export_are_no_contradiction(tmp_path: Path) -> None:
    """An hour in two parts, as when a savings plan pays for some of it; charges of one meter that two parts have."""
    plan = {"CommitmentDiscountId": "arn:sp", "ConsumedQuantity": "0.6"}
    one = written(tmp_path / "a.csv", [aws_focus("6", ConsumedQuantity="0.4")])
    two = written(tmp_path / "b.csv", [aws_focus("0", **plan)])
    assert contradictions(one, two) == (0, [])
    many = [google_focus("1", ChargeDescription=f"SKU {n}") for n in range(9)]
    one = written(tmp_path / "c.csv", many[:5])
    two = written(tmp_path / "d.csv", [google_focus("2", ChargeDescription="SKU 0", ConsumedQuantity="7"), *many[5:]])
    assert contradictions(one, two) == (0, [])


def test_a_correction_in_the_next_month_is_no_contradiction(tmp_path: Path) -> None:
    october = written(tmp_path / "october.csv", [a_day("24")])
    later = {"ChargeClass": "Correction", "BillingPeriodStart": "2026-11-01T00:00:00Z"}
    november = written(tmp_path / "november.csv", [{**a_day("24"), "BilledCost": "-3", **later}])
    assert contradictions(october, november) == (0, [])


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            "Date,MeterCategory,Quantity,Cost,ResourceId,BillingCurrency,ChargeType",
            "details file has no column Pricing",
        ),
        (
            "date,meterCategory,chargeType,costInBillingCurrency,ResourceId",
            "no column BillingCurrency, PricingModel, Bil",
        ),
        ("billing_account_id,service,sku,usage_start_time,usage_end_time,cost", "Google Cloud's without resources"),
        ("BilledCost,ChargePeriodStart", "this FOCUS file has no column ResourceId, ChargePeriodEnd"),
    ],
    ids=["azure-mca", "azure-camel", "google", "focus"],
)
def test_other_exports_are_called_by_their_names(tmp_path: Path, header: str, message: str) -> None:
    path = tmp_path / "bill.csv"
    path.write_text(f"{header}\n{','.join('1' for _ in header.split(','))}\n")
    with pytest.raises(UnreadableBill, match=message):
        open_bills([path], MACHINES).__enter__()


def test_lines_that_end_in_two_ways_are_told(tmp_path: Path) -> None:
    path = written(tmp_path / "bill.csv", [aws_focus("1"), aws_focus("2")])
    head, _, rest = path.read_text().partition("\n")
    path.write_bytes(f"{head}\r\n{rest}".encode())
    with pytest.raises(UnreadableBill, match="some lines end in CRLF and some in LF"):
        open_bills([path], MACHINES).__enter__()


def test_other_tags_of_cur_are_not_charterers(tmp_path: Path) -> None:
    tags = json.dumps({"accountTag/charterer.dev:pool": "a100"})
    row = {**without(cur("1", "i-0other"), "resource_tags"), "tags": tags}
    with open_bills([written(tmp_path / "cur.csv", [row])], []) as bills:
        assert not any(line.tags.ours for line in bills.lines())
