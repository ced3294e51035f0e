"""Who may report progress, and what they are told: the current run of each job, from the last snapshot."""

from __future__ import annotations

import json
from collections.abc import Callable

from charterer.domain.ids import JobId
from charterer.domain.job import Job, Run
from charterer.domain.snapshot import Snapshot
from charterer.server.directory import CurrentRun


class StoreJobDirectory:
    """``server.directory.JobDirectory`` over the last snapshot."""

    def __init__(self, last: Callable[[], Snapshot | None]) -> None:
        self._last = last

    def find(self, job: JobId) -> CurrentRun | None:
        """The run whose pods are alive, the newest such; None for a job without one."""
        snapshot = self._last()
        known = None if snapshot is None else snapshot.jobs.get(job)
        if snapshot is None or known is None:
            return None
        alive = [run for run in known.runs if any(pod.live for pod in run.pods)]
        if not alive:
            return None
        run = min(alive, key=lambda one: one.number)
        return CurrentRun(
            number=run.number,
            pod_uids=frozenset(pod.uid for pod in run.pods),
            allocation=_allocation(known, run),
            stopping=_stopping(known, run, snapshot),
        )


def _allocation(job: Job, run: Run) -> dict[str, int]:
    if job.allocation is not None and job.allocation.run == run.number:
        allocation = job.allocation
    else:
        replaced = next((one for one in job.replaced if one.run == run.number), None)
        if replaced is None:
            return {}
        allocation = replaced
    shape: dict[str, int] = json.loads(allocation.annotation)
    return shape


def _stopping(job: Job, run: Run, snapshot: Snapshot) -> bool:
    if job.deleting or run.suspended or run.deleting or job.allocation is None or job.allocation.run != run.number:
        return True
    rentals = [snapshot.rentals.get(placement.rental) for placement in job.allocation.placements]
    noticed = {notice.instance for survey in snapshot.surveys.values() for notice in survey.notices}
    return any(rental is None or rental.instance in noticed for rental in rentals)
