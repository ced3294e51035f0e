"""Which running jobs may be moved because it pays. Every rule that moves runs asks here: resizing, emptying nodes, and
making room in full pools.

A job is not moved in the budget's quiet hours, more than a few times a day, or while the width on which it runs is
measured; nor to a place that its maxCost does not pay for, or where it would be late for its target. These limits do
not apply to starts, restarts after a loss or a failure, changes by the job's owner, and cost limits.

Nor does a job turn back at once. θ* is no given price: it follows from what running jobs cost, so that a job's own move
may turn θ* against it, and the next plan would take it back, at a restart each. As in every problem of moving among
states at a cost that nobody knows beforehand, one waits until staying has lost as much as going costs (Borodin, Linial
and Saks 1992): at worst that is twice what the move would have cost at once. What is lost accrues evenly over the time
that the job has left. A job turns back if it returns to the pool and width of before its last move, or if it becomes
slower after it was made faster, or the reverse: whatever the pools and GPU types are, no job comes back to where it was
without that. At a fixed exchange rate nothing turns it, and nothing waits.
"""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.job import Allocation, Job
from charterer.domain.option import Option
from charterer.domain.period import quiet_until
from charterer.domain.plan import moves_in_a_day
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after, format_minute, moment, seconds_between
from charterer.policy.budgets.deadline import MARGIN
from charterer.policy.budgets.reasons import name
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.exploration_budget import TRIAL_SECONDS
from charterer.policy.nodes.max_cost import max_cost_left, within_max_cost
from charterer.policy.options.option_value import JobPosition, OptionValues
from charterer.policy.solve.phase_dp import key_of


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a job may not move, in words, and until when (None: until its budget allows more)."""

    text: str
    until: Instant | None


class MoveGate:
    """One budget's limits on moves at one instant."""

    def __init__(self, solution: BudgetSolution, snapshot: Snapshot) -> None:
        budget = solution.budget
        self._snapshot = snapshot
        self._now = snapshot.now
        self._turns = budget.fixed_rate is None
        self._most = budget.moves.per_job_and_day
        self._quiet = quiet_until(budget.moves.quiet_hours, budget.time_zone, self._now)

    def closed(self, job: Job, values: OptionValues) -> Hold | None:
        """Why this job stays where it is, wherever it would go; None when it may move."""
        if self._quiet is not None:
            return Hold(f"quiet hours until {format_minute(self._quiet)}", self._quiet)
        allocation = job.allocation
        if allocation is not None and values.is_trial(allocation.option):
            measured = self._being_measured(allocation)
            if measured is not None:
                return measured
        if self._most is None:
            return None
        recent = moves_in_a_day(job.moves, self._now)
        if len(recent) < self._most:
            return None
        text = f"it was moved {len(recent)} times in 24 h, and maxPerJobPerDay is {self._most}"
        return Hold(text, after(recent[-self._most], 86_400.0) if self._most else None)

    def held(self, job: Job, values: OptionValues, position: JobPosition, to: Option) -> Hold | None:
        """Why this job does not go there now; None when it may."""
        return self.closed(job, values) or self._turns_back(job, values, position, to)

    def affords(self, job: Job, to: Option, dollars: float) -> bool:
        """Whether the job's maxCost allows a way to its end that costs ``dollars`` from now on."""
        return within_max_cost(job, to, dollars, max_cost_left(job, self._snapshot))

    def in_time(self, job: Job, seconds: float) -> bool:
        """Whether a job that ends in ``seconds`` would be in time, with a margin, for a target that lies ahead."""
        target = job.target_completion
        if target is None or target <= self._now:
            return True
        return seconds * (1.0 + MARGIN) <= seconds_between(self._now, target)

    def _being_measured(self, allocation: Allocation) -> Hold | None:
        """The first reports come at the smallest and the largest batch size, and each scatters by some 5 %. A job that
        goes on, or back, by those pays a restart, and often another one when more reports say otherwise.
        """
        until = after(allocation.since, allocation.option.entry_seconds + TRIAL_SECONDS)
        if self._now >= until:
            return None
        gpus = allocation.option.gpus
        return Hold(f"{gpus} GPUs are being measured: at the latest until {moment(until):%H:%MZ}", until)

    def _turns_back(self, job: Job, values: OptionValues, position: JobPosition, to: Option) -> Hold | None:
        """Why a move that takes back the last one has to wait; None for any other, or when that has lasted long enough.

        A move that others gain by takes from the job what the last one gave it: that has to have paid for itself.
        """
        allocation = job.allocation
        if not self._turns or allocation is None or not job.moves:
            return None
        before, since = _came_from(job, allocation)
        if before is None or not _turn(before, allocation.option, to, values, position):
            return None
        move = values.move(allocation.option, to, position, rented=False)
        left = values.staying(allocation.option, position).seconds
        costs = (values.worth + move.to.price.dollars_per_second) * move.to.entry_seconds
        changes = abs(move.gain) + costs
        until = after(since, left * costs / changes if changes else 0.0)
        if self._now >= until:
            return None
        return Hold(f"it came from {name(before)}: not before {format_minute(until)}, when that is worth it", until)


def _turn(before: Option, here: Option, to: Option, values: OptionValues, position: JobPosition) -> bool:
    """Whether ``to`` takes back what a job gained when it went from ``before`` to ``here``."""
    if key_of(to) == key_of(before):
        return True
    was, now, then = (values.speed(option, position) for option in (before, here, to))
    return (now - was) * (then - now) < 0.0


def _came_from(job: Job, allocation: Allocation) -> tuple[Option | None, Instant]:
    """Where the job was before the last move to another pool or width, and when that was; None if it was never moved.

    In between it may have been moved to another node only.
    """
    here, since = allocation.option, allocation.since
    for record in reversed(job.records):
        if since not in job.moves:
            break
        if key_of(record.option) != key_of(here):
            return record.option, since
        since = record.since
    return None, since
