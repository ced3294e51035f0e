"""Whether a checkpoint can be written within the grace period."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Final

_KEPT: Final = 5
_LEAST: Final = 2
"""Checkpoints that must have been seen: the first one may also make folders or wake a volume."""


class CheckpointTimes:
    """The seconds of a run's last checkpoints. A report repeats the last one, so equal numbers in a row are one."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_KEPT)

    def add(self, seconds: float) -> bool:
        """Take in what a report says; whether that is another checkpoint."""
        if self._seconds and self._seconds[-1] == seconds:
            return False
        self._seconds.append(seconds)
        return True

    def longer_than(self, grace_seconds: float) -> float | None:
        """The median where it is longer than the grace period; None where it is not, or after too few."""
        if len(self._seconds) < _LEAST:
            return None
        seconds = median(self._seconds)
        return seconds if seconds > grace_seconds else None
