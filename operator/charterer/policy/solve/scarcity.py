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

from collections.abc import Mapping, Sequence

from charterer.domain.ids import BudgetId, PoolId
from charterer.policy.solve.lp_columns import LpClass
from charterer.policy.solve.scarce_solution import ScarceSolution, objective, uses_of
from charterer.policy.solve.unconstrained import Unconstrained, queued_for_money


def solve_scarce(
    classes: Sequence[LpClass],
    budgets: Mapping[BudgetId, float],
    capacity: Mapping[PoolId, float],
    like: ScarceSolution | None = None,
) -> ScarceSolution:
    """``budgets``: dollars a second; ``capacity``: GPUs; a pool that is not named has room for all.

    ``like``: the solution of a program that differs little, from whose columns to begin.

    ValueError for a class without columns or of a budget that is not named. SolverGaveUp as ``minimise``. The numerical
    libraries are imported only where room binds, because they take half a second.
    """
    for number, lp_class in enumerate(classes):
        if not lp_class.columns:
            raise ValueError(f"class {number} of budget {lp_class.budget} has no way to run: leave it out")
        if lp_class.budget not in budgets:
            raise ValueError(
                f"class {number} is of budget {lp_class.budget}, which is not among the budgets: name its rate"
            )
    unconstrained = Unconstrained(classes, budgets)
    uses = uses_of(classes, unconstrained.mixes)
    if all(used <= capacity.get(pool, used) for pool, used in uses.items()):
        return ScarceSolution(
            fits={budget: solution.fit for budget, solution in unconstrained.solutions.items()},
            rates={budget: solution.rate for budget, solution in unconstrained.solutions.items()},
            prices=dict.fromkeys(capacity, 0.0),
            dollars=dict.fromkeys(budgets, 1.0),
            mixes=unconstrained.mixes,
            queued=queued_for_money(classes, budgets, unconstrained),
            spends={budget: solution.spend for budget, solution in unconstrained.solutions.items()},
            uses=uses,
            short=frozenset(),
            objective=objective(classes, unconstrained.mixes),
            tried=[list(mix) for mix in unconstrained.mixes],
        )
    from charterer.policy.solve.column_generation import ColumnProgram

    return ColumnProgram(classes, budgets, capacity, unconstrained, like).solve()
