"""The table of ``charterer plan`` that says what more or less money would buy."""

from __future__ import annotations

from charterer.domain.ids import Rate
from charterer.domain.money import Money
from charterer.policy.solve.hull import BudgetFit
from charterer.tools.commands.plan.difference import note, telling
from charterer.tools.frontier import FACTORS, FrontierPoint


def points(small: int, over: int) -> list[FrontierPoint]:
    """The points of a budget of $100: the first ``small`` are too small, the last ``over`` leave money over."""
    fits = [BudgetFit.INFEASIBLE] * small + [BudgetFit.MET] * (len(FACTORS) - small - over) + [BudgetFit.SURPLUS] * over
    return [
        FrontierPoint(factor, Money(round(factor * 100)), Money(0), Rate(1.0), fit, 1.0, 1.0, room=True)
        for factor, fit in zip(FACTORS, fits, strict=True)
    ]


def shown(small: int, over: int) -> list[float]:
    return [point.factor for point in telling(points(small, over))]


def test_of_amounts_too_small_only_the_largest_and_of_those_too_large_only_the_smallest_is_shown() -> None:
    assert shown(2, 3) == [0.5, 0.75, 1.0, 1.25, 1.5, 2.0]


def test_the_budgets_own_amount_is_always_shown() -> None:
    assert shown(9, 0) == [1.0, 4.0]
    assert shown(0, 9) == [0.25, 1.0]


def test_a_table_without_either_is_whole() -> None:
    assert shown(0, 0) == list(FACTORS)


def test_where_pools_are_too_small_no_amount_is_said_to_be_more_than_can_be_used() -> None:
    assert note(BudgetFit.SURPLUS, 1.0, room=True) == "more than can be used: nothing faster is worth its price"
    told = "pools are too small for that: jobs would have other options, or wait"
    assert note(BudgetFit.SURPLUS, 1.0, room=False) == note(BudgetFit.MET, 1.0, room=False) == told
    said = "too small if jobs keep coming at this rate: it pays for 60%"
    assert note(BudgetFit.INFEASIBLE, 0.6, room=True).startswith(said)
