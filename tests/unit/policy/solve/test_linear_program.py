"""Linear programs that can be worked out on paper."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from charterer.policy.solve import linear_program
from charterer.policy.solve.linear_program import Columns, Optimum, SolverGaveUp, Uses


def minimise(
    costs: Sequence[float], classes: Sequence[int], uses: Sequence[Uses], limits: Sequence[float]
) -> Optimum | None:
    """The optimum of a program of which no two columns use the same."""
    columns = Columns(np.array(costs), np.array(classes), np.arange(len(uses)))
    return linear_program.minimise(columns, uses, limits, columns.kinds)


def test_the_cheapest_column_is_taken_where_no_limit_binds() -> None:
    optimum = minimise([3.0, 2.0], [0, 0], [[(0, 1.0)], [(0, 2.0)]], [5.0])
    assert optimum is not None
    assert (optimum.cost, [*optimum.fractions], optimum.prices) == (2.0, [0.0, 1.0], [0.0])


def test_a_limit_that_binds_has_the_price_of_what_one_unit_more_would_save() -> None:
    optimum = minimise([3.0, 2.0], [0, 0], [[(0, 1.0)], [(0, 2.0)]], [1.5])
    assert optimum is not None
    assert optimum.cost == pytest.approx(2.5)
    assert optimum.fractions == pytest.approx([0.5, 0.5])
    assert optimum.prices == pytest.approx([1.0])


def test_prices_are_in_the_units_of_costs_and_rows_however_large_those_are() -> None:
    optimum = minimise([3e6, 2e6], [0, 0], [[(0, 1e-7)], [(0, 2e-7)]], [1.5e-7])
    assert optimum is not None
    assert optimum.prices == pytest.approx([1e13])


def test_classes_that_share_a_limit_give_way_in_order_of_what_that_costs() -> None:
    costs, classes = [9.0, 1.0, 3.0, 1.0], [0, 0, 1, 1]
    optimum = minimise(costs, classes, [[], [(0, 1.0)], [], [(0, 1.0)]], [1.0])
    assert optimum is not None
    assert optimum.fractions == pytest.approx([0.0, 1.0, 1.0, 0.0])
    assert 2.0 <= optimum.prices[0] <= 8.0


def test_no_mixture_that_keeps_within_the_limits_is_no_optimum() -> None:
    assert minimise([1.0], [0], [[(0, 2.0)]], [1.0]) is None
    assert minimise([1.0], [0], [[(0, 1e-9)]], [0.0]) is None


def test_a_program_that_takes_too_many_iterations_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_program, "_MOST_ITERATIONS", 0)
    costs = [float(1 + at % 7) for at in range(60)]
    uses = [[(at % 3, 1.0 + at % 5)] for at in range(60)]
    with pytest.raises(SolverGaveUp, match="60 columns and 3 rows"):
        minimise(costs, [at // 6 for at in range(60)], uses, [10.0, 11.0, 12.0])


def test_equal_classes_that_fill_many_rows_need_few_solutions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty jobs on sixty pools of one node each: all of them would try the cheapest pool first, then the next."""
    rounds = 0
    improving = linear_program._improving

    def counted(*arguments: Any) -> Any:
        nonlocal rounds
        rounds += 1
        return improving(*arguments)

    monkeypatch.setattr(linear_program, "_improving", counted)
    jobs, pools = 40, 60
    costs = np.array([float(pool) for _ in range(jobs) for pool in [*range(pools), 1000]])
    classes = np.repeat(np.arange(jobs), pools + 1)
    uses: list[Uses] = [*[[(pool, 1.0)] for pool in range(pools)], []]
    columns = Columns(costs, classes, np.tile(np.arange(pools + 1), jobs))
    optimum = linear_program.minimise(columns, uses, [1.0] * pools, np.arange(pools, len(costs), pools + 1))
    assert optimum is not None
    assert optimum.cost == pytest.approx(sum(range(jobs)))
    assert rounds <= 8


def test_the_solver_writes_nothing_to_where_commands_write_json() -> None:
    columns = "Columns(np.array([1.0]), np.array([0]), np.array([0]))"
    solved = f"minimise({columns}, [[]], [1.0], np.array([0]))"
    code = f"import numpy as np; from {linear_program.__name__} import Columns, minimise; {solved}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
