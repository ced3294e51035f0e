"""The linear program that allocates limited rows to classes, each a mixture of its columns, by HiGHS.

min Σ_j c_j·x_j    s.t.  Σ_j of class i x_j = 1 for each class i,   Σ_j u_jr·x_j ≤ limit_r for each row r,   x ≥ 0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from highspy import HighsLp

Uses = Sequence[tuple[int, float]]
"""The use of a whole class on one column: (row, amount), for rows of which it uses anything."""

_TOLERANCES = (1e-10, 1e-7)
"""Relative to a row's scale and to the most expensive column: the smallest that HiGHS accepts, and where it cannot
come that near, its default."""
_MOST_ITERATIONS = 100_000
"""Iterations after which a program is given up; a few for each column are usual."""
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
    negative. The library is imported here because most plans need no program.
    """
    from highspy import Highs, HighsModelStatus

    scales = list(limits)
    for used in uses:
        for row, amount in used:
            scales[row] = max(scales[row], amount)
    scales = [scale or 1.0 for scale in scales]
    dearest = max(map(abs, costs), default=0.0) or 1.0
    program = _program(
        [cost / dearest for cost in costs],
        classes,
        [[(row, amount / scales[row]) for row, amount in used] for used in uses],
        [limit / scale for limit, scale in zip(limits, scales, strict=True)],
    )
    for tolerance in _TOLERANCES:
        solver = Highs()
        solver.silent()
        solver.setOptionValue("solver", "simplex")
        solver.setOptionValue("simplex_iteration_limit", _MOST_ITERATIONS)
        solver.setOptionValue("primal_feasibility_tolerance", tolerance)
        solver.setOptionValue("dual_feasibility_tolerance", tolerance)
        solver.passModel(program)
        solver.run()
        status = solver.getModelStatus()
        if status == HighsModelStatus.kInfeasible:
            return None
        if status == HighsModelStatus.kOptimal:
            break
    else:
        size = f"{len(costs)} columns and {len(limits)} rows"
        raise SolverGaveUp(f"a linear program of {size}: {solver.modelStatusToString(status)}")
    solution = solver.getSolution()
    prices = [-price for price in list(solution.row_dual)[: len(limits)]]
    least = _ROUNDING * max(prices, default=0.0)
    return Optimum(
        cost=solver.getInfo().objective_function_value * dearest,
        fractions=[fraction if fraction > _ROUNDING else 0.0 for fraction in solution.col_value],
        prices=[price * dearest / scale if price > least else 0.0 for price, scale in zip(prices, scales, strict=True)],
    )


def _program(costs: Sequence[float], classes: Sequence[int], uses: Sequence[Uses], limits: Sequence[float]) -> HighsLp:
    """The program as HiGHS takes it: a row for each limit, then one for each class; its matrix column by column."""
    import numpy as np
    from highspy import HighsLp, MatrixFormat

    rows = len(limits)
    columns = [[*used, (rows + number, 1.0)] for number, used in zip(classes, uses, strict=True)]
    mixtures = [1.0] * (max(classes, default=-1) + 1)
    program = HighsLp()
    program.num_col_, program.num_row_ = len(columns), rows + len(mixtures)
    program.col_cost_ = np.array(costs)
    program.col_lower_, program.col_upper_ = np.zeros(len(columns)), np.full(len(columns), np.inf)
    program.row_lower_ = np.array([-np.inf] * rows + mixtures)
    program.row_upper_ = np.array([*limits, *mixtures])
    matrix = program.a_matrix_
    matrix.format_ = MatrixFormat.kColwise
    matrix.num_col_, matrix.num_row_ = program.num_col_, program.num_row_
    matrix.start_ = np.cumsum([0, *map(len, columns)], dtype=np.int32)
    matrix.index_ = np.array([row for column in columns for row, _ in column], dtype=np.int32)
    matrix.value_ = np.array([amount for column in columns for _, amount in column])
    return program
