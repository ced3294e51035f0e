"""Runs that have stopped to advance while their pods live, as in a collective operation that one rank never enters.

Such a run would hold its GPUs for ever: no pod fails. Its trainer has reported steps or a fraction before, and now
reports none. An evaluation or a checkpoint looks the same for as long as it lasts. So a run counts as stalled after

    2^s · max(1800 s, 20 g)

where g is the longest time between two advances that was seen of the job, checkpoints and evaluations among them, and s
the number of its runs that stalled before: what a first pause of a new kind breaks off once is let pass later. While
fewer than three advances were seen, by this process, how often the job reports is not known: then it is twice what the
run has trained up to its last report, within half an hour and a day. ``spec.stallTimeoutSeconds`` says it instead, or
that nothing is to be done. A run that has not advanced yet has its entry time on top and 1800 s at least, since it
loads and compiles.
"""

from __future__ import annotations

from typing import Final

from charterer.domain.job import Job, ResizePolicy, RunOutcome
from charterer.domain.time import Instant, after, seconds_between

_LEAST_SECONDS: Final = 1_800.0
"""Seconds for which a run may stand still, whatever is known of it: few evaluations take longer, and on a node of $20
an hour it is $10 instead of a weekend's $1,000."""
_LONGEST_PAUSES: Final = 20.0
"""The longest pauses that were seen, of which so many are waited for."""
_MOST_DOUBLINGS: Final = 10
_KNOWN: Final = 3
"""Advances from which on their longest pause says how often the job reports."""
_UNKNOWN_SECONDS: Final = 86_400.0
"""The longest that is waited for where that is not known: few epochs take a day."""


def stall_seconds(job: Job) -> float:
    """Seconds without an advance after which the job's present run counts as stalled."""
    if job.stall_timeout_seconds:
        return job.stall_timeout_seconds
    stalled = sum(record.outcome is RunOutcome.STALLED for record in job.records)
    return max(_LEAST_SECONDS, _pause_seconds(job)) * 2.0 ** min(stalled, _MOST_DOUBLINGS)


def _pause_seconds(job: Job) -> float:
    """Seconds that a run may stand still by how often the job has reported."""
    run, progress = job.current_run, job.progress
    if progress is not None and progress.advances >= _KNOWN:
        return _LONGEST_PAUSES * progress.longest_pause
    if run is None or run.started is None or progress is None or progress.run != run.number:
        return _UNKNOWN_SECONDS
    return min(2.0 * max(seconds_between(run.started, progress.at), 0.0), _UNKNOWN_SECONDS)


def last_advance(job: Job) -> Instant | None:
    """When the present run advanced last, at the earliest when it was started and could; None where none is due.

    None as well for a job that has never reported, and where this process has not been told of the run yet.
    """
    run, progress = job.current_run, job.progress
    if run is None or progress is None or not progress.moves or job.allocation is None or run.started is None:
        return None
    if run.ended is not None or not job.has_begun or not any(pod.live for pod in run.pods):
        return None
    if progress.run == run.number:
        return progress.advanced
    return after(max(run.started, job.allocation.since), job.allocation.option.entry_seconds)


def stalls_at(job: Job) -> Instant | None:
    """When the present run counts as stalled if it does not advance before; None where that is not known."""
    since = last_advance(job)
    if since is None:
        return None
    advanced = job.progress is not None and job.allocation is not None and job.progress.run == job.allocation.run
    return after(since, stall_seconds(job) if advanced else max(stall_seconds(job), _LEAST_SECONDS))


def replaced_when_stalled(job: Job) -> bool:
    """Whether such a run is stopped, so that the job starts again from its last checkpoint.

    A job that is never resized may have none: it is only told of, unless its owner says when. So is an interactive one,
    whose worker reports no step while no cell runs.
    """
    if job.stall_timeout_seconds is None:
        return job.resize is not ResizePolicy.NEVER and job.interactive is None
    return job.stall_timeout_seconds > 0.0
