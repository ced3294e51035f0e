"""Running jobs that have cost what they may (spec.maxCost): they are stopped while their grace is still paid for."""

from __future__ import annotations

from charterer.domain.jobs.job_cost import job_cost
from charterer.domain.plan import ReasonCode
from charterer.domain.reasons.facts_of_jobs import MaxCostSpent
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after
from charterer.policy.actions.triage import JobTriage, KeptRuns
from charterer.policy.jobs.job_facts import JobFacts
from charterer.policy.jobs.predicates import reason
from charterer.policy.nodes.max_cost import max_cost_left, stop_cost


def stop_spent(result: JobTriage, snapshot: Snapshot) -> list[Instant]:
    """Move running jobs that must stop now to those that are stopped; when the first of the others must."""
    again: list[Instant] = []
    for at, kept in enumerate(result.running):
        capped = [facts for facts in kept.group.capped if facts.job.id in kept.runners]
        stopped = {facts.job.id for facts in capped if _stop_if_spent(facts, result, again, snapshot)}
        if stopped:
            goes_on = {name: facts for name, facts in kept.runners.items() if name not in stopped}
            result.running[at] = KeptRuns(kept.group, goes_on)
    result.running = [kept for kept in result.running if kept.runners]
    return again


def _stop_if_spent(facts: JobFacts, result: JobTriage, again: list[Instant], snapshot: Snapshot) -> bool:
    job, allocation = facts.job, facts.job.allocation
    left = max_cost_left(job, snapshot)
    if left is None or job.max_cost is None or allocation is None:
        return False
    slack = left - stop_cost(job, allocation.option)
    if slack <= 0.0:
        spent = job_cost(job, snapshot.rentals, snapshot.now)
        result.stopped.append((job, reason(ReasonCode.MAX_COST, MaxCostSpent(spent, job.max_cost))))
        return True
    price = allocation.option.price.dollars_per_second
    if price:
        again.append(after(snapshot.now, max(slack / price, 1.0)))
    return False
