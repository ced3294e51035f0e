"""A limit on how often each of many may do something: a token bucket for each, for a bounded number of them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable


class RateLimiter:
    """``rate`` calls a second in the long run and ``burst`` at once, per key; the longest unused keys are forgotten."""

    def __init__(
        self, *, rate: float = 2.0, burst: int = 20, size: int = 50_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._size = size
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, key: str) -> float:
        """0 when the call is admitted, and then counted; otherwise the seconds until the next one would be."""
        now = self._clock()
        tokens, at = self._buckets.pop(key, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - at) * self._rate)
        admitted = tokens >= 1.0
        self._buckets[key] = (tokens - 1.0 if admitted else tokens, now)
        while len(self._buckets) > self._size:
            self._buckets.popitem(last=False)
        return 0.0 if admitted else (1.0 - tokens) / self._rate
