"""Budgets that lend each other money, as short stories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.budget import NOTHING, Mode, net_loan
from charterer.domain.ids import BudgetId
from charterer.domain.money import ZERO, Money, total
from charterer.domain.plan import Plan
from charterer.domain.profile import PowerLaw
from charterer.domain.time import Calendar, Period
from charterer.policy import plan
from charterer.policy.planner import solve_budgets
from charterer.policy.set_aside import PlannedKind, PlannedObject, without
from tests.worlds import World


def teams(**vision: object) -> World:
    """A team with few jobs and one with many, $30,000 each, below an organisation that pays for nothing itself."""
    world = World()
    world.budget("org", amount="60000", lends=True)
    world.budgets[BudgetId("org")] = replace(world.budgets[BudgetId("org")], selector=NOTHING)
    for name, jobs in (("vision", 0.01), ("speech", 1.0)):
        world.budget(name, amount="30000", parent="org")
        world.profile(name, PowerLaw(0.8, 1.0), arrivals_per_hour=jobs, work_hours=20, budget=name)
        world.job(f"{name}-job", gpus=(1, 4, 64), profile=name, budget=name)
    world.budgets[BudgetId("vision")] = replace(world.budgets[BudgetId("vision")], **vision)  # type: ignore[arg-type]
    world.pool("a100", gpus=8, price="16")
    return world


def lent(made: Plan) -> dict[tuple[str, str], Money]:
    return {(loan.lender, loan.borrower): loan.amount for each in made.budgets.values() for loan in each.loans}


def pays(made: Plan, budget: str) -> float:
    rate = made.budgets[BudgetId(budget)].rate
    assert rate is not None
    return rate


def test_a_team_lends_in_its_first_month_only_of_what_counts_of_its_amount() -> None:
    made = plan(teams(opening_spend=None).snapshot())
    vision = plan(teams(opening_spend=None, parent=None).snapshot()).budgets[BudgetId("vision")].forecast
    assert vision is not None
    assert lent(made) == {("vision", "speech"): Money.parse("15000") - vision.high}


def test_money_that_one_team_is_not_forecast_to_need_makes_the_jobs_of_the_other_faster() -> None:
    world = teams()
    made = plan(world.snapshot())
    world.budgets[BudgetId("org")] = replace(world.budgets[BudgetId("org")], lends=False)
    alone = plan(world.snapshot())
    vision = alone.budgets[BudgetId("vision")].forecast
    assert vision is not None
    assert lent(made) == {("vision", "speech"): Money.parse("30000") - vision.high}
    assert lent(alone) == {}
    assert pays(made, "speech") > pays(alone, "speech")
    assert pays(made, "vision") == pays(alone, "vision")
    speech = made.budgets[BudgetId("speech")].forecast
    assert speech is not None
    assert Money.parse("30000") < speech.expected <= Money.parse("60000")


@pytest.mark.parametrize(
    "differs",
    [
        {"calendar": Calendar("Asia/Tokyo")},
        {"carry_over_percent": 50},
        {"mode": Mode.OBSERVE},
    ],
)
def test_budgets_lend_only_to_those_with_the_same_periods_and_carry_over(differs: dict[str, object]) -> None:
    assert lent(plan(teams(**differs).snapshot())) == {}


def test_a_budget_of_another_period_neither_lends_nor_borrows() -> None:
    made = plan(teams(calendar=Calendar("UTC", Period.WEEK)).snapshot())
    assert made.budgets[BudgetId("vision")].loans == ()


def test_nothing_is_lent_while_nobody_knows_what_all_below_a_parent_spent() -> None:
    world = teams()
    world.budgets[BudgetId("org")] = replace(world.budgets[BudgetId("org")], amount=Money.parse("75000"))
    snapshot = without(world.snapshot(), [PlannedObject(PlannedKind.BUDGET, BudgetId("vision"))])
    assert lent(plan(snapshot)) == {}


def test_what_a_parent_keeps_and_pays_for_nothing_with_is_lent() -> None:
    world = teams()
    world.budgets[BudgetId("org")] = replace(world.budgets[BudgetId("org")], amount=Money.parse("75000"))
    assert lent(plan(world.snapshot()))["org", "speech"] == Money.parse("15000")


def test_a_hard_limit_above_holds_for_borrowed_money_too() -> None:
    world = teams()
    world.budgets[BudgetId("org")] = replace(world.budgets[BudgetId("org")], hard_limit=Money.parse("60000"))
    world.budget("speech", amount="30000", parent="org", spent="40000")
    world.budget("vision", amount="30000", parent="org", spent="19999")
    made = plan(world.snapshot())
    assert lent(made)["vision", "speech"] >= Money.parse("10000")
    assert made.commands == ()


def test_a_lender_takes_back_what_is_not_spent_when_its_own_jobs_come() -> None:
    world = teams()
    world.budget("speech", amount="30000", parent="org", spent="31000")
    before = plan(world.snapshot())
    world.profile("vision", PowerLaw(0.8, 1.0), arrivals_per_hour=9.0, work_hours=20, budget="vision")
    assert lent(before)["vision", "speech"] > Money.parse("1000")
    assert lent(plan(world.snapshot())) == {("vision", "speech"): Money.parse("1000")}


def test_teams_of_teams_lend_at_each_level_and_all_aims_add_up_to_what_they_were() -> None:
    world = teams()
    world.budget("lab", amount="10000", parent="vision")
    world.profile("lab", PowerLaw(0.8, 1.0), arrivals_per_hour=1.0, work_hours=20, budget="lab")
    world.budgets[BudgetId("vision")] = replace(world.budgets[BudgetId("vision")], lends=True)
    solved = [each.budget for each in solve_budgets(world.snapshot())]
    assert total(each.aim for each in solved) == total(each.own_aim for each in solved) == Money.parse("60000")
    borrowers = {each.id for each in solved if net_loan(each.id, each.loans) > ZERO}
    assert borrowers == {"speech"}
