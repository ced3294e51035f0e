"""The answer of ``charterer bill`` for people, for spreadsheets and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TextIO

from charterer.cli.bill.bill_report import BillReport
from charterer.cli.shared.csv_cells import harmless, write_csv
from charterer.cli.shared.output import JsonValue
from charterer.domain.money import ZERO, Money
from charterer.domain.time import format_second
from charterer.ledger.reconciliation.causes import DifferenceCause
from charterer.ledger.reconciliation.comparison import Difference, Grouping
from charterer.report.document import Block, Document, DocumentTable, Paragraph, TableCell, TableColumn, Tone, row

_HALF_A_CENT: Final = 5_000


def bill_document(report: BillReport, by: Sequence[Grouping]) -> Document:
    """A table with a row for each group and one for all, and sentences about the files."""
    columns = [
        *(TableColumn(each.value.upper()) for each in by),
        *([TableColumn("MACHINE")] if Grouping.RENTAL in by else []),
        TableColumn("LEDGER", right=True),
        TableColumn("BILL", right=True),
        TableColumn("DIFFERENCE", right=True),
        TableColumn("BECAUSE OF", elastic=True),
    ]
    rows = [row(*_names(each, by), *_amounts(each)) for each in report.groups]
    if len(report.groups) != 1:
        empty = [""] * (len(by) - 1 + (Grouping.RENTAL in by))
        sums = [TableCell(text, Tone.STRONG) for text in ("total", *empty, *_amounts(report.total))]
        rows.append(tuple(sums))
    blocks: list[Block] = [DocumentTable(tuple(columns), tuple(rows))]
    for notes, tone in ((report.notes, Tone.PLAIN), (report.unknown, Tone.BAD), (report.found, Tone.BAD)):
        blocks += [Paragraph(note, tone) for note in notes]
    return Document("charterer bill", tuple(blocks))


def _names(each: Difference, by: Sequence[Grouping]) -> list[str]:
    shown = [str(getattr(each, grouping.value)) or "-" for grouping in by]
    return [*shown, each.machine or "-"] if Grouping.RENTAL in by else shown


def _amounts(each: Difference) -> list[str]:
    largest = sorted(each.causes.items(), key=lambda item: -abs(item[1].micros))
    because = ", ".join(f"{cause.value} {_signed(amount)}" for cause, amount in largest)
    return [_shown(each.ledger), _shown(each.billed), _signed(each.amount) if each.amount.micros else "-", because]


def _shown(amount: Money) -> str:
    """To the cent, and in full where that would show nothing of it."""
    if 0 < abs(amount.micros) < _HALF_A_CENT:
        return f"{'-' if amount.micros < 0 else ''}${Money(abs(amount.micros)).decimal()}"
    return str(amount)


def _signed(amount: Money) -> str:
    return f"{'+' if amount.micros > 0 else ''}{_shown(amount)}"


def bill_csv(report: BillReport, file: TextIO) -> None:
    """A row for each group, a column for each cause, to the micro-dollar. No text can be taken for a formula."""
    causes = [cause.value.replace(" ", "_") for cause in DifferenceCause]
    write_csv([*_TEXTS, *_COUNTS, *_MONEY, *causes], map(_csv_line, report.groups), file)


def _csv_line(each: Difference) -> list[str]:
    causes = [each.causes.get(cause, ZERO) for cause in DifferenceCause]
    amounts = [each.ledger, each.outside, each.billed, each.amount, *causes]
    names = [harmless(str(getattr(each, name))) for name in _TEXTS]
    return [*names, str(each.rentals), str(each.lines), *(amount.decimal() for amount in amounts)]


_TEXTS: Final = ("month", "budget", "pool", "rental", "machine", "cloud")
_COUNTS: Final = ("rentals", "lines")
_MONEY: Final = ("ledger", "outside", "bill", "difference")


def bill_json(report: BillReport) -> dict[str, JsonValue]:
    """The same for programs, dollars as decimal strings."""
    return {
        "files": [{"path": path, "format": name} for path, name in report.formats.items()],
        "linesRead": report.lines_read,
        "covered": {
            vendor: [{"start": format_second(start), "end": format_second(end)} for start, end in spans]
            for vendor, spans in report.covered.items()
        },
        "differences": [_json(each) for each in report.groups],
        "total": _json(report.total),
        "notes": list(report.notes),
        "found": list(report.found),
        "unknown": list(report.unknown),
    }


def _json(each: Difference) -> JsonValue:
    return {
        **{name: getattr(each, name) for name in (*_TEXTS, *_COUNTS)},
        "ledger": each.ledger.decimal(),
        "outside": each.outside.decimal(),
        "bill": each.billed.decimal(),
        "difference": each.amount.decimal(),
        "causes": {cause.value: amount.decimal() for cause, amount in each.causes.items()},
    }
