"""The text of files that a person names, which may be anything: a folder, a device, a pipe that says nothing."""

from __future__ import annotations

import os
import select
import stat
import sys
from pathlib import Path
from typing import Final

import click

MOST_BYTES: Final = 256 * 1024 * 1024
"""Most bytes of a file. A trace of a million jobs has a third of it."""
SILENT_SECONDS: Final = 30.0
"""Seconds for which a pipe may say nothing: what fills it may first have to ask somebody."""
_CHUNK: Final = 1024 * 1024


def read_text(file: Path) -> str:
    """The file's text in UTF-8, ``-`` for stdin. A byte-order mark is no part of it. ClickException says why not."""
    name = "stdin" if str(file) == "-" else str(file)
    try:
        content = sys.stdin.buffer.read(MOST_BYTES + 1) if name == "stdin" else _read(file)
    except OSError as error:
        raise click.ClickException(f"{name} cannot be read: {error.strerror or error}") from error
    if len(content) > MOST_BYTES:
        raise click.ClickException(f"{name} has more than {MOST_BYTES:,} bytes: give a smaller file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        packed = ": unpack it first" if content.startswith(b"\x1f\x8b") else ": save it as UTF-8"
        raise click.ClickException(f"{name} is no text in UTF-8 (byte {error.start}){packed}") from error


def _read(file: Path) -> bytes:
    """At most a byte more than MOST_BYTES. A pipe is opened without waiting for whoever writes it."""
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise click.ClickException(f"{file} is a folder: name a file in it")
        content = bytearray()
        while len(content) <= MOST_BYTES:
            if not stat.S_ISREG(mode) and not select.select([handle], [], [], SILENT_SECONDS)[0]:
                raise click.ClickException(f"{file} says nothing for {SILENT_SECONDS:.0f} s: save it as a file first")
            chunk = os.read(handle, _CHUNK)
            if not chunk:
                break
            content += chunk
        return bytes(content[: MOST_BYTES + 1])
    finally:
        os.close(handle)
