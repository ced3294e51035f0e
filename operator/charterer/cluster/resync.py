"""The repair list: everything is listed now and then, since a watch can miss deletions and never says so.

kopf lists anew after a 410 or an outage, but gives no event for what vanished meanwhile: then it is time to look.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any, NoReturn

from charterer.cluster.client import Client
from charterer.cluster.errors import ApiError, Gone, NotFound
from charterer.cluster.store import ObjectKey, Store, WatchedKind

log = logging.getLogger(__name__)

INTERVAL = 300.0
SETTLE = 15.0
"""Seconds after the first list until the second: what was deleted before the watch's own start is seen then."""
RETRY = 5.0
"""Seconds until a failed list is tried again."""


class Resync:
    """Lists every kind of the store into the store and removes what is gone."""

    def __init__(
        self, client: Client, store: Store, *, interval: float = INTERVAL, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._store = store
        self._interval = interval
        self._clock = clock
        self._completed: float | None = None
        self._due = asyncio.Event()

    def soon(self) -> None:
        """Do not wait for the interval: something may have been missed. For the event loop's own thread."""
        self._due.set()

    async def once(self) -> tuple[tuple[WatchedKind[Any], ObjectKey], ...]:
        """List all kinds; the deletions that nobody had told the store. Raises ApiError; repeating is harmless."""
        missed = [(kind, key) for kind in self._store.kinds for key in await self._list(kind)]
        for kind, key in missed:
            log.info("the watch missed the deletion of %s %s/%s", kind.name, key.namespace, key.name)
        self._completed = self._clock()
        return tuple(missed)

    async def run(self) -> NoReturn:
        """List at once, again soon after, then at every interval and when it is due sooner, for ever.

        Failures are logged and repeated.
        """
        pause = SETTLE
        while True:
            self._due.clear()
            try:
                await self.once()
            except ApiError as error:
                log.warning("listing failed, again in %g s: %s", RETRY, error)
                await asyncio.sleep(RETRY)
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(pause, self._interval)):
                        await self._due.wait()
                pause = self._interval

    def age(self) -> float | None:
        """Seconds since everything was last listed; None before that."""
        return None if self._completed is None else self._clock() - self._completed

    async def _list(self, kind: WatchedKind[Any]) -> tuple[ObjectKey, ...]:
        try:
            return await self._listed(kind)
        except Gone:  # the list's continue token expired between two pages
            return await self._listed(kind)
        except NotFound as error:
            if kind.resource.group.endswith("charterer.dev"):
                error.add_note(f"the CRD {kind.resource} is not installed: helm install charterer-crds")
            raise

    async def _listed(self, kind: WatchedKind[Any]) -> tuple[ObjectKey, ...]:
        present: list[str] = []
        version = 0
        async for page in self._client.pages(kind.resource.all(), labels=kind.labels, fields=kind.fields):
            version = page.resource_version
            for raw in page.items:
                present.append(raw["metadata"]["uid"])
                self._store.put(kind, raw)
        return self._store.listed(kind, present, version)
