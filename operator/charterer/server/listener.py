"""A listening socket with a bounded number of connections, so that clients cannot exhaust file descriptors and memory.

A connection counts from the time when it is accepted, so the TLS handshake counts too. If there are too many
connections, the listener closes the oldest connection of the client address that has the most. So a client that opens
many connections loses its own. A client that sends its request at once gets an answer.
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

# A rate limit for each key. Each key has a token bucket, and the number of keys is limited.


class RateLimiter:
    """Allows each key ``rate`` calls a second in the long run and ``burst`` calls at once. The keys that were not used
    for longest are dropped.
    """

    def __init__(
        self, *, rate: float = 2.0, burst: int = 20, size: int = 50_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._size = size
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, key: str) -> float:
        """0 if the call is allowed, which counts the call. Otherwise the seconds until the next call would be
        allowed.
        """
        now = self._clock()
        tokens, at = self._buckets.pop(key, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - at) * self._rate)
        admitted = tokens >= 1.0
        self._buckets[key] = (tokens - 1.0 if admitted else tokens, now)
        while len(self._buckets) > self._size:
            self._buckets.popitem(last=False)
        return 0.0 if admitted else (1.0 - tokens) / self._rate


# A refused request: its status, a stable code for programs, and a sentence for readers of the log.


class Refused(Exception):
    """A refusal, sent as ``{"error": {"code", "message"}}``. ``retry_after`` (whole seconds) becomes Retry-After."""

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after


log = logging.getLogger(__name__)

_HANDSHAKE_SECONDS: Final = 5.0
_NO_FILES_PAUSE_SECONDS: Final = 0.5
"""Seconds to wait if the process has no file descriptor for another connection."""
_BACKLOG: Final = 128
SSLProtocol.max_size = 16 * 1024  # bytes of one TLS record; asyncio would keep 256 KiB per connection

C = TypeVar("C")


class ConnectionTable(Generic[C]):
    """The open connections by client address.

    At most ``limit`` connections stay open, because the caller closes the connections that ``add`` returns.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._by_address: dict[str, dict[C, None]] = {}

    def __len__(self) -> int:
        return self._size

    def add(self, connection: C, address: str) -> C | None:
        """Add a connection. Returns the connection that the caller must close in exchange, if any. That connection no
        longer counts.
        """
        self._by_address.setdefault(address, {})[connection] = None
        self._size += 1
        if self._size <= self._limit:
            return None
        busiest = max(self._by_address, key=lambda address: len(self._by_address[address]))
        oldest = next(iter(self._by_address[busiest]))
        self.remove(oldest, busiest)
        return oldest

    def remove(self, connection: C, address: str) -> None:
        """Remove a connection. An unknown connection is no error."""
        of_address = self._by_address.get(address, {})
        if connection in of_address:
            del of_address[connection]
            self._size -= 1
        if not of_address:
            self._by_address.pop(address, None)


class Listener:
    """Listens from its creation on, until closed, and gives each connection a protocol that ``protocols`` makes.

    ``limit``: most open connections at a time. Raises OSError if the port is taken.
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
        """The real port, even if 0 was requested."""
        return int(self._socket.getsockname()[1])

    async def close(self) -> None:
        """Accept no more connections. Open connections stay."""
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
            await asyncio.sleep(0)  # Otherwise no other task would run while connections wait to be accepted.

    def _ended(self, accepted: socket.socket, address: str, task: asyncio.Task[None]) -> None:
        accepted.close()
        self._table.remove(task, address)

    async def _serve(self, accepted: socket.socket) -> None:
        """Serve the connection until it closes. Cancelling the task closes the connection."""
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
    """Forwards every call to ``inner``. ``lost`` is done when the connection is lost."""

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
