"""The virtual clock: what will happen, in order of time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from charterer.domain.time import Instant, after


class Clock:
    """``now``: seconds since ``start``; ``instant``: the same, as an Instant.

    What is due at one second happens in the order in which it was put there.
    """

    __slots__ = ("_due", "_put", "instant", "now", "start")

    def __init__(self, start: Instant) -> None:
        self.start = start
        self.now = 0.0
        self.instant = start
        self._due: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._put = 0

    def at(self, when: float, happens: Callable[..., None], *about: Any) -> None:
        """``happens(*about)`` at that second; at once in turn if it is over."""
        self._put += 1
        heappush(self._due, (when, self._put, happens, about))

    def before_all(self, when: float, rank: int, happens: Callable[..., None], *about: Any) -> None:
        """The same, but before whatever ``at`` put at that second; among themselves in order of ``rank``, from 0."""
        heappush(self._due, (when, rank - (1 << 62), happens, about))

    def step(self, until: float) -> bool:
        """Everything of the next second that has something; False when nothing is left up to ``until``."""
        due = self._due
        if not due or due[0][0] > until:
            return False
        now = self.now = due[0][0]
        self.instant = after(self.start, now)
        while due and due[0][0] <= now:
            _, _, happens, about = heappop(due)
            happens(*about)
        return True
