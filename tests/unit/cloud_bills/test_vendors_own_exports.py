"""Azure's cost details and Google Cloud's detailed export, as their vendors describe them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from charterer.domain.time import parse_instant
from charterer.tools.cloud_bills.formats import UnreadableBill
from charterer.tools.cloud_bills.reader import open_bills
from charterer.tools.reconciliation import BillLine, Charge, LineKind, OurTags
from tests.unit.cloud_bills.bill_files import SCALE_SET, Row, written
from tests.unit.cloud_bills.test_reader import dollars, lines_of

VM = f"{SCALE_SET.lower()}/virtualmachines/3"
GCE = "8765432109876543210"


def azure_ea(cost: str, **fields: str) -> Row:
    """A day of a scale set's VM, as an Enterprise Agreement's export has it."""
    return {
        "SubscriptionId": "s1",
        "Date": "10/05/2026",
        "ProductName": "Virtual Machines NDsr H100 v5 Series - ND96isr H100 v5 - EU West",
        "MeterCategory": "Virtual Machines",
        "MeterName": "ND96isr H100 v5",
        "UnitOfMeasure": "1 Hour",
        "Quantity": "24",
        "EffectivePrice": "98.32",
        "CostInBillingCurrency": cost,
        "ResourceId": SCALE_SET,
        "Tags": '"charterer.dev/pool": "h100","team": "vision"',
        "AdditionalInfo": '{"UsageType":"ComputeHR","ImageType":"Canonical","VMName":"aks-gpu-1-vmss_3"}',
        "UnitPrice": "98.32",
        "ChargeType": "Usage",
        "PricingModel": "OnDemand",
        "BillingCurrencyCode": "USD",
        "BillingPeriodStartDate": "10/01/2026",
        "BillingPeriodEndDate": "10/31/2026",
        "PayGPrice": "110",
        "BenefitId": "",
        **fields,
    }


def azure_mca(cost: str, **fields: str) -> Row:
    """The same of a Microsoft Customer Agreement."""
    names = {
        "Date": "date",
        "MeterCategory": "meterCategory",
        "MeterName": "meterName",
        "UnitOfMeasure": "unitOfMeasure",
        "Quantity": "quantity",
        "EffectivePrice": "effectivePrice",
        "CostInBillingCurrency": "costInBillingCurrency",
        "Tags": "tags",
        "AdditionalInfo": "additionalInfo",
        "UnitPrice": "unitPrice",
        "ChargeType": "chargeType",
        "PricingModel": "pricingModel",
        "BillingCurrencyCode": "billingCurrency",
        "BillingPeriodStartDate": "billingPeriodStartDate",
        "BillingPeriodEndDate": "billingPeriodEndDate",
        "BenefitId": "benefitId",
    }
    row = {names.get(name, name): value for name, value in azure_ea(cost).items()}
    return {**row, "paygCostInBillingCurrency": "2640", **fields}


def azure_line(path: Path, row: Row) -> BillLine:
    (line,) = lines_of(path, [row], [VM])
    return line


@pytest.mark.parametrize("row", [azure_ea("2359.68"), azure_mca("2359.68")], ids=["EA", "MCA"])
@pytest.mark.parametrize("name", ["cost.csv", "cost.csv.gz", "cost.parquet"])
def test_a_day_of_a_vm_is_told_by_azures_cost_details_of_either_agreement(tmp_path: Path, row: Row, name: str) -> None:
    line = azure_line(tmp_path / name, row)
    assert (line.vendor, line.resource, line.kind, line.charge) == ("microsoft", VM, LineKind.MACHINE, Charge.USAGE)
    assert line.start == parse_instant("2026-10-05T00:00:00Z")
    assert line.end == parse_instant("2026-10-06T00:00:00Z")
    assert line.seconds == 24 * 3600
    assert (line.listed, line.contracted, line.effective, line.billed) == (
        dollars("2640"),
        *[dollars("2359.68")] * 3,
    )
    assert line.tags == OurTags(pool="h100")
    assert not line.committed


def test_hours_are_hours_where_a_unit_is_many_of_them(tmp_path: Path) -> None:
    line = azure_line(tmp_path / "cost.csv", azure_ea("2359.68", UnitOfMeasure="100 Hours", PayGPrice="11000"))
    assert (line.seconds, line.listed) == (Decimal(24 * 3600), dollars("2640"))


@pytest.mark.parametrize("model", ["Reservation", "SavingsPlan", "Savings Plan"])
@pytest.mark.parametrize(("cost", "effective"), [("1500", "1500"), ("0", "0")], ids=["amortized", "actual"])
def test_what_a_commitment_pays_for_is_on_no_invoice(tmp_path: Path, model: str, cost: str, effective: str) -> None:
    row = azure_ea(cost, PricingModel=model, BenefitId="/providers/Microsoft.Capacity/reservationOrders/1")
    line = azure_line(tmp_path / "cost.csv", row)
    assert line.committed
    assert (line.contracted, line.effective, line.billed) == (dollars("2359.68"), dollars(effective), 0)


def test_refunds_and_unused_reservations_are_no_use_of_a_machine(tmp_path: Path) -> None:
    unused = azure_ea("50", ChargeType="UnusedReservation", PricingModel="Reservation")
    assert azure_line(tmp_path / "unused.csv", unused).kind is LineKind.OTHER
    refund = azure_line(tmp_path / "refund.csv", azure_ea("-50", ChargeType="Refund"))
    assert (refund.charge, refund.billed) == (Charge.ADJUSTMENT, dollars("-50"))


def test_columns_of_pay_as_you_go_have_other_names(tmp_path: Path) -> None:
    renamed = {"CostInBillingCurrency": "Cost", "BillingCurrencyCode": "BillingCurrency", "ProductName": "Product"}
    row = {renamed.get(name, name): value for name, value in azure_ea("7").items()}
    assert azure_line(tmp_path / "cost.csv", row).billed == dollars("7")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"Date": "05/10/2026", "BillingPeriodEndDate": "31/10/2026"}, "Date 'day or month first: 05/10/2026'"),
        ({"Date": "31/10/2026"}, "Date '31/10/2026': this is no time: .*, 10/31/2026"),
        ({"Date": ""}, "Date '': it is empty"),
        ({"BillingCurrencyCode": "EUR"}, "BillingCurrency 'EUR': bills are compared in USD only"),
        ({"CostInBillingCurrency": "1,5"}, "CostInBillingCurrency '1,5': this is no amount"),
        ({"UnitPrice": "dear"}, "UnitPrice 'dear': this is no amount"),
    ],
)
def test_a_value_of_azures_that_cannot_be_used_is_told(tmp_path: Path, fields: Mapping[str, str], said: str) -> None:
    with pytest.raises(UnreadableBill, match=f"line 2 column {said}"):
        azure_line(tmp_path / "cost.csv", azure_ea("1", **fields))


def test_what_azures_columns_cannot_show_is_told(tmp_path: Path) -> None:
    row = {name: value for name, value in azure_ea("1").items() if name not in ("Tags", "UnitPrice", "PayGPrice")}
    with open_bills([written(tmp_path / "cost.csv", [row])], [VM]) as bills:
        (unknown,) = bills.unknown
    assert [each.partition(": it has no column ")[2] for each in unknown] == [
        "Tags",
        "UnitPrice",
        "PaygCostInBillingCurrency or PayGPrice",
    ]


def google(path: Path, **fields: str) -> Path:
    """An hour of the 8 GPUs of an instance, as BigQuery exports the detailed table. ``fields``: SQL expressions."""
    resource = f"//compute.googleapis.com/projects/123456/zones/us-central1-a/instances/{GCE}"
    columns = {
        "service": "{'id': '6F81-5844-456A', 'description': 'Compute Engine'}",
        "sku": "{'id': '1', 'description': 'Nvidia Tesla A100 GPU running in Americas'}",
        "usage_start_time": "TIMESTAMPTZ '2026-10-05 10:00:00Z'",
        "usage_end_time": "TIMESTAMPTZ '2026-10-05 11:00:00Z'",
        "labels": "[{'key': 'charterer-cluster', 'value': 'c1'}, {'key': 'charterer-pool', 'value': 'a100'}]",
        "resource": f"{{'name': 'charterer-ca100-7', 'global_name': '{resource}'}}",
        "cost": "23.5::DOUBLE",
        "currency": "'USD'",
        "usage": "{'amount': 28800.0, 'unit': 'seconds', 'amount_in_pricing_units': 8.0, 'pricing_unit': 'hour'}",
        "credits": "[{'name': 'Committed', 'amount': -5.5::DOUBLE, 'type': 'COMMITTED_USAGE_DISCOUNT'}]",
        "invoice": "{'month': '202610'}",
        "cost_type": "'regular'",
        "cost_at_list": "29.0::DOUBLE",
        **fields,
    }
    selected = ", ".join(f"{expression} AS {name}" for name, expression in columns.items() if expression)
    duckdb.sql(f"COPY (SELECT {selected}) TO '{path}' (FORMAT parquet)")
    return path


def test_an_hour_of_an_instance_is_told_by_googles_detailed_export(tmp_path: Path) -> None:
    with open_bills([google(tmp_path / "bill.parquet")], [GCE]) as bills:
        (line,) = bills.lines()
        assert bills.unknown == [[]]
        assert [each.name for each in bills.formats] == ["Google Cloud's detailed export"]
    assert (line.vendor, line.resource, line.name) == ("google", GCE, "charterer-ca100-7")
    assert (line.kind, line.gpu_seconds) == (LineKind.MACHINE, Decimal(28_800))
    assert (line.listed, line.contracted, line.billed) == (dollars("29"), dollars("23.5"), dollars("18"))
    assert (line.commitment_credit, line.credit) == (dollars("-5.5"), 0)
    assert line.tags == OurTags(cluster="c1", pool="a100")


@pytest.mark.parametrize(("type", "charge"), [("tax", Charge.TAX), ("rounding_error", Charge.ADJUSTMENT)])
def test_a_cost_type_of_googles_that_is_no_use_is_told(tmp_path: Path, type: str, charge: Charge) -> None:
    with open_bills([google(tmp_path / "bill.parquet", cost_type=f"'{type}'")], [GCE]) as bills:
        assert [line.charge for line in bills.lines()] == [charge]


def test_googles_standard_export_has_no_resources_and_is_refused(tmp_path: Path) -> None:
    path = google(tmp_path / "bill.parquet", resource="", cost_type="", currency="", cost="")
    with pytest.raises(UnreadableBill, match="without resources"):
        open_bills([path], [GCE]).__enter__()
    path = google(tmp_path / "standard.parquet", resource="")
    with pytest.raises(
        UnreadableBill, match=r"has no column resource\.global_name: .*standard export has no resources"
    ):
        open_bills([path], [GCE]).__enter__()


def test_credits_that_are_no_array_are_told(tmp_path: Path) -> None:
    with pytest.raises(UnreadableBill, match="credits"):
        open_bills([google(tmp_path / "bill.parquet", credits="{'list': [1]}")], [GCE]).__enter__()
