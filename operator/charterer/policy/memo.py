"""What is known of a snapshot before anything is decided, and what one plan leaves of it to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from charterer.domain.ids import BudgetId, ClassId, NodeName, PoolId
from charterer.domain.period import period_bounds
from charterer.domain.snapshot import Node, Snapshot
from charterer.policy.capacity import Holdings
from charterer.policy.cohort import Readings
from charterer.policy.exploration import may_explore
from charterer.policy.failed import barred
from charterer.policy.fleet import Fleet
from charterer.policy.menu import Menus
from charterer.policy.rest import Minds
from charterer.policy.same import differences
from charterer.policy.site import Site

Sites = Mapping[tuple[BudgetId, PoolId], Site]


@dataclass(frozen=True, slots=True)
class Known:
    """Menus, jobs read, and who holds which GPUs: worked out anew only where the snapshot changed.

    ``minds``: what the planner finds out about running jobs, filled while the plan is made; ``before``: what it had
    found out in the plan before.
    """

    menus: Menus
    readings: Readings
    fleet: Fleet
    holdings: Holdings
    nodes: Mapping[NodeName, Node]
    sites: Sites
    minds: Minds
    before: Minds


@dataclass(slots=True)
class Memo:
    """What one plan may leave for the next to be made faster by: never anything that makes it different.

    ``known`` is None while a plan is being made: one that failed half-way leaves nothing.
    """

    known: Known | None = None


def know(snapshot: Snapshot, memo: Memo | None = None) -> Known:
    """What is known of the snapshot, with the help of what the memo holds, which is taken from it."""
    before = None
    if memo is not None:
        before, memo.known = memo.known, None
    menus = Menus(snapshot.profiles, snapshot.pools, None if before is None else before.menus)
    readings = Readings(snapshot, menus, None if before is None else before.readings)
    menus.explore(_exploring(snapshot, readings), barred(snapshot.profiles, snapshot.now))
    fleet = Fleet(snapshot, None if before is None else before.fleet)
    holdings = Holdings() if before is None else before.holdings
    holdings.update(fleet, readings.by_id)
    sites = _sites(fleet, holdings, snapshot, before)
    minds = {} if before is None else before.minds
    return Known(menus, readings, fleet, holdings, snapshot.nodes, sites, {}, minds)


def _sites(fleet: Fleet, holdings: Holdings, snapshot: Snapshot, before: Known | None) -> Sites:
    """The blocks as they stand now."""
    nodes = snapshot.nodes
    changed, gone = differences(nodes, {} if before is None else before.nodes)
    moved, found = {*changed, *gone}, {}
    for place, block in fleet.blocks.items():
        known = None if before is None else before.sites.get(place)
        if (
            known is None
            or known.block is not block
            or not (holdings.touched.isdisjoint(block.names) and moved.isdisjoint(block.nodes))
        ):
            on = [None if one.node is None else nodes.get(one.node) for one in block.ready]
            known = Site(block, on, holdings)
        found[place] = known
    return found


def _exploring(snapshot: Snapshot, readings: Readings) -> frozenset[ClassId]:
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
