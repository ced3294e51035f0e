"""The virtual clock: a queue of events in order of time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from charterer.domain.time import Instant, after


class Clock:
    """``now``: seconds since ``start``; ``instant``: the same, as an Instant.

    Events of the same second happen in the order in which they were scheduled.
    """

    __slots__ = ("_events", "_scheduled", "instant", "now", "start")

    def __init__(self, start: Instant) -> None:
        self.start = start
        self.now = 0.0
        self.instant = start
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._scheduled = 0

    def at(self, when: float, callback: Callable[..., None], *arguments: Any) -> None:
        """Call ``callback(*arguments)`` at that second, or within the present one if that second is over."""
        self._scheduled += 1
        heappush(self._events, (when, self._scheduled, callback, arguments))

    def before_all(self, when: float, rank: int, callback: Callable[..., None], *arguments: Any) -> None:
        """Like ``at``, but before all that ``at`` scheduled for that second; among themselves by ``rank``, from 0."""
        heappush(self._events, (when, rank - (1 << 62), callback, arguments))

    def step(self, until: float) -> bool:
        """Run all events of the next second that has any; False when there is none up to ``until``."""
        events = self._events
        if not events or events[0][0] > until:
            return False
        now = self.now = events[0][0]
        self.instant = after(self.start, now)
        while events and events[0][0] <= now:
            _, _, callback, arguments = heappop(events)
            callback(*arguments)
        return True
