"""Ends a process that hangs, because some collective operations cannot be interrupted from Python."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

RESTART = 75
"""The exit code of a process that needs a restart from the newest checkpoint (EX_TEMPFAIL of sysexits.h)."""
_LOOK_SECONDS = 0.25


def restart(why: str) -> NoReturn:
    """End this process at once with exit code 75. The operator restarts the run from its newest checkpoint."""
    print(f"charterer_trainer: this run cannot go on in place, it needs a restart: {why}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(RESTART)


class Watchdog:
    """A thread that ends the process with exit code 75 if a block exceeds its time limit."""

    def __init__(self) -> None:
        self._deadline: tuple[float, str] | None = None
        self._thread: threading.Thread | None = None

    @contextmanager
    def limit(self, seconds: float, what: str) -> Iterator[None]:
        """Limit the block to ``seconds``. ``what`` names the block in the message.

        An inner limit replaces the outer limit until the inner block ends.
        """
        before = self._deadline
        self._deadline = (time.monotonic() + seconds, what)
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="charterer-watchdog", daemon=True)
            self._thread.start()
        try:
            yield
        finally:
            self._deadline = before

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            deadline = self._deadline
            if deadline is not None and time.monotonic() > deadline[0]:
                restart(f"{deadline[1]} takes too long")
