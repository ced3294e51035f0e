"""What the commands that look have in common: formats, exit codes, width and colour, and a sign of life when slow."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import click
import yaml

from charterer.report.document import Document
from charterer.report.text import TextRenderer

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
"""What JSON and YAML can say."""

FORMATS: Final = ("table", "json", "yaml")
NOTHING, FAILED, CHANGES = 0, 1, 2
"""Exit codes, as those of ``terraform plan -detailed-exitcode``."""

_PATIENCE_SECONDS = 1.0


class ReadOnlyCommand(click.Command):
    """A command whose exit code 2 has a meaning: a wrong call of it is an error like any other, 1."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """As click does."""
        with _errors_are_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """As click does."""
        with _errors_are_errors():
            return super().invoke(ctx)


@contextmanager
def _errors_are_errors() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        raise _Misused(error.format_message(), error.ctx) from error


class _Misused(click.UsageError):
    exit_code = FAILED


def emit(document: Document, plain: JsonValue, output: str) -> None:
    """Print to stdout in one of FORMATS."""
    match output:
        case "json":
            click.echo(json.dumps(plain, indent=2, ensure_ascii=False))
        case "yaml":
            click.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), nl=False)
        case _:
            renderer = TextRenderer(screen_width(), colour=wants_colour())
            click.echo(renderer.render(document).lstrip("\n"), nl=False, color=True)


def screen_width() -> int | None:
    """Characters of a line of the terminal; None where stdout is none, so that programs get whole rows."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None


def wants_colour() -> bool:
    """Whether stdout is a terminal that can, and nobody set NO_COLOR (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@contextmanager
def announce_when_slow(words: str) -> Iterator[None]:
    """Say on a terminal's stderr what is being done, if it takes longer than a second."""
    timer = threading.Timer(_PATIENCE_SECONDS, click.echo, (f"{words} ...",), {"err": True})
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def write(file: Path, content: bytes) -> None:
    """Write a file that was asked for; ClickException when that fails."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror or error}") from error
    click.echo(f"wrote {file}", err=True)
