"""Failures of jobs that share a GPU through MPS: a fatal fault of one client ends all of them.

Nobody knows whose fault it was. So runs of two jobs that fail on one node in the same moment both count as interrupted:
against maxRestarts and not against backoffLimit. A job that fails by itself goes on to do so without company. Two that
have ended each other twice are not put together any more (``domain.jobs.shared_fault``).
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from charterer.domain.ids import RentalId
from charterer.domain.job import Allocation, Job, Run, RunOutcome
from charterer.domain.jobs.pod import PodPhase
from charterer.domain.jobs.shared_fault import told_of
from charterer.domain.time import Instant, seconds_between
from charterer.lifecycle.view import LifecycleView

_MOMENT_SECONDS = 2.0
"""Seconds between two ends that may be of one fault: kubelets tell whole ones, one container after another."""


def failed_beside(job: Job, allocation: Allocation, failed: Instant, view: LifecycleView) -> str:
    """That another job failed together with this one, whose run ``failed`` then, on GPUs of both; empty if none did."""
    pool = view.snapshot.pools.get(allocation.option.pool)
    if pool is None or pool.partition is None or not pool.partition.shares_faults:
        return ""
    here = {placement.rental for placement in allocation.placements}
    at = min(_ends(job.current_run), default=failed)
    for other in view.snapshot.jobs.values():
        if other.id != job.id and any(
            abs(seconds_between(end, at)) <= _MOMENT_SECONDS for end in _failures(other, here)
        ):
            return told_of(other)
    return ""


def _failures(job: Job, rentals: Set[RentalId]) -> Iterator[Instant]:
    """When runs of the job on these rentals failed, as far as that is on record, or their objects are there."""
    for record in job.records:
        may_have = record.outcome in (RunOutcome.FAILED, RunOutcome.INTERRUPTED)
        if may_have and any(placement.rental in rentals for placement in record.placements):
            yield record.until
    if job.allocation is not None and any(placement.rental in rentals for placement in job.allocation.placements):
        yield from _ends(job.current_run)


def _ends(run: Run | None) -> Iterator[Instant]:
    """When its pods failed."""
    for pod in () if run is None else run.pods:
        if pod.phase is PodPhase.FAILED and pod.finished is not None:
            yield pod.finished
