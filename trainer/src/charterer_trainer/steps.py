"""Means over the steps between two posts: seconds of a step and of its parts, and gradient figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

PARTS = ("compute", "sync", "load")
"""The parts of a step's seconds: computing, waiting for the other ranks, waiting for input."""


class _Moment(NamedTuple):
    """The time ``at`` at which training reached ``step``.

    ``spent``: seconds in each of PARTS until then. ``saving``: seconds in saves until then.
    """

    step: int
    at: float
    saving: float
    spent: tuple[float, ...]


class StepClock:
    """The mean time of the steps between two posts and of their parts, without saves of checkpoints.

    The mean begins anew at another batch size, and if the step number falls. ``saving`` returns the seconds in saves so
    far.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, saving: Callable[[], float] = lambda: 0.0) -> None:
        self._clock = clock
        self._saving = saving
        self._spent = dict.fromkeys(PARTS, 0.0)
        self._measured: set[str] = set()
        self._batch: object = None
        self._first: _Moment | None = None
        self._last: _Moment | None = None

    def spent(self, part: str, seconds: float) -> None:
        """Add seconds that the current step has spent in ``part``."""
        self._measured.add(part)
        self._spent[part] += seconds

    def step(self, step: object, batch: object) -> None:
        """Record that training has reached this step, with this batch size."""
        if not isinstance(step, int):
            self._first = self._last = None
            return
        now = _Moment(step, self._clock(), self._saving(), tuple(self._spent.values()))
        if self._first is None or self._last is None or batch != self._batch or step < self._last.step:
            self._batch = batch
            self._first = now
        self._last = now

    def take(self) -> dict[str, object]:
        """The means of the steps since the last call, or empty if there were no steps. The means then begin anew.

        The keys are ``stepSeconds``, and ``computeSeconds``, ``syncSeconds`` and ``loadSeconds`` of the measured parts.
        If other parts were measured but computing was not, computing is the rest of a step.
        """
        first, last = self._first, self._last
        self._first = last
        if first is None or last is None or last.step <= first.step:
            return {}
        steps = last.step - first.step
        seconds = (last.at - first.at - (last.saving - first.saving)) / steps
        if seconds <= 0.0:
            return {}
        parts = {part: (after - before) / steps for part, before, after in zip(PARTS, first.spent, last.spent)}
        if "compute" not in self._measured:
            parts["compute"] = max(0.0, seconds - parts["sync"] - parts["load"])
        shown = {*self._measured, "compute"} if self._measured else set()
        return {"stepSeconds": seconds, **{f"{part}Seconds": parts[part] for part in PARTS if part in shown}}


class GradientMean:
    """The means of ``gradSqr`` and ``gradVar`` between two posts. The figures of a single step have little
    information.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._sqr = 0.0
        self._var = 0.0

    def step(self, numbers: Mapping[str, object]) -> None:
        """Add the figures of a step, which may have neither."""
        sqr, var = numbers.get("gradSqr"), numbers.get("gradVar")
        if isinstance(sqr, float) and isinstance(var, float):
            self._steps += 1
            self._sqr += (sqr - self._sqr) / self._steps
            self._var += (var - self._var) / self._steps

    def take(self) -> dict[str, object]:
        """The means since the last call, or empty if there were no figures. The means then begin anew."""
        steps, self._steps = self._steps, 0
        means: dict[str, object] = {"gradSqr": self._sqr, "gradVar": self._var} if steps else {}
        self._sqr = self._var = 0.0
        return means
