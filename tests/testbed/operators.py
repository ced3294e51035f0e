"""Operator processes that tests kill at chosen points.

Production code has no hook for this. ``app.run`` takes a wrapper of its executor as an argument.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

import psutil

from charterer import app
from charterer.cluster.client import Client, RawObject
from charterer.cluster.paths import resource_in
from charterer.controller.outcome import ActionOutcome, Executor
from charterer.domain.plan import Command
from charterer.domain.steps import Step
from charterer.providers.accounts import Adapters, adapter_for
from tests.testbed.forks import fork

_NAMELESS = 54_321
_EXECUTED: ContextVar[str] = ContextVar("executed", default="")
"""The kind of the step that this task executes."""


class Around(Protocol):
    """A wrapper of an operator's executor. The wrapper must be picklable, because it is sent to the process."""

    def around(self, executor: Executor) -> Executor:
        """Return the wrapped executor."""


@dataclass(frozen=True, slots=True)
class Killer:
    """Kills its process just before and just after the first of each type of command and step, or only of ``kinds``.

    ``journal`` has a line for each point passed, such as ``before Rent``, so that each point kills once. For the kinds
    in ``amid``, each different write kills too. Such a point, like ``amid GiveBack: PATCH jobs suspend``, has the
    method, the resource and, for a JSON patch, the changed fields.
    """

    journal: Path
    kinds: frozenset[str] = frozenset()
    amid: frozenset[str] = frozenset()

    def around(self, executor: Executor) -> Executor:
        """Return the wrapped executor."""
        killing = _Killing(executor, self.journal, self.kinds, self.amid)
        if self.amid:
            _tell_of_writes(killing.wrote)
        return killing


@dataclass(slots=True)
class _Killing:
    inner: Executor
    journal: Path
    kinds: frozenset[str]
    amid: frozenset[str]
    _passed: set[str] = field(default_factory=set)
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        if self.journal.exists():
            self._passed = set(self.journal.read_text().splitlines())

    async def execute(self, action: Command | Step) -> ActionOutcome:
        """Execute the action or die.

        One action runs at a time, because a death could hide that another action was done.
        """
        kind = type(action).__name__
        if self.kinds and kind not in self.kinds:
            return await self.inner.execute(action)
        async with self._one:
            self._die_once(f"before {kind}")
            executed = _EXECUTED.set(kind)
            try:
                outcome = await self.inner.execute(action)
            finally:
                _EXECUTED.reset(executed)
            if outcome is ActionOutcome.DONE:
                self._die_once(f"after {kind}")
            return outcome

    def wrote(self, write: str) -> None:
        """Handle a write that took effect. The write may belong to the step of this task."""
        if _EXECUTED.get() in self.amid:
            self._die_once(f"amid {_EXECUTED.get()}: {write}")

    def _die_once(self, point: str) -> None:
        if point in self._passed:
            return
        with self.journal.open("a") as journal:
            journal.write(f"{point}\n")
            journal.flush()
            os.fsync(journal.fileno())
        os.kill(os.getpid(), signal.SIGKILL)


def _tell_of_writes(wrote: Callable[[str], None]) -> None:
    """Make every client of this process report each write that took effect."""
    call = Client.raw

    async def raw(self: Client, method: str, path: str, *, body: Any = None, **options: Any) -> RawObject:
        answer = await call(self, method, path, body=body, **options)
        if method != "GET":
            operations = body if isinstance(body, Sequence) else ()
            changed = [each["path"].rpartition("/")[2] for each in operations if each["op"] != "test"]
            wrote(" ".join([method, resource_in(path), *sorted(changed)]))
        return answer

    setattr(Client, "raw", raw)  # noqa: B010 - a method cannot be assigned


def _unwrapped(executor: Executor) -> Executor:
    return executor


def become_nameless() -> None:
    """Change this process's uid to one without a name on the machine, as in the image. Only root can do this.

    The process can still read the files of the user that started it.
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
    """A ``charterer operator`` process. ``adapters`` must be picklable. ``begins`` is called before each start."""

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
        """``nameless`` runs the operator as a user without an entry in /etc/passwd."""
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
        """Whether the process runs."""
        return self._process.is_alive()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid or 0

    async def death(self) -> None:
        """Wait until the process has ended by itself."""
        await asyncio.to_thread(self._process.join)

    def restart(self, **changes: Any) -> None:
        """Start the operator again under the same name, with these changes of its settings."""
        self.kill()
        self.settings = replace(self.settings, **changes)
        self._process = self._begin()

    @asynccontextmanager
    async def revived(self) -> AsyncIterator[None]:
        """Restart the operator inside the ``with`` block whenever it ends.

        Kill it at the end, as nothing would restart it later.
        """

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
        """Send SIGKILL and wait."""
        self._process.kill()
        self._process.join()

    def freeze(self) -> None:
        """Send SIGSTOP, which suspends the process at an arbitrary point."""
        if self._process.pid is not None:
            psutil.Process(self._process.pid).suspend()

    def thaw(self) -> None:
        """Send SIGCONT."""
        if self._process.pid is not None:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(self._process.pid).resume()

    async def stop(self) -> None:
        """Send SIGTERM and wait for an orderly end."""
        if self._process.is_alive():
            self._process.terminate()
        await asyncio.to_thread(self._process.join, 20)
        if self._process.is_alive():
            self.kill()
            raise AssertionError(f"the operator did not end within 20 s of SIGTERM:\n{self.tail()}")

    def tail(self, lines: int = 60) -> str:
        """Return the end of the log."""
        return "\n".join(self.log.read_text().splitlines()[-lines:]) if self.log.exists() else "(no log)"
