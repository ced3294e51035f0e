"""Reads bills: the lines of Charterer's machines, and the time that the bills cover. Lines that differ only in amounts
are summed.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import stat
import tempfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from charterer.domain.money import Money
from charterer.domain.time import Instant, instant
from charterer.tools.cloud_bills.formats import AMOUNTS, DECIMALS, FORMATS, TIMES, BillFormat, UnreadableBill, format_of
from charterer.tools.reconciliation import BillLine, Charge, LineKind, OurTags, Span, merged, picos

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


# The kind of a file by its first bytes: Parquet, or CSV, which may be compressed with gzip.


_LONGEST_HEADER: Final = 1_000_000
"""Most characters of a first line. CUR has 2,000 columns at most."""
_FOREIGN: Final = {
    b"PK\x03\x04": "this is a ZIP archive: unpack it first",
    b"\xff\xfe": "this is UTF-16: save it as UTF-8",
    b"\xfe\xff": "this is UTF-16: save it as UTF-8",
    b"\x28\xb5\x2f\xfd": "this is packed with Zstandard: unpack it first",
}


class Packing(StrEnum):
    """How a file's rows are written."""

    CSV = "csv"
    CSV_GZ = "csv.gz"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class BillFile:
    """A file of a bill. ``header``: the columns of a CSV file in their order, or empty for a Parquet file."""

    path: Path
    packing: Packing
    header: Sequence[str]


def recognised(path: Path) -> BillFile:
    """The file and its kind. Raises UnreadableBill if the file cannot be read, is empty, or is something else.

    A pipe is refused, because the file is read twice, and a pipe without a writer would block for ever.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise UnreadableBill(path, "it is no regular file: save it first")
        with path.open("rb") as file:
            first = file.read(4)
    except OSError as error:
        raise UnreadableBill(path, f"it cannot be read: {error.strerror or error}") from error
    if not first:
        raise UnreadableBill(path, "it is empty: export or download it again")
    for magic, what in _FOREIGN.items():
        if first.startswith(magic):
            raise UnreadableBill(path, what)
    if first == b"PAR1":
        return BillFile(path, Packing.PARQUET, ())
    if path.suffix.lower() == ".parquet":
        raise UnreadableBill(path, "this is no Parquet file, whatever its name says: export or download it again")
    packed = first.startswith(b"\x1f\x8b")
    return BillFile(path, Packing.CSV_GZ if packed else Packing.CSV, _header(path, packed=packed))


def line_ends_differ(file: BillFile) -> bool:
    """Whether some lines of a CSV file end in CRLF and others in LF."""
    with gzip.open(file.path, "rb") if file.packing is Packing.CSV_GZ else file.path.open("rb") as opened:
        ends = (line.endswith(b"\r\n") for line in opened)
        first = next(ends, False)
        return any(end is not first for end in ends)


def _header(path: Path, *, packed: bool) -> Sequence[str]:
    try:
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            line = file.readline(_LONGEST_HEADER).decode("utf-8-sig")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UnreadableBill(path, "it ends in its middle, or is damaged: download it again") from error
    except UnicodeDecodeError as error:
        raise UnreadableBill(path, "its first line is not in UTF-8: give the cloud's own export", line=1) from error
    try:
        return next(csv.reader([line]), [])
    except csv.Error as error:
        raise UnreadableBill(path, f"its first line is no line of a CSV file ({error})", line=1) from error


# SQL queries for DuckDB that turn the lines of any format into lines with the columns that all formats share.


_DECIMAL: Final = "DECIMAL(38, 12)"
_NAMES: Final = tuple({name: None for each in FORMATS for name in each.columns})
"""The names of columns in all formats. A column that a file does not have is null."""

_HOURS_UNIT: Final = "('hours', 'hour', 'hrs', 'hr', 'h', '1 hour', '1 hours')"
_SECONDS_UNIT: Final = "('seconds', 'second', 's', 'sec')"

_KEY: Final = """CASE WHEN lower(resource) LIKE '/subscriptions/%virtualmachinescalesets/%'
    AND details LIKE '%VMName%' AND regexp_matches(details, '"VMName"\\s*:\\s*"[^"]*_\\d+"')
    AND lower(resource) NOT LIKE '%/virtualmachines/%'
    THEN lower(resource) || '/virtualmachines/' || regexp_extract(details, '"VMName"\\s*:\\s*"[^"]*_(\\d+)"', 1)
    WHEN lower(resource) LIKE '/subscriptions/%' THEN lower(resource)
    ELSE lower(split_part(resource, '/', -1)) END"""
"""SQL for ``resource_key``. The details of a line name the VM of a scale set."""

_MENTIONS: Final = """contains(coalesce(tags, ''), 'charterer') OR contains(coalesce(tags, ''), 'nodeclaim')
    OR contains(coalesce(labels, ''), 'charterer') OR starts_with(coalesce(resource_name, ''), 'charterer-')"""

_TEXT: Final = "lower(concat_ws(' ', usage_type, meter, meter_category, operation, description))"
_DISK: Final = "ebs:|volumeusage|snapshot|managed disk|pd capacity|persistent disk|hyperdisk|^storage"
_NETWORK: Final = (
    "data ?transfer|-bytes|bandwidth|egress|ingress|publicipv4|elasticip|ip address|nat ?gateway|virtual network"
)
_OTHER: Final = "ebsoptimized|cpucredits|licen[cs]e"
_MACHINE: Final = "boxusage|spotusage|dedicatedusage|virtual machines|instance|gpu"
_KIND: Final = f"""CASE
    WHEN charge = 'purchase' THEN 'other'
    WHEN key LIKE 'vol-%' OR lower(resource) LIKE '%/disks/%' OR regexp_matches({_TEXT}, '{_DISK}') THEN 'disk'
    WHEN regexp_matches({_TEXT}, '{_NETWORK}') THEN 'network'
    WHEN charge NOT IN ('usage', 'discount') OR regexp_matches({_TEXT}, '{_OTHER}') THEN 'other'
    WHEN lower(unit) IN {_HOURS_UNIT} OR lower(unit) IN {_SECONDS_UNIT} OR lower(priced_unit) IN {_HOURS_UNIT}
        OR regexp_matches({_TEXT}, '{_MACHINE}') THEN 'machine'
    ELSE 'other' END"""
_TIME: Final = "DECIMAL(28, 12)"
"""The type of hours and seconds. DuckDB divides in floating point, so the queries multiply hours instead of dividing
seconds.
"""
_TIMED: Final = f"""CASE
    WHEN lower(unit) IN {_HOURS_UNIT} THEN try_cast(quantity AS {_TIME}) * 3600::DECIMAL(4, 0)
    WHEN lower(unit) IN {_SECONDS_UNIT} THEN try_cast(quantity AS {_TIME})
    WHEN lower(priced_unit) IN {_HOURS_UNIT} THEN try_cast(priced_quantity AS {_TIME}) * 3600::DECIMAL(4, 0) END"""
"""SQL for billed seconds."""


_NULLS: Final = ("", "NULL", "null", "Null")
"""Texts that mean a cell without a value. Published samples of FOCUS write such a word."""
_ONE_CHARGE: Final = """vendor, key, started, ended, usage_type, meter, meter_category, operation, description, unit,
    priced_unit, commitment, line_type, billing_period, charge_class, category"""


def quoted(text: str, mark: str = '"') -> str:
    """The text as a quoted identifier, or with the quotation mark of strings as a literal."""
    return f"{mark}{text.replace(mark, 2 * mark)}{mark}"


def scan(file: BillFile, link: str) -> str:
    """SQL for all rows of the file. ``link``: a name of the file without characters that DuckDB would expand."""
    name = quoted(link, "'")
    if file.packing is Packing.PARQUET:
        return f"read_parquet({name})"
    columns = ", ".join(f"{quoted(column, chr(39))}: 'VARCHAR'" for column in file.header)
    packing = "gzip" if file.packing is Packing.CSV_GZ else "none"
    return (
        f"read_csv({name}, header = true, auto_detect = false, columns = {{{columns}}}, delim = ',', quote = '\"', "
        f"escape = '\"', nullstr = [{_texts(_NULLS)}], compression = '{packing}')"
    )


class FileColumn(NamedTuple):
    """A column of a file, or a field of a column with fields: its expression in a query, and its type."""

    expression: str
    kind: str

    @property
    def has_fields(self) -> bool:
        """Whether the column holds one value with fields, such as a record of BigQuery."""
        return self.kind.startswith("STRUCT") and not self.kind.endswith("]")


def named(source: str, columns: Mapping[str, FileColumn], format: BillFormat) -> str:
    """A query of the format's columns as text, with the names used here.

    ``columns``: the file's columns by their names.
    """
    there = {column: columns[own] for column, own in format.spelled(columns).items()}
    texts = [f"{_text(there.get(format.columns.get(name, '')))} AS {name}" for name in _NAMES]
    query = f"SELECT {', '.join(texts)} FROM {source}"
    if not format.rewritten:
        return query
    rewritten = ", ".join(f"{expression} AS {name}" for name, expression in format.rewritten.items())
    return f"SELECT * REPLACE ({rewritten}) FROM ({query})"


def _text(column: FileColumn | None) -> str:
    if column is None:
        return "NULL::VARCHAR"
    nested = column.kind.startswith(("MAP", "STRUCT", "LIST", "JSON")) or column.kind.endswith("[]")
    inner = f"to_json({column.expression})" if nested else column.expression
    text = inner if column.kind == "VARCHAR" else f"CAST({inner} AS VARCHAR)"
    return f"CASE WHEN {text} NOT IN ({_texts(_NULLS)}) THEN {text} END"


def _texts(values: Sequence[str]) -> str:
    return ", ".join(quoted(value, "'") for value in values)


def ours(lines: str, format: BillFormat, file: int) -> str:
    """A query of the lines that may be of Charterer's machines. All other lines are summed into one row for each
    vendor.

    Equal lines are one row. ``copies``: number of lines of a row. ``first``, ``last``: the time that lines of use
    cover. The table ``machines`` has the keys of the ledger's machines in its column ``key``.
    """
    shown = ", ".join(f"CASE WHEN ours THEN {name} END AS {name}" for name in [*_NAMES, "key"])
    return f"""
        WITH lines AS ({lines}),
        keyed AS (SELECT *, {_KEY} AS key, {format.vendor} AS vendor, {format.charge} AS charge FROM lines),
        marked AS (SELECT *, charge <> 'skipped' AND (key IN (SELECT key FROM machines) OR {_MENTIONS}) AS ours
            FROM keyed)
        SELECT {file} AS file, ours, vendor, CASE WHEN ours THEN charge END AS charge, {shown}, count(*) AS copies,
            min(started) FILTER (charge = 'usage' AND started LIKE '20%') AS first,
            max(ended) FILTER (charge = 'usage' AND ended LIKE '20%') AS last
        FROM marked GROUP BY ALL"""


def bad_values(format: BillFormat) -> Mapping[str, str]:
    """For each name of a column here, the condition under which its value cannot be used."""
    found = {name: f"{name} IS NULL OR {_no_time(name)}" for name in TIMES}
    for name in format.columns:
        if name in DECIMALS:
            found[name] = f"{name} IS NOT NULL AND try_cast({name} AS {_DECIMAL}) IS NULL"
    found["billed"] = f"billed IS NULL OR {found['billed']}"
    if "credits" in format.columns:
        no_array = "CASE WHEN json_valid(credits) THEN json_type(credits) <> 'ARRAY' ELSE true END"
        found["credits"] = f"credits IS NOT NULL AND {no_array}"
    found["currency"] = "currency IS NULL OR upper(currency) <> 'USD'"
    if "provider" in format.columns:
        found["provider"] = f"({format.vendor}) = ''"
    return found


def _no_time(name: str) -> str:
    """SQL that is true if a text is no time of the present age. DuckDB also accepts infinity, and years that no
    calendar has.
    """
    return f"NOT coalesce(try_cast({name} AS TIMESTAMPTZ) BETWEEN '2000-01-01' AND '2200-01-01', false)"


def line_number(lines: str, condition: str, column: str) -> str:
    """A query of the first line that meets a condition: the line's number among the rows, from 1, and its value in a
    column.

    Only lines that may be of Charterer's machines are counted.
    """
    return f"""
        WITH lines AS ({lines}), numbered AS (SELECT row_number() OVER () AS number, * FROM lines),
        keyed AS (SELECT *, {_KEY} AS key FROM numbered)
        SELECT number, {column} FROM keyed
        WHERE ({condition}) AND (key IN (SELECT key FROM machines) OR {_MENTIONS}) ORDER BY number LIMIT 1"""


def charged(format: BillFormat, files: Collection[int]) -> str:
    """A query of our lines of one format, with decimals, kinds and seconds.

    A price of 0 that other columns contradict is unknown, except the list price of a discount. Credits that an amount
    does not include are added to it.
    """
    decimals = ", ".join(f"try_cast({name} AS {_DECIMAL}) AS {name}" for name in (*AMOUNTS, "reserved"))
    timed = "kind = 'machine' AND charge = 'usage'"
    amounts = ", ".join(f"coalesce(CAST({format.amounts[name]} AS {_DECIMAL}), 0) AS {name}" for name in AMOUNTS)
    return f"""
        WITH lines AS (SELECT * EXCLUDE (file, copies), sum(copies)::BIGINT AS copies FROM our_lines
            WHERE ours AND file IN ({", ".join(map(str, files))}) GROUP BY ALL),
        kinds AS (SELECT *, {_KIND} AS kind, {format.committed} AS committed FROM lines),
        decimals AS (SELECT * REPLACE ({decimals}), {_TIMED} AS timed,
            {_credits("= 'c'")} AS commitment_credit, {_credits("<> 'c'")} AS credit FROM kinds),
        amounts AS (SELECT * REPLACE ({amounts}), commitment_credit + credit AS credits_there FROM decimals),
        effective AS (SELECT * REPLACE (
            CASE WHEN effective = 0 AND NOT committed THEN billed ELSE effective END AS effective) FROM amounts),
        contracted AS (SELECT * REPLACE (
            CASE WHEN contracted = 0 THEN effective ELSE contracted END AS contracted) FROM effective),
        billed AS (SELECT * REPLACE (
            CASE WHEN billed = contracted THEN billed + credits_there ELSE billed END AS billed) FROM contracted)
        SELECT vendor, key, coalesce(resource_name, '') AS resource_name, tags, labels, kind, charge, committed, copies,
            CAST(started AS TIMESTAMPTZ) AS started, CAST(ended AS TIMESTAMPTZ) AS ended,
            CASE WHEN {timed} AND vendor <> 'google' THEN timed END AS seconds,
            CASE WHEN {timed} AND vendor = 'google' AND contains({_TEXT}, 'gpu') THEN timed END AS gpu_seconds,
            CASE WHEN listed = 0 AND charge <> 'discount' THEN contracted ELSE listed END AS listed, contracted,
            CASE WHEN credits_there <> 0 THEN billed ELSE effective END AS effective, billed, commitment_credit, credit
        FROM billed"""


def contradictions() -> str:
    """A query of charges that several files have with different amounts. It gives the number of charges, and a list of
    the files' numbers.

    There are two kinds. The first kind is a machine with more hours than its charge period, in several files. The
    second kind is any other charge that several files have for one thing, meter and period. The second kind counts only
    if the files share at least half of a month's charges, because the parts of one export share few. Lines that are
    equal in all columns count once.
    """
    spans = "epoch(max(CAST(ended AS TIMESTAMPTZ)) - min(CAST(started AS TIMESTAMPTZ)))"
    return f"""
        WITH lines AS (SELECT * EXCLUDE (file, copies), list(DISTINCT file) AS files FROM our_lines
            WHERE ours AND charge = 'usage' GROUP BY ALL),
        timed AS (SELECT *, CASE WHEN vendor <> 'google' AND {_KIND} = 'machine' THEN {_TIMED} END AS timed FROM lines),
        hours AS (SELECT list_distinct(flatten(list(files))) AS files FROM timed
            WHERE timed IS NOT NULL AND coalesce(charge_class, '') = '' GROUP BY vendor, key, started, billing_period
            HAVING sum(timed) > {spans} + 1),
        others AS (SELECT vendor, left(started, 7) AS month, list_distinct(flatten(list(files))) AS files,
            count(*) AS lines FROM timed WHERE timed IS NULL GROUP BY {_ONE_CHARGE}),
        shared AS (SELECT vendor, month FROM others GROUP BY vendor, month
            HAVING 2 * sum(len(files)) FILTER (len(files) > 1) >= sum(len(files))),
        found AS (SELECT files FROM hours
            UNION ALL SELECT files FROM others SEMI JOIN shared USING (vendor, month) WHERE lines > 1)
        SELECT count(*), list_distinct(flatten(list(files))) FROM found WHERE len(files) > 1"""


def _credits(kind: str) -> str:
    """SQL for the sum of a line's credits of one kind.

    ``kind``: a condition that selects the credits by whether they are of a commitment.
    """
    parsed = 'from_json(lower(credits), \'[{"amount": "VARCHAR", "type": "VARCHAR"}]\')'
    wanted = f"CASE WHEN coalesce(c.type, '') LIKE 'committed_usage%' THEN 'c' ELSE '' END {kind}"
    amounts = f"[try_cast(c.amount AS {_DECIMAL}) FOR c IN {parsed} IF {wanted}]"
    return f"CAST(CASE WHEN json_valid(credits) THEN coalesce(list_sum({amounts}), 0) ELSE 0 END AS {_DECIMAL})"


# Charterer's tags and labels as bills write them.
#
# AWS changes keys: ``charterer.dev:pool`` is ``user_charterer_dev_pool`` in CUR 2.0, and may have the prefix
# ``user:`` in FOCUS. Only tags that were activated as cost allocation tags are on a bill.


_FIELDS: Final[Mapping[str, str]] = {
    "charterer_dev_cluster": "cluster",
    "charterer_dev_pool": "pool",
    "charterer_dev_rental": "rental",
    "charterer_cluster": "cluster",
    "charterer_pool": "pool",
    "karpenter_sh_nodeclaim": "claim",
}
"""The field for each key of a tag, in which an underscore replaces all that is neither letter nor digit."""
_PREFIX: Final = re.compile(r"^(user|resourcetags?)[_:/]")


def our_tags(*texts: str | None) -> OurTags:
    """Our tags from JSON: an object, or an array of objects with key and value. Other text is ignored."""
    found: dict[str, str] = {}
    for text in texts:
        for key, value in _pairs(text):
            name = _FIELDS.get(re.sub(r"[^a-z0-9]", "_", _PREFIX.sub("", key.lower())))
            if name is not None and value:
                found.setdefault(name, value)
    return OurTags(**found)


def _pairs(text: str | None) -> Iterator[tuple[str, str]]:
    try:
        parsed = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return
    if isinstance(parsed, dict):
        yield from ((key, value) for key, value in parsed.items() if isinstance(value, str))
    elif isinstance(parsed, list):
        for each in parsed:
            if isinstance(each, dict):
                lower = {str(key).lower(): value for key, value in each.items()}
                key, value = lower.get("key"), lower.get("value")
                if isinstance(key, str) and isinstance(value, str):
                    yield key, value


_MEMORY: Final = "500MB"
"""Memory that DuckDB may use before it writes to a temporary folder. Buffers of its readers are not included."""
_AT_ONCE: Final = 10_000
"""Number of rows taken from DuckDB at a time."""
_ZONES: Final = "INTERVAL 14 HOURS"
"""Largest offset of a time zone from UTC. In the tz database the extremes are Kiritimati (+14) and -12."""

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
    """Lines that occur more than once and are equal in every column that is read: the number of extra lines, and their
    amount.
    """

    lines: int
    billed: Money


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Charges that several files have with different amounts: their number, and the files."""

    charges: int
    files: Sequence[Path]


class Bills:
    """Files of bills, read once. ``open_bills`` makes this object. ``lines`` can be read until its ``with`` block ends.

    ``lines_read``: number of lines of all files.
    ``covered``: for each vendor and file, the time from the first charged moment to the last.
    ``formats``: the format of each file.
    ``unknown``: for each file, what the file cannot show because columns are missing.
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
        """Read the files. Raises UnreadableBill if a file is no bill, or has a value that cannot be used."""
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
        """The lines that occur more than once."""
        query = f"SELECT count(*), coalesce(sum(billed), 0) FROM ({self._charged()}), unnest(range(copies - 1))"
        lines, billed = next(self._rows(query))
        return Repeated(lines, _money(billed))

    @property
    def contradiction(self) -> Contradiction:
        """The charges that several files have with different amounts, as two exports of one month do."""
        charges, numbers = next(self._rows(contradictions()))
        return Contradiction(charges, [self._paths[number] for number in sorted(numbers or ())])

    def lines(self) -> Iterator[BillLine]:
        """The lines that may be of Charterer's machines. Lines of kind MACHINE come first."""
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
        """The file's columns, and the fields of columns that have fields as ``column.field``."""
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
        """The instant in a text, or None if the text is no time. The text may be from any line, even one that is not
        Charterer's.
        """
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
    """The bills in these files. ``machines``: keys (``resource_key``) of the machines in the ledger.

    Raises UnreadableBill if a file is no bill, or is named twice. Raises ImportError without the extra ``bill``.
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
    """What an error of DuckDB's reader means to the person who has the file."""
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
    """The amount rounded to the micro-dollar, half up."""
    return Money((2 * picos(dollars) + 1_000_000) // 2_000_000)
