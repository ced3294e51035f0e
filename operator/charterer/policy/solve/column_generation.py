"""The linear program of classes that share pools, solved among few of its columns.

Few of the columns are ever taken, so only some are in the program, and those of each class that are better at its
prices are added until there are none (column generation: Dantzig and Wolfe, 1960). That is the optimum of all columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isclose

import numpy as np
from numpy.typing import NDArray

from charterer.domain.ids import BudgetId, PoolId, Rate
from charterer.policy.solve.exchange_rate import BudgetFit
from charterer.policy.solve.linear_program import Optimum, SolverGaveUp, Uses, minimise
from charterer.policy.solve.lp_columns import LpClass
from charterer.policy.solve.scarce_solution import ScarceSolution, objective, uses_of
from charterer.policy.solve.unconstrained import Unconstrained

_PROGRAMS = 4
"""Programs solved at most until the weights agree with the rates: more than one only where a ceiling binds."""
_AGREED = 1e-6
"""Fraction by which weights may change between two programs that agree."""
_SLACK = 1e-9
"""Fraction of the weighted load by which more jobs may wait than must, so that rounding makes nothing infeasible."""
_NOBODY = 1e-8
"""Fraction of a class that is served below which nobody is."""
_DEARER = 10.0
"""Cost at which a class may wait while columns are looked for that leave nobody waiting, in those of its dearest one:
prices are then those of the optimum, or near them."""
_BETTER = 1e-9
"""Fraction of its class's best by which a column must be better to be added to a program."""


class ColumnProgram:
    """The linear program of all classes: a row for each budget, then one for each pool."""

    def __init__(
        self,
        classes: Sequence[LpClass],
        budgets: Mapping[BudgetId, float],
        capacity: Mapping[PoolId, float],
        unconstrained: Unconstrained,
        like: ScarceSolution | None,
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
        sizes = [len(lp_class.columns) for lp_class in classes]
        self._starts = np.cumsum([0, *sizes[:-1]])
        self._owners = np.repeat(np.arange(len(classes)), sizes)
        rows = {budget: row for row, budget in enumerate(budgets)}
        self._payer = np.array([rows[lp_class.budget] for lp_class in classes])[self._owners]
        self._spends = np.concatenate([lp_class.load * lp_class.columns.money for lp_class in classes])
        self._lives = np.concatenate([lp_class.load * lp_class.columns.seconds for lp_class in classes])
        self._user, self._row, self._amount = self._uses_of_pools()
        self._costs = np.zeros(len(self._owners))
        self._tried = np.zeros(len(self._owners), dtype=bool)
        self._some_wait = like is not None and any(queued > _NOBODY for queued in like.queued)
        for columns in (unconstrained.mixes, () if like is None else like.tried):
            for start, of_class in zip(self._starts, columns, strict=False):
                self._tried[[start + at for at in of_class]] = True

    def _uses_of_pools(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
        """Columns, rows, and the GPUs of the whole class on that column; without pools that have room for all."""
        rows = {pool: row for row, pool in enumerate(self._pools, len(self._budgets))}
        all_uses = [lp_class.columns.uses for lp_class in self._classes]
        user = np.concatenate([start + uses.columns for start, uses in zip(self._starts, all_uses, strict=True)])
        pool_rows = [np.array([rows.get(pool, -1) for pool in uses.pools], dtype=int) for uses in all_uses]
        row = np.concatenate([of_pool[uses.numbers] for of_pool, uses in zip(pool_rows, all_uses, strict=True)])
        amount = np.concatenate(
            [one.load * one.held * uses.amounts for one, uses in zip(self._classes, all_uses, strict=True)]
        )
        limited = row >= 0
        return user[limited], row[limited], amount[limited]

    def _values(self, costs: NDArray[np.float64], prices: Sequence[float]) -> NDArray[np.float64]:
        """What each column costs with the prices of all that it uses."""
        price = np.array(prices)
        of_pools = np.bincount(self._user, price[self._row] * self._amount, len(costs))
        values: NDArray[np.float64] = costs + price[self._payer] * self._spends + of_pools
        return values

    def _uses(self, columns: NDArray[np.intp]) -> list[Uses]:
        """The uses of some columns."""
        uses: dict[int, list[tuple[int, float]]] = {
            column: [(row, spend)]
            for column, row, spend in zip(
                columns.tolist(), self._payer[columns].tolist(), self._spends[columns].tolist(), strict=True
            )
        }
        chosen = np.flatnonzero(np.isin(self._user, columns))
        for column, row, amount in zip(
            self._user[chosen].tolist(), self._row[chosen].tolist(), self._amount[chosen].tolist(), strict=True
        ):
            uses[column].append((row, amount))
        return list(uses.values())

    def _weights(self, rates: Mapping[BudgetId, Rate]) -> list[float]:
        """Each class's weight, as far as a second of it is worth no more than the class's ceiling."""
        return [
            lp_class.weight * min(1.0, lp_class.ceiling / rates[lp_class.budget])
            if rates[lp_class.budget]
            else lp_class.weight
            for lp_class in self._classes
        ]

    def _costs_at(self, weights: Sequence[float]) -> NDArray[np.float64]:
        bids = np.array([weight * self._bids[one.budget] for one, weight in zip(self._classes, weights, strict=True)])
        dollars = np.array([self._dollars[budget] for budget in self._budgets])
        costs: NDArray[np.float64] = bids[self._owners] * self._lives + dollars[self._payer] * self._spends
        return costs

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
        waiting: list[Uses] = [()] * len(self._classes)
        optimum = None if self._some_wait else self._optimum(self._costs)
        if optimum is None and not self._some_wait:
            dearest = _DEARER * np.maximum.reduceat(self._costs, self._starts)
            meanwhile = self._optimum(self._costs, dearest.tolist(), waiting)
            assert meanwhile is not None, "everybody may wait"
            if max(meanwhile.fractions[len(self._costs) :]) <= _NOBODY:
                optimum = self._optimum(self._costs)
        if optimum is not None:
            return self._solution(optimum, [0.0] * len(self._limits))
        loads = [lp_class.weight * lp_class.load for lp_class in self._classes]
        least = self._optimum(np.zeros(len(self._costs)), loads, waiting)
        assert least is not None, "everybody may wait"
        self._some_wait = True
        slack = _SLACK * sum(loads)
        if least.cost <= slack and (optimum := self._optimum(self._costs)) is not None:
            return self._solution(optimum, [0.0] * len(self._limits))
        row = len(self._limits)
        waiting = [((row, load),) for load in loads]
        optimum = self._optimum(self._costs, [0.0] * len(loads), waiting, (least.cost + slack,))
        if optimum is None:
            raise SolverGaveUp("the least load that must wait is within its own limit only before it is rounded")
        return self._solution(optimum, least.prices)

    def _optimum(
        self,
        costs: NDArray[np.float64],
        waits: Sequence[float] = (),
        waiting: Sequence[Uses] = (),
        more_limits: Sequence[float] = (),
    ) -> Optimum | None:
        """The optimum of all columns; None where no mixture of those tried keeps within the limits.

        ``waits`` and ``waiting``: what it costs, and uses, that a class waits; ``more_limits``: of rows only of these.
        """
        limits = [*self._limits, *more_limits]
        while True:
            tried = np.flatnonzero(self._tried)
            owners = [*self._owners[tried].tolist(), *range(len(waits))]
            optimum = minimise([*costs[tried].tolist(), *waits], owners, [*self._uses(tried), *waiting], limits)
            if optimum is None:
                return None
            values = self._values(costs, optimum.prices)
            best = np.minimum.reduceat(np.where(self._tried, values, np.inf), self._starts)
            for at, (cost, used) in enumerate(zip(waits, waiting, strict=True)):
                best[at] = min(best[at], cost + sum(optimum.prices[row] * amount for row, amount in used))
            least = np.minimum.reduceat(values, self._starts)
            better = least < best * (1.0 - _BETTER)
            if not better.any():
                fractions = np.zeros(len(self._costs))
                fractions[tried] = optimum.fractions[: len(tried)]
                return replace(optimum, fractions=[*fractions.tolist(), *optimum.fractions[len(tried) :]])
            best_columns = np.flatnonzero(values == least[self._owners])
            _, firsts = np.unique(self._owners[best_columns], return_index=True)
            self._tried[best_columns[firsts][better]] = True

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
            queued=optimum.fractions[len(self._costs) :] or [0.0] * len(self._classes),
            spends=spends,
            uses=uses_of(self._classes, mixes),
            short=frozenset(pool for pool, price in zip(self._pools, lacking[count:], strict=True) if price > 0.0),
            objective=objective(self._classes, mixes),
            tried=[
                np.flatnonzero(self._tried[start : start + len(lp_class.columns)]).tolist()
                for lp_class, start in zip(self._classes, self._starts, strict=True)
            ],
        )

    def _mixes(self, optimum: Optimum) -> list[dict[int, float]]:
        """The fractions of those of each class that are served; where none is, what the first would take."""
        mixes: list[dict[int, float]] = []
        values = self._values(self._costs, optimum.prices)
        fractions = np.array(optimum.fractions[: len(self._costs)])
        taken, owners = np.flatnonzero(fractions), self._owners
        by_class: list[dict[int, float]] = [{} for _ in self._classes]
        for number, column, fraction in zip(
            owners[taken].tolist(),
            (taken - self._starts[owners[taken]]).tolist(),
            fractions[taken].tolist(),
            strict=True,
        ):
            by_class[number][column] = fraction
        for lp_class, start, found in zip(self._classes, self._starts, by_class, strict=True):
            mix = found
            if sum(mix.values()) <= _NOBODY:
                mix = {int(values[start : start + len(lp_class.columns)].argmin()): 1.0}
            served = sum(mix.values())
            mixes.append({at: fraction / served for at, fraction in mix.items()})
        return mixes
