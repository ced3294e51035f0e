"""The formats of bills: the columns of each format, and the names that Charterer gives to these columns in all formats.

FOCUS 1.0 to 1.4 (https://focus.finops.org/focus-specification, columns of the Cost and Usage dataset), as each cloud
writes it. FOCUS 1.3 has the columns ServiceProviderName and HostProviderName beside ProviderName and PublisherName.
FOCUS 1.4 has only the former two.

- AWS Data Exports (docs.aws.amazon.com/cur/latest/userguide/table-dictionary-focus-1-0-aws-columns.html and
  …-focus-1-2-aws-columns.html): ResourceId is an ARN or a bare id. Tags is a JSON object. Costs are doubles in
  Parquet. If a savings plan or reservation pays, BilledCost is 0, and EffectiveCost is the part of it that was used.
- Google Cloud's export to BigQuery
  (docs.cloud.google.com/billing/docs/how-to/export-data-bigquery-tables/focus-export): ResourceId is the full resource
  name ``//compute.googleapis.com/projects/NUMBER/zones/ZONE/instances/ID``. Labels are in x_Labels, or in the older
  view in Tags, as an array of {Key, Value}. x_Credits is an array of {Amount, Type} with negative amounts. If
  BilledCost leaves the credits out, it equals ContractedCost. The export has neither CommitmentDiscountId nor
  ServiceCategory. Machines are billed as cores, memory and GPUs.
- Azure Cost Management (learn.microsoft.com/cloud-computing/finops/focus/metadata): ResourceId is a path in upper or
  lower case. x_SkuDetails is a JSON object, in which VMName names the VM of a scale set. An unknown price is 0.

AWS CUR 2.0 (docs.aws.amazon.com/cur/latest/userguide/table-dictionary-cur2.html): line_item_line_item_type is the type
of a line. A line SavingsPlanCoveredUsage has the on-demand cost, and a line SavingsPlanNegation subtracts it again.
Lines EdpDiscount, PrivateRateDiscount and the like lower the price of other lines. resource_tags is a map whose keys
are like ``user_charterer_dev_pool``. An export may instead have tags, a map whose keys are like
``resourceTags/charterer.dev:pool``.

Azure's cost details, exported as actual or as amortized cost
(learn.microsoft.com/azure/cost-management-billing/automate/understand-usage-details-fields, and dataset-schema there
for each agreement; their meaning in FOCUS: learn.microsoft.com/cloud-computing/finops/focus/convert): the case of
names, and a few names, differ by agreement. Date is a day, with the month first. Quantity is the used quantity, in
hours even if a unit is 100 Hours. Tags may lack their braces. AdditionalInfo names the VM of a scale set. If a
reservation or savings plan pays for use, the use costs nothing as actual cost. As amortized cost, it costs the part of
the reservation or savings plan that it used. Neither amount is on the invoice.

Google Cloud's detailed export to BigQuery
(docs.cloud.google.com/billing/docs/how-to/export-data-bigquery-tables/detailed-usage): cost is before credits.
resource.global_name is the full resource name. The standard export has no resources.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

# Errors about files of bills.


class UnreadableBill(ValueError):
    """A file that is no bill, or a bill with a value that cannot be used. The message says which, and what to do."""

    def __init__(self, path: Path, what: str, *, line: int | None = None, column: str = "", value: str = "") -> None:
        place = "" if line is None else f" line {line}"
        of = f" column {column}" if column else ""
        shown = f" {_shortened(value)!r}" if column else ""
        super().__init__(f"{path}{place}{of}{shown}: {what}")
        self.line, self.column, self.value = line, column, value


def _shortened(value: str, most: int = 60) -> str:
    return value if len(value) <= most else f"{value[:most]}…"


AMOUNTS: Final = ("billed", "effective", "contracted", "listed")
"""Names of amounts: decimals in dollars."""
TIMES: Final = ("started", "ended")
CURRENCY: Final = "currency"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A conclusion that a bill may allow.

    ``needs``: the columns from which the conclusion is drawn, by the names used here. One of the columns is enough.
    ``unknown``: the text for a file that has none of the columns, after "is not known".
    """

    needs: Sequence[str]
    unknown: str


@dataclass(frozen=True, slots=True)
class BillFormat:
    """A format of bills.

    ``needed``, ``optional``: the file's column for each name used here. Without a needed column nothing can be read.
    ``vendor``, ``charge``, ``committed``: expressions. ``charge`` is usage, purchase, discount (on what was used at
    another price), credit, adjustment, tax or skipped.
    ``amounts``: expressions for ``AMOUNTS``, over decimals with these names.
    ``conclusions``: what is unknown without some of the optional columns.
    ``spellings``: other names of a column, the preferred one first. If there are any, the case of letters does not
    matter.
    ``rewritten``: expressions that replace columns before anything else reads them.

    Expressions are DuckDB's SQL over columns with the names used here, all of them text.
    """

    name: str
    needed: Mapping[str, str]
    optional: Mapping[str, str]
    vendor: str
    charge: str
    committed: str
    amounts: Mapping[str, str]
    conclusions: Sequence[Conclusion]
    hint: str
    spellings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rewritten: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> Mapping[str, str]:
        """The file's column for each name used here, needed ones first."""
        return {**self.needed, **self.optional}

    def spelled(self, columns: Iterable[str]) -> Mapping[str, str]:
        """For each of the format's columns that is among these, the file's own name of it."""
        there = {name: name for name in columns}
        if not self.spellings:
            return there
        lower = {name.lower(): name for name in reversed(list(there))}
        found = {}
        for column in self.columns.values():
            names = [lower.get(name.lower()) for name in (column, *self.spellings.get(column, ()))]
            if (own := next(filter(None, names), None)) is not None:
                found[column] = own
        return found

    def unknown(self, columns: Collection[str]) -> Sequence[str]:
        """What a file with these columns cannot show, each with the columns that are missing."""
        return [
            f"{each.unknown}: it has no column {' or '.join(self.optional[name] for name in each.needs)}"
            for each in self.conclusions
            if not any(self.optional[name] in columns for name in each.needs)
        ]


_STRAYS: Final = "whether it bills a machine with Charterer's tags that no rental had"
_PURPOSES: Final = "which of a machine's charges are for its time, and which for disks and network"
_HOURS: Final = "how long a machine is billed for, so time and price cannot be told apart"


_OFFERED_BY: Final = "lower(concat_ws(' ', provider, service_provider, host_provider, publisher, issuer))"
_VENDOR: Final = f"""CASE WHEN {_OFFERED_BY} LIKE '%google%' OR resource LIKE '//%.googleapis.com/%' THEN 'google'
    WHEN {_OFFERED_BY} LIKE '%microsoft%' OR {_OFFERED_BY} LIKE '%azure%' OR lower(resource) LIKE '/subscriptions/%'
        THEN 'microsoft'
    WHEN {_OFFERED_BY} LIKE '%aws%' OR {_OFFERED_BY} LIKE '%amazon%' OR resource LIKE 'arn:aws%'
        OR regexp_matches(resource, '^(i|vol|eni|snap)-[0-9a-z]+$') THEN 'aws'
    ELSE lower(coalesce(provider, service_provider, issuer, '')) END"""
"""A line's vendor: the provider, whichever version of FOCUS names it, or else by the form of the resource's name."""

FOCUS: Final = BillFormat(
    name="FOCUS",
    needed={
        "resource": "ResourceId",
        "started": "ChargePeriodStart",
        "ended": "ChargePeriodEnd",
        "currency": "BillingCurrency",
        "category": "ChargeCategory",
        "billed": "BilledCost",
    },
    optional={
        "resource_name": "ResourceName",
        "provider": "ProviderName",
        "service_provider": "ServiceProviderName",
        "host_provider": "HostProviderName",
        "publisher": "PublisherName",
        "issuer": "InvoiceIssuerName",
        "billing_period": "BillingPeriodStart",
        "charge_class": "ChargeClass",
        "tags": "Tags",
        "labels": "x_Labels",
        "credits": "x_Credits",
        "details": "x_SkuDetails",
        "effective": "EffectiveCost",
        "contracted": "ContractedCost",
        "listed": "ListCost",
        "commitment": "CommitmentDiscountId",
        "quantity": "ConsumedQuantity",
        "unit": "ConsumedUnit",
        "priced_quantity": "PricingQuantity",
        "priced_unit": "PricingUnit",
        "meter": "SkuMeter",
        "usage_type": "x_UsageType",
        "operation": "x_Operation",
        "meter_category": "x_SkuMeterCategory",
        "description": "ChargeDescription",
    },
    vendor=_VENDOR,
    charge="""CASE lower(category) WHEN 'usage' THEN 'usage' WHEN 'purchase' THEN 'purchase' WHEN 'credit' THEN 'credit'
        WHEN 'tax' THEN 'tax' ELSE 'adjustment' END""",
    committed="coalesce(commitment, '') <> ''",
    amounts={"billed": "billed", "effective": "effective", "contracted": "contracted", "listed": "listed"},
    conclusions=(
        Conclusion(("tags", "labels"), _STRAYS),
        Conclusion(("quantity", "priced_quantity"), _HOURS),
        Conclusion(("unit", "priced_unit"), _HOURS),
        Conclusion(("meter", "usage_type", "operation", "meter_category", "description"), _PURPOSES),
        Conclusion(("commitment", "credits"), "what a commitment pays for"),
        Conclusion(("effective",), "what commitments that were paid before make of a price"),
        Conclusion(("contracted",), "what the contract's prices are"),
        Conclusion(("listed",), "what the list prices are"),
    ),
    hint="export it with resources (ResourceId) and all cost columns",
)

_COVERED = "line_type = 'SavingsPlanCoveredUsage'"
_RESERVED = "line_type = 'DiscountedUsage'"

CUR: Final = BillFormat(
    name="CUR 2.0",
    needed={
        "resource": "line_item_resource_id",
        "started": "line_item_usage_start_date",
        "ended": "line_item_usage_end_date",
        "currency": "line_item_currency_code",
        "line_type": "line_item_line_item_type",
        "billed": "line_item_unblended_cost",
    },
    optional={
        "tags": "resource_tags",
        "labels": "tags",
        "billing_period": "bill_billing_period_start_date",
        "effective": "savings_plan_savings_plan_effective_cost",
        "reserved": "reservation_effective_cost",
        "listed": "pricing_public_on_demand_cost",
        "quantity": "line_item_usage_amount",
        "unit": "pricing_unit",
        "usage_type": "line_item_usage_type",
        "operation": "line_item_operation",
        "meter_category": "product_product_family",
        "description": "line_item_line_item_description",
    },
    vendor="'aws'",
    charge="""CASE WHEN line_type IN ('Usage', 'SavingsPlanCoveredUsage', 'DiscountedUsage', 'Fee') THEN 'usage'
        WHEN line_type = 'SavingsPlanNegation' THEN 'skipped' WHEN line_type = 'Tax' THEN 'tax'
        WHEN line_type LIKE '%Discount' THEN 'discount' WHEN line_type = 'Credit' THEN 'credit'
        ELSE 'adjustment' END""",
    committed=f"{_COVERED} OR {_RESERVED}",
    amounts={
        "billed": f"CASE WHEN {_COVERED} THEN 0 ELSE billed END",
        "effective": f"CASE WHEN {_COVERED} THEN effective WHEN {_RESERVED} THEN reserved ELSE billed END",
        "contracted": f"CASE WHEN {_RESERVED} THEN listed ELSE billed END",
        "listed": "CASE WHEN charge = 'discount' THEN 0 ELSE listed END",
    },
    conclusions=(
        Conclusion(("tags", "labels"), _STRAYS),
        Conclusion(("quantity",), _HOURS),
        Conclusion(("unit",), _HOURS),
        Conclusion(("usage_type", "operation", "meter_category", "description"), _PURPOSES),
        Conclusion(("effective",), "what a savings plan pays for"),
        Conclusion(("reserved",), "what a reservation pays for"),
        Conclusion(("listed",), "what the list prices are"),
    ),
    hint="export it with INCLUDE_RESOURCES = TRUE and all of these columns",
)

_DAYS: Final = "['%m/%d/%Y', '%Y-%m-%d', '%Y-%m-%d %H:%M:%S', '%Y-%m-%dT%H:%M:%S', '%Y-%m-%dT%H:%M:%SZ']"


def _day(name: str, days: int) -> str:
    """SQL for the beginning of a day, ``days`` days later. If it is not certain which number is the day, the SQL gives
    a text that is no time.

    The end of a billing period has a day above 12, so it shows whether the month comes first.
    """
    certain = f"try_strptime(billing_end, {_DAYS}) IS NOT NULL"
    day = f"try_strptime({name}, {_DAYS}) + INTERVAL {days} DAY"
    written = f"coalesce(strftime({day}, '%Y-%m-%dT00:00:00Z'), {name})"
    return f"CASE WHEN {certain} THEN {written} ELSE 'day or month first: ' || {name} END"


def _priced(price: str) -> str:
    """SQL for the cost of the quantity at a price. The price is for one pricing unit, which may be many hours."""
    block = "greatest(coalesce(try_cast(regexp_extract(priced_unit, '^[0-9]+') AS DOUBLE), 1), 1)"
    return f"try_cast(try_cast({price} AS DOUBLE) * try_cast(quantity AS DOUBLE) / {block} AS DECIMAL(38, 12))"


AZURE: Final = BillFormat(
    name="Azure cost details",
    needed={
        "resource": "ResourceId",
        "started": "Date",
        "ended": "Date",
        "currency": "BillingCurrency",
        "category": "ChargeType",
        "billed": "CostInBillingCurrency",
        "line_type": "PricingModel",
        "billing_end": "BillingPeriodEndDate",
    },
    optional={
        "resource_name": "ResourceName",
        "billing_period": "BillingPeriodStartDate",
        "tags": "Tags",
        "details": "AdditionalInfo",
        "listed": "PaygCostInBillingCurrency",
        "list_price": "PayGPrice",
        "unit_price": "UnitPrice",
        "commitment": "BenefitId",
        "quantity": "Quantity",
        "unit": "UnitOfMeasure",
        "priced_unit": "UnitOfMeasure",
        "meter": "MeterName",
        "meter_category": "MeterCategory",
        "description": "ProductName",
    },
    vendor="'microsoft'",
    charge="""CASE lower(category) WHEN 'usage' THEN 'usage' WHEN 'purchase' THEN 'purchase' WHEN 'credit' THEN 'credit'
        WHEN 'tax' THEN 'tax' WHEN 'unusedreservation' THEN 'purchase' WHEN 'unusedsavingsplan' THEN 'purchase'
        ELSE 'adjustment' END""",
    committed="lower(replace(line_type, ' ', '')) IN ('reservation', 'savingsplan')",
    amounts={
        "billed": "CASE WHEN committed AND charge = 'usage' THEN 0 ELSE billed END",
        "effective": "billed",
        "contracted": f"CASE WHEN committed THEN {_priced('unit_price')} ELSE billed END",
        "listed": f"coalesce(listed, {_priced('list_price')})",
    },
    conclusions=(
        Conclusion(("tags",), _STRAYS),
        Conclusion(("quantity",), _HOURS),
        Conclusion(("unit",), _HOURS),
        Conclusion(("meter", "meter_category", "description"), _PURPOSES),
        Conclusion(("unit_price",), "what a commitment makes cheaper"),
        Conclusion(("listed", "list_price"), "what the list prices are"),
    ),
    hint="export all of its columns",
    spellings={
        "BillingCurrency": ("BillingCurrencyCode", "Currency"),
        "CostInBillingCurrency": ("Cost",),
        "BenefitId": ("ReservationId",),
        "ProductName": ("Product",),
    },
    rewritten={
        "started": _day("started", 0),
        "ended": _day("ended", 1),
        "tags": "CASE WHEN starts_with(tags, '\"') THEN '{' || tags || '}' ELSE tags END",
        "unit": "regexp_replace(unit, '^[0-9]+ ', '')",
    },
)

GOOGLE: Final = BillFormat(
    name="Google Cloud's detailed export",
    needed={
        "resource": "resource.global_name",
        "started": "usage_start_time",
        "ended": "usage_end_time",
        "currency": "currency",
        "category": "cost_type",
        "billed": "cost",
    },
    optional={
        "resource_name": "resource.name",
        "billing_period": "invoice.month",
        "labels": "labels",
        "credits": "credits",
        "listed": "cost_at_list",
        "quantity": "usage.amount",
        "unit": "usage.unit",
        "priced_quantity": "usage.amount_in_pricing_units",
        "priced_unit": "usage.pricing_unit",
        "meter_category": "service.description",
        "description": "sku.description",
    },
    vendor="'google'",
    charge="CASE category WHEN 'regular' THEN 'usage' WHEN 'tax' THEN 'tax' ELSE 'adjustment' END",
    committed="false",
    amounts={"billed": "billed", "effective": "billed", "contracted": "billed", "listed": "listed"},
    conclusions=(
        Conclusion(("labels",), _STRAYS),
        Conclusion(("quantity", "priced_quantity"), _HOURS),
        Conclusion(("unit", "priced_unit"), _HOURS),
        Conclusion(("description",), _PURPOSES),
        Conclusion(("credits",), "what a commitment pays for"),
        Conclusion(("listed",), "what the list prices are"),
    ),
    hint="export all columns of the detailed table as Parquet; the standard export has no resources",
)

FORMATS: Final[Sequence[BillFormat]] = (FOCUS, CUR, AZURE, GOOGLE)
DECIMALS: Final = frozenset({*AMOUNTS, "reserved", "quantity", "priced_quantity", "unit_price", "list_price"})
"""The columns that hold numbers, by the names used here."""


_OTHERS: Final = {
    "lineItem/UsageStartDate": "this is a legacy CUR: export CUR 2.0 or FOCUS with AWS Data Exports",
    "line_item_usage_start_date": "this is a legacy CUR: export CUR 2.0 or FOCUS with AWS Data Exports",
    **dict.fromkeys(
        ("usage_start_time", "cost_at_list", "sku.description", "sku"),
        "this is an export of Google Cloud's without resources, or not as Parquet: take the detailed export (table "
        "gcp_billing_export_resource_v1_…) as Parquet, or the FOCUS export",
    ),
}
"""What to say of files that Charterer does not read, by a column that only such files have."""


def format_of(path: Path, columns: Collection[str]) -> BillFormat:
    """The format that has these columns. If no format has them, raises UnreadableBill, which names the missing
    columns.
    """
    for each in FORMATS:
        there = each.spelled(columns)
        lacking = list(dict.fromkeys(column for column in each.needed.values() if column not in there))
        if not lacking:
            return each
        if len(lacking) < len(each.needed) / 2:
            raise UnreadableBill(path, f"this {each.name} file has no column {', '.join(lacking)}: {each.hint}")
    for column, what in _OTHERS.items():
        if column in columns:
            raise UnreadableBill(path, what)
    if "ChargePeriodStart" in columns or "BilledCost" in columns:
        lacking = [column for column in FOCUS.needed.values() if column not in columns]
        raise UnreadableBill(path, f"this FOCUS file has no column {', '.join(lacking)}: {FOCUS.hint}")
    shown = ", ".join(sorted(columns)[:5])
    raise UnreadableBill(
        path,
        "neither FOCUS 1.0 to 1.4 nor AWS CUR 2.0, Azure's cost details or Google Cloud's detailed export: its columns "
        f"are {shown}… Give the cloud's own export",
    )
