"""``plan``: one snapshot in, one plan out. The same snapshot always gives the same plan.

Every budget is solved first: alone, and together with the others where pools are too small for all (``shared_pools``).
If jobs must leave their places, all are solved again without those runs: what a plan frees is used by it.
Then budgets act one after the other, the one that pays most for a second first, because they share the pools' nodes;
those that only observe come last, so that what they would do takes nothing from the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId, ClassId, JobId, PoolId, RentalId
from charterer.domain.plan import Allocate, BudgetVerdict, Command, Plan, PoolVerdict, Reason, ReasonCode, Verdict
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.incremental import Memo
from charterer.policy.actions.budget_actions import decide_budget, triage_budget
from charterer.policy.actions.forced_releases import forced_releases
from charterer.policy.actions.gangs import GangMarks
from charterer.policy.actions.plan_builder import PlanBuilder
from charterer.policy.actions.triage import JobTriage, triage
from charterer.policy.budgets.inputs import PlanInputs, inputs_once_stopped, plan_inputs
from charterer.policy.budgets.shared_pools import solve_with_pool_limits
from charterer.policy.budgets.solution import BudgetSolution, solve_budget
from charterer.policy.jobs.groups import JobGroup, job_group
from charterer.policy.jobs.job_facts import JobFacts, job_facts
from charterer.policy.nodes.capacity import Capacity
from charterer.policy.nodes.pool_quota import PoolQuota


@dataclass(frozen=True, slots=True)
class SolvedPlan:
    """A plan, and the solution of each budget, in the order in which they acted."""

    plan: Plan
    solutions: tuple[BudgetSolution, ...]


def plan(snapshot: Snapshot, memo: Memo | None = None) -> Plan:
    """Decide what to rent, release and allocate now, why, and when to plan again if nothing happens before.

    ``plan(snapshot, memo) == plan(snapshot)`` whatever was planned with the memo before; what did not change between
    two plans with one memo is the same object in both.
    """
    return solved_plan(snapshot, memo).plan


def solved_plan(snapshot: Snapshot, memo: Memo | None = None) -> SolvedPlan:
    """The same plan with the solutions that it was made from."""
    memo = Memo() if memo is None else memo
    with memo.turn():
        return _plan(plan_inputs(snapshot, memo))


def solve_budgets(snapshot: Snapshot) -> list[BudgetSolution]:
    """Every budget solved, within the pools' limits, in the order in which they act."""
    return _solve_budgets(plan_inputs(snapshot, Memo()))


def _solve_budgets(inputs: PlanInputs) -> list[BudgetSolution]:
    snapshot = inputs.snapshot
    alone = [solve_budget(budget, inputs) for budget in snapshot.budgets.values()]
    return sorted(
        solve_with_pool_limits(alone, snapshot, inputs.rentals),
        key=lambda solution: (solution.budget.mode is Mode.OBSERVE, -solution.bid, solution.budget.id),
    )


def _plan(inputs: PlanInputs) -> SolvedPlan:
    snapshot, memo = inputs.snapshot, inputs.memo
    solutions = _solve_budgets(inputs)
    capacity = Capacity(snapshot, inputs.holdings, inputs.nodes, inputs.ends)
    quota = PoolQuota(snapshot, inputs.rentals)
    gangs = GangMarks(inputs.rentals.by_pool.values(), snapshot)
    drafts = [PlanBuilder(solution, capacity, quota, gangs, snapshot) for solution in solutions]
    endings = [forced_releases(draft) for draft in drafts]
    gangs.ending = frozenset(rental for ending in endings for rental in ending)
    capacity.close(gangs.ending)
    enforced = [
        ending for draft, ending in zip(drafts, endings, strict=True) if draft.solution.budget.mode is Mode.ENFORCE
    ]
    triages = [triage_budget(draft.solution, ending) for draft, ending in zip(drafts, endings, strict=True)]
    _solve_without_leaving(drafts, triages)
    commands, verdicts = _stop_unpaid(inputs, {rental: why for ending in enforced for rental, why in ending.items()})
    observed: list[Command] = []
    budgets: dict[BudgetId, BudgetVerdict] = {}
    again_at: set[Instant] = set()
    for draft, ending, triaged in zip(drafts, endings, triages, strict=True):
        budget = draft.solution.budget
        committed = draft.purse.committed
        decide_budget(draft, ending, triaged)
        budgets[budget.id] = draft.solution.verdict(committed, snapshot.now)
        again_at |= set(draft.decided.again_at)
        if budget.mode is Mode.OBSERVE:
            observed += draft.decided.commands
            verdicts |= memo.each(_only_observed, draft.decided.verdicts, name=budget.id)
        else:
            commands += draft.decided.commands
            verdicts |= draft.decided.verdicts
    solutions = [draft.solution for draft in drafts]
    again_at |= {
        scarce.until for solution in solutions for scarce in solution.scarce.values() if scarce.until is not None
    }
    made = Plan(
        commands=tuple(commands),
        budgets=budgets,
        pools=_short_pools(drafts, solutions),
        classes=tuple(verdict for solution in solutions for verdict in solution.classes()),
        jobs=memo.stable(verdicts, "verdicts"),
        observed_commands=tuple(observed),
        again_at=min([at for at in again_at | quota.cooled if at > snapshot.now], default=None),
    )
    return SolvedPlan(made, tuple(solutions))


def _solve_without_leaving(drafts: Sequence[PlanBuilder], triages: Sequence[JobTriage]) -> None:
    """Solve the budgets again, as the next plan will, if jobs must leave their places.

    Such a job would count twice otherwise: with what it would still cost there, and with what it costs anew.
    """
    gone = {
        job.id
        for draft, triaged in zip(drafts, triages, strict=True)
        if draft.solution.budget.mode is Mode.ENFORCE
        for job, _ in (*triaged.leaving, *triaged.stopped)
    }
    if not gone:
        return
    inputs = drafts[0].solution.inputs
    solutions = {solution.budget.id: solution for solution in _solve_budgets(inputs_once_stopped(inputs, gone))}
    for draft in drafts:
        before = draft.solution
        draft.solution = replace(solutions[before.budget.id], inputs=inputs, groups=before.groups)


def _short_pools(drafts: Sequence[PlanBuilder], solutions: Sequence[BudgetSolution]) -> dict[PoolId, PoolVerdict]:
    """The pools that are too small: in the long run, or else for the jobs in sight."""
    now = {pool: verdict for draft in reversed(drafts) for pool, verdict in draft.decided.pools.items()}
    return now | {pool: scarce.verdict for solution in reversed(solutions) for pool, scarce in solution.scarce.items()}


def _stop_unpaid(inputs: PlanInputs, ending: Mapping[RentalId, Reason]) -> tuple[list[Command], dict[JobId, Verdict]]:
    """The stops and verdicts of jobs for which no budget pays.

    A run goes on for as long as the budget that rented its nodes keeps them.
    """
    snapshot, memo = inputs.snapshot, inputs.memo
    classes = frozenset(snapshot.profiles)
    unpaid: list[JobGroup] = []
    for budget, groups in inputs.groups.items():
        if budget is None:
            unpaid += groups.values()
        elif budget not in snapshot.budgets:
            unpaid += [memo(_without_budget, group, classes) for group in groups.values()]
    jobs = triage(unpaid, ending, inputs)
    stops: list[Command] = [Allocate(job.id, None, why) for job, why in jobs.stopped]
    return stops, {job.id: Verdict(None, why, None) for job, why in (*jobs.stopped, *jobs.idle)}


def _without_budget(group: JobGroup, classes: frozenset[ClassId]) -> JobGroup:
    def unpaid(facts: JobFacts) -> JobFacts:
        return job_facts(replace(facts.job, budget=None), classes)

    return job_group(tuple([unpaid(facts) for facts in group.members]))


def _only_observed(verdict: Verdict) -> Verdict:
    why = verdict.reason
    message = f"mode Observe, nothing is done: {why.message}"
    observed = Reason(ReasonCode.OBSERVE_ONLY, why.seconds, why.money, message, why.instead_of)
    return replace(verdict, reason=observed)
