"""The most that a job may cost (spec.maxCost): options that would cost more are not taken.

A run is stopped while the dollars that are left still pay for its grace period:

    spent + price·(grace + margins) ≤ maxCost

So an option fits only if the job is expected to end on it before it would be stopped, whether its size is its own or
what its class leads to expect, and however its speed is known. Where nothing says how much work it is, its end cannot
be expected: such a job is started if it can train for a useful time before it would be stopped, and its condition
WithinMaxCost says that its cost is not known.

The margins cover a restart of the operator. A job can cost more only if no operator runs for longer than the margins.
"""

from __future__ import annotations

from collections.abc import Sequence

from charterer.domain.job import Job
from charterer.domain.jobs.job_cost import job_cost
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.reasons.facts_of_jobs import TooDear
from charterer.domain.snapshot import Snapshot
from charterer.policy.jobs.predicates import reason
from charterer.policy.nodes.hard_limit import LOOK_AHEAD_SECONDS, MARGIN_SECONDS, USEFUL_SECONDS
from charterer.policy.options.option_value import Projection


def max_cost_left(job: Job, snapshot: Snapshot) -> float | None:
    """Dollars that the job may still cost; None when there is no bound."""
    if job.max_cost is None:
        return None
    return (job.max_cost - job_cost(job, snapshot.rentals, snapshot.now)).dollars


def stop_cost(job: Job, option: Option) -> float:
    """Dollars that its GPUs cost at most from a decision to stop it until they are left."""
    return option.paid_price.dollars_per_second * (job.grace_seconds + MARGIN_SECONDS + LOOK_AHEAD_SECONDS)


def within_max_cost(job: Job, option: Option, dollars: float, left: float | None) -> bool:
    """Whether an option that costs ``dollars`` to the end, at the price that is paid, stays within what is left."""
    return left is None or dollars + stop_cost(job, option) <= left


def needs(job: Job, projection: Projection, *, sized: bool) -> float:
    """Dollars that must be left for an option to be entered, an orderly stop included.

    ``sized``: whether anything says how much work the job is, so that the projection to its end means something.
    """
    dollars = projection.paid_dollars
    if not sized:
        entered = projection.option.as_paid
        dollars = entered.entry_cost.dollars + entered.price.dollars_per_second * USEFUL_SECONDS
    return dollars + stop_cost(job, projection.option)


def affordable(job: Job, projections: Sequence[Projection], snapshot: Snapshot, *, sized: bool) -> Sequence[Projection]:
    """The projections that stay within the job's maxCost, in the same order."""
    left = max_cost_left(job, snapshot)
    return projections if left is None else [way for way in projections if needs(job, way, sized=sized) <= left]


def too_dear(job: Job, projections: Sequence[Projection], snapshot: Snapshot, *, sized: bool) -> Reason | None:
    """The reason why a job is not started: each of its options would cost more than it may. None where one fits."""
    if job.max_cost is None or affordable(job, projections, snapshot, sized=sized):
        return None
    spent = job_cost(job, snapshot.rentals, snapshot.now)
    cheapest = min(projections, key=lambda projection: needs(job, projection, sized=sized))
    seconds = None if sized else USEFUL_SECONDS
    facts = TooDear(job.max_cost, spent, cheapest.option, needs(job, cheapest, sized=sized), seconds)
    return reason(ReasonCode.MAX_COST, facts)
