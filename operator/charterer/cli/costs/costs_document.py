"""The costs of a month for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from zoneinfo import ZoneInfo

from charterer.cli.costs.answer import BudgetMonth, CostsAnswer
from charterer.cli.costs.cost_sums import LABEL, PURPOSE, CostSum, SumKey, purpose
from charterer.cli.costs.rows_of_month import LedgerMonth
from charterer.cli.shared import formatting
from charterer.domain.money import ZERO, Money, total
from charterer.domain.time import Instant, moment
from charterer.report.document import (
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

_WITHOUT_RECORD: Final = (
    "From the budgets' statuses, which have namespaces and purposes of the last 62 days. With a record of costs "
    "(--record) there are also users, classes, labels and jobs, of any month."
)


def costs_document(answer: CostsAnswer) -> Document:
    """A table for each budget, and below it how its sum compares with the ledger."""
    blocks = [block for found in answer.budgets for block in _budget_blocks(answer, found)]
    if not blocks:
        blocks = [Paragraph("There is no GPUBudget.")]
    if len(answer.budgets) > 1:
        whole = total(_spent(found.ledger, found.cost)[0] for found in answer.budgets)
        blocks.append(Paragraph(f"All {len(answer.budgets)} budgets: {exact(whole)} dollars spent.", Tone.STRONG))
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
        *([purpose(key.cause)] if key.cause is not None and PURPOSE not in answer.keys else []),
        *([exact(each.cost), exact(each.waste)] if answer.shares_waste else []),
        exact(cost),
        formatting.percent(cost.micros / whole) if whole > 0 else "-",
        *([f"{each.gpu_seconds / 3600:,.1f}"] if answer.place else []),
        *([exact(each.open_cost)] if found.still_open != ZERO else []),
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
    rows = [row(name, exact(amount), meaning) for name, amount, meaning in amounts if amount != ZERO]
    spent, said = _spent(ledger, found.cost)
    return [*rows, row(TableCell("spent", Tone.STRONG), TableCell(exact(spent), Tone.STRONG), said)]


def _spent(ledger: LedgerMonth | None, cost: Money) -> tuple[Money, str]:
    if ledger is None:
        return cost, "as far as it is on record; the ledger was not asked, or has no such budget"
    if ledger.spent is None:
        return cost, "as far as it is known; the ledger does not know this month"
    if ledger.amount is None or ledger.amount <= ZERO:
        return ledger.spent, ""
    of = f"{formatting.percent(ledger.spent.micros / ledger.amount.micros)} of {ledger.amount}"
    if ledger.with_below is not None:
        of += f", which it keeps of {ledger.with_below} for its own namespaces"
    return ledger.spent, of


def exact(amount: Money) -> str:
    """All of an amount's micro-dollars, so that rows can be added up."""
    whole, micros = divmod(abs(amount.micros), 1_000_000)
    return f"{'-' if amount.micros < 0 else ''}{whole:,}.{micros:06d}"
