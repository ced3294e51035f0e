"""Proof that the watch delivers: every renewal of the Lease, one in a few seconds, must come back as an event."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

_REMEMBERED = 1_000


class Heartbeat:
    """Compares what the Lease's own connection saw with what the watch delivered. Thread-safe.

    Renewals are known even to a standby (it reads the leader's), and stop when the API server is away: then nothing is
    owed and the watch is not blamed. Nothing is written for this beside the Lease itself.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._owed: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED)
        self._delivered = -1

    def renewed(self, resource_version: int) -> None:
        """The Lease has this resourceVersion, says its own connection."""
        with self._lock:
            newest = self._owed[-1][0] if self._owed else self._delivered
            if resource_version > newest:
                self._owed.append((resource_version, self._clock()))

    def seen(self, resource_version: int) -> None:
        """The watch delivered the Lease with this resourceVersion."""
        with self._lock:
            self._delivered = max(self._delivered, resource_version)
            while self._owed and self._owed[0][0] <= self._delivered:
                self._owed.popleft()

    def lag(self) -> float:
        """Seconds for which the watch has owed the oldest renewal; 0 when it owes none."""
        with self._lock:
            return self._clock() - self._owed[0][1] if self._owed else 0.0
