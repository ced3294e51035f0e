"""Exchange rates and scarcity prices where room in the pools binds too, not only money (docs/theory/policy.md).

    min Σ_b Σ_i λ_i Σ_o x_io (κ_b w_i a_io + δ_b m_io)
    s.t.  Σ_o x_io = 1 per class,   Σ λ x m ≤ budget per budget b,   Σ λ x u ≤ capacity per pool p

κ_b, the bid of budget b, is what a second is worth to it with room for all: its own θ without pools, and δ_b = 1 where
that is 0, because even the cheapest columns cost more than it has. With ν_b and σ_p
the duals of the rows, a job picks the option that minimises  w·κ_b·a + (δ_b + ν_b)·m + Σ_p σ_p·u_p.  With
θ_b = κ_b / (δ_b + ν_b) and π_p = σ_p / (δ_b + ν_b) that is  w·θ_b·a + m + Σ_p π_p·u_p:  what room is worth is added to
its price. A second of class i may cost w_i·γ_i dollars at most, γ_i being its ceiling: δ_b = κ_b / (the budget's
highest γ_i), and w_i counts as w_i·γ_i / θ_b where θ_b is above γ_i.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isclose

from charterer.domain.ids import BudgetId, PoolId, Rate
from charterer.policy.solve.exchange_rate import BudgetFit, Demand, Solution, solve
from charterer.policy.solve.hull import corners
from charterer.policy.solve.linear_program import Optimum, SolverGaveUp, Uses, minimise

_PROGRAMS = 4
"""Programs solved at most until the weights agree with the rates: more than one only where a ceiling binds."""
_AGREED = 1e-6
"""Fraction by which weights may change between two programs that agree."""
_SLACK = 1e-9
"""Fraction of the weighted load by which more jobs may wait than must, so that rounding makes nothing infeasible."""
_NOBODY = 1e-8
"""Fraction of a class that is served below which nobody is."""


@dataclass(frozen=True, slots=True)
class LpColumn:
    """One way to run a job to its end: dollars, seconds, and GPU-seconds by pool."""

    money: float
    seconds: float
    use: Mapping[PoolId, float]


@dataclass(frozen=True, slots=True)
class LpClass:
    """Jobs of a budget that choose alike: ``load`` jobs a second, each of ``weight``; at least one column.

    ``ceiling``: dollars that a second of life of weight 1 may cost at most.
    """

    budget: BudgetId
    load: float
    weight: float
    ceiling: float
    columns: Sequence[LpColumn]


@dataclass(frozen=True, slots=True)
class ScarceSolution:
    """The optimum of the long run when budgets and pools bind.

    ``rates``: θ by budget, as ``exchange_rate.Solution`` defines them. ``prices``: dollars per GPU-second on top of the
    bill, 0 where there is room, in dollars of the budget whose dollars count most; ``dollars``: what a dollar of each
    budget counts beside those, less where a budget has more money than room. ``mixes[i]``: column → share of class i's
    jobs. ``queued[i]``: the fraction of class i that must wait whatever is chosen, together the least load (by weight)
    that makes all fit. ``spends`` (dollars a second) and ``uses`` (GPUs) are of the whole load, those that wait
    included: above the budget or the capacity by what is lacking. ``short``: pools for want of which jobs wait.
    ``objective``: Σ w·λ·a, the mean weighted number of jobs at these choices.
    """

    fits: Mapping[BudgetId, BudgetFit]
    rates: Mapping[BudgetId, Rate]
    prices: Mapping[PoolId, float]
    dollars: Mapping[BudgetId, float]
    mixes: Sequence[Mapping[int, float]]
    queued: Sequence[float]
    spends: Mapping[BudgetId, float]
    uses: Mapping[PoolId, float]
    short: frozenset[PoolId]
    objective: float

    def price(self, budget: BudgetId, pool: PoolId) -> float:
        """The price of a GPU-second of the pool beyond the bill, in the budget's own dollars."""
        return self.prices.get(pool, 0.0) / self.dollars[budget]


def pareto_front(columns: Sequence[LpColumn]) -> list[int]:
    """Indices of the columns that can win at some rate and prices: none is at most as dear, slow and wide in all pools.

    A column above the hull of (dollars, seconds) may win once a pool has a price. Of equal columns the first is kept.
    """
    kept: list[int] = []
    order = sorted(
        range(len(columns)), key=lambda at: (columns[at].money, columns[at].seconds, sum(columns[at].use.values()))
    )
    for new in order:
        column = columns[new]
        if not any(
            columns[old].seconds <= column.seconds
            and all(amount <= column.use.get(pool, 0.0) for pool, amount in columns[old].use.items())
            for old in kept
        ):
            kept.append(new)
    return sorted(kept)


def solve_scarce(
    classes: Sequence[LpClass], budgets: Mapping[BudgetId, float], capacity: Mapping[PoolId, float]
) -> ScarceSolution:
    """``budgets``: dollars a second; ``capacity``: GPUs; a pool that is not named has room for all.

    ValueError for a class without columns or of a budget that is not named. SolverGaveUp as ``minimise``.
    """
    for number, lp_class in enumerate(classes):
        if not lp_class.columns:
            raise ValueError(f"class {number} of budget {lp_class.budget} has no way to run: leave it out")
        if lp_class.budget not in budgets:
            raise ValueError(
                f"class {number} is of budget {lp_class.budget}, which is not among the budgets: name its rate"
            )
    unconstrained = _Unconstrained(classes, budgets)
    uses = _uses(classes, unconstrained.mixes)
    if all(used <= capacity.get(pool, used) for pool, used in uses.items()):
        return ScarceSolution(
            fits={budget: solution.fit for budget, solution in unconstrained.solutions.items()},
            rates={budget: solution.rate for budget, solution in unconstrained.solutions.items()},
            prices=dict.fromkeys(capacity, 0.0),
            dollars=dict.fromkeys(budgets, 1.0),
            mixes=unconstrained.mixes,
            queued=_queued(classes, budgets, unconstrained),
            spends={budget: solution.spend for budget, solution in unconstrained.solutions.items()},
            uses=uses,
            short=frozenset(),
            objective=_objective(classes, unconstrained.mixes),
        )
    return _PoolProgram(classes, budgets, capacity, unconstrained).solve()


def _objective(classes: Sequence[LpClass], mixes: Sequence[Mapping[int, float]]) -> float:
    return sum(
        lp_class.weight * lp_class.load * sum(share * lp_class.columns[at].seconds for at, share in mix.items())
        for lp_class, mix in zip(classes, mixes, strict=True)
    )


def _uses(classes: Sequence[LpClass], mixes: Sequence[Mapping[int, float]]) -> dict[PoolId, float]:
    uses: dict[PoolId, float] = {}
    for lp_class, mix in zip(classes, mixes, strict=True):
        for at, share in mix.items():
            for pool, amount in lp_class.columns[at].use.items():
                uses[pool] = uses.get(pool, 0.0) + lp_class.load * share * amount
    return uses


def _queued(
    classes: Sequence[LpClass], budgets: Mapping[BudgetId, float], unconstrained: _Unconstrained
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


class _Unconstrained:
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
    chain = corners([(column.money, column.seconds) for column in lp_class.columns])
    return chain[: 1 + bisect_left(_slopes(lp_class, chain), lp_class.ceiling * lp_class.weight)]


def _slopes(lp_class: LpClass, chain: Sequence[int]) -> list[float]:
    columns = [lp_class.columns[at] for at in chain]
    return [(fast.money - cheap.money) / (cheap.seconds - fast.seconds) for cheap, fast in pairwise(columns)]


def _demand(lp_class: LpClass, chain: Sequence[int]) -> Demand:
    spends = [lp_class.columns[at].money for at in chain]
    return Demand(_slopes(lp_class, chain), spends, lp_class.load, lp_class.weight, lp_class.ceiling)


class _PoolProgram:
    """The linear program of all classes: a row for each budget, then one for each pool."""

    def __init__(
        self,
        classes: Sequence[LpClass],
        budgets: Mapping[BudgetId, float],
        capacity: Mapping[PoolId, float],
        unconstrained: _Unconstrained,
    ) -> None:
        self._classes = classes
        self._budgets = list(budgets)
        self._pools = list(capacity)
        self._limits = [max(limit, 0.0) for limit in (*budgets.values(), *capacity.values())]
        self._poor = {budget for budget, alone in unconstrained.solutions.items() if alone.fit is BudgetFit.INFEASIBLE}
        self._bids: dict[BudgetId, float] = {}
        self._dollars: dict[BudgetId, float] = {}
        for budget, solution in unconstrained.solutions.items():
            members = [at for at, lp_class in enumerate(classes) if lp_class.budget == budget]
            highest = max([classes[at].ceiling for at in members], default=0.0) or 1.0
            self._bids[budget] = bid = 0.0 if budget in self._poor else min(solution.rate or highest, highest)
            self._dollars[budget] = 1.0 if budget in self._poor else bid / highest
        self._alone = {budget: solution.rate for budget, solution in unconstrained.solutions.items()}
        self._owners = [number for number, lp_class in enumerate(classes) for _ in lp_class.columns]
        self._uses = [self._uses_of(lp_class, column) for lp_class in classes for column in lp_class.columns]
        self._costs: list[float] = []

    def _uses_of(self, lp_class: LpClass, column: LpColumn) -> Uses:
        """Dollars and GPUs of the whole class on one column."""
        first = len(self._budgets)
        return [
            (self._budgets.index(lp_class.budget), lp_class.load * column.money),
            *(
                (first + row, lp_class.load * column.use[pool])
                for row, pool in enumerate(self._pools)
                if column.use.get(pool)
            ),
        ]

    def _weights(self, rates: Mapping[BudgetId, Rate]) -> list[float]:
        """Each class's weight, as far as a second of it is worth no more than the class's ceiling."""
        return [
            lp_class.weight * min(1.0, lp_class.ceiling / rates[lp_class.budget])
            if rates[lp_class.budget]
            else lp_class.weight
            for lp_class in self._classes
        ]

    def _costs_at(self, weights: Sequence[float]) -> list[float]:
        bids, dollars = self._bids, self._dollars
        return [
            one.load * (weight * bids[one.budget] * column.seconds + dollars[one.budget] * column.money)
            for one, weight in zip(self._classes, weights, strict=True)
            for column in one.columns
        ]

    def solve(self) -> ScarceSolution:
        """With the weights that agree with the rates."""
        weights = self._weights(self._alone)
        for _ in range(_PROGRAMS):
            self._costs = self._costs_at(weights)
            solution = self._solve()
            agreed = self._weights(solution.rates)
            if all(isclose(new, old, rel_tol=_AGREED) for new, old in zip(agreed, weights, strict=True)):
                break
            weights = agreed
        return solution

    def _solve(self) -> ScarceSolution:
        """Without anybody who waits, and where that cannot be, with the least load that must."""
        optimum = minimise(self._costs, self._owners, self._uses, self._limits)
        if optimum is not None:
            return self._solution(optimum, [0.0] * len(self._limits))
        loads = [lp_class.weight * lp_class.load for lp_class in self._classes]
        owners = [*self._owners, *range(len(loads))]
        waiting: list[Uses] = [()] * len(loads)
        least = minimise([*[0.0] * len(self._costs), *loads], owners, [*self._uses, *waiting], self._limits)
        assert least is not None, "everybody may wait"
        row = len(self._limits)
        waiting = [((row, load),) for load in loads]
        limits = [*self._limits, least.cost + _SLACK * sum(loads)]
        optimum = minimise([*self._costs, *[0.0] * len(loads)], owners, [*self._uses, *waiting], limits)
        if optimum is None:
            raise SolverGaveUp("the least load that must wait is within its own limit only before it is rounded")
        return self._solution(optimum, least.prices)

    def _solution(self, optimum: Optimum, lacking: Sequence[float]) -> ScarceSolution:
        """``lacking``: by row, what a unit more of it would save of the load that waits."""
        count = len(self._budgets)
        short_of = {budget for budget, price in zip(self._budgets, lacking, strict=False) if price > 0.0}
        spare = {budget for budget, price in zip(self._budgets, optimum.prices, strict=False) if price <= 0.0}
        dollars = {
            budget: self._dollars[budget] + price for budget, price in zip(self._budgets, optimum.prices, strict=False)
        }
        unit = max((dollar for budget, dollar in dollars.items() if budget not in short_of), default=1.0)
        mixes = self._mixes(optimum)
        spends = dict.fromkeys(self._budgets, 0.0)
        for lp_class, mix in zip(self._classes, mixes, strict=True):
            spends[lp_class.budget] += lp_class.load * sum(s * lp_class.columns[at].money for at, s in mix.items())
        return ScarceSolution(
            fits={
                budget: BudgetFit.INFEASIBLE
                if budget in short_of | self._poor
                else (BudgetFit.SURPLUS if budget in spare else BudgetFit.MET)
                for budget in self._budgets
            },
            rates={
                budget: Rate(0.0 if budget in short_of else self._bids[budget] / dollar)
                for budget, dollar in dollars.items()
            },
            prices={pool: price / unit for pool, price in zip(self._pools, optimum.prices[count:], strict=False)},
            dollars={budget: dollar / unit for budget, dollar in dollars.items()},
            mixes=mixes,
            queued=optimum.shares[len(self._costs) :] or [0.0] * len(self._classes),
            spends=spends,
            uses=_uses(self._classes, mixes),
            short=frozenset(pool for pool, price in zip(self._pools, lacking[count:], strict=True) if price > 0.0),
            objective=_objective(self._classes, mixes),
        )

    def _mixes(self, optimum: Optimum) -> list[dict[int, float]]:
        """The shares of those of each class that are served; where none is, what the first would take."""
        mixes: list[dict[int, float]] = []
        begin = 0
        for lp_class in self._classes:
            end = begin + len(lp_class.columns)
            mix = {at: share for at, share in enumerate(optimum.shares[begin:end]) if share > 0.0}
            if sum(mix.values()) <= _NOBODY:
                values = [
                    cost + sum(optimum.prices[row] * amount for row, amount in used)
                    for cost, used in zip(self._costs[begin:end], self._uses[begin:end], strict=True)
                ]
                mix = {values.index(min(values)): 1.0}
            served = sum(mix.values())
            mixes.append({at: share / served for at, share in mix.items()})
            begin = end
        return mixes
