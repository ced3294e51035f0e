"""Output of the commands that read the cluster: formats, exit codes, width, colour, and a line on stderr when slow."""

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
from charterer.policy.nodes.pool_room import LaunchWait
from charterer.sentences import visible
from charterer.tools.documents.document import Document, Paragraph, Tone
from charterer.tools.documents.html import TextRenderer

if TYPE_CHECKING:
    from charterer.domain.plan import PathVerdict, Stage


# CSV with cells that no spreadsheet executes.


_EXECUTED: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters of what spreadsheets take for a formula (OWASP, "CSV Injection")."""


def harmless(text: str) -> str:
    """The text with an apostrophe before it if a spreadsheet would execute it; it shows the text then.

    What a terminal would obey is an escape.
    """
    text = visible(text)
    return f"'{text}" if text.startswith(_EXECUTED) else text


def write_csv(header: Sequence[str], lines: Iterable[Sequence[str]], file: TextIO) -> None:
    """The lines below a header, as RFC 4180 with line feeds."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)


# Numbers and values as text for people, the same in every command.


def rate(value: Rate | None) -> str:
    """An exchange rate as dollars per job-hour saved, a dash if there is none."""
    return "-" if value is None else format_money(value * 3600)


def hourly(price: Price) -> str:
    """The dollars of an hourly price, for a column that names the unit."""
    return str(Money(price.micros_per_hour))


def whole(amount: Money) -> str:
    """An amount in whole dollars: ``$1,235``."""
    return f"${amount.dollars:,.0f}"


def when(at: Instant) -> str:
    """An instant to the minute."""
    return moment(at).strftime("%Y-%m-%d %H:%M UTC")


def duration(seconds: float | None) -> str:
    """Seconds as a duration, a dash if they are not known."""
    return "-" if seconds is None else format_duration(seconds)


def path(stages: Sequence[Stage]) -> str:
    """A path: ``8 GPUs on a100``, or in phases of the work ``2 GPUs on t4 to 30%, then 8 GPUs on a100``."""
    parts = [name(stage.option) + (f" to {stage.until:.0%}" if stage.until < 1.0 else "") for stage in stages]
    return ", then ".join(parts)


def mixed(paths: Sequence[PathVerdict]) -> str:
    """The only path, or each with the fraction of jobs that take it, the most frequent first."""
    if len(paths) == 1:
        return path(paths[0].stages)
    often = sorted(paths, key=lambda one: -one.fraction)
    return "; ".join(f"{percent(one.fraction)} of jobs: {path(one.stages)}" for one in often)


def exact(amount: Money) -> str:
    """All of an amount's micro-dollars, so that rows can be added up."""
    whole, micros = divmod(abs(amount.micros), 1_000_000)
    return f"{'-' if amount.micros < 0 else ''}{whole:,}.{micros:06d}"


def percent(fraction: float) -> str:
    """Part of a whole in percent, which is never said to be none or all of it if it is not."""
    if 0.0 < fraction < 0.01:
        return "under 1%"
    return "over 99%" if 0.99 < fraction < 1.0 else f"{fraction:.0%}"


def minutes_per_dollar(seconds: float | None) -> str:
    """The minutes of jobs' lives that one more dollar saves."""
    if seconds is None:
        return "-"
    return "nothing" if not seconds else f"{seconds / 60:.3g} min"


JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
"""A value that JSON and YAML can express."""

FORMATS: Final = ("table", "json", "yaml")
FAILED, CHANGES, FOUND, UNKNOWN, CANNOT_RUN, TOO_LATE = 1, 2, 3, 4, 5, 6
"""Exit codes other than 0. Only ``plan --detailed-exitcode`` has CHANGES, as terraform's has, only ``bill`` FOUND and
UNKNOWN, and only quotes have the last two."""

_ANNOUNCE_AFTER_SECONDS = 1.0
"""Seconds of work after which a person at a terminal should see what is being done."""


def with_warnings(document: Document, warnings: Iterable[str]) -> Document:
    """The document with sentences before everything else; an empty one is left out."""
    first = [Paragraph(f"Warning: {warning}", Tone.BAD) for warning in warnings if warning]
    return replace(document, blocks=(*first, *document.blocks))


def emit(document: Document, plain: JsonValue, output: str) -> None:
    """Print to stdout in one of FORMATS."""
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
    """Characters in a line of the terminal; None if stdout is no terminal, so that programs get whole rows."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None


def wants_colour() -> bool:
    """Whether stdout is a terminal with colours, and NO_COLOR is not set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@contextmanager
def announce_when_slow(activity: str) -> Iterator[None]:
    """Print what is being done on stderr, if that is a terminal and it takes longer than a second."""
    timer = threading.Timer(_ANNOUNCE_AFTER_SECONDS, click.echo, (f"{activity} ...",), {"err": True})
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def write(file: Path, content: bytes) -> None:
    """Write a file that an option names. ClickException when that fails."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror or error}") from error
    click.echo(f"wrote {file}", err=True)


# Values as JSON and YAML show them: dollars as decimal strings, like those of the API.


_CAPITAL: Final = re.compile("[A-Z]")


def copied(value: object, keys: str) -> dict[str, JsonValue]:
    """Fields of a value as JSON shows them. ``keys``: with spaces between them; ``gpuType`` is the field ``gpu_type``.

    ``start=ledger.start`` gives a key to another field, here to one of a field, which is null if that one is None.
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
    """Each key with its field, and with that one's field."""
    parts = [each.partition("=") for each in keys.split()]
    return [(key, (path or _CAPITAL.sub(r"_\g<0>", key).lower()).split(".")) for key, _, path in parts]


def _plain(value: Any) -> JsonValue:
    """Instants and exchange rates are numbers here, so whoever shows those formats them."""
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
    """An option by its pool, width, slice, variant and price."""
    return copied(option, "pool gpus slice variant hourly=price")


def dollars_json(amount: float) -> str:
    """Dollars as a decimal string, to the cent."""
    return Money(round(amount * 100) * 10_000).decimal()


def rate_json(rate: Rate | None) -> str | None:
    """An exchange rate in dollars per job-hour saved; null if there is none."""
    return None if rate is None else dollars_json(rate * 3600)


def late_pool_json(name: PoolId, wait: LaunchWait) -> JsonValue:
    """A pool whose next node is expected late, and why.

    ``refusedPool`` and what follows it: of the last refusal, in doubt since then; of another pool of its account, or of
    itself.
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
