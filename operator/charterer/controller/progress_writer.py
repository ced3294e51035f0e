"""Progress reports, written into status rarely, so that a job's last report survives a restart of the operator."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Callable, Collection

from charterer.cluster.errors import ApiError
from charterer.controller.execute import ExecutionContext, Stale
from charterer.controller.surveys import Backoff
from charterer.domain.ids import JobId, StepKey, StepKind
from charterer.domain.job import Job, ResizePolicy, Run
from charterer.domain.job_records import with_report
from charterer.domain.pool import Hazard
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import seconds_between
from charterer.lifecycle.run import group_of
from charterer.server.progress import CurrentRun, Members, ProgressBoard, SessionOfRun
from charterer.workloads.workload import pod_address

# The progress endpoint's view of jobs: the run of each job whose pods may report, from the last snapshot.


class SnapshotJobDirectory:
    """``server.progress.JobDirectory`` of the last snapshot.

    ``secret``: the keys of runs are derived from this secret, which is the same in each process of the operator.
    """

    def __init__(self, last: Callable[[], Snapshot | None], secret: bytes) -> None:
        self._last = last
        self._secret = secret

    def find(self, job_id: JobId) -> CurrentRun | None:
        """The oldest run with live pods, or None if the job does not exist or has no such run."""
        snapshot = self._last()
        job = None if snapshot is None else snapshot.jobs.get(job_id)
        run = None if job is None else _oldest_run(job)
        if snapshot is None or job is None or run is None:
            return None
        return CurrentRun(
            number=run.number,
            pod_uids=frozenset(pod.uid for pod in run.pods),
            allocation=_allocation(job, run),
            stopping=_stopping(job, run, snapshot),
            hazard=_hazard(job, snapshot),
            ages=_ages(job, snapshot),
            members=self._members(job, run),
            session=_session(job, run),
        )

    def generation(self, job_id: JobId) -> int | None:
        """The generation that the job's oldest run with live pods should form. None if no run goes on."""
        snapshot = self._last()
        job = None if snapshot is None else snapshot.jobs.get(job_id)
        run = None if job is None else _oldest_run(job)
        allocation = None if job is None else job.allocation
        if job is None or run is None or allocation is None or allocation.run != run.number:
            return None
        return group_of(job, run).generation

    def _members(self, job: Job, run: Run) -> Members | None:
        """The pods that should train together, or None if the job's runs are not resized in place."""
        if job.resize is not ResizePolicy.IN_PLACE:
            return None
        group = group_of(job, run)
        addresses = tuple([pod_address(job, run.number, index) for index in group.indexes])
        key = hmac.new(self._secret, f"{job.id}/{run.number}".encode(), "sha256").hexdigest()
        return Members(group.generation, group.indexes, addresses, key)


def _oldest_run(job: Job) -> Run | None:
    """The oldest run with live pods."""
    alive = [run for run in job.runs if any(pod.live for pod in run.pods)]
    return min(alive, key=lambda run: run.number, default=None)


def _allocation(job: Job, run: Run) -> dict[str, int]:
    current = job.trains_on
    if current is not None and current.run == run.number:
        allocation = current
    else:
        former = next((former for former in job.replaced if former.run == run.number), None)
        if former is None:
            return {}
        allocation = former
    shape: dict[str, int] = json.loads(allocation.annotation)
    return shape


def _session(job: Job, run: Run) -> SessionOfRun | None:
    """The session of an interactive job's run, or None if the run, and with it the session, is to end."""
    if job.interactive is None or job.allocation is None or job.allocation.run != run.number:
        return None
    return SessionOfRun(job.interactive.asks, job.allocation.since)


def _stopping(job: Job, run: Run, snapshot: Snapshot) -> bool:
    if job.deleting or run.suspended or run.deleting or job.allocation is None or job.allocation.run != run.number:
        return True
    rentals = [snapshot.rentals.get(placement.rental) for placement in job.allocation.placements]
    noticed = {notice.instance for survey in snapshot.surveys.values() for notice in survey.notices if notice.certain}
    return any(rental is None or rental.instance in noticed for rental in rentals)


def _hazard(job: Job, snapshot: Snapshot) -> Hazard | None:
    """The rate at which the nodes of the job's allocation are taken back. None if no node is expected to be taken
    back.
    """
    pool = None if job.allocation is None else snapshot.pools.get(job.allocation.option.pool)
    return None if pool is None or pool.hazard is None or pool.hazard.never else pool.hazard


def _ages(job: Job, snapshot: Snapshot) -> tuple[float, ...]:
    """The ages in hours of the job's nodes."""
    places = () if job.allocation is None else job.allocation.placements
    rentals = [snapshot.rentals.get(place.rental) for place in places]
    return tuple(
        max(seconds_between(rental.launched, snapshot.now), 0.0) / 3600.0
        for rental in rentals
        if rental is not None and rental.launched is not None
    )


_log = logging.getLogger(__name__)

_CHECK_SECONDS = 5.0
"""Seconds between two checks for due reports. A report waits at most a minute for its write (``ProgressBoard``)."""

_LONGEST_PAUSE_SECONDS = 300.0
"""Longest pause, in seconds, of a job whose progress could not be written."""


class ProgressWriter:
    """Writes the reports that are due on the board, except those of jobs that have a mutation of the loop in flight."""

    def __init__(self, board: ProgressBoard, context: ExecutionContext, in_flight: Collection[StepKey]) -> None:
        self._board = board
        self._context = context
        self._in_flight = in_flight
        self._backoff: Backoff[JobId] = Backoff(asyncio.get_running_loop().time, _CHECK_SECONDS)

    async def run(self) -> None:
        """Write the reports that are due, until cancelled."""
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
