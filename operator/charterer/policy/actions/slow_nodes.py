"""A node that holds its job up is replaced when that pays: the job goes on with another one in its place.

Reports of a run of several pods show that one of them computes longer than its peers (``estimate.bottlenecks``), so
that a part f of every step would be saved on a node like the others. With L seconds left, r of a restart, p the price
of the job a second, w·θ what a second is worth, and b dollars for a new node while it starts, the job moves if

    (w·θ + p)·f·L > 2·((w·θ + p)·r + b)

The factor is for what else a restart may cost, as where nodes are emptied. The job runs on until the new node is ready.
The old one is released by the same plan. Whether it was the node or the work of that rank (as in pipelines of unequal
stages) is only known afterwards: so it is done once in a job's life, and a finding after that is told and not acted on.
All limits of the budget on moves hold.
"""

from __future__ import annotations

from charterer.domain.job import Job
from charterer.domain.money import Money
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.reasons.facts_of_nodes import PodWasSlow
from charterer.domain.reasons.facts_of_options import SlowNode
from charterer.domain.reports.bottleneck import Bottleneck, BottleneckKind
from charterer.policy.actions.budget_plan import BudgetPlan
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.jobs.job_facts import next_run
from charterer.policy.jobs.predicates import reason
from charterer.policy.nodes.holdings import by_rental
from charterer.policy.options.option_value import Projection

_FACTOR = 2.0
"""Multiple of what the restart and the new node cost that must be saved."""
_MOST = 1
"""Times that a job gets another node for this."""


def replace_slow_nodes(plan: BudgetPlan) -> None:
    """Give jobs that one slow node holds up another one, where that pays and all limits allow it."""
    for kept in plan.jobs.running:
        assignment = plan.solution.assignments.get(kept.group.key)
        for facts in kept.group.slowed if assignment is not None else ():
            if facts.job.id in kept.runners and facts.job.id in kept.group.movable and assignment is not None:
                _consider(plan, facts.job, assignment)


def slow_worker(job: Job) -> Bottleneck | None:
    """The pod that holds the job's run up; None if none does."""
    return next((found for found in job.bottlenecks if found.kind is BottleneckKind.SLOW_WORKER), None)


def _consider(plan: BudgetPlan, job: Job, assignment: GroupAssignment) -> None:
    slow, allocation = slow_worker(job), job.allocation
    if slow is None or allocation is None or job.nodes_replaced >= _MOST or not job.remaining:
        return
    held = by_rental(allocation.placements).get(slow.rental) if slow.rental is not None else None
    if slow.rental is None or held is None or plan.placer.capacity.used.get(slow.rental, 0) != held:
        return
    if not plan.decided.stays(job):
        return
    values = plan.solution.own_values(job, assignment)
    left = values.staying(allocation.option, assignment.position(job)).seconds
    restart = assignment.group.menu.table.restart
    second = plan.solution.worth(job, assignment) + allocation.option.price.dollars_per_second
    saved, costs = second * slow.recovered * left, second * restart
    boots = not plan.placer.has_room_without(job, allocation.option, slow.rental)
    if boots:
        pods = len(allocation.placements)
        costs += plan.placer.start_up(allocation.option) * allocation.option.price.dollars_per_second / pods
    if saved <= _FACTOR * costs:
        return
    option, position = allocation.option, assignment.position(job)
    there = Projection.on(option, left * (1.0 - slow.recovered) + restart, values.worth)
    if not plan.gate.allows([plan.gate.held(job, values, position, there)]):
        return
    claim = plan.claim(job, allocation.option, without=slow.rental)
    if claim.blocked is not None:
        return
    seconds = slow.recovered * left - restart
    facts = SlowNode(option, slow.rental, slow.pod, slow.value, seconds, Money.of(saved - costs))
    money = Money.of(allocation.option.price.dollars_per_second * -seconds + (costs - second * restart))
    why = Reason(ReasonCode.SLOW_NODE, job.weight * seconds, money, facts, allocation.option)
    why = plan.solution.with_deadline_note(job, why)
    if claim.placements is not None:
        plan.decided.allocate(job, allocation.option, next_run(job), claim.placements, why)
        was_slow = PodWasSlow(slow.pod, f"{job.namespace}/{job.name}")
        plan.decided.release(slow.rental, reason(ReasonCode.SLOW_NODE, was_slow))
    plan.decided.judge(job, allocation.option, why)
