"""A TCP proxy on loopback before the API server, for tests of outages, latency and missed events."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from tests.testbed import ports

_CHUNK = 1 << 16


class Gate:
    """Forwards 127.0.0.1:``port`` to ``host:port`` in its own thread. A new gate is open.

    ``delay`` is the seconds by which each later chunk is delayed in both directions. A large delay simulates an API
    server that accepts calls and never responds.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self.delay = 0.0
        self._socket = _bound()
        self.port: int = self._socket.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._accepting: asyncio.Task[None] | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gate", daemon=True)
        self._thread.start()
        self.open()

    @property
    def url(self) -> str:
        """The https URL of the server behind the gate."""
        return f"https://127.0.0.1:{self.port}"

    def open(self) -> None:
        """Accept connections (again)."""
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()

    def close(self) -> None:
        """Refuse new connections and close existing ones. The port stays reserved."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()

    def stop(self) -> None:
        """Close the gate for good."""
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    async def _open(self) -> None:
        if self._accepting is None:
            self._socket.listen(128)
            self._accepting = self._loop.create_task(self._accept())

    async def _close(self) -> None:
        tasks = list(self._connections)
        if self._accepting is not None:
            tasks.append(self._accepting)
            self._accepting = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # On Linux, a listening socket keeps its port after shutdown and may listen again.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    async def _accept(self) -> None:
        while True:
            near, _ = await self._loop.sock_accept(self._socket)
            task = self._loop.create_task(self._serve(near))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _serve(self, near: socket.socket) -> None:
        far = socket.socket()
        far.setblocking(False)
        try:
            await self._loop.sock_connect(far, self._target)
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pumps = [self._loop.create_task(self._pump(*pair)) for pair in ((near, far), (far, near))]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass  # the target cannot be reached: the client's connection is closed
        finally:
            near.close()
            far.close()

    async def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        while data := await self._loop.sock_recv(source, _CHUNK):
            if self.delay:
                await asyncio.sleep(self.delay)
            await self._loop.sock_sendall(sink, data)


def _bound() -> socket.socket:
    """Return a socket bound to a port number. A port that bind chose itself would be lost by the shutdown."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setblocking(False)
    bound.bind(("127.0.0.1", ports.reserve()))
    return bound


def kubeconfig_through(gate: Gate, source: Path, target: Path) -> Path:
    """Write a copy of a kubeconfig in which all servers are reached through the gate. Return ``target``."""
    config = yaml.safe_load(source.read_text())
    for cluster in config["clusters"]:
        cluster["cluster"]["server"] = gate.url
    target.write_text(yaml.safe_dump(config))
    target.chmod(0o600)
    return target
