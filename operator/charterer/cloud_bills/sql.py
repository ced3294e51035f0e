"""Queries of DuckDB's SQL that turn the lines of any format into those that all formats share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from charterer.cloud_bills.files import BillFile, Packing
from charterer.cloud_bills.formats import AMOUNTS, DECIMALS, FORMATS, TIMES, BillFormat

_DECIMAL: Final = "DECIMAL(38, 12)"
_NAMES: Final = tuple({name: None for each in FORMATS for name in each.columns})
"""The names of columns in all formats; one that a file does not have is null."""

_HOURS_UNIT: Final = "('hours', 'hour', 'hrs', 'hr', 'h', '1 hour', '1 hours')"
_SECONDS_UNIT: Final = "('seconds', 'second', 's', 'sec')"

_KEY: Final = """CASE WHEN lower(resource) LIKE '/subscriptions/%virtualmachinescalesets/%'
    AND details LIKE '%VMName%' AND regexp_matches(details, '"VMName"\\s*:\\s*"[^"]*_\\d+"')
    AND lower(resource) NOT LIKE '%/virtualmachines/%'
    THEN lower(resource) || '/virtualmachines/' || regexp_extract(details, '"VMName"\\s*:\\s*"[^"]*_(\\d+)"', 1)
    WHEN lower(resource) LIKE '/subscriptions/%' THEN lower(resource)
    ELSE lower(split_part(resource, '/', -1)) END"""
"""As ``resource_key``; the VM of a scale set is named in the details of its line."""

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
"""The type of hours and seconds: DuckDB divides in floating point, so hours are multiplied."""
_TIMED: Final = f"""CASE
    WHEN lower(unit) IN {_HOURS_UNIT} THEN try_cast(quantity AS {_TIME}) * 3600::DECIMAL(4, 0)
    WHEN lower(unit) IN {_SECONDS_UNIT} THEN try_cast(quantity AS {_TIME})
    WHEN lower(priced_unit) IN {_HOURS_UNIT} THEN try_cast(priced_quantity AS {_TIME}) * 3600::DECIMAL(4, 0) END"""
"""Billed seconds."""


_NULLS: Final = ("", "NULL", "null", "Null")
"""Cells without a value: published samples of FOCUS write the word."""
_ONE_CHARGE: Final = """vendor, key, started, ended, usage_type, meter, meter_category, operation, description, unit,
    priced_unit, commitment, line_type, billing_period, charge_class, category"""


def quoted(text: str, mark: str = '"') -> str:
    """An identifier, or with another mark a literal."""
    return f"{mark}{text.replace(mark, 2 * mark)}{mark}"


def scan(file: BillFile, link: str) -> str:
    """All rows of the file, which ``link`` names without signs that DuckDB would expand."""
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
    """A column of a file, or a field of one that has fields: how a query names it, and its type."""

    expression: str
    kind: str

    @property
    def has_fields(self) -> bool:
        """Whether it is one value with fields, as BigQuery's records are."""
        return self.kind.startswith("STRUCT") and not self.kind.endswith("]")


def named(source: str, columns: Mapping[str, FileColumn], format: BillFormat) -> str:
    """A query of the format's columns as text, under their names here. ``columns``: the file's, by their names."""
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
    """A query of the lines that may be of Charterer's machines, equal ones together; the others are one row by vendor.

    ``copies``: how many lines a row stands for. ``first``, ``last``: the time that lines of use cover. The table
    ``machines`` has the keys of the ledger's machines in ``key``.
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
    """By the name of a column here, the condition under which its value cannot be used."""
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
    """Whether a text is no time of this age: DuckDB also knows infinity, and years that no calendar has."""
    return f"NOT coalesce(try_cast({name} AS TIMESTAMPTZ) BETWEEN '2000-01-01' AND '2200-01-01', false)"


def line_number(lines: str, condition: str, column: str) -> str:
    """A query of the first line with a condition: its number among the rows, from 1 on, and the value of a column.

    Only lines that may be of Charterer's machines count.
    """
    return f"""
        WITH lines AS ({lines}), numbered AS (SELECT row_number() OVER () AS number, * FROM lines),
        keyed AS (SELECT *, {_KEY} AS key FROM numbered)
        SELECT number, {column} FROM keyed
        WHERE ({condition}) AND (key IN (SELECT key FROM machines) OR {_MENTIONS}) ORDER BY number LIMIT 1"""


def charged(format: BillFormat, files: Collection[int]) -> str:
    """A query of our lines of one format with decimals, kinds and seconds.

    A price of 0 that others contradict is unknown, except the list price of a discount. Credits that an amount leaves
    out are added to it.
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
    """A query of charges that files tell twice, each with other amounts: how many, and a list of the files' numbers.

    More hours of a machine than its charge period has, in several files. Any other charge that several files have for
    one thing, meter and period, if they share at least half of a month's: parts of one export share few. Lines that
    are alike in all columns count once here.
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
    """The sum of a line's credits whose type is one of commitments (c) or another."""
    parsed = 'from_json(lower(credits), \'[{"amount": "VARCHAR", "type": "VARCHAR"}]\')'
    wanted = f"CASE WHEN coalesce(c.type, '') LIKE 'committed_usage%' THEN 'c' ELSE '' END {kind}"
    amounts = f"[try_cast(c.amount AS {_DECIMAL}) FOR c IN {parsed} IF {wanted}]"
    return f"CAST(CASE WHEN json_valid(credits) THEN coalesce(list_sum({amounts}), 0) ELSE 0 END AS {_DECIMAL})"
