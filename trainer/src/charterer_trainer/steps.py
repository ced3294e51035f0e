"""What is averaged over the steps between two posts: their seconds, and the gradients' figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


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


class GradientMean:
    """The means of ``gradSqr`` and ``gradVar`` between two posts. One step says little, and its sign is noise."""

    def __init__(self) -> None:
        self._steps = 0
        self._sqr = 0.0
        self._var = 0.0

    def step(self, numbers: Mapping[str, object]) -> None:
        """A step has reported; it may have neither figure."""
        sqr, var = numbers.get("gradSqr"), numbers.get("gradVar")
        if isinstance(sqr, float) and isinstance(var, float):
            self._steps += 1
            self._sqr += (sqr - self._sqr) / self._steps
            self._var += (var - self._var) / self._steps

    def take(self) -> dict[str, object]:
        """The means since the last call, empty where no step had figures; then starts anew."""
        steps, self._steps = self._steps, 0
        means: dict[str, object] = {"gradSqr": self._sqr, "gradVar": self._var} if steps else {}
        self._sqr = self._var = 0.0
        return means
