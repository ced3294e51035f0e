"""Interactive jobs that hold GPUs while no cell runs: these are given back when that is cheaper than to hold them."""

from __future__ import annotations

from math import inf

from charterer.domain.jobs.sessions import idle_since, usage_of_run
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.profile import DEFAULT_RESTART_SECONDS
from charterer.domain.reasons import facts_of_jobs as of
from charterer.domain.time import Instant, after, seconds_between
from charterer.policy.actions.triage import JobTriage
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.hold_time import hold_seconds
from charterer.policy.jobs.job_facts import JobFacts, least_worth
from charterer.policy.jobs.predicates import reason
from charterer.policy.nodes.holdings import by_rental


def give_back_idle(result: JobTriage, solution: BudgetSolution) -> list[Instant]:
    """Move running jobs that give their GPUs back to those that are stopped; when the first of the others must.

    Those that have to leave their nodes, and use none, do so at once: nobody waits for their next run.
    """
    again: list[Instant] = []
    result.stop_running(lambda group: group.sessions, lambda facts: _if_idle(facts, result, again, solution))
    idle_jobs = [job for job, _ in result.leaving if idle_since(job) is not None]
    if idle_jobs:
        result.leaving = [(job, why) for job, why in result.leaving if idle_since(job) is None]
        result.stopped += [(job, reason(ReasonCode.NO_GPU_WANTED, of.NodeGoesIdle())) for job in idle_jobs]
    return again


def _if_idle(facts: JobFacts, result: JobTriage, again: list[Instant], solution: BudgetSolution) -> Reason | None:
    """Why the job gives its GPUs back now; None, and until when it holds them, where it does not."""
    job, since = facts.job, idle_since(facts.job)
    if since is None:
        return None
    most = seconds_held(facts, solution)
    if most == inf:
        return None
    until = after(since, most)
    if solution.now >= until:
        return reason(ReasonCode.NO_GPU_WANTED, of.GivenBack(seconds_between(since, solution.now), most))
    again.append(until)
    result.unused[job.id] = of.NoCellRuns(since, until)
    return None


def seconds_held(facts: JobFacts, solution: BudgetSolution) -> float:
    """Seconds without a cell after which the job's GPUs are given back.

    Where nobody else is on its nodes, these would be given back too: all of them is saved, and must be started again.
    """
    job, allocation = facts.job, facts.job.allocation
    told, assignment = job.interactive, solution.assignment(job)
    if told is None or allocation is None:
        return inf
    if told.idle_seconds is not None:
        return told.idle_seconds
    usage = usage_of_run(job)
    restart = DEFAULT_RESTART_SECONDS if assignment is None else assignment.group.menu.table.restart
    if usage is not None and usage.start_seconds is not None:
        restart = usage.start_seconds
    worth = least_worth(job) if assignment is None else solution.worth(job, assignment)
    wait, price = restart, allocation.option.price.dollars_per_second
    pool = solution.inputs.snapshot.pools.get(allocation.option.pool)
    used, own = solution.inputs.holdings.used, by_rental(allocation.placements)
    if pool is not None and all(used.get(rental, 0) <= gpus for rental, gpus in own.items()):
        wait += pool.likely_start_seconds
        price = price if pool.quote is None else pool.quote.price.dollars_per_second * len(own)
    return hold_seconds(worth, wait, wait, price)
