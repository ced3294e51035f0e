"""Why a job waits, or does not have the option that is best for it, in words."""

from __future__ import annotations

from charterer.domain.job import Job
from charterer.domain.money import ZERO, Price
from charterer.domain.option import Option
from charterer.domain.plan import ReasonCode
from charterer.policy.actions.budget_plan import BudgetPlan
from charterer.policy.actions.room_shares import Shares
from charterer.policy.budgets import reasons
from charterer.policy.nodes.hard_limit import reserve
from charterer.sentences import count, names

_BLOCKED = {
    ReasonCode.STOPPED: "the operator was stopped and rents nothing: see the condition Stopped of the GPUBudgets",
    ReasonCode.POOL_COOLING: "its pool had none to give and is asked again later",
    ReasonCode.RENTAL_UNREADABLE: "a GPURental of its pool cannot be read",
    ReasonCode.BUDGET_DELETED: "its budget is being deleted",
    ReasonCode.CLOCK_BEHIND: "its budget's period has not begun by the operator's clock",
    ReasonCode.POOL_DELETED: "its pool is being deleted",
    ReasonCode.NOT_ASKED_YET: "the cloud of its pool has not answered yet",
}


class Refusals:
    """The sentences of one plan. ``shares``: how room is shared where there is too little of it."""

    def __init__(self, plan: BudgetPlan, shares: Shares | None) -> None:
        self._plan = plan
        self._budget = plan.solution.budget
        self._shares = shares

    def why_not(self, block: ReasonCode, job: Job, option: Option) -> str:
        """Why no node can be had for the option, with the numbers of the limit that forbids it."""
        budget, purse = self._budget, self._plan.placer.purse
        pool = self._plan.snapshot.pools[option.pool]
        worst = pool.quote.worst if pool.quote is not None else Price(0)
        if block is ReasonCode.HOURLY_LIMIT and budget.max_hourly_rate is not None:
            if worst > budget.max_hourly_rate:
                return f"a node costs {worst}, more than spec.maxHourlyRate ({budget.max_hourly_rate}): raise it"
            text = f"a node costs {worst}, and nodes for {purse.hourly} of spec.maxHourlyRate"
            return f"{text} ({budget.max_hourly_rate}) are rented"
        if block is ReasonCode.HARD_LIMIT and purse.slack is not None:
            needed = reserve(pool, job.grace_seconds) if pool.quote is not None else ZERO
            text = f"a node may cost {needed} until it can be given back"
            return f"{text}, and {max(purse.slack, ZERO)} of spec.hardLimit ({budget.hard_limit}) is not committed"
        if block is ReasonCode.OPERATOR_LIMIT:
            return self._plan.placer.operator_limit(option)
        if block is ReasonCode.POOL_COOLING and (wait := self._plan.placer.launch_wait(job, option)) is not None:
            return f"{_BLOCKED[block]}; {reasons.late(option.pool, wait)}"
        text = self._full(option) if block is ReasonCode.POOL_FULL else _BLOCKED.get(block, "no node can be had now")
        if self._shares is None or block not in (ReasonCode.POOL_FULL, ReasonCode.POOL_COOLING):
            return text
        return f"{text}{self._shares.about(option.pool)}"

    def room_is_made(self, job: Job, option: Option) -> str:
        """Who makes room for a job that has a share of it: by name in its namespace, since its owner reads this."""
        shares, jobs = self._shares, self._plan.snapshot.jobs
        narrowed = [jobs[name] for name in (() if shares is None else shares.narrowed)]
        near = [f"{each.namespace}/{each.name}" for each in narrowed if each.namespace == job.namespace]
        far = len(narrowed) - len(near)
        others = f"{count(far, 'job')} of {'another namespace' if far == 1 else 'other namespaces'}" if far else ""
        who = " and ".join(filter(None, [names(near), others]))
        text = f"go on with fewer GPUs to make room for it ({who})" if who else "leave GPUs that it gets then"
        return f"{self._full(option)}, and running jobs {text}"

    def passed_over(self, job: Job, option: Option, wanted: Option) -> str:
        """That a pool which would be better gives its nodes too late for the job; empty where that is not why."""
        if self._shares is not None and option is not wanted:
            return f"; {reasons.name(wanted)} would be better for it alone{self._shares.about(wanted.pool)}"
        wait = None if wanted.pool == option.pool else self._plan.placer.launch_wait(job, wanted)
        return "" if wait is None else f"; {reasons.late(wanted.pool, wait)}"

    def _full(self, option: Option) -> str:
        """That the pool may have no more nodes, or that what is free on them is not in one piece."""
        pool = self._plan.snapshot.pools[option.pool]
        free = sum(gpus for gpus in self._plan.free_nodes(option.pool).ready.free.values() if gpus > 0)
        text = f"{pool.id} has {pool.most_nodes}"
        apart = f", and its {free} free GPUs are not together as the job needs them"
        return f"{text}{apart if free >= option.gpus else ''}"
