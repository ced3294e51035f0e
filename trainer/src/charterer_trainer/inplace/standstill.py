"""The time for which training stands still at a change of the group, by phase."""

from __future__ import annotations

import time


class Standstill:
    """The phases of the last change, from the end of the vote to the end of the first step after it."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self.open = False
        self.of_change = False
        self._begin = self._last = time.monotonic()
        self.begin(of_change=False)

    def begin(self, *, of_change: bool) -> None:
        """Begin a standstill. ``of_change``: whether training ran before, so that this time is lost."""
        self._begin = self._last = time.monotonic()
        self.phases = {}
        self.open = True
        self.of_change = of_change

    def mark(self, phase: str) -> None:
        """Record the end of a phase."""
        now = time.monotonic()
        self.phases[phase] = now - self._last
        self._last = now

    def end(self, phase: str) -> None:
        """Record the end of the last phase, after which training continues."""
        self.mark(phase)
        self.open = False

    @property
    def seconds(self) -> float:
        """The sum of the phases."""
        return self._last - self._begin

    def __str__(self) -> str:
        phases = ", ".join(f"{phase} {seconds:.3f}" for phase, seconds in self.phases.items())
        return f"{self.seconds:.3f} s ({phases})"
