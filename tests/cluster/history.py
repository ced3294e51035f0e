"""Every version of the objects of a kind that a watch tells, in order: what must never be is not there for a moment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from charterer.cluster.client import Client, RawObject
from charterer.cluster.paths import Resource
from tests.patience import OPERATORS_PATIENCE


class History:
    """``events``: (type, object) as the watch tells them. Complete once its context has been left."""

    def __init__(self) -> None:
        self.events: list[tuple[str, RawObject]] = []
        self._news = asyncio.Event()

    def versions(self, name: str) -> list[RawObject]:
        """The states of one object, its last one included."""
        return [raw for _, raw in self.events if raw["metadata"]["name"] == name]

    async def until(self, look: Callable[[], object], seconds: float = OPERATORS_PATIENCE) -> None:
        """Wait for something to have happened."""
        async with asyncio.timeout(seconds):
            while not look():
                self._news.clear()
                await self._news.wait()

    async def _follow(self, client: Client, path: str, version: int) -> None:
        query = {"watch": "true", "resourceVersion": str(version)}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=None)
        async with (
            client.access.session() as session,
            session.get(client.access.server + path, params=query, timeout=timeout) as response,
        ):
            buffer = b""
            async for chunk in response.content.iter_any():
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    event: Mapping[str, Any] = json.loads(line)
                    self.events.append((event["type"], event["object"]))
                self._news.set()

    async def _has_seen(self, items: tuple[RawObject, ...], since: int) -> None:
        wanted = {version for raw in items if int(version := raw["metadata"]["resourceVersion"]) > since}
        await self.until(lambda: wanted <= {raw["metadata"]["resourceVersion"] for _, raw in self.events})


@asynccontextmanager
async def history(client: Client, resource: Resource, namespace: str | None = None) -> AsyncIterator[History]:
    """Follow a kind while the context lasts; what there is at its end is waited for."""
    path = resource.all(namespace)
    since = (await client.list(path)).resource_version
    told = History()
    following = asyncio.create_task(told._follow(client, path, since))
    try:
        yield told
        await told._has_seen((await client.list(path)).items, since)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
