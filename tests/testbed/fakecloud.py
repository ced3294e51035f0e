"""The real fake cloud process on a free port, for tests that need a cloud.

Its address and state file survive ``kill`` and ``restart``, so that clients can reconnect. The process ends with the
test's process, even if that is killed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.testbed.forks import fork_charterer

_PATIENCE_SECONDS = 120.0
_POLL_SECONDS = 0.02


class FakeCloudError(Exception):
    """The process did not start, or refused an admin call."""


@dataclass(frozen=True, slots=True)
class BillLine:
    """The cost of one instance so far, in micro-dollars."""

    instance: str
    group: str
    seconds: int
    micros: int
    final: bool


def _read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def _write_config(config: Mapping[str, object], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "fakecloud.yaml").write_text(yaml.safe_dump(dict(config), sort_keys=False))


def _micros(dollars: str) -> int:
    return int(Decimal(dollars) * 1_000_000)


class FakeCloudProcess:
    """A running ``charterer fakecloud``. ``url`` is its endpoint."""

    def __init__(self, directory: Path, kubeconfig: Path | None, token: str | None) -> None:
        self._directory = directory
        self._kubeconfig = kubeconfig
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._process: BaseProcess | None = None
        self.url = ""

    @classmethod
    async def start(
        cls,
        config: Mapping[str, object],
        directory: Path,
        kubeconfig: Path | None = None,
        *,
        address: str = "127.0.0.1",
    ) -> FakeCloudProcess:
        """Start a process with its configuration, state and log in ``directory``. Return once it listens."""
        _write_config(config, directory)
        token = config.get("token")
        cloud = cls(directory, kubeconfig, token if isinstance(token, str) else None)
        try:
            await cloud._launch(f"{address}:0")
        except BaseException:
            await cloud.kill()
            raise
        return cloud

    @classmethod
    @asynccontextmanager
    async def running(
        cls, config: Mapping[str, object], directory: Path, kubeconfig: Path | None = None
    ) -> AsyncIterator[FakeCloudProcess]:
        """Start a fake cloud and stop it at the end."""
        cloud = await cls.start(config, directory, kubeconfig)
        try:
            yield cloud
        finally:
            await cloud.stop()

    async def admin(self, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Call a path under /admin/v1, such as ``admin("PUT", "/groups/a100", {"stock": 0})``.

        FakeCloudError if refused.
        """
        async with (
            aiohttp.ClientSession(headers=self._headers) as session,
            session.request(method, f"{self.url}/admin/v1{path}", json=body) as answer,
        ):
            if answer.status >= 400:
                raise FakeCloudError(f"{method} {path}: {answer.status}: {await answer.text()}")
            decoded: dict[str, Any] = await answer.json()
            return decoded

    async def bill(self) -> tuple[list[BillLine], int]:
        """Return a line for every instance ever launched, and the total in micro-dollars."""
        bill = await self.admin("GET", "/bill")
        lines = [
            BillLine(line["instance"], line["group"], line["seconds"], _micros(line["cost"]), line["final"])
            for line in bill["lines"]
        ]
        return lines, _micros(bill["total"])

    async def kill(self) -> None:
        """Send SIGKILL and return once the process is dead. May be repeated."""
        if self._process is not None:
            self._process.kill()
            self._process.join()

    async def restart(self) -> None:
        """Start the process again with the same state and address. If it runs, kill it first."""
        await self.kill()
        await self._launch(self.url.removeprefix("http://"))

    async def stop(self) -> None:
        """Send SIGTERM and return once the process is dead. May be repeated."""
        if self._process is not None:
            self._process.terminate()
            await self._until(self._ended, "ends")

    def _ended(self) -> bool:
        return self._process is not None and not self._process.is_alive()

    async def _launch(self, listen: str) -> None:
        ready, log = self._directory / "fakecloud.url", self._directory / "fakecloud.log"
        ready.unlink(missing_ok=True)
        files = [f"--config={self._directory / 'fakecloud.yaml'}", f"--state={self._directory / 'fakecloud.db'}"]
        nodes = [f"--kubeconfig={self._kubeconfig}"] if self._kubeconfig else []
        arguments = (*files, *nodes, f"--listen={listen}", f"--ready-file={ready}", "-v")
        self._process = fork_charterer("fakecloud", *arguments, out=log, err=log)
        await self._until(lambda: _read(ready) or self._ended(), "listens")
        self.url = _read(ready)
        if not self.url:
            raise FakeCloudError(f"the fake cloud did not start: {log.read_text()[-2000:]}")

    @staticmethod
    async def _until(done: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not done():
            if time.monotonic() > deadline:
                raise FakeCloudError(f"waited {_PATIENCE_SECONDS:.0f} s in vain until the fake cloud {what}")
            await asyncio.sleep(_POLL_SECONDS)
