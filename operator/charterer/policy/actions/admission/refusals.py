"""Why a job waits, or does not have the option that is best for it."""

from __future__ import annotations

from charterer.domain.job import Job
from charterer.domain.money import ZERO, Price
from charterer.domain.option import Option
from charterer.domain.plan import ReasonCode
from charterer.domain.reasons import facts_of_waits as of
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.facts import Both
from charterer.policy.actions.budget_plan import BudgetPlan
from charterer.policy.actions.room_allotment import RoomAllotment
from charterer.policy.budgets import reasons
from charterer.policy.nodes.hard_limit import reserve

_BLOCKED: dict[ReasonCode, Fact] = {
    ReasonCode.STOPPED: of.RentsNothing(),
    ReasonCode.POOL_COOLING: of.PoolCools(),
    ReasonCode.RENTAL_UNREADABLE: of.RentalUnreadable(),
    ReasonCode.BUDGET_DELETED: of.BudgetEnds(),
    ReasonCode.CLOCK_BEHIND: of.ClockBehind(),
    ReasonCode.POOL_DELETED: of.PoolEnds(),
    ReasonCode.NOT_ASKED_YET: of.CloudSilent(),
}


class Refusals:
    """The refusals of one plan. ``allotment``: of room where there is too little of it."""

    def __init__(self, plan: BudgetPlan, allotment: RoomAllotment | None) -> None:
        self._plan = plan
        self._allotment = allotment

    def why_not(self, block: ReasonCode, job: Job, option: Option) -> Fact:
        """Why no node can be had for the option, with the numbers of the limit that forbids it."""
        limit = self._limit(block, job, option)
        if limit is not None:
            return limit
        if block is ReasonCode.POOL_COOLING and (wait := self._plan.placer.launch_wait(job, option)) is not None:
            return Both(_BLOCKED[block], reasons.late(option.pool, wait))
        full = block is ReasonCode.POOL_FULL
        why = self._full(option) if full else _BLOCKED.get(block, of.NoNodeNow())
        if self._allotment is None or block not in (ReasonCode.POOL_FULL, ReasonCode.POOL_COOLING):
            return why
        return self._allotment.about(option.pool, why)

    def _limit(self, block: ReasonCode, job: Job, option: Option) -> Fact | None:
        """The limit that forbids a node; None where it is none."""
        purse, pool = self._plan.placer.purse, self._plan.snapshot.pools[option.pool]
        worst = pool.quote.worst if pool.quote is not None else Price(0)
        if block is ReasonCode.HOURLY_LIMIT and (least := purse.tightest_hourly) is not None:
            limit = least.max_hourly
            assert limit is not None
            if worst > limit:
                return of.AboveHourlyLimit(worst, limit, least.parent)
            return of.HourlyLimitUsed(worst, least.hourly, limit, least.parent)
        if block is ReasonCode.HARD_LIMIT and (tightest := purse.tightest) is not None:
            needed = reserve(pool, job.grace_seconds) if pool.quote is not None else ZERO
            left = max(tightest.slack or ZERO, ZERO)
            return of.HardLimitUsed(needed, left, tightest.hard_limit, tightest.parent)
        if block is ReasonCode.PARENT_UNKNOWN:
            return self._plan.solution.inputs.tree.faults.get(self._plan.solution.budget.id)
        return self._plan.placer.operator_limit(option) if block is ReasonCode.OPERATOR_LIMIT else None

    def room_is_made(self, job: Job, option: Option) -> Fact:
        """Who makes room for a job that gets some of it: by name in its namespace, since its owner reads this."""
        allotment, jobs = self._allotment, self._plan.snapshot.jobs
        narrowed = [jobs[name] for name in (() if allotment is None else allotment.narrowed)]
        near = [f"{each.namespace}/{each.name}" for each in narrowed if each.namespace == job.namespace]
        return of.RoomIsMade(self._full(option), tuple(near), len(narrowed) - len(near))

    def passed_over(self, job: Job, option: Option, wanted: Option) -> Fact | None:
        """That a pool which would be better gives its nodes too late for the job; None where that is not why."""
        if self._allotment is not None and option is not wanted:
            return self._allotment.about(wanted.pool, of.BetterAlone(wanted))
        wait = None if wanted.pool == option.pool else self._plan.placer.launch_wait(job, wanted)
        return None if wait is None else reasons.late(wanted.pool, wait)

    def _full(self, option: Option) -> of.PoolFull:
        """That the pool may have no more nodes, or that what is free on them is not in one piece."""
        pool = self._plan.snapshot.pools[option.pool]
        free = sum(gpus for gpus in self._plan.placer.free_nodes(option.pool).ready.free.values() if gpus > 0)
        return of.PoolFull(pool.id, pool.max_nodes, pool.max_by_group, free if free >= option.takes else None)
