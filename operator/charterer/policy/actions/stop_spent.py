"""Running jobs that have cost what they may (spec.maxCost): they are stopped while their grace is still paid for."""

from __future__ import annotations

from charterer.domain.jobs.job_cost import job_cost
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.reasons.facts_of_jobs import MaxCostSpent
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after
from charterer.policy.actions.triage import JobTriage
from charterer.policy.jobs.job_facts import JobFacts
from charterer.policy.jobs.predicates import reason
from charterer.policy.nodes.max_cost import max_cost_left, stop_cost


def stop_spent(result: JobTriage, snapshot: Snapshot) -> list[Instant]:
    """Move running jobs that must stop now to those that are stopped; when the first of the others must."""
    again: list[Instant] = []
    result.stop_running(lambda group: group.capped, lambda facts: _if_spent(facts, again, snapshot))
    return again


def _if_spent(facts: JobFacts, again: list[Instant], snapshot: Snapshot) -> Reason | None:
    """Why the job stops now; None, and when it must, where it goes on."""
    job, allocation = facts.job, facts.job.allocation
    left = max_cost_left(job, snapshot)
    if left is None or job.max_cost is None or allocation is None:
        return None
    slack = left - stop_cost(job, allocation.option)
    if slack <= 0.0:
        spent = job_cost(job, snapshot.rentals, snapshot.now)
        return reason(ReasonCode.MAX_COST, MaxCostSpent(spent, job.max_cost))
    price = allocation.option.price.dollars_per_second
    if price:
        again.append(after(snapshot.now, max(slack / price, 1.0)))
    return None
