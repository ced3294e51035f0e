"""The answer of ``charterer explain`` as a value: a job in the plan, with its options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from charterer.api.models.base import Condition
from charterer.api.models.trainingjob import ToldBottleneck
from charterer.api.models.trainingjob_status import JobState
from charterer.domain.ids import PoolId, Rate
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
    """The present state of a job, from a plan or from its status.

    ``reason`` and ``message`` explain the job's GPUs or its wait. ``opening`` is the beginning of that sentence. If
    ``opening`` is empty, the sentence is hidden. ``limits`` are the conditions of targetCompletionTime and maxCost.
    ``held_up`` has the bottlenecks that the operator found. ``resizing`` says how far a resize has progressed. Without
    a resize it is empty.
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
    """The effect of ``nodes`` more nodes in the pool.

    ``option`` is the job's option in that case, or None if the option does not change. ``others`` has the names of
    other jobs that would start.
    """

    pool: PoolId
    nodes: int
    option: Option | None
    others: Sequence[str]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A job in the plan. A field is None or empty if the plan has nothing for the job.

    ``ruled_out`` has the options of a waiting job that may have none of them. ``held_up`` has the bottlenecks that the
    operator found, and ``not_starting`` why its run does not start. ``node`` is the node of a job that uses only a part
    of a node. ``more_nodes`` is about full pools.
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
    not_starting: str = ""

    @property
    def rate(self) -> Rate | None:
        """The rate that a budget pays for a second of a job of weight 1. The rate is that of the job's share of the
        budget, if it has one.
        """
        if self.budget is None or self.solution is None or not self.budget.shares:
            return None if self.budget is None else self.budget.rate
        return self.solution.share(self.solution.key(self.job)).rate


def explain_job(
    report: PlanReport, job: Job, held_up: Sequence[ToldBottleneck] = (), not_starting: str = ""
) -> Explanation:
    """Find the job's part of the plan. Only a job that wants to run has options."""
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
    return Explanation(report, job, verdict, budget, solution, options, excluded, held_up, node, more, not_starting)


# The effect of more nodes in a full pool: the planner makes another plan in which the pool may have more nodes.


def more_nodes(report: PlanReport, job: Job, options: Alternatives) -> Sequence[MoreNodes]:
    """For each full pool for which the job waits, plan with one more node, and then with all nodes that the job
    needs.
    """
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
    """Return the snapshot with room for ``nodes`` more nodes in the pool, and without the refusals of the pool's
    cloud.
    """
    pool = snapshot.pools[name]
    live = sum(rental.pool == name and rental.phase is not RentalPhase.ENDED for rental in snapshot.rentals.values())
    larger = replace(pool, max_nodes=live + nodes, cooled=(), reached=None)
    return replace(snapshot, pools={**snapshot.pools, name: larger})


def _names(jobs: Iterable[Job]) -> Sequence[str]:
    return sorted(f"{job.namespace}/{job.name}" for job in jobs)
