"""The repair list: every kind is listed periodically, because a watch can miss deletions without notice.

After a 410 or an outage kopf lists again, and reports no event for objects that were deleted in between. A repair list
is then due at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, NoReturn

from charterer.cluster.client import Client
from charterer.cluster.errors import ApiError, Forbidden, Gone, NotFound
from charterer.cluster.store import ObjectKey, Store, WatchedKind

log = logging.getLogger(__name__)

INTERVAL = 300.0
"""Seconds between two repair lists. A missed deletion is noticed within this time, and the load is small."""
SETTLE = 15.0
"""Seconds from the first list to the second, which finds deletions from before the start of the watch."""
RETRY = 5.0
"""Seconds until a failed list is tried again."""


class Resync:
    """Lists every kind, puts the objects into the store and removes objects that are gone."""

    def __init__(self, client: Client, store: Store, *, interval: float = INTERVAL) -> None:
        self._client = client
        self._store = store
        self._interval = interval
        self._due = asyncio.Event()

    def request(self) -> None:
        """Request a list now, because the watch may have missed something. Call it in the event loop's thread."""
        self._due.set()

    async def once(self) -> tuple[tuple[WatchedKind[Any], ObjectKey], ...]:
        """List all kinds. Returns the deletions that the store had missed. Raises ApiError. After an error the call can
        be repeated.
        """
        missed = [(kind, key) for kind in self._store.kinds for key in await self._list(kind)]
        for kind, key in missed:
            log.info("the watch missed the deletion of %s %s/%s", kind.name, key.namespace, key.name)
        return tuple(missed)

    async def run(self) -> NoReturn:
        """List at once, again after ``SETTLE`` seconds, and then at every interval and at every request.

        If a list fails, it is tried again.
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

    async def _list(self, kind: WatchedKind[Any]) -> tuple[ObjectKey, ...]:
        try:
            return await self._listed(kind)
        except Gone:  # the list's continue token expired between two pages
            return await self._listed(kind)
        except (Forbidden, NotFound) as error:
            if kind.optional:
                log.debug("no %s are listed: %s", kind.resource, error)
                return ()
            if isinstance(error, NotFound) and kind.resource.group.endswith("charterer.dev"):
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
