"""The cluster's objects, kept current by the test's own watches. Tests wait for a state and never sleep."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import aiohttp

from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError
from charterer.cluster.paths import (
    GPU_BUDGETS,
    GPU_POOL_SETS,
    GPU_POOLS,
    GPU_RENTALS,
    JOBS,
    NODES,
    PODS,
    SPEEDUP_PROFILES,
    TRAINING_JOBS,
    Resource,
)

T = TypeVar("T")

WATCHED: Sequence[Resource] = (
    TRAINING_JOBS,
    SPEEDUP_PROFILES,
    GPU_BUDGETS,
    GPU_POOLS,
    GPU_POOL_SETS,
    GPU_RENTALS,
    JOBS,
    PODS,
    NODES,
)

RELIST_SECONDS = 10
"""Seconds between lists.

A list finds objects that a watch missed, and is the only sign of deletions between watches.
"""


class Mirror:
    """Raw objects by resource, read with an administrator's client. ``until`` waits for a state of them."""

    def __init__(self, client: Client, more: Sequence[Resource] = ()) -> None:
        """``more`` are resources to follow besides WATCHED."""
        self._client = client
        self._watched = (*WATCHED, *more)
        self._objects: dict[str, dict[tuple[str, str], RawObject]] = {watched.plural: {} for watched in self._watched}
        self.departed: list[RawObject] = []
        """Deleted objects in their last state."""
        self._changed = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """List everything once, then watch."""
        listed = [asyncio.Event() for _ in self._watched]
        self._tasks = [
            asyncio.create_task(self._follow(resource, ready))
            for resource, ready in zip(self._watched, listed, strict=True)
        ]
        await asyncio.gather(*(ready.wait() for ready in listed))

    async def stop(self) -> None:
        """End the watches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def all(self, resource: Resource, namespace: str | None = None) -> list[RawObject]:
        """Return the objects of a kind, in order of name."""
        objects = self._objects[resource.plural].items()
        return [raw for (where, _), raw in sorted(objects) if namespace is None or where == namespace]

    def one(self, resource: Resource, name: str, namespace: str = "") -> RawObject | None:
        """Return one object, or None if it does not exist."""
        return self._objects[resource.plural].get((namespace, name))

    async def until(self, look: Callable[[], T], seconds: float, describe: Callable[[], str]) -> T:
        """Wait until ``look``, called after every change, returns a true value.

        AssertionError describes the present state.
        """
        try:
            async with asyncio.timeout(seconds), self._changed:
                while not (seen := look()):
                    await self._changed.wait()
                for task in self._tasks:
                    if task.done():  # the watch has failed, and the objects are stale
                        task.result()
                return seen
        except TimeoutError:
            raise AssertionError(f"not within {seconds:g} s\n{describe()}") from None

    async def _follow(self, resource: Resource, ready: asyncio.Event) -> None:
        while True:
            try:
                version = await self._list(resource)
                ready.set()
                await self._watch(resource, version)
            except (ApiError, aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(0.05)

    async def _list(self, resource: Resource) -> int:
        listing = await self._client.list(resource.all())
        async with self._changed:
            before = self._objects[resource.plural]
            self._objects[resource.plural] = now = {_key(raw): raw for raw in listing.items}
            self.departed += [raw for key, raw in before.items() if key not in now]
            self._changed.notify_all()
        return listing.resource_version

    async def _watch(self, resource: Resource, version: int) -> None:
        access = self._client.access
        query = {"watch": "true", "resourceVersion": str(version), "timeoutSeconds": str(RELIST_SECONDS)}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=None)
        async with (
            access.session() as session,
            session.get(access.server + resource.all(), params=query, timeout=timeout) as response,
        ):
            response.raise_for_status()  # status 429 while storage for a changed CustomResourceDefinition restarts
            buffer = b""
            async for chunk in response.content.iter_any():
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    if not await self._take(resource, json.loads(line)):
                        return

    async def _take(self, resource: Resource, event: Mapping[str, Any]) -> bool:
        if event["type"] == "ERROR":
            return False
        objects = self._objects[resource.plural]
        async with self._changed:
            if event["type"] == "DELETED":
                objects.pop(_key(event["object"]), None)
                self.departed.append(event["object"])
            else:
                objects[_key(event["object"])] = event["object"]
            self._changed.notify_all()
        return True


def _key(raw: RawObject) -> tuple[str, str]:
    return raw["metadata"].get("namespace") or "", raw["metadata"]["name"]
