"""What a month's dollars were for: the amounts add up to what was spent, to the micro-dollar."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.budget import Balance, Cause
from charterer.domain.money import ZERO, Money, total
from charterer.domain.steps import OpenPeriod
from charterer.domain.time import Instant
from charterer.ledger.attribution import SpentByCause, spent_by_cause
from charterer.ledger.balance import apply_open_period
from tests.factory import MARCH, T0, TEAM, at, balance, budget
from tests.unit.ledger.test_costs import NODE, added, trained


def spent(books: Balance, now: Instant, opening: Money = ZERO) -> SpentByCause:
    found = spent_by_cause(replace(budget(balance=books), opening_spend=opening), [NODE], now)
    assert total([*found.causes.values(), found.opening, found.uncounted]) == found.spent
    return found


def test_training_starting_idle_opening_and_what_is_not_sorted_yet_add_up_to_what_was_spent() -> None:
    books = added(NODE, trained(100.0, 200.0), books=balance(), now=at(300))
    opening = Money.parse("1000.000001")
    found = spent(replace(books, period_start=T0), at(307), opening)
    assert {cause.value: amount.decimal() for cause, amount in found.causes.items()} == {
        "job": "100.00", "starting": "60.00", "idle": "140.00",
    }  # fmt: skip
    assert found.uncounted == Money.parse("7")
    assert found.spent - found.opening == Money.parse("307")


def test_only_what_the_causes_have_grown_by_since_the_period_began_is_this_periods() -> None:
    books = added(NODE, trained(100.0, 200.0), books=balance(), now=at(300))
    opened = apply_open_period(
        books, OpenPeriod(TEAM, at(300), last_start=books.period_start, last_spent=Money.parse("300"))
    )
    assert spent(opened, at(300)).causes == {}
    later = added(NODE, trained(320.0, 350.0), books=opened, now=at(400))
    found = spent(later, at(400))
    assert found.causes == {Cause.JOB: Money.parse("30"), Cause.IDLE: Money.parse("70")}
    assert found.uncounted == ZERO


def test_a_budget_without_a_ledger_has_spent_nothing() -> None:
    found = spent_by_cause(budget(balance=None), [], MARCH)
    assert (found.spent, found.causes, found.uncounted) == (ZERO, {}, ZERO)
