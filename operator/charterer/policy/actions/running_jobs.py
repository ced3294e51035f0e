"""Running jobs: what is told of each, and which of them must move or may gain by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from charterer.domain.ids import JobId
from charterer.domain.plan import Verdict
from charterer.domain.reasons.facts import RunsOn
from charterer.domain.time import after
from charterer.policy.actions.admission.no_option import no_option
from charterer.policy.actions.budget_plan import BudgetPlan, MovableRun
from charterer.policy.actions.decisions import verdict
from charterer.policy.actions.triage import KeptRuns
from charterer.policy.budgets import reasons
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.jobs.job_facts import JobFacts, job_position
from charterer.policy.jobs.moves import JobMoves, job_moves
from charterer.policy.nodes.lost_nodes import not_recorded
from charterer.policy.options.option_value import OptionValues

_AT_THE_EARLIEST = 1.0
"""Seconds to the next look: what a job reports may lag, and a phase that is all but over stays so until it is heard."""


def judge_running(plan: BudgetPlan) -> None:
    """Judge the jobs that run on, and find those that must move or may gain by it."""
    for kept in plan.jobs.running:
        assignment = plan.solution.assignments.get(kept.group.key)
        if assignment is None:
            for job in (facts.job for facts in kept.runners.values()):
                why = no_option(plan, job)
                why = replace(why, facts=RunsOn(why.facts))
                plan.decided.judge(job, None if job.allocation is None else job.allocation.option, why)
            continue
        _judge(plan, kept, assignment)
        for moves in _moves(plan, kept.group, assignment):
            if moves.facts.job.id in kept.runners:
                if moves.next_change is not None:  # think again when another option will be better
                    later = max(moves.next_change, _AT_THE_EARLIEST)
                    plan.decided.again_at.append(after(plan.snapshot.now, later))
                if moves.forced is not None or moves.candidates:
                    plan.movable.append(MovableRun(assignment, moves))
    _judge_unrecorded(plan)


def _judge_unrecorded(plan: BudgetPlan) -> None:
    """A job whose run's end cannot be recorded says so, whatever else is said of it: it does not go on."""
    for facts in (facts for group in plan.solution.groups.values() for facts in group.terminating):
        why, known = not_recorded(facts, plan.snapshot.now), plan.decided.verdicts.get(facts.job.id)
        if why is not None and known is not None:
            plan.decided.verdicts[facts.job.id] = replace(known, reason=why)


def _judge(plan: BudgetPlan, kept: KeptRuns, assignment: GroupAssignment) -> None:
    solution, verdicts, group = plan.solution, plan.decided.verdicts, kept.group
    found = solution.inputs.memo.each(
        _runs_on,
        group.runners,
        assignment.values,
        assignment.group.weight,
        assignment.group.work,
        solution.feasible,
        name=(solution.budget.id, group.key),
    )
    verdicts |= found if kept.all else {name: found[name] for name in kept.runners}
    for name in plan.jobs.unused.keys() & kept.runners.keys():
        known = verdicts[name]
        verdicts[name] = replace(known, reason=known.reason.with_note(plan.jobs.unused[name]))
    for job in (facts.job for facts in group.targeted if facts.job.id in kept.runners):
        known = verdicts[job.id]
        why = solution.with_deadline_note(job, known.reason)
        verdicts[job.id] = replace(known, reason=why, target=solution.outlook(job))


def _moves(plan: BudgetPlan, group: JobGroup, assignment: GroupAssignment) -> Iterable[JobMoves]:
    """The moves of the group's running jobs that have any."""
    solution, found = plan.solution, dict[JobId, JobMoves | None]()
    market, name = solution.inputs.market, (solution.budget.id, group.key)
    for values, jobs in _by_values(group, assignment):
        found |= solution.inputs.memo.each(job_moves, jobs, values, assignment.group.work, market, name=name)
    for facts in group.targeted:
        own = solution.deadline_values(facts.job) if facts.job.id in group.movable else None
        if own is not None:
            moves = job_moves(facts, own, assignment.group.work, market)
            if moves is not None and solution.deadline_needs[facts.job.id].postpones:
                taken_back = [move for move in moves.candidates if move.to.interruptions is not None]
                moves = replace(moves, candidates=taken_back)
            found[facts.job.id] = moves
    return [moves for moves in found.values() if moves is not None]


def _by_values(group: JobGroup, assignment: GroupAssignment) -> Iterable[tuple[OptionValues, Mapping[JobId, JobFacts]]]:
    """The group's jobs that can be resized, by how they see their options."""
    if not assignment.mixes:
        return [(assignment.values, group.movable)]
    jobs: dict[OptionValues, dict[JobId, JobFacts]] = {}
    for name, facts in group.movable.items():
        jobs.setdefault(assignment.drawn_values(facts.job), {})[name] = facts
    return jobs.items()


def _runs_on(facts: JobFacts, values: OptionValues, weight: float, work: float, feasible: bool) -> Verdict:
    """The verdict on a job that stays where it is."""
    job = facts.job
    assert job.allocation is not None
    option = job.allocation.option
    why = reasons.choice(option, values, weight, job_position(job, work), feasible=feasible)
    return verdict(job, option, why)
