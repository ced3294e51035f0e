"""The linear program that allocates limited rows to classes, each a mixture of its columns, by HiGHS.

min Σ_j c_j·x_j    s.t.  Σ_j of class i x_j = 1 for each class i,   Σ_j u_jr·x_j ≤ limit_r for each row r,   x ≥ 0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Uses = Sequence[tuple[int, float]]
"""The use of a whole class on one column: (row, amount), for rows of which it uses anything."""

_TOLERANCES = (1e-10, 1e-7)
"""Relative to a row's scale and to the most expensive column: the smallest that HiGHS accepts, and where it cannot
come that near, its default."""
_MOST_ITERATIONS = 100_000
"""Iterations after which a program is given up; a few for each column are usual."""
_INFEASIBLE = 2
"""``status`` of scipy's result."""
_ROUNDING = 1e-10
"""Fractions, and prices as a fraction of the largest, below which there is none."""


class SolverGaveUp(RuntimeError):
    """A program was not solved: its numbers are too far apart, or it took too many iterations."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """``cost``: the least. ``fractions``: x by column. ``prices``: by how much cost falls for one more of each row."""

    cost: float
    fractions: Sequence[float]
    prices: Sequence[float]


def minimise(
    costs: Sequence[float], classes: Sequence[int], uses: Sequence[Uses], limits: Sequence[float]
) -> Optimum | None:
    """The optimum; None where no mixture keeps within the limits. SolverGaveUp where HiGHS does.

    ``costs``, ``classes`` (the number of its class, from 0 without gaps) and ``uses`` are by column; no limit is
    negative. The library is imported here because it takes half a second, and most plans need no program.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    scales = list(limits)
    for used in uses:
        for row, amount in used:
            scales[row] = max(scales[row], amount)
    scales = [scale or 1.0 for scale in scales]
    dearest = max(map(abs, costs), default=0.0) or 1.0
    amounts = [amount / scales[row] for used in uses for row, amount in used]
    rows = [row for used in uses for row, _ in used]
    columns = [column for column, used in enumerate(uses) for _ in used]
    count, mixtures = len(costs), max(classes, default=-1) + 1
    for tolerance in _TOLERANCES:
        solved = linprog(
            [cost / dearest for cost in costs],
            A_ub=csr_array((amounts, (rows, columns)), shape=(len(limits), count)),
            b_ub=[limit / scale for limit, scale in zip(limits, scales, strict=True)],
            A_eq=csr_array(([1.0] * count, (classes, range(count))), shape=(mixtures, count)),
            b_eq=[1.0] * mixtures,
            method="highs",
            options={
                "primal_feasibility_tolerance": tolerance,
                "dual_feasibility_tolerance": tolerance,
                "maxiter": _MOST_ITERATIONS,
            },
        )
        if solved.status == _INFEASIBLE:
            return None
        if not solved.status:
            break
    else:
        raise SolverGaveUp(f"a linear program of {count} columns and {len(limits)} rows: {solved.message}")
    prices = [-float(price) for price in solved.ineqlin.marginals]
    least = _ROUNDING * max(prices, default=0.0)
    return Optimum(
        cost=float(solved.fun) * dearest,
        fractions=[float(fraction) if fraction > _ROUNDING else 0.0 for fraction in solved.x],
        prices=[price * dearest / scale if price > least else 0.0 for price, scale in zip(prices, scales, strict=True)],
    )
