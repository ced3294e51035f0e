"""An amount counts in proportion in the month in which its budget is made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.billing import opening_in
from charterer.domain.budget import Budget
from charterer.domain.money import ZERO, Money
from charterer.domain.time import Calendar, Instant, after, parse_instant
from tests import factory

HALF = parse_instant("2026-06-16T00:00:00Z")
"""Half of June, a month of 30 days."""
JUNE, JULY = parse_instant("2026-06-01T00:00:00Z"), parse_instant("2026-07-01T00:00:00Z")


def made(created: Instant = HALF, opening: str | None = None, amount: str = "60000") -> Budget:
    """A budget whose first period, June, is open."""
    return factory.budget(
        created=created,
        amount=Money.parse(amount),
        opening_spend=None if opening is None else Money.parse(opening),
        balance=factory.balance(period_start=JUNE),
    )


@pytest.mark.parametrize(
    ("created", "counts"),
    [
        (after(JUNE, -1.0), "60000"),
        (JUNE, "60000"),
        (HALF, "30000"),
        (parse_instant("2026-06-29T12:00:00Z"), "3000"),
        (after(JULY, 5.0), "0"),  # the API server's clock is ahead
    ],
)
def test_an_amount_that_begins_within_a_month_counts_for_what_is_left_of_it(created: Instant, counts: str) -> None:
    assert made(created).own_aim == Money.parse(counts)


@pytest.mark.parametrize("opening", ["0", "1800"])
def test_all_of_it_counts_where_the_owner_says_what_was_spent_before(opening: str) -> None:
    budget = made(opening=opening)
    assert (budget.own_aim, opening_in(budget, JUNE)) == (budget.amount, Money.parse(opening))


def test_nothing_is_taken_for_spent_before_where_nobody_says_it() -> None:
    assert opening_in(made(), JUNE) == ZERO


def test_the_next_month_has_all_of_it() -> None:
    later = replace(made(), balance=factory.balance(period_start=JULY))
    assert later.own_aim == later.amount
    assert made().in_period_of(JULY).own_aim == later.amount  # for moments, until the new month is opened


def test_a_budget_whose_first_month_is_opened_late_is_as_old_as_it_is() -> None:
    waiting = replace(made(), balance=None)
    assert waiting.in_period_of(HALF).own_aim == Money.parse("30000")
    assert waiting.in_period_of(JULY).own_aim == Money.parse("60000")


def test_the_month_is_that_of_the_budgets_time_zone() -> None:
    start = parse_instant("2026-10-31T23:00:00Z")
    berlin = replace(made(), calendar=Calendar("Europe/Berlin"), balance=factory.balance(period_start=start))
    assert replace(berlin, created=start).own_aim == Money.parse("60000")
    assert replace(berlin, created=parse_instant("2026-11-27T23:00:00Z")).own_aim == Money.parse("6000")


def test_an_amount_that_is_changed_in_the_first_month_counts_for_the_same_part() -> None:
    assert replace(made(), amount=Money.parse("90000")).own_aim == Money.parse("45000")


def test_only_the_surplus_of_what_counted_is_carried_over() -> None:
    budget = replace(made(), carry_over_percent=100)
    assert budget.carries(Money.parse("10000")) == Money.parse("20000")
    assert budget.carries(Money.parse("40000")) == -Money.parse("10000")
