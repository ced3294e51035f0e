"""When a job that was widened because it pays may be narrowed again, or the other way round.

θ* is no given price: it follows from what running jobs cost, so that a job's own move may turn θ* against it, and the
next plan would take it back, at a restart each. As in every problem of moving among states at a cost that nobody knows
beforehand, one waits until staying has lost as much as going costs (Borodin, Linial and Saks 1992): at worst that is
twice what the move would have cost at once. What is lost accrues evenly over the time that the job has left.

At a fixed exchange rate nothing turns it, and nothing waits.
"""

from __future__ import annotations

from charterer.domain.job import Allocation, Job
from charterer.domain.time import Instant, after, format_minute
from charterer.policy.actions.resize_limits import Hold
from charterer.policy.options.option_value import Move


def reverses(job: Job, allocation: Allocation, move: Move, worth: float, left: float, now: Instant) -> Hold | None:
    """Why a move that would pay has to wait; None where it does not turn back, or has waited long enough.

    ``worth``: dollars of a second of the job's life; ``left``: seconds that it has left where it is.
    """
    before, since = _came_from(job, allocation)
    here, to = allocation.option.gpus, move.to.gpus
    if (here - before) * (to - here) >= 0:
        return None
    costs = (worth + move.to.price.dollars_per_second) * move.to.entry_seconds
    until = after(since, left * costs / (move.gain + costs))
    if now >= until:
        return None
    return Hold(f"it came from {before} GPUs: not before {format_minute(until)}, when that is worth it", until)


def _came_from(job: Job, allocation: Allocation) -> tuple[int, Instant]:
    """The GPUs before the last move to another width, and when that was; those of now where it was not moved to them.

    In between it may have been moved at one width, to another node.
    """
    here, since = allocation.option.gpus, allocation.since
    for record in reversed(job.records):
        if since not in job.moves:
            break
        if record.option.gpus != here:
            return record.option.gpus, since
        since = record.since
    return here, since
