"""Output of the commands that read the cluster: formats, exit codes, width, colour, and a line on stderr when slow."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

import click
import yaml

from charterer.report.document import Document, Paragraph, Tone
from charterer.report.text import TextRenderer
from charterer.sentences import visible

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
"""A value that JSON and YAML can express."""

FORMATS: Final = ("table", "json", "yaml")
FAILED, CHANGES, FOUND, UNKNOWN = 1, 2, 3, 4
"""Exit codes other than 0. Only ``plan --detailed-exitcode`` has CHANGES, as terraform's has, and only ``bill`` has the
last two."""

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
    """Characters in a line of the terminal; None where stdout is no terminal, so that programs get whole rows."""
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
