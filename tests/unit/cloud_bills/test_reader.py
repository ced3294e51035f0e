"""Each vendor's files become the same lines."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest

from charterer.domain.money import Money
from charterer.domain.time import parse_instant
from charterer.tools.cloud_bills.reader import open_bills
from charterer.tools.reconciliation import BillLine, Charge, LineKind, OurTags, picos, resource_key
from tests.unit.cloud_bills.bill_files import SCALE_SET, Row, aws_focus, azure_focus, cur, google_focus, written

VM = resource_key(f"azure://{SCALE_SET}/virtualMachines/3")


def lines_of(path: Path, rows: Sequence[Row], machines: Collection[str] = ()) -> list[BillLine]:
    with open_bills([written(path, rows)], machines) as bills:
        return list(bills.lines())


def dollars(text: str) -> int:
    return picos(Decimal(text))


@pytest.mark.parametrize(
    ("row", "name", "vendor", "machine"),
    [
        (aws_focus("16.000000000123"), "bill.csv", "aws", "i-0abc"),
        (aws_focus("16.000000000123", ResourceId="i-0abc"), "bill.parquet", "aws", "i-0abc"),
        (google_focus("16.000000000123"), "bill.csv", "google", "8765432109876543210"),
        (azure_focus("16.000000000123"), "bill.csv.gz", "microsoft", VM),
        (cur("16.000000000123"), "bill.csv.gz", "aws", "i-0abc"),
        (cur("16.000000000123"), "bill.parquet", "aws", "i-0abc"),
    ],
    ids=["aws", "aws-bare-id-parquet", "google", "azure-gz", "cur-gz", "cur-parquet"],
)
def test_an_hour_of_a_machine_is_the_same_line_whoever_writes_it(
    tmp_path: Path, row: Row, name: str, vendor: str, machine: str
) -> None:
    (line,) = lines_of(tmp_path / name, [row], [machine])
    assert (line.vendor, line.resource, line.kind, line.charge) == (vendor, machine, LineKind.MACHINE, Charge.USAGE)
    hour = Decimal(3600)
    assert (line.seconds, line.gpu_seconds) == ((None, 8 * hour) if vendor == "google" else (hour, None))
    amount = dollars("16.000000000123")
    assert (line.listed, line.contracted, line.effective, line.billed) == (amount, amount, amount, amount)
    assert not line.committed
    day = machine == VM
    assert line.start == parse_instant("2026-10-05T00:00:00Z" if day else "2026-10-05T10:00:00Z")
    assert line.end == parse_instant("2026-10-06T00:00:00Z" if day else "2026-10-05T11:00:00Z")


def test_parquet_with_the_types_that_vendors_use_is_read_without_a_loss(tmp_path: Path) -> None:
    """AWS writes doubles and maps, BigQuery decimals and arrays of records."""
    path = tmp_path / "bill.parquet"
    duckdb.sql(
        f"""COPY (SELECT 0.1::DOUBLE AS BilledCost, 0.1::DOUBLE AS EffectiveCost, 'USD' AS BillingCurrency,
        'Usage' AS ChargeCategory, TIMESTAMP '2026-10-05 10:00:00' AS ChargePeriodStart, 'i-0abc' AS ResourceId,
        TIMESTAMPTZ '2026-10-05 13:00:00+02' AS ChargePeriodEnd, 'AWS' AS ProviderName,
        map {{'user_charterer_dev_pool': 'a100'}} AS Tags, [{{'Key': 'charterer-cluster', 'Value': 'c1'}}] AS x_Labels
        FROM range(3)) TO '{path}' (FORMAT parquet)"""
    )
    with open_bills([path], ["i-0abc"]) as bills:
        (line,) = bills.lines()
        assert bills.repeated.lines == 2
    assert line.billed == dollars("0.3")
    assert line.tags == OurTags(cluster="c1", pool="a100")
    assert line.end == parse_instant("2026-10-05T11:00:00Z")


def test_lines_of_other_things_are_counted_and_left_out(tmp_path: Path) -> None:
    other = aws_focus("5", "i-0other", Tags='{"user:team": "web"}', ChargePeriodEnd="2026-10-07T00:00:00Z")
    with open_bills([written(tmp_path / "bill.csv", [aws_focus("1"), other, other])], ["i-0abc"]) as bills:
        assert [line.resource for line in bills.lines()] == ["i-0abc"]
        assert bills.lines_read == 3
        assert bills.repeated.lines == 0
        first, last = parse_instant("2026-10-05T10:00:00Z"), parse_instant("2026-10-07T00:00:00Z")
        assert bills.covered == {"aws": [(first, last)]}


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (aws_focus("1", ResourceId="vol-0123", SkuMeter="EBS:VolumeUsage.gp3", ConsumedUnit="GB-Mo"), LineKind.DISK),
        (aws_focus("1", SkuMeter="DataTransfer-Out-Bytes", ConsumedUnit="GB"), LineKind.NETWORK),
        (aws_focus("1", SkuMeter="USE1-PublicIPv4:InUseAddress"), LineKind.NETWORK),
        (aws_focus("1", SkuMeter="EBSOptimized:p2.xlarge"), LineKind.OTHER),
        (aws_focus("1", ChargeCategory="Purchase"), LineKind.OTHER),
        (google_focus("1", ChargeDescription="Storage PD Capacity", ConsumedUnit="byte-seconds"), LineKind.DISK),
        (google_focus("1", ChargeDescription="Network Inter Zone Data Transfer Out"), LineKind.NETWORK),
        (google_focus("1", ChargeDescription="A2 Instance Core running in Americas"), LineKind.MACHINE),
        (google_focus("1", ChargeDescription="A2 Instance Ram running in Americas"), LineKind.MACHINE),
        (azure_focus("1", x_SkuMeterCategory="Bandwidth", ConsumedUnit="GB"), LineKind.NETWORK),
        (azure_focus("1", x_SkuMeterCategory="Storage", ConsumedUnit="1/Month"), LineKind.DISK),
        (cur("1", line_item_usage_type="USE1-EBS:VolumeUsage.gp3", pricing_unit="GB-Mo"), LineKind.DISK),
        (cur("1", line_item_usage_type="USE2-DataTransfer-Regional-Bytes", pricing_unit="GB"), LineKind.NETWORK),
        (cur("1", line_item_usage_type="SpotUsage:p4d.24xlarge"), LineKind.MACHINE),
    ],
    ids=lambda value: "" if isinstance(value, dict) else str(value),
)
def test_what_a_line_is_for_follows_from_its_meter(tmp_path: Path, row: Row, kind: LineKind) -> None:
    (line,) = lines_of(tmp_path / "bill.csv", [row], ["i-0abc", "8765432109876543210", VM])
    assert line.kind is kind


def test_a_savings_plan_pays_elsewhere_in_both_of_awss_formats(tmp_path: Path) -> None:
    of_focus = aws_focus("0", EffectiveCost="10", ContractedCost="16", ListCost="16", CommitmentDiscountId="arn:sp")
    of_cur = cur(
        "16", line_item_line_item_type="SavingsPlanCoveredUsage", savings_plan_savings_plan_effective_cost="10"
    )
    taken_back = cur("-16", line_item_line_item_type="SavingsPlanNegation")
    (first,) = lines_of(tmp_path / "focus.csv", [of_focus], ["i-0abc"])
    (second,) = lines_of(tmp_path / "cur.csv", [of_cur, taken_back], ["i-0abc"])
    for line in (first, second):
        assert line.committed
        amounts = (line.listed, line.contracted, line.effective, line.billed)
        assert amounts == (dollars("16"), dollars("16"), dollars("10"), 0)


def test_a_reserved_instance_is_at_its_effective_cost_and_billed_with_its_fee(tmp_path: Path) -> None:
    row = cur(
        "0",
        line_item_line_item_type="DiscountedUsage",
        reservation_effective_cost="9",
        pricing_public_on_demand_cost="16",
    )
    (line,) = lines_of(tmp_path / "cur.csv", [row], ["i-0abc"])
    assert (line.listed, line.effective, line.billed, line.committed) == (dollars("16"), dollars("9"), 0, True)


def test_a_negotiated_discount_of_cur_lowers_what_was_used_at_list_price(tmp_path: Path) -> None:
    rows = [cur("16"), cur("-2", line_item_line_item_type="EdpDiscount", pricing_public_on_demand_cost="")]
    found = lines_of(tmp_path / "cur.csv", rows, ["i-0abc"])
    sums = [sum(getattr(line, name) for line in found) for name in ("listed", "contracted", "effective", "billed")]
    assert sums == [dollars("16"), dollars("14"), dollars("14"), dollars("14")]
    assert {(line.kind, line.charge) for line in found} == {(LineKind.MACHINE, Charge.USAGE)}
    assert sum(line.seconds or 0 for line in found) == 3600


@pytest.mark.parametrize("contracted", ["16", "13.5"], ids=["credits-left-out", "credits-within"])
def test_googles_credits_are_counted_once(tmp_path: Path, contracted: str) -> None:
    credits = '[{"Amount": -2, "Type": "COMMITTED_USAGE_DISCOUNT"}, {"Amount": "-0.5", "Type": "PROMOTION"}]'
    row = google_focus(contracted, ContractedCost="16", ListCost="16", x_Credits=credits)
    (line,) = lines_of(tmp_path / "bill.csv", [row], ["8765432109876543210"])
    assert line.billed == dollars("13.5")
    assert (line.commitment_credit, line.credit) == (dollars("-2"), dollars("-0.5"))


@pytest.mark.parametrize(
    ("category", "charge"),
    [("Credit", Charge.CREDIT), ("Adjustment", Charge.ADJUSTMENT), ("Tax", Charge.TAX), ("usage", Charge.USAGE)],
)
def test_charges_that_are_none_for_use_are_told_apart(tmp_path: Path, category: str, charge: Charge) -> None:
    (line,) = lines_of(tmp_path / "bill.csv", [aws_focus("-1", ChargeCategory=category)], ["i-0abc"])
    assert (line.charge, line.billed) == (charge, dollars("-1"))


def test_lines_that_no_time_zone_divides_are_one(tmp_path: Path) -> None:
    days = [f"2026-10-{day:02}T00:00:00Z" for day in range(1, 32)] + ["2026-11-01T00:00:00Z"]
    rows = [aws_focus("1", ChargePeriodStart=a, ChargePeriodEnd=b) for a, b in pairwise(days)]
    found = lines_of(tmp_path / "bill.csv", rows, ["i-0abc"])
    assert [line.lines for line in found] == [1, 29, 1]
    assert sum(line.billed for line in found) == dollars("31")


def test_lines_that_are_there_twice_are_told(tmp_path: Path) -> None:
    one = written(tmp_path / "one.csv", [aws_focus("1.25"), aws_focus("2")])
    two = written(tmp_path / "two.parquet", [aws_focus("1.25"), aws_focus("3")])
    with open_bills([one, two], ["i-0abc"]) as bills:
        assert (bills.repeated.lines, bills.repeated.billed) == (1, Money.parse("1.25"))
        assert sum(line.billed for line in bills.lines()) == dollars("7.5")


def test_files_of_several_formats_are_one_bill(tmp_path: Path) -> None:
    paths = [
        written(tmp_path / "a.csv", [aws_focus("1")]),
        written(tmp_path / "b.csv.gz", [cur("2", "i-0def")]),
        written(tmp_path / "c.parquet", [google_focus("3")]),
    ]
    with open_bills(paths, ["i-0abc", "i-0def", "8765432109876543210"]) as bills:
        assert sorted((line.vendor, line.billed) for line in bills.lines()) == [
            ("aws", dollars("1")),
            ("aws", dollars("2")),
            ("google", dollars("3")),
        ]
        assert [format.name for format in bills.formats] == ["FOCUS", "CUR 2.0", "FOCUS"]
