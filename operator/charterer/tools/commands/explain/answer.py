"""The answer of ``charterer explain``: a job in the plan, with its options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from charterer.api.models.base import Condition
from charterer.api.models.trainingjob import ToldBottleneck
from charterer.api.models.trainingjob_status import JobState
from charterer.domain.job import Job
from charterer.domain.plan import BudgetVerdict, Verdict
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.alternatives import Alternatives, Comparison, JobNode, alternatives, job_node
from charterer.policy.explain.ruled_out import RuledOut, ruled_out
from charterer.tools.commands.shared.plan_report import PlanReport


@dataclass(frozen=True, slots=True)
class JobNow:
    """A job as it is now, from a plan or from the status that the operator wrote.

    ``reason`` and ``message``: why it has the GPUs that it has. ``opening``: of the sentence that says so, empty where
    people are not told. ``limits``: the conditions of its targetCompletionTime and maxCost. ``held_up``: what holds its
    run up, as the operator has found. ``resizing``: how far a change of its size is, empty where there is none.
    """

    namespace: str
    name: str
    state: JobState | None
    summary: str
    reason: str | None
    message: str | None
    opening: str
    limits: Sequence[Condition]
    held_up: Sequence[ToldBottleneck]
    resizing: str
    budget: str | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """A job and the plan; each of the others is None where the plan has none for the job.

    ``ruled_out``: the options of a job that waits because it may have none of them. ``held_up``: what holds its run up,
    as the operator has found. ``node``: that of a job narrower than one.
    """

    report: PlanReport
    job: Job
    verdict: Verdict | None
    budget: BudgetVerdict | None
    solution: BudgetSolution | None
    options: Alternatives | None
    ruled_out: Sequence[RuledOut] = ()
    held_up: Sequence[ToldBottleneck] = ()
    node: JobNode | None = None


def explain_job(report: PlanReport, job: Job, held_up: Sequence[ToldBottleneck] = ()) -> Explanation:
    """The job's part of the plan; it has options only while it wants to run."""
    verdict = report.plan.jobs.get(job.id)
    budget = None if job.budget is None else report.plan.budgets.get(job.budget)
    solution = next((solution for solution in report.solutions if solution.budget.id == job.budget), None)
    options: Alternatives | None = None
    excluded: Sequence[RuledOut] = ()
    node: JobNode | None = None
    if solution is not None and verdict is not None and job.wants_to_run:
        comparison = Comparison.of(solution)
        options = alternatives(job, verdict, comparison)
        if options is None:
            excluded = ruled_out(job, verdict, solution)
        else:
            node = job_node(job, options.chosen.option, comparison)
    return Explanation(report, job, verdict, budget, solution, options, excluded, held_up, node)
