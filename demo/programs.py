"""The demo's own processes: started with a log each, watched, and ended with the demo however that ends."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from tests.testbed.supervise import Supervisor

_POLL_SECONDS = 0.05
_TAIL_LINES = 15


class DemoError(Exception):
    """The demo cannot go on; the message says why and what to do."""


class Programs:
    """Child processes by name, each with ``<name>.log`` in the folder ``logs``."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._supervisor = Supervisor()

    def start(self, name: str, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Starts one; supervise.SupervisorError when it cannot be run."""
        self._supervisor.start(
            name, argv, log=self._logs / f"{name}.log", cwd=self._logs, env={**os.environ, **(environment or {})}
        )

    async def until(self, done: Callable[[], Awaitable[bool]], what: str, seconds: float) -> None:
        """Asks again and again; DemoError when a program ends meanwhile or the time is over."""
        deadline = time.monotonic() + seconds
        while not await done():
            self.check()
            if time.monotonic() > deadline:
                raise DemoError(f"waited {seconds:.0f} s in vain until {what}")
            await asyncio.sleep(_POLL_SECONDS)

    async def watch(self) -> None:
        """Returns never; DemoError as soon as a program has ended."""
        while True:
            self.check()
            await asyncio.sleep(1)

    def check(self) -> None:
        """DemoError when a program has ended."""
        for name, code in self._supervisor.exited().items():
            raise DemoError(f"{name} ended with code {code}")

    def tails(self) -> str:
        """The ends of all logs."""
        return "\n".join(self._tail(self._logs / f"{name}.log") for name in self._supervisor.pids)

    @staticmethod
    def _tail(log: Path) -> str:
        lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:] if log.exists() else []
        return "\n".join([f"--- the end of {log}", *(lines or ["(empty)"])])

    def stop(self) -> None:
        """Ends all of them. May be repeated."""
        self._supervisor.stop()
