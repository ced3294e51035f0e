"""Progress reports written into status, rarely, so that a job's last report survives a restart of the operator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from charterer.cluster.errors import ApiError
from charterer.controller.backoff import Backoff
from charterer.controller.execute import ExecutionContext, Stale
from charterer.domain.ids import JobId, StepKey, StepKind
from charterer.domain.jobs.sessions import with_report
from charterer.server.progress import ProgressBoard

_log = logging.getLogger(__name__)

_CHECK_SECONDS = 5.0
"""Seconds between two looks at what is due: a report waits for its write a minute at most (``ProgressBoard``)."""

_LONGEST_PAUSE_SECONDS = 300.0
"""Seconds for which a job is left alone at most whose progress could not be written."""


class ProgressWriter:
    """Writes what the board says is due, except to jobs of which the loop has a mutation in flight."""

    def __init__(self, board: ProgressBoard, context: ExecutionContext, in_flight: Collection[StepKey]) -> None:
        self._board = board
        self._context = context
        self._in_flight = in_flight
        self._backoff: Backoff[JobId] = Backoff(asyncio.get_running_loop().time, _CHECK_SECONDS)

    async def run(self) -> None:
        """Write what is due, until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            jobs = self._context.decided.snapshot().jobs.keys()
            self._board.retain(jobs)
            self._backoff.retain(jobs)
            for job, progress in self._board.due(self._context.now()):
                if StepKey(StepKind.JOB, job) in self._in_flight or self._backoff.pausing(job):
                    continue
                try:
                    await self._context.objects.record_job(with_report(self._context.decided.job(job), progress))
                except Stale:
                    continue
                except ApiError as error:
                    _log.info("progress of %s not recorded, again soon: %s", job, error)
                    self._backoff.failed(job, _LONGEST_PAUSE_SECONDS)
                else:
                    self._backoff.succeeded(job)
                    self._board.flushed(job, progress, self._context.now())
