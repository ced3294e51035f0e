"""The time of a cloud in tests."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


class Clock:
    """The cloud's time, which only a test moves."""

    def __init__(self) -> None:
        self._now = BEGIN

    @property
    def now(self) -> datetime:
        """The time."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += timedelta(seconds=seconds)


class WallClock(Clock):
    """The real time in whole seconds, as clouds tell it, ahead by what a test advances it; ``pace``: seconds of the
    cloud's that pass in one of the wall's."""

    def __init__(self, pace: float = 1.0) -> None:
        super().__init__()
        self._now = datetime.now(UTC).replace(microsecond=0)
        self._began = time.monotonic()
        self._pace = pace

    @property
    def now(self) -> datetime:
        """The time."""
        return self._now + timedelta(seconds=int((time.monotonic() - self._began) * self._pace))
