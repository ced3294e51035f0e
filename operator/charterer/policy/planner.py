"""``plan``: one snapshot in, one plan out. The same snapshot always gives the same plan.

Every budget is solved first, and those that lend each other money again.
If jobs must leave their places, all are solved again without those runs: what a plan frees is used by it.
Then budgets act one after the other, the one that pays most for a second first, because they share the pools' nodes;
those that only observe come last, so that what they would do takes nothing from the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId, ClassId, JobId, RentalId
from charterer.domain.money import Money, total
from charterer.domain.plan import Allocate, BudgetVerdict, Command, Plan, Reason, ReasonCode, SpendVerdict, Verdict
from charterer.domain.reasons.facts import OnlyObserved
from charterer.domain.snapshot import Snapshot
from charterer.incremental import Memo
from charterer.policy.actions.budget_actions import decide_budget, triage_budget
from charterer.policy.actions.budget_plan import BudgetPlan
from charterer.policy.actions.committed_nodes import rent_committed
from charterer.policy.actions.forced_releases import ForcedReleases, end_over_parents_hourly_limits
from charterer.policy.actions.triage import JobTriage, triage
from charterer.policy.budgets.forecast_inputs import sum_of_forecasts
from charterer.policy.budgets.inputs import PlanInputs, inputs_once_stopped, plan_inputs
from charterer.policy.budgets.layouts import unprofitable_layouts
from charterer.policy.budgets.solution import BudgetSolution, solve_budget
from charterer.policy.jobs.groups import JobGroup, job_group
from charterer.policy.jobs.job_facts import JobFacts, job_facts
from charterer.policy.lending import with_loans
from charterer.policy.outlook.placer import Placer, SharedNodes


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
    """Every budget solved, in the order in which they act."""
    return _solve_budgets(plan_inputs(snapshot, Memo()))


def _solve_budgets(inputs: PlanInputs) -> list[BudgetSolution]:
    solutions = with_loans([solve_budget(budget, inputs) for budget in inputs.snapshot.budgets.values()], inputs)
    unprofitable = {each.budget.id: pools for each in solutions if (pools := unprofitable_layouts(each))}
    if unprofitable:
        left = inputs.without_layouts(unprofitable)
        solutions = [
            solve_budget(each.budget, left) if each.budget.id in unprofitable else replace(each, inputs=left)
            for each in solutions
        ]
    return sorted(
        solutions, key=lambda solution: (solution.budget.mode is Mode.OBSERVE, -solution.rate, solution.budget.id)
    )


def _plan(inputs: PlanInputs) -> SolvedPlan:
    """What must end is found first, and which jobs leave; budgets are solved again if any do; then each one acts."""
    snapshot, memo = inputs.snapshot, inputs.memo
    solutions = _solve_budgets(inputs)
    shared = SharedNodes.of(inputs)
    releases = [ForcedReleases(solution, Placer(solution, shared)) for solution in solutions]
    end_over_parents_hourly_limits(releases, shared.purses, inputs.tree)
    together = {
        name: SpendVerdict(_amount_in_all(name, inputs), purse.spent, purse.committed, purse.hourly, None)
        for name, purse in shared.purses.items()
    }
    shared.gangs.ending = frozenset(rental for forced in releases for rental in forced.ending)
    shared.capacity.close(shared.gangs.ending)
    triages = [triage_budget(forced.solution, forced.ending) for forced in releases]
    enforced = [forced.ending for forced in releases if forced.solution.budget.mode is Mode.ENFORCE]
    commands, verdicts = _stop_unpaid(inputs, {rental: why for ending in enforced for rental, why in ending.items()})
    observed: list[Command] = []
    budgets: dict[BudgetId, BudgetVerdict] = {}
    plans = [
        BudgetPlan(solution, forced.placer, jobs, forced.ending)
        for solution, forced, jobs in zip(_solve_without_leaving(solutions, triages), releases, triages, strict=True)
    ]
    again_at = {at for forced in releases for at in forced.again_at}
    held = [plan.placer.purse.committed for plan in plans]
    for plan in plans:  # before any job takes the room under a limit
        if plan.solution.budget.mode is Mode.ENFORCE:
            rent_committed(plan)
    for plan, committed in zip(plans, held, strict=True):
        budget = plan.solution.budget
        if budget.mode is Mode.OBSERVE:
            rent_committed(plan)
        decide_budget(plan)
        budgets[budget.id] = plan.solution.verdict(committed, plan.in_sight().cost())
        again_at |= set(plan.decided.again_at)
        decided = plan.decided.commands(plan.placer.rented)
        if budget.mode is Mode.OBSERVE:
            observed += decided
            verdicts |= memo.each(_only_observed, plan.decided.verdicts, name=budget.id)
        else:
            commands += decided
            verdicts |= plan.decided.verdicts
    solutions = [plan.solution for plan in plans]
    made = Plan(
        commands=tuple(commands),
        budgets=_with_descendants(budgets, together, inputs) if together or inputs.tree.faults else budgets,
        pools={pool: short for plan in reversed(plans) for pool, short in plan.decided.pools.items()},
        not_rented={pool: why for plan in plans for pool, why in plan.decided.not_rented.items()},
        classes=tuple(verdict for solution in solutions for verdict in solution.classes()),
        jobs=memo.stable(verdicts, "verdicts"),
        observed_commands=tuple(observed),
        again_at=min([at for at in again_at | shared.quota.cooled if at > snapshot.now], default=None),
    )
    return SolvedPlan(made, tuple(solutions))


def _amount_in_all(name: BudgetId, inputs: PlanInputs) -> Money:
    """What a parent and all below it may aim at together, without the parts that do not count in their first months."""
    budgets = inputs.snapshot.known_budgets
    family = [budgets[each] for each in (name, *inputs.tree.below[name])]
    left_out = total(each.amount - each.counted for each in family)
    share = budgets[name].share
    return (budgets[name].amount if share is None else share.in_all) - left_out


def _with_descendants(
    verdicts: Mapping[BudgetId, BudgetVerdict], together: Mapping[BudgetId, SpendVerdict], inputs: PlanInputs
) -> Mapping[BudgetId, BudgetVerdict]:
    """The verdicts with what is known of parents and descendants. ``together``: of each parent, without a forecast."""
    tree, found = inputs.tree, dict[BudgetId, BudgetVerdict]()
    for name, verdict in verdicts.items():
        family = together.get(name)
        if family is not None:
            below = [verdicts.get(each) for each in (name, *tree.below[name])]
            forecasts = [each.forecast for each in below if each is not None and each.forecast is not None]
            limit = inputs.snapshot.budgets[name].hard_limit
            most = None if limit is None else max(limit, family.spent)
            forecast = sum_of_forecasts(forecasts, most) if len(forecasts) == len(below) else None
            family = replace(family, forecast=forecast)
        found[name] = replace(verdict, with_descendants=family, parent_fault=tree.faults.get(name))
    return found


def _solve_without_leaving(
    solutions: Sequence[BudgetSolution], triages: Sequence[JobTriage]
) -> Sequence[BudgetSolution]:
    """The budgets solved again, as the next plan will, if jobs must leave their places; in the same order.

    Such a job would count twice otherwise: with what it would still cost there, and with what it costs anew.
    """
    gone = {
        job.id
        for solution, jobs in zip(solutions, triages, strict=True)
        if solution.budget.mode is Mode.ENFORCE
        for job, _ in (*jobs.leaving, *jobs.stopped)
    }
    if not gone:
        return solutions
    inputs = solutions[0].inputs
    again = {solution.budget.id: solution for solution in _solve_budgets(inputs_once_stopped(inputs, gone))}
    return [replace(again[before.budget.id], inputs=inputs, groups=before.groups) for before in solutions]


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
    observed = Reason(ReasonCode.OBSERVE_ONLY, why.seconds, why.money, OnlyObserved(why.facts), why.instead_of)
    return replace(verdict, reason=observed)
