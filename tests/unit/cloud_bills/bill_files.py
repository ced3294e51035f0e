"""Small files as clouds export them, by their vendors' descriptions (``charterer.tools.cloud_bills.formats``)."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

import duckdb

Row = Mapping[str, str]

_FOCUS = {
    "BilledCost": "",
    "EffectiveCost": "",
    "ContractedCost": "",
    "ListCost": "",
    "BillingCurrency": "USD",
    "BillingPeriodStart": "2026-10-01T00:00:00Z",
    "BillingPeriodEnd": "2026-11-01T00:00:00Z",
    "ChargeCategory": "Usage",
    "ChargeClass": "",
    "ChargeFrequency": "Usage-Based",
    "ChargePeriodStart": "2026-10-05T10:00:00Z",
    "ChargePeriodEnd": "2026-10-05T11:00:00Z",
}


def focus(cost: str, **fields: str) -> dict[str, str]:
    """Columns of all vendors; all four costs are ``cost`` unless one is given."""
    costs = dict.fromkeys(("BilledCost", "EffectiveCost", "ContractedCost", "ListCost"), cost)
    return {**_FOCUS, **costs, **fields}


def aws_focus(cost: str, instance: str = "i-0abc", **fields: str) -> dict[str, str]:
    """An hour of an instance, as AWS Data Exports write FOCUS 1.0 and 1.2."""
    return focus(
        cost,
        **{
            "ProviderName": "AWS",
            "PublisherName": "Amazon Web Services",
            "ServiceName": "Amazon Elastic Compute Cloud",
            "ServiceCategory": "Compute",
            "SubAccountId": "123456789012",
            "ResourceId": f"arn:aws:ec2:us-east-1:123456789012:instance/{instance}",
            "ResourceName": "",
            "ConsumedQuantity": "1.0000000000",
            "ConsumedUnit": "Hours",
            "PricingCategory": "Standard",
            "PricingQuantity": "1.0000000000",
            "PricingUnit": "Hrs",
            "CommitmentDiscountId": "",
            "SkuMeter": "BoxUsage:p4d.24xlarge",
            "ChargeDescription": "$16.00 per On Demand Linux p4d.24xlarge Instance Hour",
            "x_Operation": "RunInstances",
            "x_ServiceCode": "AmazonEC2",
            "Tags": '{"user:charterer.dev:pool": "a100", "user:charterer.dev:rental": "a100-7"}',
            **fields,
        },
    )


def google_focus(cost: str, instance: str = "8765432109876543210", **fields: str) -> dict[str, str]:
    """An hour of the 8 GPUs of an instance, as Google Cloud's export has it, arrays as JSON."""
    return focus(
        cost,
        **{
            "ProviderName": "Google Cloud",
            "ServiceName": "Compute Engine",
            "SubAccountId": "my-project",
            "ResourceId": f"//compute.googleapis.com/projects/123456/zones/us-central1-a/instances/{instance}",
            "ResourceName": "charterer-ca100-7",
            "ConsumedQuantity": "28800",
            "ConsumedUnit": "seconds",
            "PricingQuantity": "8",
            "PricingUnit": "hour",
            "ChargeDescription": "Nvidia Tesla A100 GPU running in Americas",
            "x_Labels": '[{"Key":"charterer-cluster","Value":"c1"},{"Key":"charterer-pool","Value":"a100"}]',
            "x_Credits": "[]",
            **fields,
        },
    )


SCALE_SET = "/subscriptions/s1/resourceGroups/MC_gpu/providers/Microsoft.Compute/virtualMachineScaleSets/aks-gpu-1-vmss"


def azure_focus(cost: str, **fields: str) -> dict[str, str]:
    """A day of a scale set's VM, as Cost Management writes FOCUS 1.0 and 1.2."""
    return focus(
        cost,
        **{
            "ProviderName": "Microsoft",
            "PublisherName": "Microsoft",
            "ServiceName": "Virtual Machines",
            "SubAccountId": "/subscriptions/s1",
            "ResourceId": SCALE_SET.lower(),
            "ResourceName": "aks-gpu-1-vmss",
            "ChargePeriodStart": "2026-10-05T00:00:00Z",
            "ChargePeriodEnd": "2026-10-06T00:00:00Z",
            "ConsumedQuantity": "1",
            "ConsumedUnit": "Hours",
            "PricingQuantity": "0.01",
            "PricingUnit": "100 Hours",
            "CommitmentDiscountId": "",
            "Tags": "{}",
            "x_SkuMeterCategory": "Virtual Machines",
            "x_SkuDetails": '{"VMName":"aks-gpu-1-vmss_3","ServiceType":"Standard_ND96isr_H100_v5"}',
            **fields,
        },
    )


def cur(cost: str, instance: str = "i-0abc", **fields: str) -> dict[str, str]:
    """An hour of an instance, as AWS writes CUR 2.0."""
    return {
        "identity_line_item_id": "x",
        "bill_billing_period_start_date": "2026-10-01T00:00:00.000Z",
        "line_item_line_item_type": "Usage",
        "line_item_resource_id": instance,
        "line_item_usage_start_date": "2026-10-05T10:00:00.000Z",
        "line_item_usage_end_date": "2026-10-05T11:00:00.000Z",
        "line_item_currency_code": "USD",
        "line_item_unblended_cost": cost,
        "line_item_usage_amount": "1.0000000000",
        "line_item_usage_type": "BoxUsage:p4d.24xlarge",
        "line_item_operation": "RunInstances",
        "line_item_line_item_description": "$16.00 per On Demand Linux p4d.24xlarge Instance Hour",
        "pricing_unit": "Hrs",
        "pricing_public_on_demand_cost": cost,
        "savings_plan_savings_plan_effective_cost": "",
        "reservation_effective_cost": "",
        "product_product_family": "Compute Instance",
        "resource_tags": '{"user_charterer_dev_pool": "a100"}',
        **fields,
    }


def csv_text(rows: Sequence[Row]) -> str:
    """All cells quoted, as Azure and AWS do."""
    text = StringIO()
    writer = csv.DictWriter(text, list(rows[0]), quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def written(path: Path, rows: Sequence[Row]) -> Path:
    """The rows in a file, in the packing that its name ends with. In Parquet all columns are text."""
    text = csv_text(rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif path.suffix == ".parquet":
        plain = path.with_suffix(".csv")
        plain.write_text(text)
        duckdb.sql(f"COPY (FROM read_csv('{plain}', all_varchar = true)) TO '{path}' (FORMAT parquet)")
        plain.unlink()
    else:
        path.write_text(text)
    return path
