"""When a running job may be moved because it pays: not in the budget's quiet hours, only a few times a day, and not
while the width on which it runs is being measured.

These limits do not apply to starts, restarts after a loss or a failure, changes by the job's owner, and cost limits.
"""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.budget import Budget
from charterer.domain.job import Allocation, Job
from charterer.domain.period import quiet_until
from charterer.domain.plan import moves_in_a_day
from charterer.domain.time import Instant, after, format_minute, moment
from charterer.policy.jobs.exploration_budget import TRIAL_SECONDS


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a job may not move, in words, and until when (None: until its budget allows more)."""

    text: str
    until: Instant | None


class MoveGate:
    """One budget's limits on moves at one instant."""

    def __init__(self, budget: Budget, now: Instant) -> None:
        self._now = now
        self._most = budget.moves.per_job_and_day
        self._quiet = quiet_until(budget.moves.quiet_hours, budget.time_zone, now) if budget.moves.quiet_hours else None

    def held(self, job: Job) -> Hold | None:
        """Why this job stays where it is; None when it may move."""
        if self._quiet is not None:
            return Hold(f"quiet hours until {format_minute(self._quiet)}", self._quiet)
        if self._most is None:
            return None
        recent = moves_in_a_day(job.moves, self._now)
        if len(recent) < self._most:
            return None
        text = f"it was moved {len(recent)} times in 24 h, and maxPerJobPerDay is {self._most}"
        return Hold(text, after(recent[-self._most], 86_400.0) if self._most else None)


def being_measured(allocation: Allocation, now: Instant) -> Hold | None:
    """Why a job stays on a width that is still to be measured; None once it has run for long enough to be.

    The first reports come at the smallest and the largest batch size, and each scatters by some 5 %. A job that goes
    on, or back, by those pays a restart, and often another one when more reports say otherwise.
    """
    until = after(allocation.since, allocation.option.entry_seconds + TRIAL_SECONDS)
    if now >= until:
        return None
    return Hold(f"{allocation.option.gpus} GPUs are being measured: at the latest until {moment(until):%H:%MZ}", until)
