"""An HTTP proxy before the API server that refuses requests and drops responses for a while, from a seed.

The fate of a request depends on the seed, its method, its path and the number of equal requests before it. A storm with
the same seed is thus nearly the same each time, regardless of the order of other requests.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web
from yarl import URL

from tests.testbed.controlplane import ControlPlane

_OF_ONE_CONNECTION = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})
"""Headers that are not forwarded."""
_LARGEST_BODY = 1 << 26
"""Bytes."""


class Fate(Enum):
    """The fate of a request."""

    PASSED = "passed"
    THROTTLED = "429"
    FAILED = "500"
    UNAVAILABLE = "503"
    CUT = "cut before the API server has it"
    LOST = "carried out, its answer lost"


_REFUSALS: Mapping[Fate, tuple[int, str]] = {
    Fate.THROTTLED: (429, "TooManyRequests"),
    Fate.FAILED: (500, "InternalError"),
    Fate.UNAVAILABLE: (503, "ServiceUnavailable"),
}


@dataclass(slots=True)
class _Storm:
    seed: int
    share: float
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)

    def fate(self, method: str, path: str) -> Fate:
        """Decide the fate of a request. Of those not passed, one in six is carried out."""
        self.seen[method, path] += 1
        draws = random.Random(f"{self.seed} {method} {path} {self.seen[method, path]}")
        if draws.random() >= self.share:
            return Fate.PASSED
        return draws.choice([Fate.THROTTLED, Fate.THROTTLED, Fate.FAILED, Fate.UNAVAILABLE, Fate.CUT, Fate.LOST])


class StormProxy:
    """Forwards requests to the API server, and in a storm only a part of them.

    The proxy runs in the caller's event loop.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._near = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._near.load_cert_chain(plane.directory / "serving.crt", plane.directory / "serving.key")
        self._far = ssl.create_default_context(cafile=str(plane.ca_file))
        self._storm: _Storm | None = None
        self._watches: set[asyncio.Transport] = set()
        self._next_watch: tuple[str, web.Response] | None = None
        self._url = ""
        self.fates: Counter[Fate] = Counter()
        """Counts of fates since the start of the last storm, or since the proxy's start before the first storm."""
        self.asked: Counter[str] = Counter()
        """Requests a path."""

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._far),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._near)
        await site.start()
        self._url = f"https://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        await self._session.close()

    def storm(self, seed: int, seconds: float, share: float = 0.6) -> asyncio.Task[None]:
        """Begin a storm that refuses this share of requests or drops their responses. Watches are closed.

        The returned task ends the storm after ``seconds``.
        """
        self._storm = _Storm(seed, share)
        self.fates.clear()
        for transport in self._watches:
            transport.abort()

        async def pass_over() -> None:
            await asyncio.sleep(seconds)
            self._storm = None

        return asyncio.create_task(pass_over(), name="storm")

    def refuse_a_watch(self, plural: str, status: int, reason: str) -> None:
        """Close the watches, and refuse the next watch of these objects with this status."""
        self._next_watch = plural, _refusal(status, reason)
        for transport in self._watches:
            transport.abort()

    def fail_a_watch(self, plural: str, status: int, reason: str) -> None:
        """Close the watches, and end the next watch of these objects by an error event. Its HTTP status is 200."""
        event = {"type": "ERROR", "object": json.loads(_refusal(status, reason).text or "")}
        self._next_watch = plural, web.Response(text=f"{json.dumps(event, separators=(',', ':'))}\n")
        for transport in self._watches:
            transport.abort()

    def kubeconfig(self, namespace: str, account: str) -> Path:
        """Write a kubeconfig of a service account that connects through the proxy."""
        return self._plane.service_account_kubeconfig(namespace, account, through_url=self._url)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        fate = Fate.PASSED if self._storm is None else self._storm.fate(request.method, request.path)
        self.fates[fate] += 1
        self.asked[request.path] += 1
        if self._next_watch is not None and request.query.get("watch") == "true":
            plural, refusal = self._next_watch
            if request.path.endswith(f"/{plural}"):
                self._next_watch = None
                return refusal
        if fate in _REFUSALS:
            return _refusal(*_REFUSALS[fate])
        if fate is Fate.CUT:
            return _cut(request)
        async with self._session.request(
            request.method,
            URL(self._plane.url + request.raw_path, encoded=True),
            headers=_passed_on(request.headers),
            data=await request.read() or None,
            allow_redirects=False,
        ) as answer:
            if request.query.get("watch") == "true" and fate is Fate.PASSED:
                return await self._stream(request, answer)
            body = await answer.read()
            if fate is Fate.LOST:
                return _cut(request)
            return web.Response(body=body, status=answer.status, headers=_passed_on(answer.headers))

    async def _stream(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        near = web.StreamResponse(status=answer.status, headers=_passed_on(answer.headers))
        await near.prepare(request)
        assert request.transport is not None
        self._watches.add(request.transport)
        try:
            async for chunk in answer.content.iter_any():
                await near.write(chunk)
        finally:
            self._watches.discard(request.transport)
        return near


def _passed_on(headers: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_ONE_CONNECTION}


def _refusal(status: int, reason: str) -> web.Response:
    message = "a storm"
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason}
    headers = {"Retry-After": "1"} if status == 429 else {}
    return web.json_response({**body, "code": status}, status=status, headers=headers)


def _cut(request: web.Request) -> web.Response:
    """Close the connection, so that the response is never sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
