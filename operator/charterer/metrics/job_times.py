"""How long jobs waited, ran and took, and how their runs ended: counted when a snapshot shows what the last did not.

What happened while no process led is not counted, because the first snapshot is only compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from charterer.domain.ids import JobId
from charterer.domain.job import Job
from charterer.domain.jobs.job_cost import spans
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, seconds_between


class JobTimesObserver(Protocol):
    """Receives what happened to jobs. Seconds are not negative; ``budget`` and ``namespace`` are those of the job."""

    def started(self, budget: str, namespace: str, waited: float) -> None:
        """A job got GPUs for the first time."""

    def run_ended(self, budget: str, namespace: str, outcome: str) -> None:
        """A run ended: the word of ``RunOutcome`` in lower case."""

    def finished(self, budget: str, namespace: str, result: str, ran: float, took: float) -> None:
        """A job ended for good: ``complete`` or ``failed``."""


class JobTimes:
    """Compares each snapshot with the one before."""

    def __init__(self, observer: JobTimesObserver, label: Callable[[str], str]) -> None:
        self._observer = observer
        self._label = label
        self._before: Mapping[JobId, Job] | None = None

    def look(self, snapshot: Snapshot) -> None:
        """Count what happened since the last call; linear in the jobs that changed."""
        before, self._before = self._before, snapshot.jobs
        if before is None:
            return
        for name, job in snapshot.jobs.items():
            earlier = before.get(name)
            if earlier is not job and job.budget is not None:
                self._compare(earlier, job)

    def _compare(self, earlier: Job | None, job: Job) -> None:
        payer = (str(job.budget), self._label(job.namespace))
        started = first_start(job)
        if started is not None and (earlier is None or first_start(earlier) is None):
            self._observer.started(*payer, _seconds(job.created, started))
        known = set() if earlier is None else {record.number for record in earlier.records}
        for record in job.records:
            if record.number not in known:
                self._observer.run_ended(*payer, record.outcome.value.lower())
        if job.finish is not None and (earlier is None or earlier.finish is None):
            ran = sum(_seconds(start, end) for _, start, end in spans(job, job.finish.at))
            self._observer.finished(*payer, job.finish.kind.value.lower(), ran, _seconds(job.created, job.finish.at))


def first_start(job: Job) -> Instant | None:
    """When the job first got GPUs, as far as its record goes back; None before that."""
    current = () if job.allocation is None else (job.allocation,)
    intended = [allocation.since for allocation in (*current, *job.replaced)]
    return min([*intended, *(record.since for record in job.records)], default=None)


def waiting_since(job: Job) -> Instant:
    """Since when a job without an allocation waits: its creation, or the end of its last run."""
    return max((record.until for record in job.records), default=job.created)


def _seconds(start: Instant, end: Instant) -> float:
    return max(seconds_between(start, end), 0.0)
