"""A background thread that posts the newest report and reads the answer. Training never waits for it."""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Mapping

from charterer_trainer.allocations import Allocation
from charterer_trainer.checkpoints import saves
from charterer_trainer.client import Answer, Client, Unanswered
from charterer_trainer.members import Members, MembersWatch
from charterer_trainer.steps import GradientMean, StepClock

log = logging.getLogger("charterer_trainer")

_SHORTEST_SECONDS = 1.0
_LONGEST_SECONDS = 60.0
_HELD_SECONDS = 20.0
"""Seconds for which the operator may hold back an answer while it waits for other members."""


def _saved() -> dict[str, object]:
    return {} if saves.seconds is None else {"checkpointSeconds": saves.seconds}


class Reporter:
    """Posts once at the start, and then as often as the operator requests. While the operator does not answer, it posts
    less often.

    Memory and calls stay limited however often ``report`` is called, because only the newest report and the means over
    earlier steps are stored. ``stopping`` is set after an answer announces a stop. ``tried`` is set after the first
    post, successful or not. ``allocation``, ``batch`` and ``checkpoint_every`` are from the last answer. ``members``
    has the group's newest members. A process that is forked from this one (a data loader) has no thread and reports
    nothing.
    """

    def __init__(self, client: Client, base: Mapping[str, object]) -> None:
        self._client = client
        self._base = dict(base)
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._newest: Mapping[str, object] | None = None
        self._once: dict[str, object] = {}
        self._clock = StepClock(saving=lambda: saves.total_seconds)
        self._gradients = GradientMean()
        self._wake = threading.Event()
        self._closing = False
        self._complained = False
        self._failures = 0
        self.stopping = threading.Event()
        self.tried = threading.Event()
        self.allocation: Allocation | None = None
        self.batch: int | None = None
        self.checkpoint_every: float | None = None
        self.members = MembersWatch(self._ask_members)
        self._thread = threading.Thread(target=self._loop, name="charterer-reporter", daemon=True)
        self._thread.start()

    def report(self, numbers: Mapping[str, object]) -> None:
        """Store these numbers for the next post. Earlier numbers that were not posted yet are dropped."""
        if os.getpid() == self._pid:
            with self._lock:
                self._clock.step(numbers.get("step"), numbers.get("batch"))
                self._gradients.step(numbers)
                self._newest = dict(numbers)

    def spent(self, part: str, seconds: float) -> None:
        """Add seconds that steps have spent in ``part``."""
        if os.getpid() == self._pid:
            with self._lock:
                self._clock.spent(part, seconds)

    def gradient(self, numbers: Mapping[str, object]) -> None:
        """Add ``gradSqr`` and ``gradVar`` of a step."""
        if os.getpid() == self._pid:
            with self._lock:
                self._gradients.step(numbers)

    def formed(self, generation: int | None, resize_seconds: float | None) -> None:
        """Report at once that this process trains in the group of ``generation``. None means that it trains in no
        group.

        ``resize_seconds``: how long training stood still before. None if it did not.
        """
        with self._lock:
            self._base.pop("generation", None)
            if generation is not None:
                self._base["generation"] = generation
            if resize_seconds is not None:
                self._once["resizeSeconds"] = resize_seconds
        self._wake.set()

    def busy(self, busy: bool) -> None:
        """Set ``busy`` in every report from now on. A change is posted at once."""
        with self._lock:
            changed = self._base.get("busy") is not busy
            self._base["busy"] = busy
        if changed:
            self._wake.set()

    def close(self, seconds: float) -> None:
        """Post the pending report and end the thread. The call waits at most ``seconds``."""
        if os.getpid() != self._pid:
            return
        self._closing = True
        self._wake.set()
        self._thread.join(seconds)

    def _loop(self) -> None:
        while not self._closing:
            pause = self._post_newest()
            self.tried.set()
            self._wake.wait(pause)
            self._wake.clear()
        if self._newest is not None:
            self._post_newest()

    def _post_newest(self) -> float:
        """Post once. Returns the seconds until the next post."""
        with self._lock:
            numbers, self._newest = self._newest, None
            if numbers is not None:
                numbers = {**self._clock.take(), **numbers, **self._gradients.take()}
            once = dict(self._once)
            known = {**self._base, **_saved(), **once}
        try:
            answer = self._client.post({**known, **(numbers or {})})
        except Unanswered as problem:
            with self._lock:
                self._newest = self._newest if self._newest is not None else numbers
            return self._failed(str(problem), problem.retry_after)
        except Exception as problem:  # a defect here must not end a training run of days
            return self._failed(repr(problem), None)
        with self._lock:
            self._once = {name: value for name, value in self._once.items() if once.get(name) != value}
        self._heard(answer)
        return answer.again_seconds

    def _ask_members(self, fields: Mapping[str, object]) -> Members | None:
        with self._lock:
            known = {**self._base, **fields}
        answer = self._client.post(known, held=_HELD_SECONDS)
        self._heard(answer)
        return answer.members

    def _heard(self, answer: Answer) -> None:
        self._failures = 0
        self._complained = False
        if answer.allocation is not None:
            self.allocation = answer.allocation
        self.batch = answer.batch
        self.checkpoint_every = answer.checkpoint_every
        self.members.heard(answer.members)
        if answer.stopping and not self.stopping.is_set():
            log.info("Charterer says that this run is going to stop")
            self.stopping.set()

    def _failed(self, why: str, retry_after: float | None) -> float:
        self._failures += 1
        if not self._complained and self._failures >= 3:
            log.warning("progress cannot be reported to Charterer (training goes on): %s", why)
            self._complained = True
        pause = min(_LONGEST_SECONDS, _SHORTEST_SECONDS * 2.0 ** min(self._failures - 1, 10))
        spread = pause * (0.5 + random.random() / 2)  # jitter, so that many pods do not retry at the same time
        return max(spread, min(retry_after or 0.0, _LONGEST_SECONDS))
