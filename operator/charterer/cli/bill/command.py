"""``charterer bill``: what clouds bill, compared with the record of costs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

import click

from charterer.cli.bill.bill_report import BillReport, bill_report, machine_keys
from charterer.cli.bill.document import bill_csv, bill_document, bill_json
from charterer.cli.shared.months import MonthType
from charterer.cli.shared.output import FOUND, UNKNOWN, announce_when_slow, emit
from charterer.cli.shared.record_option import record_option
from charterer.cloud_bills.errors import UnreadableBill
from charterer.cloud_bills.reader import open_bills
from charterer.cost_record.files import CostRecord
from charterer.cost_record.places import RecordUnavailable
from charterer.domain.spending.cost_row import CostRow
from charterer.ledger.reconciliation.comparison import Grouping

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
