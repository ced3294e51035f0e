"""What is known of a snapshot before anything is decided, and what one plan leaves of it to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from charterer.domain.ids import BudgetId, ClassId, NodeName, PoolId
from charterer.domain.period import period_bounds
from charterer.domain.snapshot import Node, Snapshot
from charterer.policy.identity_diff import identity_diff
from charterer.policy.jobs.exploration_budget import may_explore
from charterer.policy.jobs.groups import JobIndex
from charterer.policy.move_cache import GroupCaches
from charterer.policy.nodes.capacity import Holdings
from charterer.policy.nodes.pool_nodes import PoolNodes
from charterer.policy.nodes.rental_index import RentalIndex
from charterer.policy.options.menu import Menus
from charterer.policy.options.width_backoff import quarantined_widths

Sites = Mapping[tuple[BudgetId, PoolId], PoolNodes]


@dataclass(frozen=True, slots=True)
class PlanCache:
    """Menus, jobs read, and who holds which GPUs: worked out anew only where the snapshot changed.

    ``minds``: what the planner finds out about running jobs, filled while the plan is made; ``before``: what it had
    found out in the plan before.
    """

    menus: Menus
    readings: JobIndex
    fleet: RentalIndex
    holdings: Holdings
    nodes: Mapping[NodeName, Node]
    sites: Sites
    minds: GroupCaches
    before: GroupCaches


@dataclass(slots=True)
class Memo:
    """What one plan may leave for the next to be made faster by: never anything that makes it different.

    ``known`` is None while a plan is being made: one that failed half-way leaves nothing.
    """

    known: PlanCache | None = None


def plan_cache(snapshot: Snapshot, memo: Memo | None = None) -> PlanCache:
    """What is known of the snapshot, with the help of what the memo holds, which is taken from it."""
    before = None
    if memo is not None:
        before, memo.known = memo.known, None
    menus = Menus(snapshot.profiles, snapshot.pools, None if before is None else before.menus)
    readings = JobIndex(snapshot, menus, None if before is None else before.readings)
    menus.explore(_exploring(snapshot, readings), quarantined_widths(snapshot.profiles, snapshot.now))
    fleet = RentalIndex(snapshot, None if before is None else before.fleet)
    holdings = Holdings() if before is None else before.holdings
    holdings.update(fleet, readings.by_id)
    sites = _sites(fleet, holdings, snapshot, before)
    minds = {} if before is None else before.minds
    return PlanCache(menus, readings, fleet, holdings, snapshot.nodes, sites, {}, minds)


def _sites(fleet: RentalIndex, holdings: Holdings, snapshot: Snapshot, before: PlanCache | None) -> Sites:
    """The blocks as they stand now."""
    nodes = snapshot.nodes
    changed, gone = identity_diff(nodes, {} if before is None else before.nodes)
    moved, found = {*changed, *gone}, {}
    for place, block in fleet.blocks.items():
        known = None if before is None else before.sites.get(place)
        if (
            known is None
            or known.block is not block
            or not (holdings.touched.isdisjoint(block.names) and moved.isdisjoint(block.nodes))
        ):
            on = [None if one.node is None else nodes.get(one.node) for one in block.ready]
            known = PoolNodes(block, on, holdings)
        found[place] = known
    return found


def _exploring(snapshot: Snapshot, readings: JobIndex) -> frozenset[ClassId]:
    """Classes whose widths may be tried that were never measured: their budget pays for more trials."""
    learned = {name: one.budget for name, one in snapshot.profiles.items() if one.reports and one.budget is not None}
    if not learned:
        return frozenset()
    paying = set()
    for name in set(learned.values()) & snapshot.budgets.keys():
        budget = snapshot.budgets[name]
        tried = [one for cohort in readings.cohorts.get(name, {}).values() for one in cohort.tried]
        begin = period_bounds(budget.time_zone, snapshot.now)[0]
        if may_explore(budget, tried, begin, snapshot.now):
            paying.add(name)
    return frozenset(class_id for class_id, name in learned.items() if name in paying)
