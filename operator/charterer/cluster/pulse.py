"""Whether the leader can act: its own client must get answers. The Lease, on a connection of its own, does not tell.

A process without files for new connections, or whose event loop hangs in a computation, renews its Lease and does
nothing else. It has to give up the lead, so that a replica leads that can act.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from charterer.cluster.errors import ApiError
from charterer.cluster.lease import steady

log = logging.getLogger(__name__)


class Pulse:
    """Remembers when the client was last answered. ``silence`` may be called from any thread."""

    def __init__(self, *, clock: Callable[[], float] = steady) -> None:
        self._clock = clock
        self._answered_at: float | None = None

    def silence(self) -> float:
        """Seconds without an answer; 0 until ``beat`` runs."""
        answered_at = self._answered_at
        return 0.0 if answered_at is None else self._clock() - answered_at

    async def beat(self, ask: Callable[[], Awaitable[object]], pause: float) -> NoReturn:
        """Ask the API server again and again, ``pause`` seconds apart, until cancelled. A refusal is an answer, too."""
        self._answered_at = self._clock()
        while True:
            try:
                await ask()
            except ApiError as error:
                answered = error.status != 0
                log.warning("the API server was asked by the leader's client: %s", error)
            else:
                answered = True
            if answered:
                self._answered_at = self._clock()
            await asyncio.sleep(pause)
