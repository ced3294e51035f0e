"""Operators as processes, which are killed at chosen points.

There is no hook for this in production: ``app.run`` takes what stands around its executor as an argument.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

import psutil

from charterer import app
from charterer.controller.outcome import ActionOutcome, Executor
from charterer.domain.plan import Command
from charterer.domain.steps import Step
from charterer.providers.accounts import Adapters, adapter_for
from tests.testbed.forks import fork

_NAMELESS = 54_321


class Around(Protocol):
    """Something that stands around the executor of an operator's process. It is pickled into it."""

    def around(self, executor: Executor) -> Executor:
        """The executor with this around it."""


@dataclass(frozen=True, slots=True)
class Killer:
    """Kills its process just before and just after the first of each type of command and step, or of ``kinds`` only.

    ``journal`` holds the points already passed, one a line such as ``before Rent``: each kills once.
    """

    journal: Path
    kinds: frozenset[str] = frozenset()

    def around(self, executor: Executor) -> Executor:
        """The executor with this around it."""
        return _Killing(executor, self.journal, self.kinds)


@dataclass(slots=True)
class _Killing:
    inner: Executor
    journal: Path
    kinds: frozenset[str]
    _passed: set[str] = field(default_factory=set)
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        if self.journal.exists():
            self._passed = set(self.journal.read_text().splitlines())

    async def execute(self, action: Command | Step) -> ActionOutcome:
        """Carry it out, or die on the way. One at a time, or dying of one would hide that another had been done."""
        kind = type(action).__name__
        if self.kinds and kind not in self.kinds:
            return await self.inner.execute(action)
        async with self._one:
            self._die_once(f"before {kind}")
            outcome = await self.inner.execute(action)
            if outcome is ActionOutcome.DONE:
                self._die_once(f"after {kind}")
            return outcome

    def _die_once(self, point: str) -> None:
        if point in self._passed:
            return
        with self.journal.open("a") as journal:
            journal.write(f"{point}\n")
            journal.flush()
            os.fsync(journal.fileno())
        os.kill(os.getpid(), signal.SIGKILL)


def _unwrapped(executor: Executor) -> Executor:
    return executor


def become_nameless() -> None:
    """Make this process one of a uid that no machine has a name for, as the image's; only root can.

    It may still read the files of who started it.
    """
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        os.environ.pop(name, None)
    os.setresuid(_NAMELESS, 0, 0)


def _main(settings: app.Settings, killer: Around | None, adapters: Adapters, nameless: bool) -> None:
    import logging

    if nameless:
        become_nameless()
    logging.basicConfig(level="INFO", format="%(asctime)s %(process)d %(levelname)-7s %(name)s: %(message)s")
    wrap: Callable[[Executor], Executor] = _unwrapped if killer is None else killer.around
    asyncio.run(app.run(settings, wrap, adapters))


class OperatorProcess:
    """One ``charterer operator``. ``adapters`` is pickled into it. ``begins`` is called before each start."""

    def __init__(
        self,
        settings: app.Settings,
        log: Path,
        killer: Around | None = None,
        adapters: Adapters = adapter_for,
        *,
        nameless: bool = False,
        begins: Callable[[], None] = lambda: None,
    ) -> None:
        """``nameless``: as a user that /etc/passwd does not have."""
        self.settings = settings
        self._nameless = nameless
        self.log = log
        self._killer = killer
        self._adapters = adapters
        self._begins = begins
        self._process = self._begin()

    def _begin(self) -> BaseProcess:
        self._begins()
        what = (self.settings, self._killer, self._adapters, self._nameless)
        return fork(_main, *what, out=self.log, err=self.log)

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.is_alive()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid or 0

    async def death(self) -> None:
        """Wait until it has ended by itself."""
        await asyncio.to_thread(self._process.join)

    def restart(self) -> None:
        """Start it again under the same name."""
        self.kill()
        self._process = self._begin()

    @asynccontextmanager
    async def revived(self) -> AsyncIterator[None]:
        """Started again whenever it ends by itself. Killed at the end: later nobody would start it again."""

        async def keep_alive() -> None:
            while True:
                await self.death()
                self.restart()

        nurse = asyncio.create_task(keep_alive())
        try:
            yield
        finally:
            nurse.cancel()
            self.kill()

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self._process.kill()
        self._process.join()

    def freeze(self) -> None:
        """SIGSTOP: it falls asleep in the middle of whatever it does."""
        if self._process.pid is not None:
            psutil.Process(self._process.pid).suspend()

    def thaw(self) -> None:
        """SIGCONT."""
        if self._process.pid is not None:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(self._process.pid).resume()

    async def stop(self) -> None:
        """SIGTERM, and wait for the orderly end."""
        if self._process.is_alive():
            self._process.terminate()
        await asyncio.to_thread(self._process.join, 20)
        if self._process.is_alive():
            self.kill()
            raise AssertionError(f"the operator did not end within 20 s of SIGTERM:\n{self.tail()}")

    def tail(self, lines: int = 60) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text().splitlines()[-lines:]) if self.log.exists() else "(no log)"
