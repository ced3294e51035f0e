"""The costs of a month as a document, CSV, JSON and FOCUS."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from operator import itemgetter
from typing import Final, TextIO
from zoneinfo import ZoneInfo

from charterer.domain.cost_row import BilledMachine, CostRow
from charterer.domain.money import ZERO, Money, total
from charterer.domain.pool import CapacityType
from charterer.domain.time import Instant, Period, after, format_instant, format_second, moment
from charterer.sentences import visible
from charterer.tools.commands.costs.answer import (
    LABEL,
    PURPOSE,
    BudgetMonth,
    CostsAnswer,
    CostSum,
    LedgerMonth,
    SumKey,
    purpose,
)
from charterer.tools.commands.shared import output
from charterer.tools.commands.shared.lost import losses_json, lost_blocks
from charterer.tools.commands.shared.options import bounds
from charterer.tools.commands.shared.output import JsonValue, copied, harmless, write_csv
from charterer.tools.documents.document import (
    Block,
    Document,
    DocumentTable,
    Heading,
    Paragraph,
    TableCell,
    TableColumn,
    Tone,
    row,
)

# The document.


_WITHOUT_RECORD: Final = (
    "From the budgets' statuses, which have namespaces, purposes and causes of the last 62 days. With a record of "
    "costs (--record) there are also users, classes, labels and jobs, of any month."
)


def costs_document(answer: CostsAnswer) -> Document:
    """Make a table for each budget, and below each table a comparison with the ledger."""
    blocks = [block for found in answer.budgets for block in _budget_blocks(answer, found)]
    if not blocks:
        blocks = [Paragraph("There is no GPUBudget.")]
    if len(answer.budgets) > 1:
        whole = total(_spent(found.ledger, found.cost)[0] for found in answer.budgets)
        said = f"All {len(answer.budgets)} budgets: {output.exact(whole)} dollars spent."
        blocks.append(Paragraph(said, Tone.STRONG))
    if not answer.place:
        blocks.append(Paragraph(_WITHOUT_RECORD, Tone.FAINT))
    return Document(f"Costs of {answer.month}", tuple(blocks))


def _budget_blocks(answer: CostsAnswer, found: BudgetMonth) -> Iterator[Block]:
    yield Heading(f"{found.budget}, {answer.month}{_until(found)}")
    if found.sums:
        yield DocumentTable(_columns(answer, found), tuple(_row(answer, found, *each) for each in found.sums))
    else:
        yield Paragraph("No machine cost anything.")
    yield DocumentTable(
        (TableColumn(""), TableColumn("DOLLARS", right=True), TableColumn("", elastic=True)),
        tuple(_totals(answer, found)),
    )
    if found.losses is not None:
        yield from lost_blocks(found.losses, causes=False)


def _until(found: BudgetMonth) -> str:
    if found.ledger is None or not found.ledger.is_open:
        return ""
    return f" (open: it ends on {_local(found.ledger.end, found.time_zone)})"


def _local(at: Instant, time_zone: str) -> str:
    return f"{moment(at).astimezone(ZoneInfo(time_zone)):%Y-%m-%d %H:%M} {time_zone}"


def _columns(answer: CostsAnswer, found: BudgetMonth) -> tuple[TableColumn, ...]:
    return (
        *(TableColumn(key.removeprefix(LABEL).upper()) for key in answer.keys),
        *([TableColumn("PURPOSE")] if answer.with_cause and PURPOSE not in answer.keys else []),
        *([TableColumn("OWN", right=True), TableColumn("WASTE", right=True)] if answer.shares_waste else []),
        TableColumn("DOLLARS", right=True),
        TableColumn("SHARE", right=True),
        *([TableColumn("GPU-HOURS", right=True)] if answer.place else []),
        *([TableColumn("STILL OPEN", right=True, optional=True)] if found.still_open != ZERO else []),
    )


def _row(answer: CostsAnswer, found: BudgetMonth, key: SumKey, each: CostSum) -> tuple[TableCell, ...]:
    cost, whole = each.cost + each.waste, found.cost.micros
    return row(
        *("-" if cell is None else cell or "(none)" for cell in key.cells),
        *([purpose(key.cause)] if answer.with_cause and key.cause and PURPOSE not in answer.keys else []),
        *([output.exact(each.cost), output.exact(each.waste)] if answer.shares_waste else []),
        output.exact(cost),
        output.percent(cost.micros / whole) if whole > 0 else "-",
        *([f"{each.gpu_seconds / 3600:,.1f}"] if answer.place else []),
        *([output.exact(each.open_cost)] if found.still_open != ZERO else []),
    )


def _totals(answer: CostsAnswer, found: BudgetMonth) -> Sequence[tuple[TableCell, ...]]:
    ledger, missing = found.ledger, found.not_on_record
    amounts = [
        ("on record" if answer.place else "counted", found.on_record, ""),
        ("still open", found.still_open, "of machines that run, or whose last hours are not on record yet"),
        ("opening", ZERO if ledger is None else ledger.opening, "spec.openingSpend"),
        *(
            [
                ("not on record", max(missing, ZERO), "from before the record began, or from files that are gone"),
                ("not in this ledger", min(missing, ZERO), "of a former budget of this name"),
            ]
            if answer.place
            else [("not counted", missing, "since the last count, a minute ago, or from before the 62 days")]
        ),
    ]
    rows = [row(name, output.exact(amount), meaning) for name, amount, meaning in amounts if amount != ZERO]
    spent, said = _spent(ledger, found.cost)
    return [*rows, row(TableCell("spent", Tone.STRONG), TableCell(output.exact(spent), Tone.STRONG), said)]


def _spent(ledger: LedgerMonth | None, cost: Money) -> tuple[Money, str]:
    if ledger is None:
        return cost, "as far as it is on record; the ledger was not asked, or has no such budget"
    if ledger.period is not Period.MONTH:
        return cost, f"as far as it is known; the ledger counts by the budget's period ({ledger.period}), not by months"
    if ledger.spent is None:
        return cost, "as far as it is known; the ledger does not know this month"
    if ledger.amount is None or ledger.amount <= ZERO:
        return ledger.spent, ""
    of = f"{output.percent(ledger.spent.micros / ledger.amount.micros)} of {ledger.amount}"
    if ledger.with_below is not None:
        of += f", which it keeps of {ledger.with_below} for its own namespaces"
    return ledger.spent, of


# CSV that no spreadsheet executes.


def dollars(amount: Money) -> str:
    """Format an amount as a number with six decimals."""
    return output.exact(amount).replace(",", "")


def costs_csv(answer: CostsAnswer, file: TextIO) -> None:
    """Write a line for each sum."""
    with_purpose = answer.with_cause and PURPOSE not in answer.keys
    header = [
        *("month", "budget", *map(harmless, answer.keys)),
        *([PURPOSE] if with_purpose else []),
        *(["own_dollars", "waste_dollars"] if answer.shares_waste else []),
        *("dollars", "still_open_dollars", "gpu_hours"),
    ]
    write_csv(header, _csv_lines(answer, with_purpose), file)


def _csv_lines(answer: CostsAnswer, with_purpose: bool) -> Iterator[Sequence[str]]:
    for found in answer.budgets:
        for key, each in found.sums:
            yield [
                *(answer.month, harmless(key.budget), *(harmless(cell or "") for cell in key.cells)),
                *([purpose(key.cause)] if with_purpose and key.cause is not None else []),
                *([dollars(each.cost), dollars(each.waste)] if answer.shares_waste else []),
                *(dollars(each.cost + each.waste), dollars(each.open_cost)),
                f"{each.gpu_seconds / 3600:.6f}" if answer.place else "",
            ]


# JSON, with dollars as decimal strings.


def costs_json(answer: CostsAnswer) -> Mapping[str, JsonValue]:
    """Return the whole answer as JSON."""
    return {
        "month": answer.month,
        "by": list(answer.keys),
        "record": answer.place or None,
        "budgets": [_budget(found) for found in answer.budgets],
        "costs": [_sum(answer, *each) for found in answer.budgets for each in found.sums],
    }


def _budget(found: BudgetMonth) -> JsonValue:
    ledger = found.ledger
    known = ledger is not None and ledger.spent is not None
    return {
        **copied(found, "name=budget timeZone"),
        "start": None if ledger is None else format_instant(ledger.start),
        "end": None if ledger is None else format_instant(ledger.end),
        **copied(ledger, "open=is_open amount spent"),
        "opening": (ZERO if ledger is None else ledger.opening).decimal(),
        **copied(found, "onRecord stillOpen"),
        "notOnRecord": found.not_on_record.decimal() if known else None,
        **({} if found.losses is None else {"losses": losses_json(found.losses)}),
    }


def _sum(answer: CostsAnswer, key: SumKey, found: CostSum) -> JsonValue:
    named: dict[str, JsonValue] = dict(zip(answer.keys, key.cells, strict=True))
    if key.cause is not None:
        named[PURPOSE] = purpose(key.cause)
    if answer.shares_waste:
        named |= {"own": found.cost.decimal(), "waste": found.waste.decimal()}
    return {
        "budget": key.budget,
        **named,
        "dollars": (found.cost + found.waste).decimal(),
        "stillOpen": found.open_cost.decimal(),
        "gpuHours": round(found.gpu_seconds / 3600, 6) if answer.place else None,
    }


# FOCUS 1.2 or 1.4 (focus.finops.org), the format in which cost tools import charges.
# Each row of the record of costs is one charge. ``x_CostMicrodollars`` has the exact cost. The cost columns have the
# same cost in dollars with six decimals. FOCUS requires that unit price times quantity equals cost. So the unit price
# is computed: it is the charge's cost per GPU-hour.


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
"""Columns by FOCUS version: the columns of the specification, then our own. The commitment status is empty, because it
is unknown.

FOCUS 1.4 replaces the columns of provider and publisher by columns of service provider and host provider.
"""
_UNPRICED: Final = dict.fromkeys(("PricingCategory", "SkuPriceDetails", "SkuPriceId"), "")
"""Columns that are empty for a correction.

A correction has no unit price, so by FOCUS 1.4 its pricing category must be empty too.
"""
_PROVIDERS: Final = {"aws": "Amazon Web Services", "azure": "Microsoft Azure", "gcp": "Google Cloud"}


def focus_csv(month: str, rows: Iterable[tuple[CostRow, bool]], file: TextIO, version: str) -> None:
    """Write a charge for each row of the month. The flag beside each row says whether the row is still open."""
    write_csv(COLUMNS[version], _focus_lines(month, rows, itemgetter(*COLUMNS[version])), file)


def _focus_lines(
    month: str, rows: Iterable[tuple[CostRow, bool]], cells: Callable[[Mapping[str, str]], Sequence[str]]
) -> Iterator[Sequence[str]]:
    for charged, is_open in rows:
        yield cells(_charge(month, charged, is_open))


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
    """Return the columns that all charges of identical machines share. Callers must not change the dictionary."""
    provider = _PROVIDERS.get(machine.cloud, machine.cloud)
    sku = machine.instance_type or machine.gpu_type or pool  # fallback: all nodes of a pool have one price
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
"""Format an instant. The cache helps because adjacent charges share their times."""


def _charged_until(row: CostRow) -> Instant:
    """Return the end of the charge, at least a second after its start, because a FOCUS charge must have a duration."""
    return max(row.end, after(row.start, 1.0))


def _hours(row: CostRow) -> str:
    return f"{Decimal(row.gpu_seconds) / 3600:.9f}"


def _priced(row: CostRow, hours: str) -> tuple[str, str, str]:
    """Return quantity, unit and unit price. For a correction, all three are empty. A charge without GPU time is one
    unit.
    """
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
