"""Layouts of slices that a budget has too few jobs for.

A job on a slice pays its part of the node, which is right at the margin: with G slices of S a node in use, and jobs
moved together, ⌈G/S⌉ nodes are rented, and each slice more costs a slice in the mean. But each pool in use has a last
node that is partly empty. Where G is Poisson with mean m, S·E⌈G/S⌉ − m slices are unused, (S − 1)/2 from a few nodes
on. Pools of slices are many pools for the same jobs, so those are left alone without which all jobs together, unused
GPUs and slices included, cost less.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import exp, inf, sqrt
from typing import NamedTuple

from charterer.domain.ids import PoolId
from charterer.gpu_types import slice_profile
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.options.market import PoolOffer


class _Choice(NamedTuple):
    """A way to do a unit of work: ``cost`` in dollars, the job's time included; ``held``: GPU- or slice-seconds."""

    cost: float
    pool: PoolId
    held: float
    speed: float
    slice: bool


class _Demand(NamedTuple):
    """Units of work a second that jobs which choose alike do, and their best choice in each pool, the best first."""

    work: float
    choices: Sequence[_Choice]

    def best(self, closed: Collection[PoolId]) -> _Choice | None:
        """The best choice outside these pools; None where there is none."""
        return next((choice for choice in self.choices if choice.pool not in closed), None)


def unprofitable_layouts(solution: BudgetSolution) -> frozenset[PoolId]:
    """The pools of slices that the budget had better leave alone now.

    They are closed one after the other, that first which saves most: the jobs of one then fill another. A layout stays
    where some jobs have no other option.
    """
    offers = solution.inputs.market.offers
    if not any(slice_profile(offer.gpu_type) for offer in offers.values()):
        return frozenset()
    demands = [found for each in solution.assignments.values() if (found := _demand(each)) is not None]
    closed: frozenset[PoolId] = frozenset()
    least = _cost(demands, closed, offers)
    while chosen := {best.pool for each in demands if (best := each.best(closed)) is not None and best.slice}:
        costs = {closed | {pool}: _cost(demands, closed | {pool}, offers) for pool in sorted(chosen)}
        better = min(costs, key=lambda pools: costs[pools])
        if costs[better] >= least:
            break
        closed, least = better, costs[better]
    return closed


def _demand(assignment: GroupAssignment) -> _Demand | None:
    """The work of a group's jobs in sight, or of as many as there are in the long run; None without jobs."""
    group, worth, best = assignment.group, assignment.values.worth, dict[PoolId, _Choice]()
    jobs = max(float(group.active), group.foreseen * assignment.mean_seconds)
    if not jobs or not group.menu.options:
        return None
    for option in group.menu.options:
        cost = (worth + option.price.dollars_per_second) / option.speed
        if option.pool not in best or cost < best[option.pool].cost:
            held = option.gpus / option.speed
            best[option.pool] = _Choice(cost, option.pool, held, option.speed, bool(option.slice))
    choices = sorted(best.values())
    return _Demand(jobs * choices[0].speed, choices)


def _cost(demands: Sequence[_Demand], closed: Collection[PoolId], offers: Mapping[PoolId, PoolOffer]) -> float:
    """Dollars a second of all jobs outside these pools, their time and what nodes leave unused included."""
    total, used = 0.0, dict[PoolId, float]()
    for each in demands:
        best = each.best(closed)
        if best is None:
            return inf
        total += each.work * best.cost
        used[best.pool] = used.get(best.pool, 0.0) + each.work * best.held
    for pool, mean in used.items():
        price, size = offers[pool].price, offers[pool].gpus_per_node
        if price is not None:
            total += unused(mean, size) * price.dollars_per_second / size
    return total


def unused(mean: float, size: int) -> float:
    """S·E⌈G/S⌉ − m: expected unused GPUs or slices of nodes of ``size`` of them, of which a Poisson number is used."""
    if mean > 50.0 * size:
        return (size - 1) / 2.0
    probability, expected = exp(-mean), 0.0
    for count in range(1, round(mean + 10.0 * sqrt(mean)) + 20):
        probability *= mean / count
        expected += probability * -(-count // size)
    return size * expected - mean
