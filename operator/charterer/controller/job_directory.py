"""The progress endpoint's view of jobs: the run of each whose pods may report, from the last snapshot."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable

from charterer.domain.ids import JobId
from charterer.domain.job import Job, ResizePolicy, Run
from charterer.domain.nodes.hazard import Hazard
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import seconds_between
from charterer.lifecycle.runs.group import group_of
from charterer.server.directory import CurrentRun, Members, SessionOfRun
from charterer.workloads.pod_template import pod_address


class SnapshotJobDirectory:
    """``server.directory.JobDirectory`` over the last snapshot.

    ``secret``: of which the keys of runs are made, the same in each process of the operator.
    """

    def __init__(self, last: Callable[[], Snapshot | None], secret: bytes) -> None:
        self._last = last
        self._secret = secret

    def find(self, job_id: JobId) -> CurrentRun | None:
        """The oldest run with live pods; None for a job that is not there or has no such run."""
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
        """That of the group which the job's current run should form; None where it is to stop, or there is none."""
        snapshot = self._last()
        job = None if snapshot is None else snapshot.jobs.get(job_id)
        run = None if job is None else _oldest_run(job)
        allocation = None if job is None else job.allocation
        if job is None or run is None or allocation is None or allocation.run != run.number:
            return None
        return group_of(job, run).generation

    def _members(self, job: Job, run: Run) -> Members | None:
        """The pods that should train together; None in a run that is not resized in place."""
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
    """None of a run that is to end: its worker is told so, and its session is over."""
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
    """At which rate the nodes of the job's allocation are taken back; None where none is expected."""
    pool = None if job.allocation is None else snapshot.pools.get(job.allocation.option.pool)
    return None if pool is None or pool.hazard is None or pool.hazard.never else pool.hazard


def _ages(job: Job, snapshot: Snapshot) -> tuple[float, ...]:
    """The ages of its nodes, in hours."""
    places = () if job.allocation is None else job.allocation.placements
    rentals = [snapshot.rentals.get(place.rental) for place in places]
    return tuple(
        max(seconds_between(rental.launched, snapshot.now), 0.0) / 3600.0
        for rental in rentals
        if rental is not None and rental.launched is not None
    )
