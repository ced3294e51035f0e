"""The instants that the tests' objects begin with."""

from __future__ import annotations

from datetime import UTC, datetime

from charterer.domain.time import Instant, after, instant

T0 = instant(datetime(2026, 3, 10, 12, tzinfo=UTC))
"""The creation of all objects unless a test says otherwise: in the middle of a month."""
MARCH = instant(datetime(2026, 3, 1, tzinfo=UTC))
APRIL = instant(datetime(2026, 4, 1, tzinfo=UTC))


def at(seconds: float) -> Instant:
    """Seconds after T0."""
    return after(T0, seconds)
