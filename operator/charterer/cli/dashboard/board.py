"""What pages are shown, part by part: each client takes what has changed since it last looked, at its own pace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from charterer.cli.dashboard.documents import Parts
from charterer.sentences import visible

_BATCH: Final = 256
"""Parts in one message, so that a client that reads slowly has a bounded amount of it waiting."""


def encode(parts: Parts) -> Mapping[str, str]:
    """Each part as JSON in one line, its characters visible."""
    return {name: visible(json.dumps(part, ensure_ascii=False, separators=(",", ":"))) for name, part in parts.items()}


class Board:
    """The latest parts. Nothing is queued: a client that is slow leaves out what was overtaken."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[int, str]] = {}
        self._version = 0
        self._changed = asyncio.Event()
        self._watched = asyncio.Event()
        self.clients = 0

    def show(self, encoded: Mapping[str, str], *, whole: bool = True) -> None:
        """Show these parts; those that are the same as before are not sent again. ``whole``: there are no others."""
        before, version = self._parts, self._version + 1
        fresh = {
            name: known if (known := before.get(name)) is not None and known[1] == text else (version, text)
            for name, text in encoded.items()
        }
        self._parts = fresh if whole else before | fresh
        self._version = version
        self._changed.set()
        self._changed = asyncio.Event()

    @contextmanager
    def client(self) -> Iterator[None]:
        """A page is connected meanwhile."""
        self.clients += 1
        self._watched.set()
        try:
            yield
        finally:
            self.clients -= 1
            if not self.clients:
                self._watched.clear()

    async def watched(self) -> None:
        """Wait until a page is connected."""
        await self._watched.wait()

    async def messages(self, pulse_seconds: float) -> AsyncIterator[str]:
        """Texts for one client: JSON objects of parts by name; an empty one where nothing changed for so long."""
        seen = 0
        while True:
            changed, version = self._changed, self._version
            news = [(name, text) for name, (since, text) in self._parts.items() if since > seen]
            for first in range(0, len(news), _BATCH):
                yield "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in news[first : first + _BATCH]) + "}"
            seen = version
            try:
                async with asyncio.timeout(pulse_seconds):
                    await changed.wait()
            except TimeoutError:
                yield ""
