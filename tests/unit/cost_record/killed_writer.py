"""Kills writers of the record at every step: ``python -m tests.unit.cost_record.killed_writer FOLDER``.

A process of its own, which forks a writer for each step. It prints a JSON list with, for each one that was killed, the
number of rows that were read then, and of those that were read after the same rows had been written again.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from charterer.cost_record import CostRecord
from charterer.domain.cost_row import CostRow
from tests.factory.cost_rows import cost_row

MONTHS = ("2026-11", "2026-12")
CHANGES = ("open", "os.mkdir", "os.rename", "os.remove")
"""The audit events of what changes a folder (docs.python.org/3/library/audit_events.html)."""


def two_months() -> list[CostRow]:
    """Rows that make two files, of 40 rows each."""
    return [
        replace(row, rental_uid=f"uid-{number}")
        for number in range(40)
        for row in (cost_row("1"), cost_row("2", start="2026-12-01T00:00:00Z", end="2026-12-01T01:00:00Z"))
    ]


def killed_at_change(place: Path, number: int) -> None:
    """End this process before its change of ``place`` of that number, from 1 on."""
    changes = iter(range(number - 1))

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in CHANGES and str(place) in str(arguments[0]) and next(changes, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def killed_at_byte(number: int) -> None:
    """End this process when a file of it has that many bytes and should have more."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (number, number))


def killed(place: Path, change: int, byte: int) -> bool:
    """Whether a writer was killed on its way: at a change, if that is not 0, else at a byte."""
    place.mkdir()
    record = CostRecord(str(place))
    child = os.fork()
    if child == 0:
        killed_at_change(place, change) if change else killed_at_byte(byte)
        asyncio.run(record.write(two_months()))
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def kills(root: Path) -> Iterator[tuple[int, int]]:
    """Rows read after each kill, and after the next writer."""
    steps = [(0, byte) for byte in (0, 1, 5_000)] + [(change, 0) for change in range(1, 100)]
    for change, byte in steps:
        place = root / f"{change}-{byte}"
        if not killed(place, change, byte):
            return
        record = CostRecord(str(place))
        then = len(list(record.read(MONTHS)))
        asyncio.run(record.write(two_months()))
        after = list(record.read(MONTHS))
        assert sorted(map(repr, after)) == sorted(map(repr, two_months()))
        yield then, len(after)


if __name__ == "__main__":
    json.dump(list(kills(Path(sys.argv[1]))), sys.stdout)
