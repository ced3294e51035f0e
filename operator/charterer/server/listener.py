"""A listening socket with a bounded number of connections: clients cannot use up the process's files and memory.

A connection counts from when it is accepted, TLS handshake included. When there are too many, the oldest of the client
address that has the most is closed: whoever opens many closes his own, and a request that is sent at once is answered.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from asyncio.sslproto import SSLProtocol
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

# A limit on how often each of many may do something: a token bucket for each, for a bounded number of them.


class RateLimiter:
    """``rate`` calls a second in the long run and ``burst`` at once, per key; the longest unused keys are forgotten."""

    def __init__(
        self, *, rate: float = 2.0, burst: int = 20, size: int = 50_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._size = size
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, key: str) -> float:
        """0 when the call is admitted, and then counted; otherwise the seconds until the next one would be."""
        now = self._clock()
        tokens, at = self._buckets.pop(key, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - at) * self._rate)
        admitted = tokens >= 1.0
        self._buckets[key] = (tokens - 1.0 if admitted else tokens, now)
        while len(self._buckets) > self._size:
            self._buckets.popitem(last=False)
        return 0.0 if admitted else (1.0 - tokens) / self._rate


# A request that is refused: the status, a stable code for programs, and a sentence for the person reading the log.


class Refused(Exception):
    """Answered as ``{"error": {"code", "message"}}``; ``retry_after`` (whole seconds) becomes Retry-After."""

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after


log = logging.getLogger(__name__)

_HANDSHAKE_SECONDS: Final = 5.0
_NO_FILES_PAUSE_SECONDS: Final = 0.5
"""Seconds to wait when the process has no file for another connection."""
_BACKLOG: Final = 128
SSLProtocol.max_size = 16 * 1024  # of one TLS record; asyncio keeps a buffer of 256 KiB for each connection otherwise

C = TypeVar("C")


class ConnectionTable(Generic[C]):
    """The open connections by client address, at most ``limit`` of them once the surplus is closed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._by_address: dict[str, dict[C, None]] = {}

    def __len__(self) -> int:
        return self._size

    def add(self, connection: C, address: str) -> C | None:
        """Take in a connection. Returns the one that must be closed for it, if any, which counts no more."""
        self._by_address.setdefault(address, {})[connection] = None
        self._size += 1
        if self._size <= self._limit:
            return None
        busiest = max(self._by_address, key=lambda address: len(self._by_address[address]))
        oldest = next(iter(self._by_address[busiest]))
        self.remove(oldest, busiest)
        return oldest

    def remove(self, connection: C, address: str) -> None:
        """Forget a connection; one that is not there is no error."""
        of_address = self._by_address.get(address, {})
        if connection in of_address:
            del of_address[connection]
            self._size -= 1
        if not of_address:
            self._by_address.pop(address, None)


class Listener:
    """Accepts connections and gives each a protocol of ``protocols``, until closed. Listens once it is made.

    ``limit``: connections at a time. OSError when the port is taken.
    """

    def __init__(
        self, protocols: Callable[[], asyncio.Protocol], host: str, port: int, tls: ssl.SSLContext | None, limit: int
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        self._socket.setblocking(False)
        self._protocols = protocols
        self._tls = tls
        self._table = ConnectionTable[asyncio.Task[None]](limit)
        self._accepting = asyncio.create_task(self._accept(), name=f"listener/{port}")

    @property
    def port(self) -> int:
        """The port, also when 0 was asked for."""
        return int(self._socket.getsockname()[1])

    async def close(self) -> None:
        """Accept no more connections; those that are open stay."""
        self._accepting.cancel()
        await asyncio.gather(self._accepting, return_exceptions=True)
        self._socket.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(self._socket)
            except OSError as error:
                log.warning("port %d: no connection can be accepted: %s", self.port, error)
                await asyncio.sleep(_NO_FILES_PAUSE_SECONDS)
                continue
            address = str(peer[0])
            task = asyncio.create_task(self._serve(accepted), name=f"connection/{address}")
            task.add_done_callback(partial(self._ended, accepted, address))
            surplus = self._table.add(task, address)
            if surplus is not None:
                surplus.cancel()
            await asyncio.sleep(0)  # while connections wait to be accepted, nothing else would have its turn

    def _ended(self, accepted: socket.socket, address: str, task: asyncio.Task[None]) -> None:
        accepted.close()
        self._table.remove(task, address)

    async def _serve(self, accepted: socket.socket) -> None:
        """Until the connection is closed; cancelled, it closes it."""
        loop = asyncio.get_running_loop()
        watched = _WatchedProtocol(self._protocols(), loop.create_future())
        handshake = None if self._tls is None else _HANDSHAKE_SECONDS
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: watched,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=handshake,
                ssl_shutdown_timeout=handshake,
            )
        except OSError:  # the client went away or did not finish the handshake in time
            return
        try:
            await watched.lost
        except asyncio.CancelledError:
            transport.abort()
            raise


class _WatchedProtocol(asyncio.Protocol):
    """Hands everything on to ``inner``; ``lost`` is done when the connection is."""

    def __init__(self, inner: asyncio.Protocol, lost: asyncio.Future[None]) -> None:
        self._inner = inner
        self.lost = lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)
        if not self.lost.done():
            self.lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()
