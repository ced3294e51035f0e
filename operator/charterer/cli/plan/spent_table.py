"""The table of ``charterer plan`` that says what this month's dollars were for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from charterer.cli.shared import formatting
from charterer.cli.shared.output import JsonValue
from charterer.cli.shared.plan_report import PlanReport
from charterer.domain.budget import Budget, Cause
from charterer.domain.money import ZERO, Money
from charterer.ledger.purposes import SpentByCause, spent_by_cause
from charterer.report.document import Block, DocumentTable, Heading, TableCell, TableColumn, Tone, row

_MEANINGS: Mapping[Cause, str] = {
    Cause.JOB: "GPUs that jobs held",
    Cause.STARTING: "nodes from their launch until they took pods",
    Cause.IDLE: "GPUs of ready nodes that no job held",
    Cause.ENDING: "nodes without a job, from the decision to end them to their end",
    Cause.INCOMPLETE_GANG: "nodes that waited for the others that their job needs at once",
}


def spent_blocks(report: PlanReport) -> list[Block]:
    """Rows for each budget, which add up to what it has spent; nothing where none has spent anything."""
    several = len(report.solutions) > 1
    rows = [
        row(*([str(budget.id)] if several else []), *cells)
        for budget, found in _spent(report)
        if found.spent != ZERO
        for cells in _rows(found)
    ]
    if not rows:
        return []
    columns = (
        *([TableColumn("BUDGET")] if several else []),
        TableColumn("FOR"),
        TableColumn("DOLLARS", right=True),
        TableColumn("SHARE", right=True),
        TableColumn("", elastic=True),
    )
    return [Heading("What this month's dollars were for"), DocumentTable(columns, tuple(rows))]


def spent_json(budget: Budget, report: PlanReport) -> JsonValue:
    """The same amounts, exactly."""
    found = _of(budget, report)
    return {
        **{_name(cause): amount.decimal() for cause, amount in found.causes.items()},
        "opening": found.opening.decimal(),
        "uncounted": found.uncounted.decimal(),
    }


def _spent(report: PlanReport) -> list[tuple[Budget, SpentByCause]]:
    return [(solution.budget, _of(solution.budget, report)) for solution in report.solutions]


def _of(budget: Budget, report: PlanReport) -> SpentByCause:
    snapshot = report.snapshot
    rentals = [rental for rental in snapshot.rentals.values() if rental.budget == budget.id]
    return spent_by_cause(budget, rentals, snapshot.now)


def _rows(found: SpentByCause) -> Sequence[tuple[str | TableCell, ...]]:
    """The amounts that are not zero, and their sum."""
    amounts = [
        *((_words(cause), amount, _MEANINGS[cause]) for cause, amount in found.causes.items()),
        ("opening", found.opening, "spec.openingSpend"),
        ("not sorted yet", found.uncounted, "since the ledger's last count, about a minute ago"),
    ]
    rows: list[tuple[str | TableCell, ...]] = [
        (name, _exact(amount), formatting.percent(amount.micros / found.spent.micros), meaning)
        for name, amount, meaning in amounts
        if amount != ZERO
    ]
    return [*rows, (TableCell("spent", Tone.STRONG), TableCell(_exact(found.spent), Tone.STRONG), "", "")]


def _words(cause: Cause) -> str:
    return "training" if cause is Cause.JOB else cause.value.replace("_", " ")


def _name(cause: Cause) -> str:
    first, *others = _words(cause).split()
    return first + "".join(word.capitalize() for word in others)


def _exact(amount: Money) -> str:
    """All of an amount's micro-dollars, so that the rows can be added up."""
    whole, micros = divmod(abs(amount.micros), 1_000_000)
    return f"{'-' if amount.micros < 0 else ''}{whole:,}.{micros:06d}"
