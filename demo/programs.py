"""The demo's processes. Each has a log, and all are stopped when the demo ends."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from tests.testbed.supervise import Supervisor

SYSTEM = "charterer-system"
_POLL_SECONDS = 0.05
_TAIL_LINES = 15
_MOST_RESTARTS = 5
"""Maximum number of restarts of a program. A program that ends more often counts as broken."""


class DemoError(Exception):
    """The demo cannot continue. The message gives the cause and the remedy."""


def charterer(*arguments: str) -> list[str]:
    """Return a `charterer` command in the demo's Python environment."""
    return [sys.executable, "-c", "from charterer.cli import main; main(prog_name='charterer')", *arguments]


class Programs:
    """Child processes by name, each with ``<name>.log`` in the directory ``logs``."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._supervisor = Supervisor()
        self._starts: dict[str, Callable[[], object]] = {}
        self._restarts: dict[str, int] = {}

    def start(self, name: str, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start a process. Raises supervise.SupervisorError if it cannot be run."""
        log, env = self._logs / f"{name}.log", {**os.environ, **(environment or {})}
        self._starts[name] = lambda: self._supervisor.start(name, argv, log=log, cwd=self._logs, env=env)
        self._starts[name]()

    def keep(self, name: str) -> None:
        """Restart the program whenever it ends, as a Deployment would. An operator ends if it loses its Lease."""
        self._restarts[name] = 0

    async def until(self, done: Callable[[], Awaitable[bool]], what: str, seconds: float) -> None:
        """Wait until ``done()``. Raises DemoError if a program ends meanwhile, or after ``seconds``."""
        deadline = time.monotonic() + seconds
        while not await done():
            self.check()
            if time.monotonic() > deadline:
                raise DemoError(f"gave up after {seconds:.0f} s of waiting until {what}")
            await asyncio.sleep(_POLL_SECONDS)

    async def watch(self) -> None:
        """Check the programs every second until cancelled. Raises DemoError as soon as one has ended."""
        while True:
            self.check()
            await asyncio.sleep(1)

    def check(self) -> None:
        """Restart ended programs that ``keep`` named. Raises DemoError for any other, or after too many restarts."""
        for name, code in self._supervisor.exited().items():
            restarts = self._restarts.get(name, _MOST_RESTARTS)
            if restarts == _MOST_RESTARTS:
                raise DemoError(f"{name} ended with code {code}")
            self._restarts[name] = restarts + 1
            self._starts[name]()

    def tails(self) -> str:
        """Return the last lines of all logs."""
        return "\n".join(self._tail(self._logs / f"{name}.log") for name in self._supervisor.pids)

    @staticmethod
    def _tail(log: Path) -> str:
        lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:] if log.exists() else []
        return "\n".join([f"--- the end of {log}", *(lines or ["(empty)"])])

    def stop(self) -> None:
        """Stop all programs. May be repeated."""
        self._supervisor.stop()
