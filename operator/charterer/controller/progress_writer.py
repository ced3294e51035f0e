"""Progress reports into status, rarely: a job's last report survives a restart of the operator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from charterer.cluster.errors import ApiError
from charterer.controller.execute import ExecutionContext, Stale
from charterer.server.progress import ProgressBoard

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0


class ProgressWriter:
    """Writes what the board says is due. ``busy``: whether the loop has a mutation of the object in flight."""

    def __init__(self, board: ProgressBoard, context: ExecutionContext, busy: Callable[[str], bool]) -> None:
        self._board = board
        self._context = context
        self._busy = busy

    async def run(self) -> None:
        """Look now and then, for ever."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._board.retain(self._context.decided.snapshot().jobs.keys())
            for job, progress in self._board.due(self._context.now()):
                if self._busy(f"job/{job}"):
                    continue
                try:
                    await self._context.objects.record_job(replace(self._context.decided.job(job), progress=progress))
                except Stale:
                    continue
                except ApiError as error:
                    _log.info("progress of %s not recorded, again soon: %s", job, error)
                else:
                    self._board.flushed(job, progress, self._context.now())
