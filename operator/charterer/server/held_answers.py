"""Answers that wait until the group which a run should form is another one, so that a change is heard of at once.

Only the leader of a run and pods that wait to join ask for that. A request that waits costs its connection and a
future; whether it is over is looked at once a turn of the loop, and only for jobs with such requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from charterer.domain.ids import JobId

HOLD_SECONDS: Final = 20.0
"""Seconds for which an answer waits at most: less than proxies and clients wait for one."""
MOST_HELD: Final = 2_048
"""Answers that wait at the same time; a further one is given at once, and the pod hears with its next report."""


class HeldAnswers:
    """``generation``: that of the group which a job's run should form now; None where it should form none."""

    def __init__(
        self, generation: Callable[[JobId], int | None], *, seconds: float = HOLD_SECONDS, most: int = MOST_HELD
    ) -> None:
        self._generation = generation
        self._seconds = seconds
        self._most = most
        self._waiting: dict[JobId, dict[asyncio.Future[None], int]] = {}
        self._held = 0

    def __len__(self) -> int:
        return self._held

    async def wait(self, job: JobId, generation: int) -> None:
        """Until the job's group to be formed is another one than ``generation``, or for ``seconds``."""
        if self._generation(job) != generation or self._held >= self._most:
            return
        changed = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job, {})[changed] = generation
        self._held += 1
        try:
            async with asyncio.timeout(self._seconds):
                await changed
        except TimeoutError:
            pass
        finally:
            self._held -= 1
            of_job = self._waiting[job]
            del of_job[changed]
            if not of_job:
                del self._waiting[job]

    def look(self) -> None:
        """End the waits that are over."""
        for job, waits in self._waiting.items():
            current = self._generation(job)
            for changed, generation in waits.items():
                if generation != current and not changed.done():
                    changed.set_result(None)
