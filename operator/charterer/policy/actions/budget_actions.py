"""One budget's plan, in the order of thinking: what must end, who is placed or waits, which moves pay,
which nodes are replaced or emptied, what is idle."""

from __future__ import annotations

from collections.abc import Mapping

from charterer.domain.ids import RentalId
from charterer.domain.plan import Reason
from charterer.domain.time import after
from charterer.policy.actions.admission.queue import Admission
from charterer.policy.actions.consolidation import consolidate
from charterer.policy.actions.plan_builder import PlanBuilder
from charterer.policy.actions.release_idle import release_idle
from charterer.policy.actions.resizing import Resizing
from charterer.policy.actions.slow_nodes import replace_slow_nodes
from charterer.policy.actions.stop_spent import stop_spent
from charterer.policy.actions.triage import JobTriage, triage
from charterer.policy.budgets.solution import BudgetSolution

_OFTEN = 10.0
"""Seconds between two looks at a job whose slack is all but used up."""


def triage_budget(solution: BudgetSolution, ending: Mapping[RentalId, Reason]) -> JobTriage:
    """``triage`` of the budget's jobs, and those stopped at their maxCost. ``ending``: rentals that end, and why."""
    snapshot = solution.inputs.snapshot
    jobs = triage(solution.groups.values(), ending, solution.inputs)
    jobs.again_at += stop_spent(jobs, snapshot)
    return jobs


def decide_budget(draft: PlanBuilder, ending: Mapping[RentalId, Reason], jobs: JobTriage) -> None:
    """Decide everything of one budget into its draft. ``ending``: rentals that end, and why; no job begins there."""
    snapshot, solution = draft.snapshot, draft.solution
    for job, why in jobs.stopped:
        draft.stop(job, why)
        draft.judge(job, None, why)
    for job, why in jobs.narrowed:
        if job.resized_from is not None:
            former = job.resized_from
            draft.allocate(job, former.option, former.run, former.placements, why)
            draft.judge(job, former.option, why)
    for job, why in jobs.idle:
        draft.judge(job, None, why)
    for rental, why in ending.items():
        draft.release(rental, why)
    shares = Admission(draft, jobs).admit()
    Resizing(draft).move(jobs.running, shares)
    if shares is None or not shares.making_room:
        replace_slow_nodes(draft, jobs.running)
        consolidate(draft, jobs.running)
    release_idle(draft, ending, jobs.resting)
    draft.decided.again_at += jobs.again_at
    needs = solution.deadline_needs.values()
    draft.decided.again_at += [after(snapshot.now, max(need.spare, _OFTEN)) for need in needs if need.spare]
    release_at = draft.purse.release_at(snapshot.now)
    if release_at is not None and not ending:
        draft.decided.again_at.append(release_at)
    if jobs.running or jobs.waiting:
        draft.decided.again_at.append(solution.period_end)
