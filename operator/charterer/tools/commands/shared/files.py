"""Reads files that a user names, and parses YAML as kubectl does."""

from __future__ import annotations

import math
import os
import re
import select
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import yaml

from charterer.bounded_yaml import BoundedLoader, UnboundedYAML, check

# Reading a path that a user names. The path may be a directory, a device, or a pipe that nobody writes to.


MOST_BYTES: Final = 256 * 1024 * 1024
"""Largest file that is read. A trace of a million jobs has a third of this size."""
SILENT_SECONDS: Final = 30.0
"""Time limit for each read from a pipe. The program that writes may first have to prompt for a password."""
_CHUNK: Final = 1024 * 1024


def read_text(file: Path) -> str:
    """Return the file's text, decoded as UTF-8 without a byte-order mark. ``-`` is stdin.

    ClickException names the fault.
    """
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
    """Read at most ``MOST_BYTES`` + 1 bytes. A pipe is opened without waiting for a writer."""
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


# Parsing YAML as kubectl does (sigs.k8s.io/yaml): values have only the types of JSON, so there are no dates and base-60
# numbers.


_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_NUMBERS: Final = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}


class _Loader(BoundedLoader):
    """YAML loader without the dates and base-60 numbers (such as 22:00) of YAML 1.1. It reads 1e3 as a number."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP and tag not in _NUMBERS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)\Z"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
    ),
    list("-+0123456789."),
)


def documents(name: str, text: str) -> Sequence[Any]:
    """Parse the YAML documents of a file into JSON values. ClickException names the file and the fault."""
    try:
        found = list(yaml.load_all(text, Loader=_Loader))
        check(found)
        return [_plain(each) for each in found]
    except (_Unusable, UnboundedYAML) as error:
        raise click.ClickException(f"{name} cannot be used: {error}") from error
    except RecursionError as error:
        raise click.ClickException(f"{name} cannot be used: it is nested too deeply") from error
    except yaml.YAMLError as error:
        raise click.ClickException(f"{name} is no YAML: {' '.join(str(error).split())}") from error
    except (ValueError, TypeError, OverflowError) as error:
        raise click.ClickException(f"{name} cannot be used: {error}") from error


class _Unusable(Exception):
    """A value that JSON cannot express. The message completes the sentence "FILE cannot be used: ..."."""


def _plain(value: Any) -> Any:
    """Return the value with a copy in place of each YAML alias. Raises _Unusable for values that JSON does not have."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {_key(key): _plain(each) for key, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise _Unusable(f"{value} is no number that an object can have")
    if value is None or isinstance(value, str | int | float):
        return value
    raise _Unusable(f"a {type(value).__name__} is nothing that an object can have")


def _key(key: Any) -> str:
    """Return a field's name. Numbers and booleans become text, as in kubectl."""
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, str | int | float):
        return str(key)
    raise _Unusable(f"{key!r:.40} is no name of a field")


# Collecting all mistakes in files, so that a user sees them at once.


_SHOWN: Final = 10
"""Maximum number of mistakes that the message lists. Of further mistakes the message gives the number."""


class AllFaults:
    """The mistakes found in several documents, in order."""

    def __init__(self) -> None:
        self._found: list[str] = []

    @contextmanager
    def of_one(self) -> Iterator[None]:
        """Catch a ClickException of the ``with`` block, keep its message and go on."""
        try:
            yield
        except click.ClickException as error:
            self._found.append(error.message)

    def tell(self) -> None:
        """Raise a ClickException that lists the mistakes, if there are any."""
        if self._found:
            more = len(self._found) - _SHOWN
            raise click.ClickException("; ".join([*self._found[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]))
