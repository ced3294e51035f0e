"""A row of the record as one line of JSON, and back.

Money and instants are the decimal strings and RFC 3339 timestamps of the API, so that nothing passes through a float.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from functools import lru_cache
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic_core import from_json

from charterer.domain.budget import Cause
from charterer.domain.money import Money
from charterer.domain.spending.cost_row import BilledMachine, CostRow, Payer
from charterer.domain.time import format_instant, parse_instant

FORMAT: Final = 1
"""The lines' format. A change that an older reader would misread gets another number."""


_PART: Final = re.compile(
    rb'\{"format": %d, "rentalUid": "([^"\\\\]*)", "part": (\d{1,15}), "version": (\d{1,15}), "edition": (\d{1,15}), '
    % FORMAT
)
"""The beginning of each line, from which its part can be told without reading all of it."""


class UnreadableLine(Exception):
    """A line is no row; the message says why."""


class PartKey(NamedTuple):
    """A part of a rental, of which one version counts."""

    rental_uid: str
    part: int


def encoded(rows: Iterable[CostRow]) -> bytes:
    """A file of these rows. Rows in another order make the same file."""
    return "".join(sorted(f"{json.dumps(_plain(row), ensure_ascii=False)}\n" for row in rows)).encode()


def _plain(row: CostRow) -> Mapping[str, object]:
    machine, payer = row.machine, row.payer
    return {
        "format": FORMAT,
        "rentalUid": row.rental_uid,
        "part": row.part,
        "version": row.version,
        "edition": row.edition,
        "start": format_instant(row.start),
        "end": format_instant(row.end),
        "cause": row.cause.value,
        "cost": row.cost.decimal(),
        "gpuSeconds": row.gpu_seconds,
        "hourly": row.hourly.decimal(),
        "budget": row.budget,
        "budgetUid": row.budget_uid,
        "timeZone": row.time_zone,
        "pool": row.pool,
        "rental": row.rental,
        "machine": dict(zip(_MACHINE, astuple(machine), strict=True)),
        "payer": payer
        and {
            "namespace": payer.namespace,
            "job": payer.job,
            "jobUid": payer.job_uid,
            "run": payer.run,
            "class": payer.job_class,
            "user": payer.user,
            "labels": dict(sorted(payer.labels.items())),
        },
        "correction": row.correction,
    }


class Version(NamedTuple):
    """Which of several writings of a part counts: the highest."""

    version: int
    edition: int

    @classmethod
    def of(cls, row: CostRow) -> Version:
        """That of a row."""
        return cls(row.version, row.edition)


def part_of(line: bytes) -> tuple[PartKey, Version]:
    """The part that a line belongs to, and its version; UnreadableLine if it does not say in this format."""
    found = _PART.match(line)
    if found is None:
        raise UnreadableLine(_complaint(line))
    try:
        rental_uid = found[1].decode()
    except UnicodeDecodeError as error:
        raise UnreadableLine(f"it is no text in UTF-8 ({error})") from error
    return PartKey(rental_uid, int(found[2])), Version(int(found[3]), int(found[4]))


def _complaint(line: bytes) -> str:
    """Why a line is none of this format."""
    try:
        fields = from_json(line, allow_inf_nan=False)
    except ValueError as error:
        return f"it is no JSON ({error})"
    if not isinstance(fields, dict):
        return "it is no JSON object"
    if fields.get("format") != FORMAT:
        return f"its format is {fields.get('format')!r}, and this version of Charterer reads {FORMAT}"
    return "it does not begin with format, rentalUid, part, version and edition"


def decoded(line: bytes) -> CostRow:
    """The row; UnreadableLine says what is missing or wrong."""
    try:
        fields = from_json(line, allow_inf_nan=False)
    except ValueError as error:
        raise UnreadableLine(f"it is no JSON ({error})") from error
    try:
        return _row(fields)
    except KeyError as error:
        raise UnreadableLine(f"{error.args[0]} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise UnreadableLine(str(error)) from error


def _row(fields: Mapping[str, Any]) -> CostRow:
    machine, payer = fields["machine"], fields["payer"]
    _check(fields, str, ("budget", "budgetUid", "rental", "rentalUid", "pool"))
    _check(fields, int, ("gpuSeconds", "part", "version", "edition"))
    _check(fields, bool, ("correction",))
    return CostRow(
        budget=fields["budget"],
        budget_uid=fields["budgetUid"],
        time_zone=_zone(fields["timeZone"]),
        rental=fields["rental"],
        rental_uid=fields["rentalUid"],
        pool=fields["pool"],
        machine=_machine(*[machine[name] for name in _MACHINE]),
        start=_instant(fields["start"]),
        end=_instant(fields["end"]),
        cause=Cause(fields["cause"]),
        payer=None if payer is None else _payer(payer),
        gpu_seconds=fields["gpuSeconds"],
        hourly=_price(fields["hourly"]),
        cost=Money.parse(fields["cost"]),
        correction=fields["correction"],
        part=fields["part"],
        version=fields["version"],
        edition=fields["edition"],
    )


_MACHINE: Final = ("cloud", "account", "region", "zone", "instance", "instanceType", "gpuType", "gpus", "capacityType")
"""The fields of a machine, in the order of ``BilledMachine``."""


def _check(fields: Mapping[str, Any], kind: type, names: Iterable[str]) -> None:
    """TypeError for a field of another type."""
    for name in names:
        if type(fields[name]) is not kind:
            raise TypeError(f"{name} is {fields[name]!r:.60}, which is no {_KINDS[kind]}")
        if kind is int and abs(fields[name]) >= _TOO_LARGE:
            raise ValueError(f"{name} is not below {_TOO_LARGE:,}")


_TOO_LARGE: Final = 10**15
"""No count of a row is as large: it is the GPU-seconds of a million GPUs in thirty years."""
_KINDS: Final[Mapping[type, str]] = {str: "text", int: "whole number", bool: "true or false", dict: "object"}


@lru_cache(maxsize=1024)
def _machine(*values: Any) -> BilledMachine:
    fields = dict(zip(_MACHINE, values, strict=True))
    _check(fields, int, ("gpus",))
    _check(fields, str, [name for name in _MACHINE if name != "gpus"])
    return BilledMachine(*values)


@lru_cache(maxsize=1024)
def _zone(name: Any) -> str:
    """The name of a time zone, which may lead to no other file."""
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, OSError, ValueError, TypeError) as error:
        raise TypeError(f"timeZone is {name!r:.60}, which is no time zone") from error


_instant: Final = lru_cache(maxsize=1024)(parse_instant)
_price: Final = lru_cache(maxsize=1024)(Money.parse)
"""Rows beside each other have these in common, and to make them again takes half of a row's time."""


def _payer(fields: Mapping[str, Any]) -> Payer:
    _check(fields, str, ("namespace", "job", "jobUid", "class", "user"))
    _check(fields, int, ("run",))
    _check(fields, dict, ("labels",))
    _check(fields["labels"], str, fields["labels"])
    return Payer(
        namespace=fields["namespace"],
        job=fields["job"],
        job_uid=fields["jobUid"],
        run=fields["run"],
        job_class=fields["class"],
        user=fields["user"],
        labels=fields["labels"],
    )
