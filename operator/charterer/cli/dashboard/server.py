"""The page's server: on the loopback address, for whoever has the token, and for nobody else's page."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import resources
from types import MappingProxyType
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from charterer.cli.dashboard.board import Board
from charterer.server.listener import Listener

HOST: Final = "127.0.0.1"
MOST_CLIENTS: Final = 16
"""Pages that may be connected at a time."""
_MOST_CONNECTIONS: Final = 128
"""At a time: a browser opens six for a page. Of more, the oldest is closed; a page whose stream that was asks again."""
_REQUEST_SECONDS: Final = 15.0
"""Seconds within which a connection must bring a request, and the next one."""
_PULSE_SECONDS: Final = 15.0
"""Seconds after which something is sent, so that a client that has gone is noticed."""
_SLOW_SECONDS: Final = 60.0
"""Seconds that a client may take for one message."""

_TYPES: Final = MappingProxyType(
    {
        "index.html": "text/html",
        "dashboard.css": "text/css",
        "dashboard.js": "text/javascript",
        "lanes.js": "text/javascript",
        "charts.js": "text/javascript",
        "icon.svg": "image/svg+xml",
        "uPlot.iife.min.js": "text/javascript",
        "uPlot.min.css": "text/css",
    }
)
"""The files of the page."""

HEADERS: Final = MappingProxyType(
    {
        "Content-Security-Policy": (
            "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
            "require-trusted-types-for 'script'"
        ),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
)
"""The headers of every answer: nothing is loaded but the page's own files, and no other page may frame or read it."""

_BRIEF: Final = logging.getLogger(__name__)
_BRIEF.addFilter(lambda record: record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError))
"""Without tracebacks about requests that are none, which anybody on this machine may send."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageServer:
    """Serves the page and its stream of parts below ``/<token>/`` until closed."""

    def __init__(self, board: Board, request_seconds: float = _REQUEST_SECONDS) -> None:
        self._board = board
        self._listener: Listener | None = None
        self._token = secrets.token_urlsafe(32)
        self._files = {name: _file(name) for name in _TYPES}
        self._address = ""
        self._hosts: frozenset[str] = frozenset()
        app = web.Application(middlewares=[self._guarded])
        app.router.add_get("/{token}/", self._page, allow_head=False)
        app.router.add_get("/{token}/parts", self._stream, allow_head=False)
        app.router.add_get("/{token}/{file}", self._static, allow_head=False)
        app.on_response_prepare.append(_with_headers)
        # A handler is cancelled when its client goes: the stream of a closed page ends at once.
        self._runner = web.AppRunner(
            app,
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=0.5,
            logger=_BRIEF,
            keepalive_timeout=request_seconds,  # also the time for the first request's headers
        )
        self.url = ""

    async def start(self, port: int) -> None:
        """Listen; port 0 takes a free one. OSError where the port is taken."""
        await self._runner.setup()
        assert self._runner.server is not None
        self._listener = Listener(self._runner.server, HOST, port, None, _MOST_CONNECTIONS)
        bound = self._listener.port
        self._address = f"{HOST}:{bound}"
        self._hosts = frozenset({self._address, f"localhost:{bound}"})
        self.url = f"http://{self._address}/{self._token}/"

    async def close(self) -> None:
        """Close all connections, streams too."""
        if self._listener is not None:
            await self._listener.close()
        await self._runner.cleanup()

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse another name of this host, which a foreign page may have given it (DNS rebinding), and whoever lacks
        the token. The router refuses other methods than GET."""
        if request.headers.get("Host", "").lower() not in self._hosts:
            return _refusal(403, f"this page is at {self._address} only; by SSH, take the same port on both sides")
        given = request.path.strip("/").partition("/")[0]
        if not hmac.compare_digest(given.encode(errors="replace"), self._token.encode()):
            return _refusal(403, "open the address that charterer dashboard has printed: it ends with a token")
        try:
            return await handler(request)
        except web.HTTPNotFound:
            return _refusal(404, "there is nothing here")

    async def _page(self, _: web.Request) -> web.StreamResponse:
        return self._answer("index.html")

    async def _static(self, request: web.Request) -> web.StreamResponse:
        return self._answer(request.match_info["file"])

    def _answer(self, name: str) -> web.StreamResponse:
        if name not in _TYPES:
            raise web.HTTPNotFound
        return web.Response(body=self._files[name], content_type=_TYPES[name], charset="utf-8")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events (WHATWG HTML, section 9.2): each has parts that changed."""
        if self._board.clients >= MOST_CLIENTS:
            return _refusal(503, f"{MOST_CLIENTS} pages are open already: close one")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        with self._board.client(), suppress(ConnectionError, TimeoutError):
            async for text in self._board.messages(_PULSE_SECONDS):
                async with asyncio.timeout(_SLOW_SECONDS):
                    await response.write(f"data: {text}\n\n".encode() if text else b": \n\n")
        return response


async def _with_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


def _refusal(status: int, sentence: str) -> web.Response:
    return web.Response(status=status, text=f"{sentence}\n")


def _file(name: str) -> bytes:
    return resources.files("charterer.cli.dashboard").joinpath("static", name).read_bytes()
