"""``charterer bill`` compares the bills of clouds with the record of costs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TextIO

import click

from charterer.cost_record import CostRecord, RecordUnavailable
from charterer.domain.cost_row import CostRow
from charterer.domain.money import ZERO, Money
from charterer.domain.time import format_minute, format_second
from charterer.sentences import count, is_or_are, names
from charterer.tools.cloud_bills.formats import UnreadableBill
from charterer.tools.cloud_bills.reader import Bills, Contradiction, Repeated, open_bills
from charterer.tools.commands.shared.options import MonthType, record_option
from charterer.tools.commands.shared.output import (
    FOUND,
    UNKNOWN,
    JsonValue,
    announce_when_slow,
    copied,
    emit,
    harmless,
    write_csv,
)
from charterer.tools.documents.document import (
    Block,
    Document,
    DocumentTable,
    Paragraph,
    TableCell,
    TableColumn,
    Tone,
    row,
)
from charterer.tools.reconciliation import (
    BillLine,
    Difference,
    DifferenceCause,
    Grouping,
    LineKind,
    Span,
    compare,
    grouped,
    ledger_side,
    resource_key,
)

# The comparison as a value: differences by group, and notes on the files.


@dataclass(frozen=True, slots=True)
class BillReport:
    """The comparison. ``formats`` is by path of the file, ``covered`` by vendor.

    ``groups`` is in order of the grouping. ``notes`` say what was compared, ``found`` what a person should check,
    ``unknown`` what the files do not show.
    """

    groups: Sequence[Difference]
    total: Difference
    formats: Mapping[str, str]
    lines_read: int
    covered: Mapping[str, Sequence[Span]]
    notes: Sequence[str]
    found: Sequence[str]
    unknown: Sequence[str]


def machine_keys(rows: Iterable[CostRow]) -> Collection[str]:
    """Return the resource keys of the rows' machines. Bill lines are matched by these keys."""
    return {resource_key(row.machine.instance) for row in rows if row.machine.instance}


def bill_report(
    paths: Sequence[Path],
    bills: Bills,
    rows: Callable[[], Iterable[CostRow]],
    months: Collection[str],
    by: Sequence[Grouping],
) -> BillReport:
    """Compare the bills with the rows. ``months`` are the months to compare, such as ``2026-10``. If it is empty, all
    are compared.
    """
    ledger, tagged = ledger_side(rows(), bills.covered), _TagsSeen()
    entries = [each for each in compare(ledger, tagged.of(bills.lines())) if not months or each.month in months]
    total = next(iter(grouped(entries, ())), Difference("", "", "", "", "", "", 0, 0, ZERO, ZERO, ZERO, {}))
    return BillReport(
        groups=grouped(entries, by),
        total=total,
        formats={str(path): format.name for path, format in zip(paths, bills.formats, strict=True)},
        lines_read=bills.lines_read,
        covered=bills.covered,
        notes=[*_coverage(bills), *_outside(total, ledger.left_out)],
        found=[*_unmatched(entries), *_repeated(bills.repeated), *_contradicting(bills.contradiction)],
        unknown=[*_unknown(paths, bills), *tagged.unknown()],
    )


class _TagsSeen:
    """Records which vendors' bills have Charterer's tags.

    A bill without tags cannot show a machine that has no rental.
    """

    def __init__(self) -> None:
        self._machines: dict[str, set[str]] = {}
        self._tagged: set[str] = set()

    def of(self, lines: Iterable[BillLine]) -> Iterable[BillLine]:
        """Pass the lines through and record their tags."""
        for line in lines:
            if line.kind is LineKind.MACHINE:
                self._machines.setdefault(line.vendor, set()).add(line.resource)
                if line.tags.ours or line.tags.claim:
                    self._tagged.add(line.vendor)
            yield line

    def unknown(self) -> Iterable[str]:
        for vendor, machines in sorted(self._machines.items()):
            if vendor not in self._tagged:
                yield (
                    f"Whether {vendor} bills a machine with Charterer's tags that no rental had is not known: "
                    f"{count(len(machines), 'machine')} of the ledger {is_or_are(len(machines))} on its bill, and none "
                    "has such a tag there. On AWS activate them as cost allocation tags; Azure's VMs have none."
                )


def _unknown(paths: Sequence[Path], bills: Bills) -> Iterable[str]:
    if not bills.covered:
        yield "The files have no line of use: nothing is compared."
    for path, unknown in zip(paths, bills.unknown, strict=True):
        for what in unknown:
            yield f"{path}: not known is {what}."


def _contradicting(contradiction: Contradiction) -> Iterable[str]:
    if contradiction.charges:
        yield (
            f"Warning: {count(contradiction.charges, 'charge')} {is_or_are(contradiction.charges)} in several files "
            f"with different amounts, and counted each time: {names(map(str, contradiction.files))}. If these are "
            "exports of one month, give the latest alone."
        )


def _coverage(bills: Bills) -> Iterable[str]:
    for vendor, spans in sorted(bills.covered.items()):
        shown = ", ".join(f"{format_minute(start)} to {format_minute(end)}" for start, end in spans)
        yield f"The bill of {vendor} covers {shown}; months are the budgets' own."


def _outside(total: Difference, left_out: Mapping[str, Money]) -> Iterable[str]:
    if total.outside != ZERO:
        yield f"{total.outside} of the ledger lies outside of that and is not compared: give those days' bills, too."
    for cloud, amount in sorted(left_out.items()):
        yield f"{amount} of the ledger is for {cloud}, of which there is no bill here; it is not compared."


def _unmatched(entries: Sequence[Difference]) -> Iterable[str]:
    strangers = [entry for entry in entries if DifferenceCause.NOT_IN_LEDGER in entry.causes]
    if strangers:
        amount = _sum(strangers, DifferenceCause.NOT_IN_LEDGER)
        machines = {entry.machine or entry.pool for entry in strangers}
        yield (
            f"{count(len(machines), 'billed thing')} with Charterer's tags {is_or_are(len(machines))} in no recorded "
            f"rental ({amount}): {names(machines)}. Look whether they still run, or another cluster rented them."
        )
    absent = [entry for entry in entries if DifferenceCause.NOT_ON_BILL in entry.causes]
    if absent:
        amount = _sum(absent, DifferenceCause.NOT_ON_BILL)
        rentals = {entry.rental for entry in absent}
        yield (
            f"{count(len(rentals), 'rental')} {is_or_are(len(rentals))} not on the bill ({amount}): {names(rentals)}. "
            "Look whether these files have all accounts, and resources."
        )


def _repeated(repeated: Repeated) -> Iterable[str]:
    if repeated.lines:
        yield (
            f"Warning: {count(repeated.lines, 'line')} {is_or_are(repeated.lines)} there more than once, alike in all "
            f"columns, and counted each time ({repeated.billed}): is an export there twice?"
        )


def _sum(entries: Sequence[Difference], cause: DifferenceCause) -> Money:
    return Money(sum(entry.causes[cause].micros for entry in entries))


# The comparison as a document, CSV and JSON.


_HALF_A_CENT: Final = 5_000


def bill_document(report: BillReport, by: Sequence[Grouping]) -> Document:
    """Make a table with a row for each group and one for the total, and sentences about the files."""
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
    """Format to the cent. If the amount would round to zero, format it in full."""
    if 0 < abs(amount.micros) < _HALF_A_CENT:
        return f"{'-' if amount.micros < 0 else ''}${Money(abs(amount.micros)).decimal()}"
    return str(amount)


def _signed(amount: Money) -> str:
    return f"{'+' if amount.micros > 0 else ''}{_shown(amount)}"


def bill_csv(report: BillReport, file: TextIO) -> None:
    """Write a row for each group and a column for each cause, to the micro-dollar. No cell can be mistaken for a
    formula.
    """
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
    """Return the report as JSON, with dollars as decimal strings."""
    return {
        "files": [{"path": path, "format": name} for path, name in report.formats.items()],
        "linesRead": report.lines_read,
        "covered": {
            vendor: [{"start": format_second(start), "end": format_second(end)} for start, end in spans]
            for vendor, spans in report.covered.items()
        },
        "differences": [_json(each) for each in report.groups],
        "total": _json(report.total),
        **copied(report, "notes found unknown"),
    }


def _json(each: Difference) -> JsonValue:
    causes = {cause.value: amount.decimal() for cause, amount in each.causes.items()}
    return {
        **copied(each, f"{' '.join((*_TEXTS, *_COUNTS))} ledger outside bill=billed difference=amount"),
        "causes": causes,
    }


# The command.


_DEFAULT = "month,budget,pool"


def _groupings(context: click.Context, parameter: click.Parameter, value: str) -> Sequence[Grouping]:
    try:
        return tuple(dict.fromkeys(Grouping(each.strip()) for each in value.split(",")))
    except ValueError as error:
        known = ", ".join(Grouping)
        raise click.BadParameter(f"{value!r}: write one or more of {known}, with commas", context, parameter) from error


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@record_option(required=True)
@click.option("--month", "months", multiple=True, type=MonthType(), help="Only this one, as 2026-10. Repeatable.")
@click.option("--by", default=_DEFAULT, show_default=True, callback=_groupings, help="Also rental, in any order.")
@click.option("-o", "--output", type=click.Choice(("table", "csv", "json")), default="table", show_default=True)
def bill(files: tuple[Path, ...], record: str, months: tuple[str, ...], by: Sequence[Grouping], output: str) -> None:
    """Compare what clouds bill with the record of costs. Changes nothing, and needs no cluster.

    FILES are what clouds export, as CSV, gzipped CSV or Parquet: FOCUS 1.0 to 1.4 of AWS, Google Cloud or Azure, AWS
    CUR 2.0, Azure's actual or amortized cost, or Google Cloud's detailed export. All amounts must be in USD.

    \b
      charterer bill focus-2026-10.csv.gz --record s3://finance/charterer
      charterer bill part-*.parquet --record /var/lib/charterer --month 2026-10 --by rental
      charterer bill cur.csv --record gs://finance/costs -o csv > difference.csv

    Each difference has its causes, and these add up to it to the micro-dollar. It needs DuckDB:
    pip install '.[bill]' in a checkout.

    Exit code: 0 if ledger and bill have the same machines; 1 for an error such as a file that is no bill; 3 if
    something is found (a machine or a rental that only one of them has, lines that are there twice); else 4 if the
    files cannot show that, for lack of a column or of tags.
    """
    report = _report(files, record, months, by)
    if output == "csv":
        bill_csv(report, sys.stdout)
    else:
        emit(bill_document(report, by), bill_json(report), output)
    if report.found or report.unknown:
        raise click.exceptions.Exit(FOUND if report.found else UNKNOWN)


def _report(files: Sequence[Path], place: str, months: Sequence[str], by: Sequence[Grouping]) -> BillReport:
    if find_spec("duckdb") is None:
        raise click.ClickException("reading bills needs DuckDB: pip install '.[bill]' in a checkout")
    try:
        record = CostRecord(place)
        there = {month for each in record.months().values() for month in each}

        def rows() -> Iterable[CostRow]:
            return record.read(there)

        with announce_when_slow("reading bills"), open_bills(files, machine_keys(rows())) as bills:
            return bill_report(files, bills, rows, months, by)
    except (UnreadableBill, RecordUnavailable) as error:
        raise click.ClickException(str(error)) from error
