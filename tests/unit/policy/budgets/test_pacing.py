"""How fast a budget may be committed: evenly, with what is over or missing paid back over a horizon."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.money import Money
from charterer.domain.time import after, parse_instant
from charterer.policy.budgets.forecast import (
    LEAST_HORIZON_SECONDS,
    PacingState,
    allowed_rate,
    pacing_state,
)
from tests.worlds import World

DAY = 86_400.0
JUNE = (parse_instant("2026-06-01T00:00:00Z"), parse_instant("2026-07-01T00:00:00Z"))
JUNE_OF_3000 = PacingState(aim=3_000.0, seconds=30 * DAY, elapsed=10 * DAY, spent=1_000.0)
"""$100 a day, and on course."""


def a_day(money: PacingState) -> float:
    return allowed_rate(money) * DAY


def test_on_course_the_rate_is_even() -> None:
    assert a_day(JUNE_OF_3000) == pytest.approx(100.0)


def test_a_deficit_and_a_surplus_are_paid_back_over_the_horizon() -> None:
    assert a_day(replace(JUNE_OF_3000, spent=1_200.0)) == pytest.approx(100.0 - 200.0 / 20)
    assert a_day(replace(JUNE_OF_3000, spent=700.0)) == pytest.approx(100.0 + 300.0 / 20)


def test_near_the_end_what_is_left_is_spent_but_not_in_the_last_two_days() -> None:
    five_left = replace(JUNE_OF_3000, elapsed=25 * DAY, spent=2_000.0)
    assert a_day(five_left) == pytest.approx(1_000.0 / 5)
    one_left = replace(JUNE_OF_3000, elapsed=29 * DAY, spent=2_000.0)
    assert a_day(one_left) == pytest.approx(100.0 + 900.0 / 2)


def test_what_is_carried_over_need_not_be_spent_before_the_end() -> None:
    near_end = replace(JUNE_OF_3000, elapsed=28 * DAY, spent=2_000.0)
    assert a_day(replace(near_end, carried_fraction=1.0)) == pytest.approx(100.0 + 800.0 / 30)
    assert (
        a_day(near_end)
        > a_day(replace(near_end, carried_fraction=0.5))
        > a_day(replace(near_end, carried_fraction=1.0))
    )


def test_an_amount_that_is_used_up_before_the_last_days_allows_nothing() -> None:
    assert allowed_rate(replace(JUNE_OF_3000, elapsed=25 * DAY, spent=3_000.0)) == 0.0


def test_who_already_runs_makes_no_difference() -> None:
    assert a_day(replace(JUNE_OF_3000, rate=200 / DAY, left=400.0)) == a_day(JUNE_OF_3000)


@given(
    st.floats(0.0, 30 * DAY),
    st.floats(0.0, 10_000.0),
    st.floats(0.0, 1.0),
    st.floats(0.0, 10.0),
    st.floats(0.0, 1e6),
)
def test_the_rate_is_finite_never_negative_and_continuous(
    elapsed: float, spent: float, carries: float, rate: float, left: float
) -> None:
    money = PacingState(3_000.0, 30 * DAY, elapsed, spent, rate, left, carries)
    later = replace(money, elapsed=min(elapsed + 1.0, 30 * DAY))
    assert 0.0 <= allowed_rate(money) <= 3_000.0 / (30 * DAY) + 6_000.0 / LEAST_HORIZON_SECONDS
    assert allowed_rate(later) == pytest.approx(allowed_rate(money), rel=1e-3, abs=1e-4)


@given(st.floats(0.0, 10_000.0), st.floats(0.0, 1_000.0), st.floats(0.0, 30 * DAY))
def test_who_spent_more_may_spend_no_more(spent: float, more: float, elapsed: float) -> None:
    less = PacingState(3_000.0, 30 * DAY, elapsed, spent)
    assert allowed_rate(replace(less, spent=spent + more)) <= allowed_rate(less) + 1e-12


@given(st.floats(0.0, 400 * DAY), st.floats(0.0, 1.0), st.sampled_from([7, 30, 91, 365]))
def test_the_horizon_lies_between_two_days_and_what_is_left_or_a_period(left: float, carries: float, days: int) -> None:
    money = replace(JUNE_OF_3000, carried_fraction=carries, carried_horizon=days * DAY)
    assert LEAST_HORIZON_SECONDS - 1 <= money.horizon_at(left) <= max(left, days * DAY) + 1


def test_a_budget_made_in_mid_month_spreads_its_amount_over_the_rest() -> None:
    world = World()
    made = world.budget("research", amount="3600")
    money = pacing_state(made, Money.parse("0"), JUNE, world.now)
    assert allowed_rate(money) * 3600 == pytest.approx(10.0)
    joined = replace(made, opening_spend=Money.parse("1800"))
    money = pacing_state(joined, Money.parse("1800"), JUNE, world.now)
    assert allowed_rate(money) * 3600 == pytest.approx(5.0)


@pytest.mark.parametrize("left_hours", [360.0, 55.0, 1.0])
def test_where_nobody_says_what_was_spent_before_the_rate_is_that_of_a_whole_month(left_hours: float) -> None:
    world = World(now=after(JUNE[1], -left_hours * 3600.0))
    made = world.budget("research", amount="60000", opening=None)
    money = pacing_state(made, Money(0), JUNE, world.now)
    assert allowed_rate(money) * 3600 == pytest.approx(60_000 / 720)
    assert money.committable == pytest.approx(60_000 / 720 * min(left_hours, 240.0))


def test_a_budget_of_the_next_month_that_a_fast_clock_made_allows_nothing_yet() -> None:
    world = World(now=after(JUNE[1], -5.0))
    made = replace(world.budget("research", opening=None), created=after(JUNE[1], 2.0))
    assert allowed_rate(pacing_state(made, Money(0), JUNE, world.now)) == 0.0


def test_what_was_carried_over_is_aimed_at_too_within_the_hard_limit() -> None:
    world = World()
    made = world.budget("research", amount="3000", hard_limit="3200")
    books = made.balance
    assert books is not None

    def aim(carried: str) -> Money:
        return replace(made, balance=replace(books, carried=Money.parse(carried))).aim

    assert (aim("150"), aim("500")) == (Money.parse("3150"), Money.parse("3200"))
    assert (aim("-500"), aim("-5000")) == (Money.parse("2500"), Money(0))
    overspent = replace(made, created=after(JUNE[0], -DAY), balance=replace(books, carried=Money.parse("-600")))
    assert pacing_state(overspent, Money(0), JUNE, JUNE[0]).target_rate * DAY == pytest.approx(80.0)
