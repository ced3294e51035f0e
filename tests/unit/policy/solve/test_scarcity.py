"""Scarcity prices by hand: small programs whose answer can be worked out on paper."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from charterer.domain.ids import BudgetId, PoolId
from charterer.policy.solve.exchange_rate import BudgetFit
from charterer.policy.solve.lp_columns import LpClass, LpColumn, LpColumns, pareto_front
from charterer.policy.solve.scarcity import solve_scarce

TEAM, OTHER = BudgetId("team"), BudgetId("other")
NEAR, FAR = PoolId("near"), PoolId("far")
DEAREST = 9.0
"""A ceiling above every price of a second here."""


def way(money: float, seconds: float, **gpu_seconds: float) -> LpColumn:
    return LpColumn(money, seconds, {PoolId(pool): much for pool, much in gpu_seconds.items()})


def served(columns: Sequence[LpColumn], *, budget: BudgetId = TEAM, weight: float = 1.0) -> LpClass:
    """A job a second."""
    return LpClass(budget, 1.0, weight, DEAREST, LpColumns(columns))


# A job on far takes as long as on near and costs a dollar more; slow on near it uses half the GPU-seconds.
ON_NEAR = way(2.0, 10.0, near=40.0)
ON_FAR = way(3.0, 10.0, far=40.0)
SLOW = way(1.5, 20.0, near=20.0)


def test_room_for_all_has_no_price() -> None:
    found = solve_scarce([served([ON_NEAR, ON_FAR])], {TEAM: 9.0}, {NEAR: 40.0, FAR: 40.0})
    assert found.prices == {NEAR: 0.0, FAR: 0.0}
    assert found.mixes == [{0: 1.0}]
    assert found.fits == {TEAM: BudgetFit.SURPLUS}


def test_a_way_above_the_hull_is_taken_once_the_cheaper_one_is_full() -> None:
    found = solve_scarce([served([ON_NEAR, ON_FAR])], {TEAM: 9.0}, {NEAR: 30.0, FAR: 40.0})
    assert found.mixes[0] == pytest.approx({0: 0.75, 1: 0.25})
    assert found.uses == pytest.approx({NEAR: 30.0, FAR: 10.0})
    assert found.spends == pytest.approx({TEAM: 2.25})
    # What 40 GPU-seconds save: the dollar that a job on far costs more.
    assert found.prices == pytest.approx({NEAR: 1.0 / 40.0, FAR: 0.0})


def test_with_too_little_room_and_money_both_have_a_price_and_each_mixed_way_costs_the_same() -> None:
    ways = [SLOW, ON_NEAR, ON_FAR]
    found = solve_scarce([served(ways)], {TEAM: 1.8}, {NEAR: 24.0, FAR: 100.0})
    # 1.5·s + 2·n + 3·f = 1.8, 20·s + 40·n = 24, s + n + f = 1
    assert found.mixes[0] == pytest.approx({0: 0.6, 1: 0.3, 2: 0.1})
    assert found.objective == pytest.approx(16.0)
    assert found.fits == {TEAM: BudgetFit.MET}
    # 20·θ + 1.5 + 20·π = 10·θ + 2 + 40·π = 10·θ + 3
    assert found.prices[NEAR] == pytest.approx(1.0 / 40.0)
    assert found.rates[TEAM] == pytest.approx(0.1)


def test_contested_room_goes_to_the_budget_whose_seconds_are_worth_more() -> None:
    """Both would pay for the fast way; the one pays up to a tenth of a dollar a second, the other up to half."""
    poor = served([way(1.0, 20.0, far=20.0), way(2.0, 10.0, near=40.0)])
    rich = served([way(1.0, 20.0, far=20.0), way(6.0, 10.0, near=40.0)], budget=OTHER)
    found = solve_scarce([poor, rich], {TEAM: 1.5, OTHER: 5.0}, {NEAR: 40.0, FAR: 100.0})
    assert found.prices[NEAR] > 0.0
    assert found.uses[NEAR] == pytest.approx(40.0)
    assert found.spends[OTHER] == pytest.approx(5.0)
    # The rest of the room: a fifth of the poor's jobs, whose dollars count as less than one.
    assert found.mixes[0] == pytest.approx({0: 0.8, 1: 0.2})
    assert found.fits == {TEAM: BudgetFit.SURPLUS, OTHER: BudgetFit.MET}


def test_equal_budgets_that_contest_a_pool_see_one_price() -> None:
    ways = [SLOW, ON_NEAR, ON_FAR]
    classes = [served(ways), served(ways, budget=OTHER)]
    found = solve_scarce(classes, {TEAM: 1.8, OTHER: 1.8}, {NEAR: 52.0, FAR: 100.0})
    assert found.rates[TEAM] == pytest.approx(found.rates[OTHER])
    assert found.price(TEAM, NEAR) == pytest.approx(found.price(OTHER, NEAR))


def test_a_pool_too_small_for_the_narrowest_ways_says_by_how_much_and_who_must_wait() -> None:
    plain = served([SLOW, ON_NEAR])
    urgent = served([SLOW, ON_NEAR], weight=2.0)
    found = solve_scarce([plain, urgent], {TEAM: 100.0}, {NEAR: 30.0})
    assert found.short == {NEAR}
    assert found.queued == pytest.approx([0.5, 0.0])
    assert found.uses[NEAR] == pytest.approx(40.0)  # ten GPUs more than there are
    assert found.fits[TEAM] is not BudgetFit.INFEASIBLE


def test_a_budget_too_small_for_the_cheapest_ways_makes_the_dearest_for_their_weight_wait() -> None:
    cheap, dear = served([way(1.0, 9.0)]), served([way(4.0, 9.0)])
    found = solve_scarce([cheap, dear], {TEAM: 3.0}, {NEAR: 1.0})
    assert found.fits == {TEAM: BudgetFit.INFEASIBLE}
    assert found.rates == {TEAM: 0.0}
    assert found.spends == {TEAM: 5.0}  # two dollars a second more than allowed
    assert found.queued == pytest.approx([0.0, 0.5])
    assert not found.short


def test_no_money_and_no_room_at_all_make_everybody_wait() -> None:
    found = solve_scarce([served([ON_NEAR])], {TEAM: 0.0}, {NEAR: 0.0})
    assert found.queued == pytest.approx([1.0])
    assert found.mixes == [{0: 1.0}]
    assert found.uses[NEAR] == pytest.approx(40.0)


def test_nobody_at_all_needs_nothing() -> None:
    found = solve_scarce([], {TEAM: 1.0}, {NEAR: 1.0})
    assert (found.mixes, found.fits, found.objective) == ([], {TEAM: BudgetFit.SURPLUS}, 0)


def test_a_way_through_several_pools_pays_the_price_of_each() -> None:
    both = way(2.0, 10.0, near=20.0, far=20.0)
    found = solve_scarce([served([both, way(4.0, 10.0, third=1.0)])], {TEAM: 9.0}, {NEAR: 15.0, FAR: 10.0})
    assert found.mixes[0] == pytest.approx({0: 0.5, 1: 0.5})
    assert found.prices == pytest.approx({NEAR: 0.0, FAR: 0.1})


def test_a_class_that_nothing_can_run_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="class 0 of budget team has no way to run"):
        solve_scarce([served([])], {TEAM: 1.0}, {})
    with pytest.raises(ValueError, match="budget other, which is not among the budgets"):
        solve_scarce([served([SLOW], budget=OTHER)], {TEAM: 1.0}, {})


def test_only_ways_dearer_slower_and_wider_than_another_are_dropped() -> None:
    above_the_hull = way(1.9, 16.0, far=1.0)
    worse = way(2.1, 10.0, near=41.0)
    assert pareto_front([SLOW, ON_NEAR, above_the_hull, worse, ON_NEAR, ON_FAR]) == [0, 1, 2, 5]
