"""The rules by which one budget's plan is made, in the order of thinking: what must end, who is placed or waits, which
moves pay, which nodes are replaced or emptied, what is idle.

Every rule reads the budget's plan as the rules before it have left it, and writes what it decides into it. A rule that
moves runs asks ``plan.gate``. What a rule is worth is measured by ``tests.bench.rules``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from charterer.domain.ids import RentalId
from charterer.domain.plan import Reason
from charterer.domain.time import after
from charterer.policy.actions.admission.queue import admit
from charterer.policy.actions.budget_plan import BudgetPlan
from charterer.policy.actions.consolidation import consolidate
from charterer.policy.actions.idle_sessions import give_back_idle
from charterer.policy.actions.release_idle import release_idle
from charterer.policy.actions.resizing import force_moves, make_room, move_where_it_pays
from charterer.policy.actions.running_jobs import judge_running
from charterer.policy.actions.slow_nodes import replace_slow_nodes
from charterer.policy.actions.stop_spent import stop_spent
from charterer.policy.actions.triage import JobTriage, triage
from charterer.policy.budgets.solution import BudgetSolution

_OFTEN = 10.0
"""Seconds between two looks at a job whose slack is all but used up."""


class PlanRule(NamedTuple):
    """One rule. ``moves``: whether it moves runs for their own good, so that it rests while room is made for others."""

    name: str
    apply: Callable[[BudgetPlan], None]
    moves: bool = False


def _stop(plan: BudgetPlan) -> None:
    """Stop the jobs that may not go on, and take pods back that do not join."""
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
    """End the rentals that must end; no job begins there."""
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
    """``triage`` of the budget's jobs, and those stopped at their maxCost, or while nobody uses their GPUs.

    ``ending``: rentals that end, and why.
    """
    jobs = triage(solution.groups.values(), ending, solution.inputs)
    jobs.again_at += stop_spent(jobs, solution.inputs.snapshot)
    jobs.again_at += give_back_idle(jobs, solution)
    return jobs


def decide_budget(plan: BudgetPlan) -> None:
    """Decide everything of one budget, rule by rule, and when to plan again if nothing happens before."""
    for rule in RULES:
        if not (rule.moves and plan.making_room):
            rule.apply(plan)
    now, solution, jobs, decided = plan.snapshot.now, plan.solution, plan.jobs, plan.decided
    decided.again_at += [*jobs.again_at, *plan.gate.again_at, *plan.outlook.waits.again_at]
    needs = solution.deadline_needs.values()
    decided.again_at += [after(now, max(need.spare, _OFTEN)) for need in needs if need.spare]
    release_at = plan.placer.purse.release_at(now)
    if release_at is not None and not plan.ending:
        decided.again_at.append(release_at)
    if jobs.running or jobs.waiting:
        decided.again_at.append(solution.period_end)
