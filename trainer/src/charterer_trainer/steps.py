"""Seconds per step, by watching when steps are reported: for scripts that do not time themselves."""

from __future__ import annotations

import time
from collections.abc import Callable


class StepClock:
    """The mean time of the steps between two posts. Another batch size, or a step that falls back, starts it anew."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._batch: object = None
        self._first: tuple[int, float] | None = None
        self._last: tuple[int, float] | None = None

    def step(self, step: object, batch: object) -> None:
        """Training has come to this step, with this batch size."""
        if not isinstance(step, int):
            self._first = self._last = None
            return
        now = (step, self._clock())
        if self._first is None or self._last is None or batch != self._batch or step < self._last[0]:
            self._batch = batch
            self._first = now
        self._last = now

    def take(self) -> dict[str, object]:
        """``{"stepSeconds": mean}`` of the steps since the last call, empty where there were none; then starts anew."""
        first, last = self._first, self._last
        self._first = last
        if first is None or last is None or last[0] <= first[0] or last[1] <= first[1]:
            return {}
        return {"stepSeconds": (last[1] - first[1]) / (last[0] - first[0])}
