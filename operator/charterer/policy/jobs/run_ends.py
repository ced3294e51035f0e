"""When a run is expected to end."""

from __future__ import annotations

from math import inf

from charterer.domain.job import Job
from charterer.domain.time import Instant, seconds_between
from charterer.policy.jobs.job_facts import job_position

_LEAST = 1.0
"""Seconds for which a run that goes on is taken to go on at least: its GPUs are not free yet."""


def seconds_left(job: Job, mean_work: float, *, sized: bool, now: Instant) -> float:
    """Seconds until the run of the job ends; infinite where nothing says how long it is.

    ``mean_work``: of a job of its class (seconds of the reference option); ``sized``: whether that is known. What the
    job had left when it last reported, or else when its run began, is counted down. A run that is overdue is taken to
    be overdue for as long again, so that nobody waits for it for ever.
    """
    allocation, progress = job.allocation, job.progress
    if allocation is None or job.interactive is not None or (job.remaining is None and not sized):
        return inf
    since = allocation.since
    if progress is not None and progress.fraction is not None:
        since = max(since, progress.at)
    left = job_position(job, mean_work).left / allocation.option.speed
    return max(abs(left - max(seconds_between(since, now), 0.0)), _LEAST)
