"""Shows the thing that is being made, the progress and the minutes left, in one line that is rewritten.

If the output is no terminal, a line is printed every 20 seconds.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Sequence
from typing import TextIO

from tests.testbed.cache import Thing, ensure

_EVERY = 20.0
"""Seconds between two lines if the output is no terminal."""


class Progress:
    """The progress of things that are made in order.

    The time left is the sum of the measured times less the elapsed time, scaled by how much slower this machine was so
    far. Things that were made faster, by another process or from Go's cache, do not speed up the estimate.
    """

    def __init__(self, things: Sequence[Thing], output: TextIO | None = None) -> None:
        self._things = things
        self._output = output or sys.stdout
        self._moves = self._output.isatty()
        self._now: tuple[int, float] | None = None
        self._taken = 0.0
        self._usual = 0.0
        self._guard = threading.Lock()

    def run(self) -> None:
        """Make missing things and show the progress. Raises BuildError."""
        ended = threading.Event()
        shower = threading.Thread(target=self._show, args=(ended,), daemon=True)
        begun = time.monotonic()
        shower.start()
        try:
            for place, thing in enumerate(self._things):
                self._make(place, thing)
        finally:
            ended.set()
            shower.join()
            self._wipe()
        if self._things:
            names = ", ".join(thing.name for thing in self._things)
            self.say(f"ready after {_minutes(time.monotonic() - begun)}: {names}")

    def _make(self, place: int, thing: Thing) -> None:
        started = time.monotonic()
        self._now = (place, started)
        ensure(thing, self.say)
        self._taken += time.monotonic() - started
        self._usual += thing.seconds

    def say(self, line: str) -> None:
        """Print a line that is not rewritten."""
        with self._guard:
            self._wipe()
            print(f"builds: {line}", file=self._output, flush=True)

    def line(self, now: float) -> str:
        """Return the text of the rewritten line at a time of time.monotonic()."""
        assert self._now is not None
        place, started = self._now
        thing, rest = self._things[place], self._things[place + 1 :]
        passed = now - started
        pace = max(1.0, self._taken / self._usual) if self._usual else 1.0
        usual = thing.seconds * pace
        left = max(0.0, usual - passed) + sum(other.seconds for other in rest) * pace
        told = f"{thing.name} ({place + 1} of {len(self._things)}): {_clock(passed)}"
        if passed > usual:
            told += f", longer than the usual {_minutes(thing.seconds)}"
            return f"{told}; then about {_minutes(left)}" if rest else told
        return f"{told}, about {_minutes(left)} left"

    def _show(self, ended: threading.Event) -> None:
        while not ended.wait(0.5 if self._moves else _EVERY):
            if self._now is None:
                continue
            told = f"builds: {self.line(time.monotonic())}"
            with self._guard:
                if self._moves:
                    told = f"\r\x1b[K{told[: shutil.get_terminal_size().columns - 1]}"
                print(told, end="" if self._moves else "\n", file=self._output, flush=True)

    def _wipe(self) -> None:
        if self._moves:
            print("\r\x1b[K", end="", file=self._output, flush=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _minutes(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"
