"""The planner's input before money is considered: menus, jobs in groups, rentals, and which job holds which GPUs."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

from charterer.domain.budget import Selector
from charterer.domain.budget_tree import NO_TREE, BudgetTree, budget_tree
from charterer.domain.ids import BudgetId, ClassId, JobId, NodeName, PoolId, RentalId
from charterer.domain.node_demands import NodeOffers, node_offers
from charterer.domain.offered_node import offered_node
from charterer.domain.plan import Reason
from charterer.domain.snapshot import Node, Snapshot
from charterer.incremental import Memo
from charterer.policy.jobs.groups import JobGroup, JobGroups, job_group, job_groups, may_explore, stop_some, trying_jobs
from charterer.policy.jobs.job_facts import GroupKey, JobFacts, job_facts, job_position
from charterer.policy.nodes.limits import too_dear
from charterer.policy.nodes.rentals import (
    BudgetPool,
    Holdings,
    KnownEnds,
    PoolNodes,
    RentalIndex,
    holdings,
    known_ends,
    pool_nodes,
    rental_index,
)
from charterer.policy.options.market import Market, market_of
from charterer.policy.options.menu import Menus
from charterer.policy.options.option_value import OptionValues
from charterer.policy.options.speeds import quarantined_widths


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """The facts from which all budgets of a snapshot are solved.

    ``menus``: for each budget, the menus of the pools that its money may rent.
    ``market``: what all pools offer.
    ``offers``: what nodes each pool would give.
    ``ends``: the known ends of nodes.
    ``refusing``: rentals whose nodes refused a pod, with these nodes.
    ``tree``: the parents of budgets.
    ``unprofitable``: for each budget, pools of slices that it does not use (``planner``).
    ``verdicts``: whether the plan says more than its commands (``planner.plan``).
    """

    snapshot: Snapshot
    memo: Memo
    menus: Mapping[BudgetId, Menus]
    market: Market
    offers: NodeOffers
    facts: Mapping[JobId, JobFacts]
    groups: JobGroups
    rentals: RentalIndex
    holdings: Holdings
    nodes: Mapping[BudgetPool, PoolNodes]
    ends: KnownEnds
    refusing: Mapping[RentalId, Node]
    tree: BudgetTree = NO_TREE
    unprofitable: Mapping[BudgetId, frozenset[PoolId]] = field(default_factory=dict)
    verdicts: bool = True

    def without_layouts(self, unprofitable: Mapping[BudgetId, frozenset[PoolId]]) -> PlanInputs:
        """The inputs in which each budget's menus leave out its unprofitable pools of slices."""
        menus = {name: self.menus[name].without(pools) for name, pools in unprofitable.items()}
        return replace(self, menus={**self.menus, **menus}, unprofitable=unprofitable)


def plan_inputs(snapshot: Snapshot, memo: Memo, verdicts: bool = True) -> PlanInputs:
    """Gather the inputs; what did not change since the memo's last turn is the same object."""
    trying = trying_jobs(snapshot.jobs.values(), snapshot.profiles, snapshot.now)
    offers = memo(node_offers, memo.stable(memo.each(offered_node, snapshot.pools), "offered nodes"))
    shared = frozenset(snapshot.profiles), trying, snapshot.committed_pools, offers
    facts = memo.each(job_facts, snapshot.jobs, *shared)
    groups = job_groups(facts, memo)
    menus = _menus(snapshot, groups, memo)
    groups = {
        budget: _startable(by_key, menus[budget], snapshot, memo) if budget is not None and budget in menus else by_key
        for budget, by_key in groups.items()
    }
    rentals = rental_index(snapshot.rentals, memo)
    held = holdings([group for by_key in groups.values() for group in by_key.values()], rentals.rental_of, memo)
    return PlanInputs(
        snapshot=snapshot,
        memo=memo,
        menus=menus,
        market=market_of(snapshot.pools, memo),
        offers=offers,
        facts=facts,
        groups=groups,
        rentals=rentals,
        holdings=held,
        nodes=pool_nodes(rentals, held, snapshot, memo),
        ends=known_ends(rentals, snapshot.surveys, snapshot.now),
        refusing=memo(_refusing, snapshot.nodes, rentals.rental_of),
        tree=budget_tree(snapshot.known_budgets, snapshot.problems),
        verdicts=verdicts,
    )


def _refusing(nodes: Mapping[NodeName, Node], rental_of: Mapping[NodeName, RentalId]) -> Mapping[RentalId, Node]:
    refusing = [node for node in nodes.values() if node.refused]
    return {rental_of[node.name]: node for node in refusing if node.name in rental_of}


def inputs_once_stopped(inputs: PlanInputs, stopped: Container[JobId]) -> PlanInputs:
    """The inputs as the next plan will see them, after the jobs in ``stopped`` were told to stop.

    The remaining cost of their runs is no longer committed. Jobs among them that start again are waiting jobs.
    """
    snapshot, classes = inputs.snapshot, frozenset(inputs.snapshot.profiles)
    found: dict[BudgetId | None, Mapping[GroupKey, JobGroup]] = {}
    for budget, by_key in inputs.groups.items():
        groups = {key: stop_some(group, stopped, classes, inputs.offers) for key, group in by_key.items()}
        menus = None if budget is None else inputs.menus.get(budget)
        found[budget] = groups if menus is None else _startable(groups, menus, snapshot, inputs.memo)
    return replace(inputs, groups=found)


def _menus(snapshot: Snapshot, groups: JobGroups, memo: Memo) -> Mapping[BudgetId, Menus]:
    """The menus of each budget's jobs. Budgets that may rent in the same pools share them."""
    exploring, quarantined = _exploring(snapshot, groups), quarantined_widths(snapshot.profiles, snapshot.now)
    made: dict[tuple[Selector, frozenset[PoolId]], Menus] = {}
    found: dict[BudgetId, Menus] = {}
    for budget in snapshot.budgets.values():
        alike = budget.pool_selector, frozenset(snapshot.committed_to(budget))
        if alike not in made:
            made[alike] = Menus(snapshot.profiles, snapshot.pools_of(budget), exploring, quarantined, memo)
        found[budget.id] = made[alike]
    return found


def _startable(
    groups: Mapping[GroupKey, JobGroup], menus: Menus, snapshot: Snapshot, memo: Memo
) -> Mapping[GroupKey, JobGroup]:
    """The groups of a budget, in which a waiting job is refused if each of its options costs more than its maxCost.

    Such jobs will never cost anything. If they counted as load, other jobs would become narrower without need.
    """
    found = dict(groups)
    for key, group in groups.items():
        capped = [job for job in group.waiting if job.cost_limit is not None]
        menu = menus.menu(key.menu) if capped else None
        if menu is not None and menu.options:
            values = memo(OptionValues, menu, 0.0)
            reasons = {
                job.id: too_dear(
                    job, values.entering(job_position(job, 1.0)), snapshot, sized=job.remaining is not None
                )
                for job in capped
            }
            refused = tuple([(name, why) for name, why in reasons.items() if why is not None])
            found[key] = memo(_refuse, group, refused) if refused else group
    return found


def _refuse(group: JobGroup, refused: Sequence[tuple[JobId, Reason]]) -> JobGroup:
    """The group, in which the jobs in ``refused`` want no GPUs, for the reasons given there."""
    why = dict(refused)
    members = [replace(facts, refused=why.get(facts.job.id, facts.refused)) for facts in group.members]
    return job_group(tuple(members))


def _exploring(snapshot: Snapshot, groups: JobGroups) -> frozenset[ClassId]:
    """Classes whose budget pays for runs at widths that were never measured."""
    learned = {
        name: profile.budget
        for name, profile in snapshot.profiles.items()
        if profile.reports and profile.budget is not None
    }
    paying = set()
    for name in set(learned.values()) & snapshot.budgets.keys():
        budget = snapshot.budgets[name]
        tried = [facts for group in groups.get(name, {}).values() for facts in group.tried]
        begin = budget.calendar.bounds(snapshot.now)[0]
        if may_explore(budget, tried, begin, snapshot.now):
            paying.add(name)
    return frozenset(class_id for class_id, name in learned.items() if name in paying)
