"""What a snapshot says before money is considered: menus, jobs in groups, rentals, and who holds which GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from charterer.domain.ids import ClassId, JobId
from charterer.domain.period import period_bounds
from charterer.domain.snapshot import Snapshot
from charterer.incremental import Memo
from charterer.policy.jobs.exploration_budget import may_explore
from charterer.policy.jobs.groups import JobGroups, job_groups
from charterer.policy.jobs.job_facts import JobFacts, job_facts
from charterer.policy.nodes.holdings import Holdings, holdings
from charterer.policy.nodes.pool_nodes import PoolNodes, pool_nodes
from charterer.policy.nodes.rental_index import BudgetPool, RentalIndex, rental_index
from charterer.policy.options.menu import Menus
from charterer.policy.options.width_backoff import quarantined_widths


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What all budgets of a snapshot are solved from."""

    snapshot: Snapshot
    memo: Memo
    menus: Menus
    facts: Mapping[JobId, JobFacts]
    groups: JobGroups
    rentals: RentalIndex
    holdings: Holdings
    nodes: Mapping[BudgetPool, PoolNodes]


def plan_inputs(snapshot: Snapshot, memo: Memo) -> PlanInputs:
    """Gather the inputs; what did not change since the memo's last turn is the same object."""
    facts = memo.each(job_facts, snapshot.jobs, frozenset(snapshot.profiles))
    groups = job_groups(facts, memo)
    rentals = rental_index(snapshot.rentals, memo)
    held = holdings([group for by_key in groups.values() for group in by_key.values()], rentals.rental_of, memo)
    quarantined = quarantined_widths(snapshot.profiles, snapshot.now)
    return PlanInputs(
        snapshot=snapshot,
        memo=memo,
        menus=Menus(snapshot.profiles, snapshot.pools, _exploring(snapshot, groups), quarantined, memo),
        facts=facts,
        groups=groups,
        rentals=rentals,
        holdings=held,
        nodes=pool_nodes(rentals, held, snapshot, memo),
    )


def _exploring(snapshot: Snapshot, groups: JobGroups) -> frozenset[ClassId]:
    """Classes whose budget pays for trials of widths that were never measured."""
    learned = {
        name: profile.budget
        for name, profile in snapshot.profiles.items()
        if profile.reports and profile.budget is not None
    }
    paying = set()
    for name in set(learned.values()) & snapshot.budgets.keys():
        budget = snapshot.budgets[name]
        tried = [facts for group in groups.get(name, {}).values() for facts in group.tried]
        begin = period_bounds(budget.time_zone, snapshot.now)[0]
        if may_explore(budget, tried, begin, snapshot.now):
            paying.add(name)
    return frozenset(class_id for class_id, name in learned.items() if name in paying)
