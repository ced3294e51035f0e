"""``plan``: one snapshot in, one plan out. The same snapshot always gives the same plan.

Every budget is solved first: alone, and together with the others where pools are too small for all (``crowding``).
Then budgets act one after the other, the one that pays most for a second first, because they share the pools' room;
those that only observe come last, so that what they would do takes nothing from anybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from charterer.domain.budget import Budget, Mode
from charterer.domain.ids import BudgetId, JobId, PoolId, RentalId
from charterer.domain.plan import Allocate, BudgetVerdict, Command, Plan, Reason, ReasonCode, Verdict
from charterer.domain.snapshot import Snapshot
from charterer.policy.actions.budget_actions import decide
from charterer.policy.actions.plan_builder import PlanBuilder
from charterer.policy.actions.triage import triage
from charterer.policy.budgets.shared_pools import solve_with_pool_limits
from charterer.policy.budgets.solution import BudgetSolution, solve_budget
from charterer.policy.jobs.groups import JobGroup, job_group
from charterer.policy.jobs.job_facts import job_facts
from charterer.policy.nodes.capacity import Capacity
from charterer.policy.nodes.pool_nodes import PoolNodes
from charterer.policy.nodes.pool_quota import PoolQuota
from charterer.policy.plan_cache import Memo, PlanCache, plan_cache

__all__ = ["Memo", "plan", "standings"]


def plan(snapshot: Snapshot, memo: Memo | None = None) -> Plan:
    """What to rent, release and allocate now, why, and when to think again if nothing happens before.

    ``plan(snapshot, memo) == plan(snapshot)`` whatever was planned with the memo before.
    """
    known = plan_cache(snapshot, memo)
    stands = standings(snapshot, known)
    capacity = Capacity(snapshot, known.holdings, known.sites)
    market = PoolQuota(snapshot, known.fleet)
    drafts = [PlanBuilder(standing, capacity, market, snapshot) for standing in stands]
    doomed = [draft.doomed() for draft in drafts]
    capacity.open(frozenset(rental for leaving in doomed for rental in leaving))
    would: list[Command] = []
    enforced = [leaving for draft, leaving in zip(drafts, doomed, strict=True) if _enforces(draft.standing.budget)]
    commands, verdicts = _of_nobody(
        known, {name: why for leaving in enforced for name, why in leaving.items()}, snapshot
    )
    budgets: dict[BudgetId, BudgetVerdict] = {}
    again_at = set()
    for draft, leaving in zip(drafts, doomed, strict=True):
        budget = draft.standing.budget
        committed = draft.purse.committed
        decide(draft, capacity, leaving, known)
        budgets[budget.id] = draft.standing.verdict(committed, snapshot.now)
        again_at |= set(draft.decided.again_at)
        if budget.mode is Mode.OBSERVE:
            would += draft.decided.commands
            verdicts |= {job: _only_observed(verdict) for job, verdict in draft.decided.verdicts.items()}
        else:
            commands += draft.decided.commands
            verdicts |= draft.decided.verdicts
    again_at |= {one.until for standing in stands for one in standing.scarce.values() if one.until is not None}
    later = [at for at in again_at | market.cooled if at > snapshot.now]
    if memo is not None:
        memo.known = known
    return Plan(
        commands=tuple(commands),
        budgets=budgets,
        pools={pool: one.verdict for standing in reversed(stands) for pool, one in standing.scarce.items()},
        classes=tuple(verdict for standing in stands for verdict in standing.classes()),
        jobs=verdicts,
        observed_commands=tuple(would),
        again_at=min(later, default=None),
    )


def standings(snapshot: Snapshot, known: PlanCache | None = None) -> list[BudgetSolution]:
    """Every budget solved, with the room there is, in the order in which they act."""
    known = plan_cache(snapshot) if known is None else known
    cohorts = known.readings.cohorts
    sites_of: dict[BudgetId, dict[PoolId, PoolNodes]] = defaultdict(dict)
    for (budget_id, pool), site in sorted(known.sites.items(), key=lambda one: one[0]):
        sites_of[budget_id][pool] = site
    found = [
        solve_budget(budget, cohorts.get(budget.id, {}), sites_of[budget.id], known, snapshot)
        for budget in snapshot.budgets.values()
    ]
    return sorted(
        solve_with_pool_limits(found, snapshot, known.fleet),
        key=lambda one: (one.budget.mode is Mode.OBSERVE, -one.rate, one.budget.id),
    )


def _enforces(budget: Budget) -> bool:
    return budget.mode is Mode.ENFORCE


def _of_nobody(
    known: PlanCache, doomed: Mapping[RentalId, Reason], snapshot: Snapshot
) -> tuple[list[Command], dict[JobId, Verdict]]:
    """Jobs that no budget in sight pays for: a run goes on at the expense of who rented its nodes, and no longer."""
    unpaid: list[JobGroup] = []
    for budget, cohorts in known.readings.cohorts.items():
        if budget is None:
            unpaid += cohorts.values()
        elif budget not in snapshot.budgets:
            unpaid += [
                job_group([job_facts(replace(job.job, budget=None), known.menus) for job in one.members])
                for one in cohorts.values()
            ]
    if not unpaid:
        return [], {}
    roll = triage(unpaid, doomed, known.fleet, snapshot)
    stops: list[Command] = [Allocate(job.id, None, why) for job, why in roll.stopped]
    return stops, {job.id: Verdict(None, why, None) for job, why in (*roll.stopped, *roll.idle)}


def _only_observed(verdict: Verdict) -> Verdict:
    def reason() -> Reason:
        why = verdict.reason
        message = f"mode Observe, nothing is done: {why.message}"
        return Reason(ReasonCode.OBSERVE_ONLY, why.seconds, why.money, message, why.instead_of)

    return Verdict(verdict.option, reason, verdict.remaining_seconds)
