"""``plan``: one snapshot in, one plan out. The same snapshot always gives the same plan.

First, every budget is solved, and budgets that lend each other money are solved again. If jobs must leave their
places, all budgets are solved again without those runs, so that the plan can use what it frees. Then budgets act one
after the other, because they share the pools' nodes. The budget that pays most per second acts first. Budgets that
only observe act last, so that they take nothing from other budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, sqrt
from typing import NamedTuple

from charterer.domain.budget import Budget, Loan, Mode, Need, loans, net_loan
from charterer.domain.budget_tree import lending_families
from charterer.domain.ids import BudgetId, ClassId, JobId, PoolId, RentalId
from charterer.domain.money import Money, total
from charterer.domain.plan import (
    Allocate,
    BudgetVerdict,
    Command,
    Plan,
    Reason,
    ReasonCode,
    SpendVerdict,
    Verdict,
)
from charterer.domain.reasons.fact import OnlyObserved
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import after
from charterer.gpu_types import slice_profile
from charterer.incremental import Memo
from charterer.policy.actions.admission.queue import admit
from charterer.policy.actions.budget_plan import BudgetPlan
from charterer.policy.actions.consolidation import consolidate
from charterer.policy.actions.forced_releases import ForcedReleases, end_over_parents_hourly_limits
from charterer.policy.actions.release_idle import release_idle
from charterer.policy.actions.running_jobs import (
    force_moves,
    give_back_idle,
    judge_running,
    make_room,
    move_where_it_pays,
    replace_slow_nodes,
    stop_spent,
)
from charterer.policy.actions.triage import JobTriage, triage
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.budgets.inputs import PlanInputs, inputs_once_stopped, plan_inputs
from charterer.policy.budgets.solution import BudgetSolution, solve_budget, sum_of_forecasts
from charterer.policy.jobs.groups import JobGroup, job_group
from charterer.policy.jobs.job_facts import JobFacts, job_facts
from charterer.policy.options.market import PoolOffer
from charterer.policy.outlook.placer import Placer, SharedNodes

# The rules that make one budget's plan, in order: what must end, which jobs start or wait, which moves pay, which nodes
# are replaced or emptied, and which nodes are idle.
#
# Every rule reads the budget's plan as the previous rules left it, and adds its decisions. A rule that moves runs asks
# ``plan.gate``. ``tests.bench.rules`` measures the value of each rule.


_OFTEN = 10.0
"""Minimum seconds until the next plan if a job has almost no slack left before its target."""


class PlanRule(NamedTuple):
    """One rule. ``moves``: the rule moves runs for their own benefit, and is skipped while room is
    made for other jobs."""

    name: str
    apply: Callable[[BudgetPlan], None]
    moves: bool = False


def _stop(plan: BudgetPlan) -> None:
    """Stop the jobs that may not go on, and undo in-place resizes whose new pods do not join."""
    for job, why in plan.jobs.stopped:
        plan.decided.stop(job, why)
        plan.decided.judge(job, None, why)
    for job, why in plan.jobs.narrowed:
        if job.resized_from is not None:
            former = job.resized_from
            plan.decided.allocate(job, former.option, former.run, former.placements, why)
            plan.decided.judge(job, former.option, why)
    for job, why in plan.jobs.idle:
        plan.decided.judge(job, None, why)


def _end_rentals(plan: BudgetPlan) -> None:
    """End the rentals that must end. No job begins on such rentals."""
    for rental, why in plan.ending.items():
        plan.decided.release(rental, why)


RULES = (
    PlanRule("stop jobs", _stop),
    PlanRule("end rentals", _end_rentals),
    PlanRule("admit jobs", admit),
    PlanRule("judge runs", judge_running),
    PlanRule("forced moves", force_moves),
    PlanRule("make room", make_room),
    PlanRule("moves that pay", move_where_it_pays, moves=True),
    PlanRule("slow nodes", replace_slow_nodes, moves=True),
    PlanRule("consolidation", consolidate, moves=True),
    PlanRule("idle nodes", release_idle),
)


def triage_budget(solution: BudgetSolution, ending: Mapping[RentalId, Reason]) -> JobTriage:
    """``triage`` of the budget's jobs, plus jobs that are stopped at their maxCost or because nobody uses their GPUs.

    ``ending``: rentals that end or that all runs must leave, with the reason.
    """
    jobs = triage(solution.groups.values(), ending, solution.inputs)
    jobs.again_at += stop_spent(jobs, solution.inputs.snapshot)
    jobs.again_at += give_back_idle(jobs, solution)
    return jobs


def decide_budget(plan: BudgetPlan) -> None:
    """Make all decisions of one budget, rule by rule, and set the time of the next plan."""
    for rule in RULES:
        if not (rule.moves and plan.making_room):
            rule.apply(plan)
    now, solution, jobs, decided = plan.snapshot.now, plan.solution, plan.jobs, plan.decided
    decided.again_at += [*jobs.again_at, *plan.gate.again_at, *plan.outlook.waits.again_at]
    needs = solution.deadline_needs.values()
    decided.again_at += [after(now, max(need.spare, _OFTEN)) for need in needs if need.spare]
    release_at = plan.placer.release_at(now)
    if release_at is not None and not plan.ending:
        decided.again_at.append(release_at)
    if jobs.running or jobs.waiting:
        decided.again_at.append(solution.period_end)


# Nodes that are paid for whether used or not (``spec.price.committed``), or are there anyway (``spec.existing``): these
# nodes are rented at once, and kept.
#
# An idle machine costs no more than an unused reservation, and a job can begin on it at once. All limits hold for such
# nodes too. ``release_idle`` keeps them. Their price (``Pool.marginal``) makes jobs use them first.


def rent_committed(plan: BudgetPlan) -> None:
    """Rent the missing nodes of the budget's committed pools, as far as all limits allow.

    These nodes are rented for all budgets before any job requests nodes, so that no job takes the room under a limit,
    including limits of ancestors. The plan is made again when a commitment ends.
    """
    for name, pool in plan.snapshot.committed_to(plan.solution.budget).items():
        if pool.committed is None or pool.offering is None or pool.quote is None:
            continue
        if pool.committed.until is not None:
            plan.decided.again_at.append(pool.committed.until)
        refused = plan.placer.rent_committed(name)
        if refused is not None:
            plan.decided.not_rented[name] = refused


# Layouts of slices for which a budget has too few jobs.
#
# A job on a slice pays its part of the node, which is right at the margin: if G slices are in use on nodes of S, and
# jobs are moved together, ⌈G/S⌉ nodes are rented, and each further slice costs one slice on average. But each pool in
# use has a last node that is partly empty. If G is Poisson with mean m, then S·E⌈G/S⌉ − m slices are unused, which is
# (S − 1)/2 except for very few nodes. Several pools of slices serve the same jobs. So a pool is closed if all jobs
# together, including unused GPUs and slices, cost less without it.


class _Choice(NamedTuple):
    """A way to do a unit of work. ``cost``: dollars, including the value of the job's time. ``held``: GPU- or
    slice-seconds."""

    cost: float
    pool: PoolId
    held: float
    speed: float
    slice: bool


class _Demand(NamedTuple):
    """The work per second of jobs that choose alike. ``choices``: their best choice in each pool, the best first."""

    work: float
    choices: Sequence[_Choice]

    def best(self, closed: Collection[PoolId]) -> _Choice | None:
        """The best choice outside the ``closed`` pools; None without one."""
        return next((choice for choice in self.choices if choice.pool not in closed), None)


def unprofitable_layouts(solution: BudgetSolution) -> frozenset[PoolId]:
    """The pools of slices that the budget should not use now.

    Pools are closed one after the other. The pool whose closing saves most is closed first, because its jobs then
    fill another pool. A pool stays open if some jobs have no other option.
    """
    offers = solution.inputs.market.offers
    if not any(slice_profile(offer.gpu_type) for offer in offers.values()):
        return frozenset()
    demands = [found for each in solution.assignments.values() if (found := _demand(each)) is not None]
    closed: frozenset[PoolId] = frozenset()
    least = _cost(demands, closed, offers)
    while chosen := {best.pool for each in demands if (best := each.best(closed)) is not None and best.slice}:
        costs = {closed | {pool}: _cost(demands, closed | {pool}, offers) for pool in sorted(chosen)}
        better = min(costs, key=lambda pools: costs[pools])
        if costs[better] >= least:
            break
        closed, least = better, costs[better]
    return closed


def _demand(assignment: GroupAssignment) -> _Demand | None:
    """The demand of a group's jobs in sight or, if more, of the long-run mean number of jobs; None without jobs."""
    group, worth, best = assignment.group, assignment.values.worth, dict[PoolId, _Choice]()
    jobs = max(float(group.active), group.foreseen * assignment.mean_seconds)
    if not jobs or not group.menu.options:
        return None
    for option in group.menu.options:
        cost = (worth + option.price.dollars_per_second) / option.speed
        if option.pool not in best or cost < best[option.pool].cost:
            held = option.gpus / option.speed
            best[option.pool] = _Choice(cost, option.pool, held, option.speed, bool(option.slice))
    choices = sorted(best.values())
    return _Demand(jobs * choices[0].speed, choices)


def _cost(demands: Sequence[_Demand], closed: Collection[PoolId], offers: Mapping[PoolId, PoolOffer]) -> float:
    """Dollars per second of all jobs if the ``closed`` pools are not used; infinite if jobs have no option.

    The cost rate includes the price, the value of the jobs' time, and idle GPUs of nodes.
    """
    total, used = 0.0, dict[PoolId, float]()
    for each in demands:
        best = each.best(closed)
        if best is None:
            return inf
        total += each.work * best.cost
        used[best.pool] = used.get(best.pool, 0.0) + each.work * best.held
    for pool, mean in used.items():
        price, size = offers[pool].price, offers[pool].gpus_per_node
        if price is not None:
            total += unused(mean, size) * price.dollars_per_second / size
    return total


def unused(mean: float, size: int) -> float:
    """S·E⌈G/S⌉ − m: expected unused GPUs or slices of nodes of ``size``, if a Poisson number with that ``mean`` is
    used."""
    if mean > 50.0 * size:
        return (size - 1) / 2.0
    probability, expected = exp(-mean), 0.0
    for count in range(1, round(mean + 10.0 * sqrt(mean)) + 20):
        probability *= mean / count
        expected += probability * -(-count // size)
    return size * expected - mean


# Loans between budgets in this plan, made by their forecasts if their parent allows them (ADR 5).


def with_loans(solutions: Sequence[BudgetSolution], inputs: PlanInputs) -> Sequence[BudgetSolution]:
    """The solutions, in their order. Budgets that lend or borrow are solved again for their new targets.

    The topmost parents come first: money that a budget lends to its siblings is not available to its own children.
    """
    solved, made = {each.budget.id: each for each in solutions}, list[Loan]()
    for parent in _lending([each.budget for each in solutions], inputs):
        for family in lending_families(parent, [each.budget for each in solutions]):
            made += loans([_need(solved[each.id], made) for each in family])
    found = []
    for each in solutions:
        name = each.budget.id
        mine = tuple([loan for loan in made if name in (loan.lender, loan.borrower)])
        found.append(solve_budget(replace(each.budget, loans=mine), inputs) if mine else each)
    return found


def _lending(budgets: Sequence[Budget], inputs: PlanInputs) -> Sequence[Budget]:
    """The parents that allow loans, the topmost first, without parents whose descendants' spending
    is not fully known."""
    tree, unknown = inputs.tree, {each.parent for each in inputs.snapshot.unplanned.values()}
    known = [each for each in budgets if each.lends and each.id not in tree.faults and each.id not in unknown]
    return sorted(known, key=lambda each: (len(tree.above.get(each.id, ())), each.id))


def _need(solution: BudgetSolution, made: Sequence[Loan]) -> Need:
    """The spending and forecast of a budget in its present period, from which loans are computed. A budget without
    namespaces needs no more money."""
    budget = solution.budget
    idle = budget.selector.nothing
    high = None if solution.arrivals_verdict().assumed else solution.forecast_verdict().high
    return Need(
        budget=budget.id,
        aim=budget.own_aim + net_loan(budget.id, made),
        spent=solution.spent,
        high=solution.spent if idle else high,
        short=not idle and not solution.surplus,
        most=budget.hard_limit,
    )


@dataclass(frozen=True, slots=True)
class SolvedPlan:
    """A plan, and the solution of each budget, in the order in which the budgets acted."""

    plan: Plan
    solutions: tuple[BudgetSolution, ...]


def plan(snapshot: Snapshot, memo: Memo | None = None, *, verdicts: bool = True) -> Plan:
    """Decide what to rent, release and allocate now, why, and when to plan again at the latest.

    ``plan(snapshot, memo) == plan(snapshot)``, whatever was planned with the memo before. Unchanged values are the same
    objects in two plans with one memo.

    ``verdicts`` False: the same plan without the verdicts on budgets, classes and jobs, which takes less time.
    """
    return solved_plan(snapshot, memo, verdicts=verdicts).plan


def solved_plan(snapshot: Snapshot, memo: Memo | None = None, *, verdicts: bool = True) -> SolvedPlan:
    """The plan with the solutions from which it was made."""
    memo = Memo() if memo is None else memo
    with memo.turn():
        return _plan(plan_inputs(snapshot, memo, verdicts))


def solve_budgets(snapshot: Snapshot) -> list[BudgetSolution]:
    """The solutions of all budgets, in the order in which the budgets act."""
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
    """Find rentals that must end and jobs that leave, solve budgets again if any leaves, then let each budget act."""
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
    out_of_hours = shared.hours.must_leave()
    triages = [triage_budget(forced.solution, {**out_of_hours, **forced.ending}) for forced in releases]
    enforced = [out_of_hours, *(forced.ending for forced in releases if forced.solution.budget.mode is Mode.ENFORCE)]
    commands, verdicts = _stop_unpaid(inputs, {rental: why for ending in enforced for rental, why in ending.items()})
    observed: list[Command] = []
    budgets: dict[BudgetId, BudgetVerdict] = {}
    plans = [
        BudgetPlan(solution, forced.placer, jobs, forced.ending)
        for solution, forced, jobs in zip(_solve_without_leaving(solutions, triages), releases, triages, strict=True)
    ]
    again_at = {at for forced in releases for at in forced.again_at} | set(shared.hours.again_at())
    held = [plan.placer.purse.committed for plan in plans]
    hours = {plan.solution.budget.id: shared.hours.verdicts(plan.solution.budget.id) for plan in plans}
    for plan in plans:  # Committed nodes come before any job takes the room under a limit.
        if plan.solution.budget.mode is Mode.ENFORCE:
            rent_committed(plan)
    for plan, committed in zip(plans, held, strict=True):
        budget = plan.solution.budget
        if budget.mode is Mode.OBSERVE:
            rent_committed(plan)
        decide_budget(plan)
        if inputs.verdicts:
            verdict = plan.solution.verdict(committed, plan.in_sight().cost())
            budgets[budget.id] = replace(verdict, gpu_hours=hours[budget.id])
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
        classes=tuple(verdict for solution in solutions for verdict in solution.classes()) if inputs.verdicts else (),
        jobs=memo.stable(verdicts, "verdicts") if inputs.verdicts else {},
        observed_commands=tuple(observed),
        again_at=min([at for at in again_at | shared.quota.cooled if at > snapshot.now], default=None),
    )
    return SolvedPlan(made, tuple(solutions))


def _amount_in_all(name: BudgetId, inputs: PlanInputs) -> Money:
    """The target of a parent and its descendants together, without amounts that do not count in present periods."""
    budgets = inputs.snapshot.known_budgets
    family = [budgets[each] for each in (name, *inputs.tree.below[name])]
    left_out = total(each.amount - each.counted for each in family)
    share = budgets[name].share
    return (budgets[name].amount if share is None else share.in_all) - left_out


def _with_descendants(
    verdicts: Mapping[BudgetId, BudgetVerdict], together: Mapping[BudgetId, SpendVerdict], inputs: PlanInputs
) -> Mapping[BudgetId, BudgetVerdict]:
    """The verdicts, completed with data about ancestors and descendants. ``together``: the verdict about each parent
    with its descendants, without a forecast."""
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
    """The budgets in the same order, solved again as the next plan will if jobs must leave their places.

    Otherwise such a job would count twice: with its remaining cost at its place, and with its cost elsewhere.
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

    Such a run goes on for as long as the budget that rented its nodes keeps them.
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
