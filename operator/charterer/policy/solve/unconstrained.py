"""Each budget by itself, with room for all: where that fits, it is the optimum."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from charterer.domain.ids import BudgetId
from charterer.policy.solve.exchange_rate import BudgetFit, Demand, Solution, solve
from charterer.policy.solve.lp_columns import LpClass


class Unconstrained:
    """Each budget by itself, with room for all (``exchange_rate.solve`` on the hulls)."""

    def __init__(self, classes: Sequence[LpClass], budgets: Mapping[BudgetId, float]) -> None:
        self.solutions: dict[BudgetId, Solution] = {}
        mixes: list[dict[int, float]] = [{} for _ in classes]
        for budget, allowed in budgets.items():
            members = [at for at, lp_class in enumerate(classes) if lp_class.budget == budget]
            chains = [_chain(classes[at]) for at in members]
            demands = [_demand(classes[at], chain) for at, chain in zip(members, chains, strict=True)]
            self.solutions[budget] = solution = solve(demands, allowed)
            for number, (at, chain) in enumerate(zip(members, chains, strict=True)):
                level = solution.levels[number]
                mixes[at] = {chain[level]: 1.0}
                if number == solution.mixed and solution.mix > 0.0:
                    mixes[at] = {chain[level]: 1.0 - solution.mix, chain[level + 1]: solution.mix}
        self.mixes: list[dict[int, float]] = mixes


def _chain(lp_class: LpClass) -> Sequence[int]:
    """The columns on the hull of (dollars, seconds), up to the class's ceiling."""
    columns = lp_class.columns
    return columns.chain[: 1 + bisect_left(columns.slopes, lp_class.ceiling * lp_class.weight)]


def _demand(lp_class: LpClass, chain: Sequence[int]) -> Demand:
    spends = [lp_class.columns[at].money for at in chain]
    slopes = lp_class.columns.slopes[: len(chain) - 1]
    return Demand(slopes, spends, lp_class.load, lp_class.weight, lp_class.ceiling)


def queued_for_money(
    classes: Sequence[LpClass], budgets: Mapping[BudgetId, float], unconstrained: Unconstrained
) -> list[float]:
    """Where only money lacks: jobs wait that cost most for their weight, until the cheapest columns are paid for."""
    excess = {
        budget: solution.spend - max(budgets[budget], 0.0) if solution.fit is BudgetFit.INFEASIBLE else 0.0
        for budget, solution in unconstrained.solutions.items()
    }
    costs = [
        lp_class.columns[next(iter(mix))].money for lp_class, mix in zip(classes, unconstrained.mixes, strict=True)
    ]
    queued = [0.0] * len(classes)
    paid = (at for at, lp_class in enumerate(classes) if lp_class.load * costs[at] > 0.0)
    for at in sorted(paid, key=lambda at: classes[at].weight / costs[at]):
        lp_class, cost = classes[at], classes[at].load * costs[at]
        queued[at] = min(max(excess[lp_class.budget] / cost, 0.0), 1.0)
        excess[lp_class.budget] -= queued[at] * cost
    return queued
