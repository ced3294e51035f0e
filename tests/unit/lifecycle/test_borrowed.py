"""What a budget was lent in a month that is over is on record with it, whoever closes the month first."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from charterer.domain.budget import Balance, Budget, Mode
from charterer.domain.ids import BudgetId
from charterer.domain.money import Money, total
from charterer.domain.steps import OpenPeriod
from charterer.domain.time import Calendar, after
from charterer.ledger.balance import apply_open_period
from charterer.lifecycle.next_steps import budget_step
from charterer.lifecycle.view import LifecycleView
from tests import factory
from tests.worlds import World


def organisation(**spent: str) -> World:
    """Budgets of $100 below one of $500 that lends and has spent nothing; with what each has spent."""
    world = World()
    world.budget("org", amount="500", lends=True)
    for name, dollars in spent.items():
        world.budget(name, amount="100", parent="org", spent=dollars)
    return world


def balance_of(budget: Budget) -> Balance:
    assert budget.balance is not None
    return budget.balance


def close(world: World, name: str) -> Balance:
    """Close the budget's month, as its life cycle does."""
    budget = world.budgets[BudgetId(name)]
    step = budget_step(budget.id, LifecycleView.of(world.snapshot()))
    assert isinstance(step, OpenPeriod)
    balance = apply_open_period(budget.balance, step)
    assert apply_open_period(balance, step) is balance
    world.budgets[budget.id] = replace(budget, balance=balance)
    return balance


def closed(world: World, *order: str) -> dict[str, dict[str, str]]:
    """What each borrowed, by its record, when the month was closed in this order."""
    world.now = max(each.calendar.end(balance_of(each).period_start) for each in world.budgets.values())
    found = {}
    for name in order:
        past = close(world, name).history[-1]
        found[name] = {str(lender): amount.decimal() for lender, amount in past.borrowed.items()}
    return {name: lent for name, lent in found.items() if lent}


@pytest.mark.parametrize("order", list(permutations(["org", "vision", "speech"])))
def test_the_record_is_the_same_whoever_closes_the_month_first(order: tuple[str, ...]) -> None:
    world = organisation(vision="40", speech="130")
    world.budget("org", amount="260", lends=True)
    assert closed(world, *order) == {"speech": {"org": "15.00", "vision": "15.00"}}


def test_what_nobody_has_left_is_not_lent() -> None:
    world = organisation(vision="90", speech="130")
    world.budget("org", amount="200", lends=True)
    assert closed(world, "speech", "vision", "org") == {"speech": {"vision": "10.00"}}
    (past,) = balance_of(world.budgets[BudgetId("speech")]).history
    assert (past.spent.decimal(), past.aim) == ("130.00", Money.parse("100"))
    assert past.spent_fraction == pytest.approx(130 / 110)


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_a_month_of_another_time_zone_lends_nothing(zone: str) -> None:
    world = organisation(speech="130")
    world.budget("org", amount="100", lends=True)
    world.budget("abroad", amount="100", parent="org", calendar=Calendar(zone))
    assert closed(world, "abroad", "speech", "org") == {}


def test_without_leave_or_while_it_only_observes_nothing_is_borrowed() -> None:
    for changes in ({"lends": False}, {"mode": Mode.OBSERVE}):
        world = organisation(speech="130")
        world.budgets[BudgetId("org")] = replace(world.budgets[BudgetId("org")], **changes)
        assert closed(world, "speech") == {}


def test_a_month_that_was_closed_long_ago_still_counts_for_one_that_was_not() -> None:
    world = organisation(vision="40", speech="130")
    world.budget("org", amount="200", lends=True)
    world.now = after(Calendar("UTC").end(balance_of(world.budgets[BudgetId("org")]).period_start), 70 * 86_400)
    for _ in range(2):
        close(world, "vision")
    assert {lender: amount.decimal() for lender, amount in close(world, "speech").history[-1].borrowed.items()} == {
        "vision": "30.00"
    }


def test_a_ledger_keeps_the_lenders_of_a_year() -> None:
    balance = factory.balance()
    for month in range(15):
        lent = {BudgetId("vision"): Money(month + 1)}
        start = after(balance.period_start, 86_400 * 31)
        balance = apply_open_period(
            balance, OpenPeriod(BudgetId("speech"), start, Money(9), balance.period_start, borrowed=lent)
        )
    assert [sum(each.micros for each in past.borrowed.values()) for past in balance.history] == [0] * 3 + [
        *range(4, 16)
    ]


def test_what_is_carried_over_of_a_loan_is_owed_by_the_borrower() -> None:
    world = organisation(vision="40", speech="130")
    world.budget("org", amount="200", lends=True)
    for name, budget in world.budgets.items():
        world.budgets[name] = replace(budget, carry_over_percent=100)
    closed(world, "vision", "speech", "org")
    carried = {name: balance_of(budget).carried for name, budget in world.budgets.items()}
    assert carried == {"org": Money(0), "vision": Money.parse("60"), "speech": Money.parse("-30")}
    assert total(carried.values()) == Money.parse("200") - Money.parse("170")
