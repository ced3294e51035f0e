"""The optimum where room in the pools binds, and what follows from the fractions of the columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import BudgetId, PoolId, Rate
from charterer.policy.solve.exchange_rate import BudgetFit
from charterer.policy.solve.lp_columns import LpClass


@dataclass(frozen=True, slots=True)
class ScarceSolution:
    """The optimum of the long run when budgets and pools bind.

    ``rates``: θ by budget, as ``exchange_rate.Solution`` defines them. ``prices``: dollars per GPU-second on top of the
    bill, 0 where there is room, in dollars of the budget whose dollars count most; ``dollars``: what a dollar of each
    budget counts beside those, less where a budget has more money than room. ``mixes[i]``: column → fraction of class
    i's jobs. ``queued[i]``: the fraction of class i that must wait whatever is chosen, together the least load (by
    weight) that makes all fit. ``spends`` (dollars a second) and ``uses`` (GPUs) are of the whole load, those that wait
    included: above the budget or the capacity by what is lacking. ``short``: pools for want of which jobs wait.
    ``objective``: Σ w·λ·a, the mean weighted number of jobs at these choices. ``tried[i]``: the columns of class i that
    were in the program.
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
    tried: Sequence[Sequence[int]]

    def price(self, budget: BudgetId, pool: PoolId) -> float:
        """The price of a GPU-second of the pool beyond the bill, in the budget's own dollars."""
        return self.prices.get(pool, 0.0) / self.dollars[budget]


def objective(classes: Sequence[LpClass], mixes: Sequence[Mapping[int, float]]) -> float:
    """The mean weighted number of jobs, Σ w·λ·a."""
    return sum(
        lp_class.weight * lp_class.load * sum(fraction * lp_class.columns[at].seconds for at, fraction in mix.items())
        for lp_class, mix in zip(classes, mixes, strict=True)
    )


def uses_of(classes: Sequence[LpClass], mixes: Sequence[Mapping[int, float]]) -> dict[PoolId, float]:
    """GPUs that are used of each pool, on average."""
    uses: dict[PoolId, float] = {}
    for lp_class, mix in zip(classes, mixes, strict=True):
        for at, fraction in mix.items():
            for pool, amount in lp_class.columns[at].use.items():
                uses[pool] = uses.get(pool, 0.0) + lp_class.load * fraction * amount * lp_class.held
    return uses
