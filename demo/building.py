"""The programs of the demo's cluster, which are built beside the simulation where they are not there yet."""

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

from rich.console import Console
from rich.text import Text

from demo.programs import DemoError
from tests.testbed import build, karpenter

ROOT = Path(__file__).resolve().parents[1]
_CONTROL_PLANE = (sys.executable, "tests/testbed/build.py")
_KARPENTER = (sys.executable, "-m", "tests.testbed.karpenter")
_LOOK_SECONDS = 1.0
_LINE_SECONDS = 20.0
"""Seconds between two lines where there is no terminal."""
_ENDING_SECONDS = 10.0
_TAIL_LINES = 30

Command = Sequence[str]


def lacking(cloud: str) -> list[Command]:
    """What builds the programs that the demo lacks on this machine: one command after the other."""
    commands: list[Command] = []
    try:
        build.locate()
    except build.MissingProgramsError:
        commands.append(_CONTROL_PLANE)
    if cloud == "karpenter" and karpenter.find() is None:
        commands.append(_KARPENTER)
    return commands


class Build:
    """Commands that run one after the other in the background. What they print is in ``log``."""

    def __init__(self, commands: Sequence[Command], log: Path) -> None:
        """Start them in the running event loop. ``stop`` ends what still runs."""
        self._log = log
        self._begun = time.monotonic()
        self._process: Process | None = None
        self._running = asyncio.create_task(self._run(commands))

    async def _run(self, commands: Sequence[Command]) -> int:
        """The code of the first command that fails, or 0."""
        with self._log.open("wb") as log:
            for command in commands:
                # In a session of its own, so that its compilers can be ended with it, and Ctrl-C reaches the demo only.
                self._process = await asyncio.create_subprocess_exec(
                    *command, cwd=ROOT, stdin=DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
                if code := await self._process.wait():
                    return code
        return 0

    async def done(self, console: Console) -> None:
        """Wait until all have ended, and show their last line meanwhile. DemoError with their words if one fails."""
        told, told_at = "", time.monotonic()
        with console.status("") as status:
            while not self._running.done():
                line = (self._lines() or ["building"])[-1]
                text = f"{line} ({time.monotonic() - self._begun:.0f} s)"
                status.update(Text(text, "dim", no_wrap=True, overflow="ellipsis"))
                if not console.is_terminal and line != told and time.monotonic() - told_at >= _LINE_SECONDS:
                    console.print(text, highlight=False, markup=False, soft_wrap=True)
                    told, told_at = line, time.monotonic()
                await asyncio.wait([self._running], timeout=_LOOK_SECONDS)
        if code := await self._running:
            words = "\n".join(self._lines()[-_TAIL_LINES:])
            raise DemoError(f"the cluster could not be built (code {code}); the end of {self._log}:\n{words}")

    def _lines(self) -> list[str]:
        """What was printed so far; a line that was written over counts as one more."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return [line for line in re.split(r"[\r\n]+", text) if line.strip()]

    async def stop(self) -> None:
        """End the command that runs, with all that it has started. May be repeated."""
        self._running.cancel()
        await asyncio.wait([self._running])
        if self._process is None or self._process.returncode is not None:
            return
        for number in (signal.SIGINT, signal.SIGKILL):  # the first lets Go remove its temporary files
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(_ENDING_SECONDS):
                    await self._process.wait()
