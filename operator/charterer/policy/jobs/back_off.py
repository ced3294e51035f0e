"""How long a job backs off after a run that failed or never started: as batch/v1 does, so that an outage may pass.

No GPUs are held for a job that backs off. Whoever changes the job's spec (corrects its template, or suspends it and
resumes it) ends the back-off.
"""

from __future__ import annotations

from typing import Final

from charterer.domain.job import Job, RunOutcome
from charterer.domain.jobs.finish import START_ATTEMPTS
from charterer.domain.time import Instant, after

NOT_BEFORE_ITS_RECORD: Final = Instant(2**62)
"""When the job of a withdrawn run may have its next one while the end of that run is not on record: nobody knows."""
_FIRST_SECONDS: Final = 10.0
_LONGEST_SECONDS: Final = 360.0
"""Batch/v1's back-off after failed pods: 10 s, doubled each time, at most 6 minutes."""
_FIRST_START_SECONDS: Final = 30.0
_START_FACTOR: Final = 4.0
"""Longer after runs that never started: each costs machines, and what they lack (an image, a volume) comes slowly."""


def backs_off_until(job: Job) -> Instant | None:
    """When the job may have its next run; None if its last run gives no reason to wait.

    NOT_BEFORE_ITS_RECORD while the end of a withdrawn run is not on record.
    """
    if any(former.withdrawn_because for former in job.replaced):
        return NOT_BEFORE_ITS_RECORD
    if not job.records:
        return None
    last = max(job.records, key=lambda record: record.number)
    if last.generation not in (None, job.generation):
        return None
    if last.outcome is RunOutcome.FAILED:
        return after(last.until, failure_back_off_seconds(job.failures))
    if last.outcome is RunOutcome.NOT_STARTED:
        return after(last.until, start_back_off_seconds(job.start_failures))
    return None


def failure_back_off_seconds(failures: int) -> float:
    """Seconds of back-off after that many failed runs (at least one)."""
    return min(_FIRST_SECONDS * 2.0 ** min(max(failures, 1) - 1, 30), _LONGEST_SECONDS)


def start_back_off_seconds(start_failures: int) -> float:
    """Seconds of back-off after that many runs in a row that never started (at least one)."""
    return _FIRST_START_SECONDS * _START_FACTOR ** (min(max(start_failures, 1), START_ATTEMPTS) - 1)
