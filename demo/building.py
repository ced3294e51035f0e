"""Builds missing programs of the demo's cluster while the simulation runs."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.text import Text

from demo.programs import DemoError
from tests.testbed import build, karpenter

ROOT = Path(__file__).resolve().parents[1]
_LOOK_SECONDS = 1.0
_LINE_SECONDS = 20.0
"""Seconds between two lines of progress if the console is no terminal."""
_ENDING_SECONDS = 10.0
_TAIL_LINES = 30


def lacking(cloud: str) -> Sequence[str]:
    """Return the command that builds the programs missing on this machine, empty if none is missing."""
    names: list[str] = []
    try:
        build.locate()
    except build.MissingProgramsError:
        names.append("testbed")
    if cloud == "karpenter" and karpenter.find() is None:
        names.append("karpenter")
    return (sys.executable, "-m", "tests.testbed.make", *names) if names else ()


class Build:
    """A command that runs in the background. Its output is in ``log``."""

    def __init__(self, process: Process, log: Path) -> None:
        self._process = process
        self._log = log
        self._begun = time.monotonic()

    @classmethod
    async def start(cls, command: Sequence[str], log: Path) -> Self:
        """Start the command. The caller must call ``stop`` at the end."""
        with log.open("wb") as output:
            # A separate session makes a process group: ``stop`` can end the compilers with it, and Ctrl-C reaches only
            # the demo.
            process = await asyncio.create_subprocess_exec(
                *command, cwd=ROOT, stdin=DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        return cls(process, log)

    async def done(self, console: Console) -> None:
        """Wait for the end of the command and show its last line meanwhile.

        Raises DemoError with its output if it fails.
        """
        told, told_at = "", time.monotonic()
        ended = asyncio.create_task(self._process.wait())
        with console.status("") as status:
            while not ended.done():
                line = (self._lines() or ["building"])[-1]
                text = f"{line} ({time.monotonic() - self._begun:.0f} s)"
                status.update(Text(text, "dim", no_wrap=True, overflow="ellipsis"))
                if not console.is_terminal and line != told and time.monotonic() - told_at >= _LINE_SECONDS:
                    console.print(text, highlight=False, markup=False, soft_wrap=True)
                    told, told_at = line, time.monotonic()
                await asyncio.wait([ended], timeout=_LOOK_SECONDS)
        if code := await ended:
            words = "\n".join(self._lines()[-_TAIL_LINES:])
            raise DemoError(f"the cluster could not be built (code {code}); the end of {self._log}:\n{words}")

    def _lines(self) -> list[str]:
        """Return the output so far. A line overwritten by a carriage return counts as another line."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return [line for line in re.split(r"[\r\n]+", text) if line.strip()]

    async def stop(self) -> None:
        """End the command and all processes that it has started. May be repeated."""
        if self._process.returncode is not None:
            return
        for number in (signal.SIGINT, signal.SIGKILL):  # SIGINT lets Go remove its temporary files
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(_ENDING_SECONDS):
                    await self._process.wait()
