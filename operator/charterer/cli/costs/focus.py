"""The rows of a month as FOCUS 1.2 or 1.4 (focus.finops.org), the form in which tools for cloud costs take charges.

One charge for each row of the record of costs. ``x_CostMicrodollars`` has the exact cost; so have the cost columns, in
dollars with six decimals. A unit price is what a GPU-hour of the charge came to, since FOCUS wants its product with the
quantity to be the cost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from operator import itemgetter
from typing import Final, TextIO

from charterer.cli.costs.cost_sums import purpose
from charterer.cli.costs.costs_csv import dollars
from charterer.cli.shared.csv_cells import harmless, write_csv
from charterer.cli.shared.months import bounds
from charterer.domain.pool import CapacityType
from charterer.domain.spending.cost_row import BilledMachine, CostRow
from charterer.domain.time import Instant, after, format_second
from charterer.sentences import visible

_NAMES: Final = """
    AvailabilityZone BilledCost BillingAccountId BillingAccountName BillingAccountType BillingCurrency
    BillingPeriodEnd BillingPeriodStart ChargeCategory ChargeClass ChargeDescription ChargeFrequency
    ChargePeriodEnd ChargePeriodStart CommitmentDiscountStatus ConsumedQuantity ConsumedUnit ContractedCost
    ContractedUnitPrice EffectiveCost InvoiceId InvoiceIssuerName ListCost ListUnitPrice PricingCategory
    PricingCurrency PricingCurrencyContractedUnitPrice PricingCurrencyEffectiveCost PricingCurrencyListUnitPrice
    PricingQuantity PricingUnit ProviderName PublisherName RegionId RegionName ResourceId ResourceName
    ResourceType ServiceCategory ServiceName ServiceSubcategory SkuId SkuMeter SkuPriceDetails SkuPriceId
    SubAccountId SubAccountName SubAccountType Tags x_Budget x_Pool x_Job x_Run x_Class x_User x_Purpose
    x_Rental x_GpuType x_GpuHours x_CostMicrodollars x_StillOpen
"""
_RENAMED: Final = {"ProviderName": "ServiceProviderName", "PublisherName": "HostProviderName"}
COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "1.2": tuple(_NAMES.split()),
    "1.4": tuple(_RENAMED.get(name, name) for name in _NAMES.split()),
}
"""By version: those of the specification, and then our own. The status of commitments is empty: none is known.

FOCUS 1.4 has two columns for who sells and who hosts, instead of two for who sells and who makes a product.
"""
_UNPRICED: Final = dict.fromkeys(("PricingCategory", "SkuPriceDetails", "SkuPriceId"), "")
"""A correction has no price of a unit, so by FOCUS 1.4 it names none either."""
_PROVIDERS: Final = {"aws": "Amazon Web Services", "azure": "Microsoft Azure", "gcp": "Google Cloud"}


def focus_csv(month: str, rows: Iterable[tuple[CostRow, bool]], file: TextIO, version: str) -> None:
    """A charge for each row of the month; the rows come with whether they are still open. ``version``: of FOCUS."""
    write_csv(COLUMNS[version], _lines(month, rows, itemgetter(*COLUMNS[version])), file)


def _lines(
    month: str, rows: Iterable[tuple[CostRow, bool]], cells: Callable[[Mapping[str, str]], Sequence[str]]
) -> Iterator[Sequence[str]]:
    for row, is_open in rows:
        yield cells(_charge(month, row, is_open))


def _charge(month: str, row: CostRow, is_open: bool) -> Mapping[str, str]:
    payer = row.payer
    start, end = bounds(month, row.time_zone)
    cost, hours = dollars(row.cost), _hours(row)
    quantity, unit, unit_price = _priced(row, hours)
    namespace = "" if payer is None else payer.namespace
    machine = _of_machine(row.machine, row.pool, row.budget) | (_UNPRICED if row.correction else {})
    return machine | {
        "BilledCost": cost,
        "BillingPeriodEnd": _second(end),
        "BillingPeriodStart": _second(start),
        "ChargeClass": "Correction" if row.correction else "",
        "ChargeDescription": _description(row),
        "ChargePeriodEnd": _second(_charged_until(row)),
        "ChargePeriodStart": _second(row.start),
        "ConsumedQuantity": "" if row.correction else hours,
        "ConsumedUnit": "" if row.correction else "GPU-Hours",
        "ContractedCost": cost,
        "ContractedUnitPrice": unit_price,
        "EffectiveCost": cost,
        "InvoiceId": harmless(f"{row.budget}-{month}"),
        "ListCost": cost,
        "ListUnitPrice": unit_price,
        "PricingCurrencyContractedUnitPrice": unit_price,
        "PricingCurrencyEffectiveCost": cost,
        "PricingCurrencyListUnitPrice": unit_price,
        "PricingQuantity": quantity,
        "PricingUnit": unit,
        "ResourceId": harmless(row.machine.instance or row.rental_uid),
        "ResourceName": harmless(row.rental),
        "SubAccountId": harmless(namespace),
        "SubAccountName": harmless(namespace),
        "SubAccountType": "Namespace" if namespace else "",
        "Tags": _tags(row.budget, row.pool, () if payer is None else tuple(payer.labels.items())),
        "x_Class": "" if payer is None else harmless(payer.job_class),
        "x_CostMicrodollars": str(row.cost.micros),
        "x_GpuHours": hours,
        "x_Job": "" if payer is None else harmless(payer.job),
        "x_Purpose": purpose(row.cause),
        "x_Rental": harmless(row.rental_uid),
        "x_Run": "" if payer is None else str(payer.run),
        "x_StillOpen": str(is_open).lower(),
        "x_User": "" if payer is None else harmless(payer.user),
    }


@lru_cache
def _of_machine(machine: BilledMachine, pool: str, budget: str) -> dict[str, str]:
    """What all charges of machines that are alike have in common; that is not to be changed."""
    provider = _PROVIDERS.get(machine.cloud, machine.cloud)
    sku = machine.instance_type or machine.gpu_type or pool  # a pool has one price, whatever its nodes are
    spot = machine.capacity_type == CapacityType.SPOT.value
    texts = {
        "AvailabilityZone": machine.zone,
        "BillingAccountId": budget,
        "BillingAccountName": budget,
        "BillingAccountType": "GPUBudget",
        "BillingCurrency": "USD",
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "CommitmentDiscountStatus": "",
        "HostProviderName": provider,
        "InvoiceIssuerName": provider,
        "PricingCategory": "Dynamic" if spot else "Standard",
        "PricingCurrency": "USD",
        "ProviderName": provider,
        "PublisherName": "Charterer",
        "RegionId": machine.region,
        "RegionName": machine.region,
        "ResourceType": "GPURental",
        "ServiceCategory": "Compute",
        "ServiceName": "Charterer GPU nodes",
        "ServiceProviderName": provider,
        "ServiceSubcategory": "Virtual Machines",
        "SkuId": sku,
        "SkuMeter": "GPU hours",
        "SkuPriceDetails": json.dumps({"GpuCount": machine.gpus}),
        "SkuPriceId": f"{sku}/{machine.zone}/{machine.capacity_type}",
        "x_Budget": budget,
        "x_GpuType": machine.gpu_type,
        "x_Pool": pool,
    }
    return {name: harmless(text) for name, text in texts.items()}


_second: Final = lru_cache(maxsize=1024)(format_second)
"""Charges beside each other have their times in common."""


def _charged_until(row: CostRow) -> Instant:
    """The end, at least a second after the start: FOCUS has no charges without a duration."""
    return max(row.end, after(row.start, 1.0))


def _hours(row: CostRow) -> str:
    return f"{Decimal(row.gpu_seconds) / 3600:.9f}"


def _priced(row: CostRow, hours: str) -> tuple[str, str, str]:
    """Quantity, its unit, and the price of one; nothing for a correction. Without GPU-time the charge is one unit."""
    if row.correction:
        return "", "", ""
    if not row.gpu_seconds:
        return "1", "Units", dollars(row.cost)
    return hours, "GPU-Hours", f"{Decimal(row.cost.micros) / (Decimal(hours) * 1_000_000):.15f}"


def _description(row: CostRow) -> str:
    machine, payer = row.machine, row.payer
    whose = f"no job: {purpose(row.cause)}" if payer is None else f"job {payer.namespace}/{payer.job}, run {payer.run}"
    what = f"{machine.gpus} x {machine.gpu_type}, {machine.instance_type}, {machine.capacity_type}"
    return harmless(f"{'Correction, ' if row.correction else ''}{whose} ({what})")


@lru_cache
def _tags(budget: str, pool: str, labels: tuple[tuple[str, str], ...]) -> str:
    tags = {**dict(labels), "charterer.dev/budget": budget, "charterer.dev/pool": pool}
    return visible(json.dumps(tags, sort_keys=True, ensure_ascii=False))
