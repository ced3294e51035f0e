"""Which runs are told to stop, and how one has ended whose object is being deleted."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.job import Run
from charterer.domain.jobs.pod import PodPhase


def active(run: Run) -> bool:
    """Whether the run may have pods started for it."""
    return not run.suspended and run.ended is None


def to_stop(run: Run) -> bool:
    """Whether a run that nobody wants is to be told to stop.

    The controller of an object in deletion leaves its pods alone, whatever the object says: they are told themselves.
    """
    return any(pod.live and not pod.deleting for pod in run.pods) if run.deleting else active(run)


def ended_by_pods(run: Run) -> Run:
    """The run as the Job controller would end it, which gives a Job in deletion no condition."""
    ends = [pod.finished for pod in run.pods if pod.finished is not None]
    if ends and not run.unproven:
        return replace(run, complete=max(ends))
    failed = [pod.finished for pod in run.pods if pod.phase is PodPhase.FAILED and pod.finished is not None]
    return replace(run, failed=max(failed), failed_message="its Job is being deleted") if failed else run
