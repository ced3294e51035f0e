"""The answer of ``charterer explain``: a job in the plan, with its options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from charterer.api.models.base import Condition
from charterer.api.models.trainingjob import ToldBottleneck
from charterer.api.models.trainingjob_status import JobState
from charterer.domain.ids import PoolId
from charterer.domain.job import Job
from charterer.domain.option import Option
from charterer.domain.plan import BudgetVerdict, Limit, Verdict
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.alternatives import Alternatives, Comparison, JobNode, Rank, alternatives, job_node
from charterer.policy.explain.ruled_out import RuledOut, ruled_out
from charterer.policy.planner import plan
from charterer.tools.commands.shared.plan_report import PlanReport, given


@dataclass(frozen=True, slots=True)
class JobNow:
    """A job as it is now, from a plan or from the status that the operator wrote.

    ``reason`` and ``message``: why it has the GPUs that it has. ``opening``: of the sentence that says so, empty if
    people are not told. ``limits``: the conditions of its targetCompletionTime and maxCost. ``held_up``: what holds its
    run up, as the operator has found. ``resizing``: how far a change of its size is, empty if there is none.
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
class MoreNodes:
    """The effect of ``nodes`` more nodes of the pool.

    ``option``: the job's option then; None if it is the one of today. ``others``: names of other jobs that would start.
    """

    pool: PoolId
    nodes: int
    option: Option | None
    others: Sequence[str]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A job and the plan; each of the others is None if the plan has none for the job.

    ``ruled_out``: the options of a job that waits because it may have none of them. ``held_up``: what holds its run up,
    as the operator has found. ``node``: that of a job narrower than one. ``more_nodes``: of full pools.
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
    more_nodes: Sequence[MoreNodes] = ()


def explain_job(report: PlanReport, job: Job, held_up: Sequence[ToldBottleneck] = ()) -> Explanation:
    """The job's part of the plan; it has options only while it wants to run."""
    verdict = report.plan.jobs.get(job.id)
    budget = None if job.budget is None else report.plan.budgets.get(job.budget)
    solution = next((solution for solution in report.solutions if solution.budget.id == job.budget), None)
    options: Alternatives | None = None
    excluded: Sequence[RuledOut] = ()
    node: JobNode | None = None
    more: Sequence[MoreNodes] = ()
    if solution is not None and verdict is not None and job.wants_to_run:
        comparison = Comparison.of(solution)
        options = alternatives(job, verdict, comparison)
        if options is None:
            excluded = ruled_out(job, verdict, solution)
        else:
            node = job_node(job, options.chosen.option, comparison)
            more = more_nodes(report, job, options)
    return Explanation(report, job, verdict, budget, solution, options, excluded, held_up, node, more)


# The effect of one more node of a full pool: the plan is made again for a pool that may have it.


def more_nodes(report: PlanReport, job: Job, options: Alternatives) -> Sequence[MoreNodes]:
    """For each full pool where the job waits for something better: one node more, and as many as its option needs."""
    waits = job.allocation is None
    wanted = [row.option for row in options.rows if row.rank is Rank.BETTER or (waits and row.rank is Rank.CHOSEN)]
    found = []
    for pool, verdict in sorted(report.plan.pools.items()):
        pods = [report.snapshot.pools[pool].nodes(option.takes) for option in wanted if option.pool == pool]
        if not pods or not verdict.short or verdict.limit is Limit.OPERATOR:
            continue
        now = report.given
        for nodes in sorted({1, max(pods)}):
            then = given(plan(_with(report.snapshot, pool, nodes)), report.snapshot)
            option = then.get(job.id)
            changed = option if option != now.get(job.id) else None
            if nodes == 1 or changed is not None:
                others = [report.snapshot.jobs[other] for other in then if other not in now and other != job.id]
                found.append(MoreNodes(pool, nodes, changed, _names(others)))
            if changed is not None:
                break
    return found


def _with(snapshot: Snapshot, name: PoolId, nodes: int) -> Snapshot:
    """The snapshot, but the cloud and ``maxNodes`` allow the pool ``nodes`` more than it has."""
    pool = snapshot.pools[name]
    live = sum(rental.pool == name and rental.phase is not RentalPhase.ENDED for rental in snapshot.rentals.values())
    larger = replace(pool, max_nodes=live + nodes, cooled=(), reached=None)
    return replace(snapshot, pools={**snapshot.pools, name: larger})


def _names(jobs: Iterable[Job]) -> Sequence[str]:
    return sorted(f"{job.namespace}/{job.name}" for job in jobs)
