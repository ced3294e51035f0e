"""The answer of ``charterer explain``: a job in the plan, with its options."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.cli.shared.plan_report import PlanReport
from charterer.domain.job import Job
from charterer.domain.plan import BudgetVerdict, Verdict
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.alternatives import Alternatives, alternatives


@dataclass(frozen=True, slots=True)
class Explanation:
    """A job and the plan; each of the others is None where the plan has none for the job."""

    report: PlanReport
    job: Job
    verdict: Verdict | None
    budget: BudgetVerdict | None
    solution: BudgetSolution | None
    options: Alternatives | None


def explain_job(report: PlanReport, job: Job) -> Explanation:
    """The job's part of the plan; it has options only while it wants to run."""
    verdict = report.plan.jobs.get(job.id)
    budget = None if job.budget is None else report.plan.budgets.get(job.budget)
    solution = next((solution for solution in report.solutions if solution.budget.id == job.budget), None)
    options = None
    if solution is not None and verdict is not None and job.wants_to_run:
        options = alternatives(job, solution, verdict, report.snapshot)
    return Explanation(report, job, verdict, budget, solution, options)
