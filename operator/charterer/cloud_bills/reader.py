"""Reads bills: lines of Charterer's machines, added up as far as they differ in amounts only, and what bills cover."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from charterer.cloud_bills.errors import UnreadableBill
from charterer.cloud_bills.files import BillFile, Packing, line_ends_differ, recognised
from charterer.cloud_bills.formats import BillFormat, format_of
from charterer.cloud_bills.sql import (
    FileColumn,
    bad_values,
    charged,
    contradictions,
    line_number,
    named,
    ours,
    quoted,
    scan,
)
from charterer.cloud_bills.tags import our_tags
from charterer.domain.money import Money
from charterer.domain.time import Instant, instant
from charterer.ledger.reconciliation.bill_line import BillLine, Charge, LineKind, OurTags, picos
from charterer.ledger.reconciliation.ledger_side import Span, merged

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MEMORY: Final = "500MB"
"""What DuckDB may use before it writes to a temporary folder; buffers of its readers come on top."""
_AT_ONCE: Final = 10_000
"""Rows taken from DuckDB at a time."""
_ZONES: Final = "INTERVAL 14 HOURS"
"""No time zone is further from UTC (tz database: +14 Kiritimati, -12)."""

_SUMMED: Final = (
    "seconds",
    "gpu_seconds",
    "listed",
    "contracted",
    "effective",
    "billed",
    "commitment_credit",
    "credit",
)


@dataclass(frozen=True, slots=True)
class Repeated:
    """Lines that are there more than once, alike in every column that is read: how many more, and what they add."""

    lines: int
    billed: Money


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Charges that several files have with different amounts: how many, and the files."""

    charges: int
    files: Sequence[Path]


class Bills:
    """Files of bills, read once. Made by ``open_bills``; ``lines`` are valid until that ends.

    ``lines_read``: of all files. ``covered``: by vendor, the time from the first charged moment to the last of each
    file. ``formats``: by file. ``unknown``: by file, what it cannot show for lack of columns.
    """

    def __init__(self, connection: DuckDBPyConnection, folder: Path) -> None:
        self._connection = connection
        self._folder = folder
        self._paths: Sequence[Path] = ()
        self._tags: dict[tuple[str | None, str | None], OurTags] = {}
        self.formats: list[BillFormat] = []
        self.unknown: list[Sequence[str]] = []
        self.lines_read = 0
        self.covered: Mapping[str, Sequence[Span]] = {}

    def read(self, paths: Sequence[Path]) -> None:
        """Read the files. UnreadableBill for one that is no bill or has a value that cannot be used."""
        self._paths = paths
        for number, path in enumerate(paths):
            self._read(path, number)
        spans: dict[str, list[Span]] = {}
        query = "SELECT vendor, min(first), max(last), sum(copies) FROM our_lines GROUP BY vendor, file"
        for vendor, first, last, copies in self._rows(query):
            self.lines_read += copies
            start, end = self._moment(first), self._moment(last)
            if start is not None and end is not None:
                spans.setdefault(vendor, []).append((start, end))
        self.covered = {vendor: merged(each) for vendor, each in spans.items()}

    @property
    def repeated(self) -> Repeated:
        """Lines that are there more than once."""
        query = f"SELECT count(*), coalesce(sum(billed), 0) FROM ({self._charged()}), unnest(range(copies - 1))"
        lines, billed = next(self._rows(query))
        return Repeated(lines, _money(billed))

    @property
    def contradiction(self) -> Contradiction:
        """Charges that several files tell, each with other amounts, as two exports of one month do."""
        charges, numbers = next(self._rows(contradictions()))
        return Contradiction(charges, [self._paths[number] for number in sorted(numbers or ())])

    def lines(self) -> Iterator[BillLine]:
        """The lines that may be of Charterer's machines, those of machines first."""
        sums = ", ".join(f"sum({name})" for name in _SUMMED)
        within_a_month = f"date_trunc('month', started - {_ZONES}) = date_trunc('month', ended + {_ZONES})"
        query = f"""
            WITH lines AS (SELECT *, CASE WHEN {within_a_month} THEN date_trunc('month', started) END AS month
                FROM ({self._charged()}), unnest(range(copies)))
            SELECT vendor, key, resource_name, tags, labels, kind, charge, committed,
                epoch_us(min(started)), epoch_us(max(ended)), count(*), {sums}
            FROM lines
            GROUP BY vendor, key, resource_name, tags, labels, kind, charge, committed, month,
                CASE WHEN month IS NULL THEN started END, CASE WHEN month IS NULL THEN ended END
            ORDER BY kind <> 'machine', key, min(started)"""
        for row in self._rows(query):
            yield self._line(row)

    def _line(self, row: tuple[Any, ...]) -> BillLine:
        vendor, key, name, tags, labels, kind, charge, committed, start, end, count, *summed = row
        seconds, gpu_seconds, *amounts = summed
        listed, contracted, effective, billed, commitment_credit, credit = (picos(amount) for amount in amounts)
        if (tags, labels) not in self._tags:
            self._tags[tags, labels] = our_tags(tags, labels)
        return BillLine(
            vendor=vendor,
            resource=key,
            name=name,
            tags=self._tags[tags, labels],
            kind=LineKind(kind),
            charge=Charge.USAGE if charge in ("purchase", "discount") else Charge(charge),
            start=Instant(start),
            end=Instant(end),
            seconds=seconds,
            gpu_seconds=gpu_seconds,
            listed=listed,
            contracted=contracted,
            effective=effective,
            billed=billed,
            commitment_credit=commitment_credit,
            credit=credit,
            committed=committed,
            lines=count,
        )

    def _charged(self) -> str:
        by_format: dict[str, list[int]] = {}
        formats = {each.name: each for each in self.formats}
        for number, each in enumerate(self.formats):
            by_format.setdefault(each.name, []).append(number)
        return " UNION ALL ".join(f"({charged(formats[name], files)})" for name, files in by_format.items())

    def _read(self, path: Path, number: int) -> None:
        file = recognised(path)
        link = self._folder / str(number)
        link.symlink_to(path.resolve())
        source = scan(file, str(link))
        with _explained(file):
            columns = self._columns(source)
        format = format_of(path, columns)
        lines = named(source, columns, format)
        with _explained(file):
            query = ours(lines, format, number)
            self._connection.execute(f"{'INSERT INTO our_lines' if number else 'CREATE TABLE our_lines AS'} {query}")
        self.formats.append(format)
        self.unknown.append(format.unknown(format.spelled(columns)))
        self._refuse_bad_values(file, lines, format, number)

    def _columns(self, source: str) -> Mapping[str, FileColumn]:
        """The file's columns, and as ``column.field`` the fields of those that have some."""
        own = {name: FileColumn(quoted(name), kind) for name, kind in self._described(f"* FROM {source}")}
        fields = {
            f"{name}.{field}": FileColumn(f"{column.expression}.{quoted(field)}", kind)
            for name, column in own.items()
            if column.has_fields
            for field, kind in self._described(f"{column.expression}.* FROM {source}")
        }
        return fields | own

    def _described(self, selected: str) -> Sequence[tuple[str, str]]:
        return [(name, kind) for name, kind, *_ in self._connection.execute(f"DESCRIBE SELECT {selected}").fetchall()]

    def _refuse_bad_values(self, file: BillFile, lines: str, format: BillFormat, number: int) -> None:
        conditions = bad_values(format)
        flags = ", ".join(f"bool_or({condition})" for condition in conditions.values())
        found = (
            self._connection.execute(f"SELECT {flags} FROM our_lines WHERE ours AND file = {number}").fetchone() or ()
        )
        for (name, condition), bad in zip(conditions.items(), found, strict=True):
            if bad:
                place = self._connection.execute(line_number(lines, condition, name)).fetchone()
                row, value = (None, None) if place is None else place
                first = 0 if file.packing is Packing.PARQUET else 1
                raise UnreadableBill(
                    file.path,
                    _advice(name, value),
                    line=None if row is None else row + first,
                    column=format.columns[name],
                    value=value or "",
                )

    def _moment(self, text: str | None) -> Instant | None:
        """The instant of a text that is any line's, also of one that is not Charterer's; None if it is no time."""
        row = self._connection.execute("SELECT try_cast(? AS TIMESTAMPTZ)", [text]).fetchone()
        found = None if row is None else row[0]
        return instant(found) if isinstance(found, datetime) else None

    def _rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        from duckdb import OutOfRangeException

        try:
            cursor = self._connection.cursor().execute(query)
            while rows := cursor.fetchmany(_AT_ONCE):
                yield from rows
        except OutOfRangeException as error:
            message = "amounts of one machine add up to more than 10^26 dollars: look at the largest"
            raise UnreadableBill(self._paths[0], message) from error


@contextmanager
def open_bills(paths: Sequence[Path], machines: Collection[str]) -> Iterator[Bills]:
    """The bills in these files. ``machines``: keys (``resource_key``) of those that the ledger knows.

    UnreadableBill for a file that is no bill, or that is named twice; ImportError without the extra ``bill``.
    """
    from duckdb import connect

    known: dict[Path, Path] = {}
    for path in paths:
        if path.resolve() in known:
            raise UnreadableBill(path, f"this is the same file as {known[path.resolve()]}: name it once")
        known[path.resolve()] = path
    with tempfile.TemporaryDirectory(prefix="charterer-bill-") as folder:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY,
            "temp_directory": f"{folder}/spilled",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
        }
        with connect(config=settings) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("CREATE TABLE machines (key VARCHAR)")
            if machines:
                connection.execute("INSERT INTO machines SELECT unnest(?)", [list(machines)])
            bills = Bills(connection, Path(folder))
            bills.read(paths)
            yield bills


@contextmanager
def _explained(file: BillFile) -> Iterator[None]:
    from duckdb import Error, OutOfMemoryException

    try:
        yield
    except OutOfMemoryException as error:
        message = "there is no room for its lines: set TMPDIR to a folder with some gigabytes"
        raise UnreadableBill(file.path, message) from error
    except Error as error:
        text = str(error)
        place = re.search(r"Line: (\d+)", text)
        line = None if place is None else int(place[1])
        raise UnreadableBill(file.path, _meaning(text, file), line=line) from error


def _meaning(text: str, file: BillFile) -> str:
    """What an error of DuckDB's reader means for whoever has the file."""
    if file.packing is Packing.PARQUET:
        return f"this Parquet file is damaged or ends in its middle: download it again ({_first_line(text)})"
    if "gzip" in text.lower() or "gz" in text.lower() or "decod" in text.lower():
        return f"it ends in its middle, or is damaged: download it again ({_first_line(text)})"
    if "unicode" in text.lower() or "utf-8" in text.lower():
        return "this line is not in UTF-8: give the cloud's own export"
    if line_ends_differ(file):
        return "some lines end in CRLF and some in LF, as if files were put together: tr -d '\\r' < FILE > NEW helps"
    if "Number of Columns" in text:
        return "this line has not as many values as the first line has columns: download it again"
    return f"it cannot be read: {_first_line(text)}"


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0]


def _advice(name: str, value: str | None) -> str:
    if name == "provider":
        return (
            "neither this, ServiceProviderName, InvoiceIssuerName nor the form of ResourceId says which cloud bills "
            "it: export them, too"
        )
    if not value:
        return "it is empty: export or download the file again"
    if name == "currency":
        return (
            "bills are compared in USD only, and nothing is converted: choose USD in the export, or leave this bill out"
        )
    if name == "credits":
        return "this is no array of credits in JSON: export x_Credits with TO_JSON_STRING"
    if name in ("started", "ended"):
        return "this is no time: it should be like 2026-10-01T00:00:00Z, or as Azure writes days, 10/31/2026"
    return "this is no amount: it should be a decimal number below 10^26, like -12.345678"


def _money(dollars: Decimal) -> Money:
    """To the micro-dollar, half up."""
    return Money((2 * picos(dollars) + 1_000_000) // 2_000_000)
