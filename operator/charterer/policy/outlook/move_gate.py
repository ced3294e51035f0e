"""Decides which running jobs may be moved because a move pays. Every rule that moves runs asks this gate: resizing,
emptying nodes, replacing slow nodes, and making room in full pools.

A job is not moved in the budget's quiet hours, more than a few times a day, or while its present width is being
measured. It is not moved if the rest of its maxCost does not pay for its new option, or if it would be late for its
target there. An interactive job is never moved, because its state is in the memory of its GPUs. A job is not moved
either if nothing shows that it saves its work: it reported no progress, and no checkpoint time of its class was
reported or declared. A restart could cost such a job all of its work. These limits do not apply to starts, restarts
after a loss or a failure, changes by the job's owner, and cost limits.

Each move pays by itself, but the next plan may find another move, because jobs came and went in the meantime. So the
time between two moves is at least ten times the seconds without training that the second move costs the job. These
are the seconds of a restart, in which the job also saves its work, or of a change in place. So moves take less than a
tenth of a job's time.

A job does not turn back at once either. θ* follows from the cost of running jobs. So a job's own move may change θ*
such that the next plan would undo the move, with a restart each time. A system that changes states at a cost, without
knowing the future, should wait until staying has lost as much as the change costs (Borodin, Linial and Saks 1992). At
worst, the result costs twice as much as an immediate move would have cost. The loss accrues evenly over the remaining
time of the job. A job turns back if it returns to the pool and width that it had before its last move, or if it
becomes slower after it was made faster, or faster after it was made slower. No job returns to an earlier state in any
other way. At a fixed exchange rate, no move changes θ*, so no job has to wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from charterer.domain.job import Allocation, Job
from charterer.domain.option import Option
from charterer.domain.plan import moves_in_a_day
from charterer.domain.reasons import jobs as of
from charterer.domain.time import Instant, after, quiet_until, seconds_between
from charterer.policy.budgets.deadline import MARGIN
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.groups import TRIAL_SECONDS
from charterer.policy.nodes.limits import max_cost_left, within_max_cost
from charterer.policy.options.option_value import JobPosition, OptionValues, Projection
from charterer.policy.options.speeds import backoff_seconds
from charterer.policy.solve.phase_dp import key_of


class MoveLimit(StrEnum):
    """The rule that keeps a job from being moved."""

    QUIET_HOURS = "quiet hours"
    MEASURED = "being measured"
    MOVES_A_DAY = "moves a day"
    TURNS_BACK = "turns back"
    MAX_COST = "maxCost"
    TARGET = "target"
    WITHDRAWN = "pods did not join"
    SESSION = "interactive session"
    NEVER_SAVED = "no checkpoint seen"
    MOVED_LATELY = "moved lately"


SPACING = 10.0
"""Least time between two moves of a job, as a multiple of the seconds that the second move costs the job."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a job may not move, and until when. ``until`` is None if the job may not move until its budget or its owner
    allows more."""

    limit: MoveLimit
    facts: of.Holding
    until: Instant | None = None

    @property
    def here_only(self) -> bool:
        """Whether the hold concerns one option only, so that the job may move to another option now."""
        return self.limit in (MoveLimit.MAX_COST, MoveLimit.TARGET, MoveLimit.WITHDRAWN)


class MoveGate:
    """One budget's limits on moves at one instant.

    ``again_at``: when the holds end that kept jobs where they are. The plan is made again at these times.
    """

    def __init__(self, solution: BudgetSolution) -> None:
        budget = solution.budget
        self.again_at: list[Instant] = []
        self._needs = solution.deadline_needs
        self._snapshot = solution.inputs.snapshot
        self._now = solution.now
        self._turns = budget.fixed_rate is None
        self._most = budget.moves.per_job_and_day
        self._quiet = quiet_until(budget.moves.quiet_hours, budget.calendar.time_zone, self._now)

    def allows(self, holds: Iterable[Hold | None]) -> bool:
        """Whether nothing holds any of the jobs that move together.

        If any hold applies, the plan is made again when the hold ends.
        """
        held = [hold for hold in holds if hold is not None]
        for hold in held:
            self.look_again(hold)
        return not held

    def look_again(self, hold: Hold) -> None:
        """Have the plan made again when the hold ends."""
        if hold.until is not None:
            self.again_at.append(hold.until)

    def closed(self, job: Job, values: OptionValues) -> Hold | None:
        """Why this job stays where it is, whatever the option; None if it may move."""
        if job.interactive is not None:
            return Hold(MoveLimit.SESSION, of.HoldsSession())
        if not self._saves(job):
            return Hold(MoveLimit.NEVER_SAVED, of.NeverSaved())
        if self._quiet is not None:
            return Hold(MoveLimit.QUIET_HOURS, of.InQuietHours(self._quiet), self._quiet)
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
        often = of.MovedOften(len(recent), self._most)
        until = after(recent[-self._most], 86_400.0) if self._most else None
        return Hold(MoveLimit.MOVES_A_DAY, often, until)

    def held(self, job: Job, values: OptionValues, position: JobPosition, to: Projection) -> Hold | None:
        """Why the job does not move to that option now; None if it may.

        ``to``: the job's time and cost on the option, at worst.
        """
        return (
            self.withdrawn(job, to.option)
            or self._above_max_cost(job, to)
            or self._late(job, values, position, to)
            or self.closed(job, values)
            or self._turns_back(job, values, position, to.option)
            or self._moved_lately(job, values, to.option)
        )

    def free(self, job: Job) -> bool:
        """Whether the job may move to every option, if ``closed`` does not keep it where it is."""
        joined = job.group is None or job.group.withdrawn_at is None
        return joined and not job.moves and job.cost_limit is None and job.target_completion is None

    def withdrawn(self, job: Job, to: Option) -> Hold | None:
        """Why the job is not widened yet, which is that pods that should have joined it did not join. None if it may
        be widened."""
        group, here = job.group, job.allocation
        if group is None or group.withdrawn_at is None or here is None or to.gpus <= here.option.gpus:
            return None
        until = after(group.withdrawn_at, backoff_seconds(group.withdrawn))
        return None if self._now >= until else Hold(MoveLimit.WITHDRAWN, of.DidNotJoin(), until)

    def _saves(self, job: Job) -> bool:
        """Whether there is evidence that the job continues from its saved work after a restart."""
        if job.progress is not None and job.progress.moves:
            return True
        profiles = [self._snapshot.profiles.get(name) for name in job.classes]
        return any(profile is not None and profile.checkpoint_seconds is not None for profile in profiles)

    def _moved_lately(self, job: Job, values: OptionValues, to: Option) -> Hold | None:
        here = job.allocation
        if here is None or not job.moves:
            return None
        costs, last = values.change_seconds(here.option, to), max(job.moves)
        until = after(last, SPACING * costs)
        return None if self._now >= until else Hold(MoveLimit.MOVED_LATELY, of.MovedLately(last, costs, until), until)

    def _above_max_cost(self, job: Job, to: Projection) -> Hold | None:
        left, limit = max_cost_left(job, self._snapshot), job.cost_limit
        if limit is None or within_max_cost(job, to.option, to.paid_dollars, left):
            return None
        return Hold(MoveLimit.MAX_COST, of.AboveMaxCost(limit))

    def _late(self, job: Job, values: OptionValues, position: JobPosition, to: Projection) -> Hold | None:
        """Why a move has to wait that would make the job late for its target, if the job is in time without the move.

        On nodes that the cloud may take back, the job's deadline need has a reserve for restarts. So moves to such
        nodes are not checked here.
        """
        target, here, need = job.target_completion, job.allocation, self._needs.get(job.id)
        if target is None or target <= self._now or here is None or to.option.interruptions is not None:
            return None
        stay, left = values.staying(here.option, position).seconds, seconds_between(self._now, target)
        met = stay <= left if need is None else need.met
        if not met or to.seconds <= stay or to.seconds * (1.0 + MARGIN) <= left:
            return None
        return Hold(MoveLimit.TARGET, of.LateForTarget(target))

    def _being_measured(self, allocation: Allocation) -> Hold | None:
        """Why a job stays while the speed of its width is being measured; None after that time.

        The first reports come at the smallest and the largest batch size, and each varies by some 5 %. A job that
        moved because of them would pay for a restart, and often for a second restart when more reports contradict the
        first ones.
        """
        until = after(allocation.since, allocation.option.entry_seconds + TRIAL_SECONDS)
        if self._now >= until:
            return None
        return Hold(MoveLimit.MEASURED, of.BeingMeasured(allocation.option.gpus, until), until)

    def _turns_back(self, job: Job, values: OptionValues, position: JobPosition, to: Option) -> Hold | None:
        """Why a move that undoes the last move has to wait; None for any other move, or once the wait is over.

        If other jobs gain by such a move, it takes from the job what the last move gave it. So the last move must
        have paid for itself first.
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
        return Hold(MoveLimit.TURNS_BACK, of.CameFrom(before, until), until)


def _turn(before: Option, here: Option, to: Option, values: OptionValues, position: JobPosition) -> bool:
    """Whether a move to ``to`` undoes the job's move from ``before`` to ``here``."""
    if key_of(to) == key_of(before):
        return True
    was, now, then = (values.speed(option, position) for option in (before, here, to))
    return (now - was) * (then - now) < 0.0


def _came_from(job: Job, allocation: Allocation) -> tuple[Option | None, Instant]:
    """The option that the job had before its last move to another pool or width, and when it moved; None if it never
    moved so.

    Since then, the job may have been moved between nodes of the same option.
    """
    here, since = allocation.option, allocation.since
    for record in reversed(job.records):
        if since not in job.moves:
            break
        if key_of(record.option) != key_of(here):
            return record.option, since
        since = record.since
    return None, since
