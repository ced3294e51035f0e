"""How long training stands still for a change of the group, phase by phase."""

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
        """Training stands still from now on. ``of_change``: it ran before, so that this is time lost."""
        self._begin = self._last = time.monotonic()
        self.phases = {}
        self.open = True
        self.of_change = of_change

    def mark(self, phase: str) -> None:
        """This phase has just ended."""
        now = time.monotonic()
        self.phases[phase] = now - self._last
        self._last = now

    def end(self, phase: str) -> None:
        """Training goes on: this was the last phase."""
        self.mark(phase)
        self.open = False

    @property
    def seconds(self) -> float:
        """The sum of the phases."""
        return self._last - self._begin

    def __str__(self) -> str:
        phases = ", ".join(f"{phase} {seconds:.3f}" for phase, seconds in self.phases.items())
        return f"{self.seconds:.3f} s ({phases})"
