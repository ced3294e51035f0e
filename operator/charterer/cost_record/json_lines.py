"""A row of the record as one line of JSON, and back.

Money and instants are the decimal strings and RFC 3339 timestamps of the API, so that nothing passes through a float.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from charterer.domain.budget import Cause
from charterer.domain.money import Money
from charterer.domain.spending.cost_row import CostRow, Machine, Payer
from charterer.domain.time import format_instant, parse_instant

FORMAT: Final = 1
"""The lines' format. A change that an older reader would misread gets another number."""


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
        "machine": {
            "cloud": machine.cloud,
            "account": machine.account,
            "region": machine.region,
            "zone": machine.zone,
            "instance": machine.instance,
            "instanceType": machine.instance_type,
            "gpuType": machine.gpu_type,
            "gpus": machine.gpus,
            "capacityType": machine.capacity_type,
        },
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


def parsed(line: bytes) -> Mapping[str, Any]:
    """The fields of a line; UnreadableLine if it is no JSON object, or of a later format."""
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise UnreadableLine(f"it is no JSON ({error})") from error
    if not isinstance(fields, dict):
        raise UnreadableLine("it is no JSON object")
    if fields.get("format") != FORMAT:
        raise UnreadableLine(f"its format is {fields.get('format')!r}, and this version of Charterer reads {FORMAT}")
    return fields


def part_of(fields: Mapping[str, Any]) -> tuple[PartKey, int]:
    """The part that a line belongs to, and its version; UnreadableLine if it does not say."""
    try:
        return PartKey(_text(fields, "rentalUid"), _whole(fields, "part")), _whole(fields, "version")
    except (KeyError, TypeError) as error:
        raise _wrong(error) from error


def decoded(fields: Mapping[str, Any]) -> CostRow:
    """The row; UnreadableLine names the field that is missing or wrong."""
    try:
        return _row(fields)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _wrong(error) from error


def _wrong(error: Exception) -> UnreadableLine:
    if isinstance(error, KeyError):
        return UnreadableLine(f"{error.args[0]} is missing")
    return UnreadableLine(str(error))


def _row(fields: Mapping[str, Any]) -> CostRow:
    machine, payer = fields["machine"], fields["payer"]
    return CostRow(
        budget=_text(fields, "budget"),
        budget_uid=_text(fields, "budgetUid"),
        time_zone=_text(fields, "timeZone"),
        rental=_text(fields, "rental"),
        rental_uid=_text(fields, "rentalUid"),
        pool=_text(fields, "pool"),
        machine=Machine(
            cloud=_text(machine, "cloud"),
            account=_text(machine, "account"),
            region=_text(machine, "region"),
            zone=_text(machine, "zone"),
            instance=_text(machine, "instance"),
            instance_type=_text(machine, "instanceType"),
            gpu_type=_text(machine, "gpuType"),
            gpus=_whole(machine, "gpus"),
            capacity_type=_text(machine, "capacityType"),
        ),
        start=parse_instant(_text(fields, "start")),
        end=parse_instant(_text(fields, "end")),
        cause=Cause(_text(fields, "cause")),
        payer=None if payer is None else _payer(payer),
        gpu_seconds=_whole(fields, "gpuSeconds"),
        hourly=Money.parse(_text(fields, "hourly")),
        cost=Money.parse(_text(fields, "cost")),
        correction=bool(fields["correction"]),
        part=_whole(fields, "part"),
        version=_whole(fields, "version"),
    )


def _payer(fields: Mapping[str, Any]) -> Payer:
    labels: Mapping[str, str] = {key: _text(fields["labels"], key) for key in fields["labels"]}
    return Payer(
        namespace=_text(fields, "namespace"),
        job=_text(fields, "job"),
        job_uid=_text(fields, "jobUid"),
        run=_whole(fields, "run"),
        job_class=_text(fields, "class"),
        user=_text(fields, "user"),
        labels=labels,
    )


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is {value!r}, and must be text")
    return value


def _whole(fields: Mapping[str, Any], key: str) -> int:
    value = fields[key]
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{key} is {value!r}, and must be a whole number")
    return value
