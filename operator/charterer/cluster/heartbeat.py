"""Checks that the watch delivers: every renewal of the Lease (one in some seconds) must come back as an event."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

_REMEMBERED = 1_000
"""Undelivered renewals kept: far more than there are in the time after which a silent watch ends the process."""


class Heartbeat:
    """Compares what the Lease's own connection saw with what the watch delivered. Thread-safe.

    A standby sees the leader's renewals, too. While the API server is unreachable there are no renewals, so that the
    watch has nothing to deliver. Nothing but the Lease itself is written for this.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._undelivered: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED)
        self._delivered = -1

    def renewed(self, resource_version: int) -> None:
        """Take note that the Lease's own connection saw this resourceVersion."""
        with self._lock:
            newest = self._undelivered[-1][0] if self._undelivered else self._delivered
            if resource_version > newest:
                self._undelivered.append((resource_version, self._clock()))

    def delivered(self, resource_version: int) -> None:
        """Take note that the watch delivered this resourceVersion of the Lease."""
        with self._lock:
            self._delivered = max(self._delivered, resource_version)
            while self._undelivered and self._undelivered[0][0] <= self._delivered:
                self._undelivered.popleft()

    def lag(self) -> float:
        """Seconds for which the oldest undelivered renewal is late; 0 when all are delivered."""
        with self._lock:
            return self._clock() - self._undelivered[0][1] if self._undelivered else 0.0
