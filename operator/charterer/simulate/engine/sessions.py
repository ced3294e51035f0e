"""The events of interactive jobs: cells come, wait for a GPU, run, and end."""

from __future__ import annotations

from collections.abc import Callable

from charterer.simulate.engine.clock import Clock
from charterer.simulate.model.sim_job import SimJob
from charterer.simulate.model.sim_session import SimSession


class Sessions:
    """``changed`` is called when anything happened that may matter, ``over`` when a job's last cell has run."""

    def __init__(self, clock: Clock, changed: Callable[[], None], over: Callable[[SimJob], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._over = over

    def begin(self, job: SimJob, session: SimSession) -> None:
        """The job was submitted: its owner thinks of the first cell."""
        self._think(job, session)

    def run_starts(self, job: SimJob, session: SimSession) -> None:
        """The job is given GPUs: it is there for all asks so far, once its worker runs."""
        session.stop(answer=False)
        session.served = session.asks
        self._clock.at(job.training_from, self._worker_ready, job, session, session.event, self._clock.now)

    def _think(self, job: SimJob, session: SimSession) -> None:
        cell = session.notebook.cells[session.cell]
        self._clock.at(self._clock.now + cell.think, self._cell_comes, job, session)

    def _cell_comes(self, job: SimJob, session: SimSession) -> None:
        session.asked_at = self._clock.now
        session.asks += 1
        if session.ready:
            session.served = session.asks
            self._run_cell(job, session)
        self._happened(job)

    def _worker_ready(self, job: SimJob, session: SimSession, event: int, given: float) -> None:
        if session.event != event:
            return
        now = self._clock.now
        session.ready, session.idle_since, session.start_seconds = True, now, now - given
        if session.asked_at is not None:
            self._run_cell(job, session)
        self._happened(job)

    def _run_cell(self, job: SimJob, session: SimSession) -> None:
        now = self._clock.now
        session.busy, session.idle_since = True, None
        seconds = session.notebook.cells[session.cell].seconds
        self._clock.at(now + seconds, self._cell_ends, job, session, session.event)
        if len(session.waits) == session.cell and session.asked_at is not None:
            session.waits.append(now - session.asked_at)

    def _cell_ends(self, job: SimJob, session: SimSession, event: int) -> None:
        if session.event != event or not session.busy:
            return
        session.busy, session.asked_at, session.idle_since = False, None, self._clock.now
        session.cell += 1
        if session.over:
            self._over(job)
        else:
            self._think(job, session)
        self._happened(job)

    def _happened(self, job: SimJob) -> None:
        job.version += 1
        self._changed()
