"""Output of the commands: formats, exit codes, terminal width, colour, and a line on stderr for slow work."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeAlias

import click
import yaml

from charterer.domain.ids import PoolId, Rate
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.reasons.phrases import format_duration, format_money, name
from charterer.domain.time import Instant, format_instant, moment
from charterer.sentences import visible
from charterer.tools.documents.document import Document, Paragraph, Tone
from charterer.tools.documents.html import TextRenderer

if TYPE_CHECKING:
    from charterer.domain.plan import PathVerdict, Stage
    from charterer.policy.nodes.pool_room import LaunchWait


# CSV with cells that no spreadsheet executes.


_EXECUTED: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters by which a spreadsheet recognises a formula (OWASP, "CSV Injection")."""


def harmless(text: str) -> str:
    """Prefix the text with an apostrophe if a spreadsheet would execute it. The spreadsheet then shows the text.

    Control characters are escaped, so that a terminal does not execute them either.
    """
    text = visible(text)
    return f"'{text}" if text.startswith(_EXECUTED) else text


def write_csv(header: Sequence[str], lines: Iterable[Sequence[str]], file: TextIO) -> None:
    """Write a header and lines as CSV by RFC 4180, with line feeds."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)


# Numbers and values as text. All commands use the same format.


def rate(value: Rate | None) -> str:
    """Format an exchange rate as dollars per job-hour saved, or a dash if there is none."""
    return "-" if value is None else format_money(value * 3600)


def hourly(price: Price) -> str:
    """Format an hourly price as dollars, for a column whose header names the unit."""
    return str(Money(price.micros_per_hour))


def whole(amount: Money) -> str:
    """Format an amount in whole dollars, such as ``$1,235``."""
    return f"${amount.dollars:,.0f}"


def when(at: Instant) -> str:
    """Format an instant to the minute."""
    return moment(at).strftime("%Y-%m-%d %H:%M UTC")


def duration(seconds: float | None) -> str:
    """Format seconds as a duration, or a dash if they are not known."""
    return "-" if seconds is None else format_duration(seconds)


def path(stages: Sequence[Stage]) -> str:
    """Format a path: ``8 GPUs on a100``, or with phases of the work ``2 GPUs on t4 to 30%, then 8 GPUs on a100``."""
    parts = [name(stage.option) + (f" to {stage.until:.0%}" if stage.until < 1.0 else "") for stage in stages]
    return ", then ".join(parts)


def mixed(paths: Sequence[PathVerdict]) -> str:
    """Format the only path, or each path with the fraction of jobs that take it, the most frequent first."""
    if len(paths) == 1:
        return path(paths[0].stages)
    often = sorted(paths, key=lambda one: -one.fraction)
    return "; ".join(f"{percent(one.fraction)} of jobs: {path(one.stages)}" for one in often)


def exact(amount: Money) -> str:
    """Format an amount with all its micro-dollars, so that a reader can add up rows."""
    whole, micros = divmod(abs(amount.micros), 1_000_000)
    return f"{'-' if amount.micros < 0 else ''}{whole:,}.{micros:06d}"


def percent(fraction: float) -> str:
    """Format a fraction as a percentage. Only an exact 0 is 0%, and only an exact 1 is 100%."""
    if 0.0 < fraction < 0.01:
        return "under 1%"
    return "over 99%" if 0.99 < fraction < 1.0 else f"{fraction:.0%}"


def minutes_per_dollar(seconds: float | None) -> str:
    """Format the minutes of job lifetime that one more dollar saves."""
    if seconds is None:
        return "-"
    return "nothing" if not seconds else f"{seconds / 60:.3g} min"


JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
"""A value that JSON and YAML can express."""

FORMATS: Final = ("table", "json", "yaml")
FAILED, CHANGES, FOUND, UNKNOWN, CANNOT_RUN, TOO_LATE = 1, 2, 3, 4, 5, 6
"""Exit codes other than 0. Only ``plan --detailed-exitcode`` uses CHANGES, which means the same as in terraform.

Only ``bill`` uses FOUND and UNKNOWN. Only quotes use CANNOT_RUN and TOO_LATE.
"""

_ANNOUNCE_AFTER_SECONDS = 1.0
"""Seconds of work after which a terminal shows what the program is doing."""


def with_warnings(document: Document, warnings: Iterable[str]) -> Document:
    """Return the document with these warnings at its top. Empty warnings are omitted."""
    first = [Paragraph(f"Warning: {warning}", Tone.BAD) for warning in warnings if warning]
    return replace(document, blocks=(*first, *document.blocks))


def emit(document: Document, plain: JsonValue, output: str) -> None:
    """Print to stdout in one of FORMATS: the document as a table, or ``plain`` as JSON or YAML."""
    match output:
        case "json":
            click.echo(visible(json.dumps(plain, indent=2, ensure_ascii=False)))
        case "yaml":
            text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
            click.echo(visible(text) if sys.stdout.isatty() else text, nl=False)
        case _:
            renderer = TextRenderer(screen_width(), colour=wants_colour())
            click.echo(renderer.render(document).lstrip("\n"), nl=False, color=True)


def screen_width() -> int | None:
    """Return the terminal's width in characters. None if stdout is no terminal, so that programs get whole rows."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None


def wants_colour() -> bool:
    """Return whether stdout is a terminal with colours and NO_COLOR is not set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@contextmanager
def announce_when_slow(activity: str) -> Iterator[None]:
    """Print the activity on stderr if the ``with`` block takes longer than a second and stderr is a terminal."""
    timer = threading.Timer(_ANNOUNCE_AFTER_SECONDS, click.echo, (f"{activity} ...",), {"err": True})
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def write(file: Path, content: bytes) -> None:
    """Write a file that an option names. Raises ClickException if the write fails."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror or error}") from error
    click.echo(f"wrote {file}", err=True)


# Values as JSON and YAML show them. Dollars are decimal strings, as in the API.


_CAPITAL: Final = re.compile("[A-Z]")


def copied(value: object, keys: str) -> dict[str, JsonValue]:
    """Return fields of a value as JSON. ``keys`` are separated by spaces. The key ``gpuType`` reads the field
    ``gpu_type``.

    The key ``start=ledger.start`` reads the field ``start`` of the field ``ledger``. If ``ledger`` is None, ``start``
    is null.
    """
    said: dict[str, JsonValue] = {}
    for key, path in _paths(keys):
        found: Any = value
        for field in path:
            found = None if found is None else getattr(found, field)
        said[key] = _plain(found)
    return said


@cache
def _paths(keys: str) -> Sequence[tuple[str, Sequence[str]]]:
    """Return each key with the names of its field and of the nested field."""
    parts = [each.partition("=") for each in keys.split()]
    return [(key, (path or _CAPITAL.sub(r"_\g<0>", key).lower()).split(".")) for key, _, path in parts]


def _plain(value: Any) -> JsonValue:
    """Convert a value to JSON. Instants and exchange rates become plain numbers, so the caller must format them."""
    match value:
        case Money() | Price():
            return value.decimal()
        case Option():
            return option_json(value)
        case StrEnum():
            return str(value)
        case tuple() | list():
            return [_plain(each) for each in value]
    shown: JsonValue = value
    return shown


def option_json(option: Option) -> dict[str, JsonValue]:
    """Return an option as JSON with its pool, width, slice, variant and price."""
    return copied(option, "pool gpus slice variant hourly=price")


def dollars_json(amount: float) -> str:
    """Format dollars as a decimal string, to the cent."""
    return Money(round(amount * 100) * 10_000).decimal()


def rate_json(rate: Rate | None) -> str | None:
    """Format an exchange rate as dollars per job-hour saved, or null if there is none."""
    return None if rate is None else dollars_json(rate * 3600)


def late_pool_json(name: PoolId, wait: LaunchWait) -> JsonValue:
    """Return a pool whose next node is expected late as JSON, with the reason.

    The keys from ``refusedPool`` on describe the last refusal, by this pool or by another pool of its account. The pool
    has been in doubt since that refusal.
    """
    expected, probation = wait.expected, wait.probation
    said: dict[str, JsonValue] = {
        "name": name,
        "expectedSeconds": round(expected.seconds),
        "lowSeconds": round(expected.low),
        "highSeconds": round(expected.high),
        "basis": "measured" if expected.measured else "assumed",
    }
    if probation is None:
        return said
    return said | {
        "refusedPool": probation.by or name,
        "refusedAt": format_instant(probation.since),
        "timesInARow": probation.times,
        "askedAgainAt": format_instant(probation.until),
        "kind": str(probation.kind),
        "code": probation.code,
    }
