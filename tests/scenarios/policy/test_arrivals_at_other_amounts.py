"""What a budget would do with another amount: the same jobs, and no job slower for more money."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.money import Money
from charterer.domain.profile import Amdahl
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.planner import plan, solve_budgets
from charterer.tools.frontier import mean_seconds
from tests.worlds import World

AMOUNT = Money.parse("5000")


def solved(amount: Money) -> BudgetSolution:
    """A budget of minutes, really of ``AMOUNT``, asked about another amount."""
    world = World()
    budget = world.budget(amount=f"{amount.dollars}")
    world.pool("a100", gpus=4, price="12.80")
    world.profile("vit", Amdahl(0.97, 1.0), work_hours=12)
    for number in range(9):
        world.job(f"vit-{number}", gpus=(1, 4, 32), profile="vit")
    (solution,) = solve_budgets(replace(world.snapshot(), real_amounts={budget.id: AMOUNT}))
    return solution


@pytest.mark.parametrize("factor", [0.8, 1.2, 5.0])
def test_jobs_come_as_often_at_any_amount(factor: float) -> None:
    now, asked = (solved(Money.of(AMOUNT.dollars * times)).arrivals_verdict() for times in (1.0, factor))
    assert asked == now
    assert asked.per_hour > 0.0


def test_more_money_never_makes_jobs_slower() -> None:
    solutions = [solved(Money.of(AMOUNT.dollars * factor)) for factor in (0.5, 0.8, 1.0, 1.2, 2.0, 4.0)]
    rates = [solution.rate for solution in solutions]
    hours = [mean_seconds(solution) for solution in solutions]
    assert rates == sorted(rates)
    assert None not in hours
    assert hours == sorted(hours, key=lambda seconds: -(seconds or 0.0))
    assert rates[0] < rates[-1]


def test_what_is_in_sight_is_a_sum_of_its_own_that_no_amount_makes_endless() -> None:
    """Nine jobs of twelve hours on one GPU at $3.20 an hour, and $20,000 for them."""
    world = World()
    world.budget(amount="20000")
    world.pool("a100", gpus=4, price="12.80")
    world.profile("vit", Amdahl(0.97, 1.0), work_hours=12)
    for number in range(9):
        world.job(f"vit-{number}", gpus=(1, 4, 32), profile="vit")
    snapshot = world.snapshot()
    (solution,) = solve_budgets(snapshot)
    (verdict,) = plan(snapshot).budgets.values()
    cheapest = 9 * 12 * 3.20
    assert cheapest <= verdict.in_sight.dollars <= 4 * cheapest
    assert verdict.rate == solution.rate > 20.0 / 3600.0
    assert verdict.forecast is None
