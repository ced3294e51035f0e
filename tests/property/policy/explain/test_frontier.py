"""The frontier's laws: more money never makes jobs slower, and a dollar saves what the exchange rate says it does."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.money import Money
from charterer.domain.profile import Amdahl
from charterer.policy.planner import solve_budgets
from charterer.policy.solve.hull import BudgetFit
from charterer.tools.frontier import Frontier
from tests import lanes
from tests.worlds import World

classes = st.lists(
    st.tuples(st.floats(0.3, 0.999), st.floats(0.5, 60.0), st.floats(0.05, 5.0), st.sampled_from((1.0, 1.0, 2.0, 0.5))),
    min_size=1,
    max_size=4,
)


def frontier_of(drawn: list[tuple[float, float, float, float]], start_seconds: float) -> Frontier:
    world = World()
    world.budget()
    world.pool(gpus=8, price="16", start_seconds=start_seconds)
    for number, (parallel, hours, arrivals, weight) in enumerate(drawn):
        world.profile(f"c{number}", Amdahl(parallel, 1.0), work_hours=hours, arrivals_per_hour=arrivals)
        world.job(f"j{number}", gpus=(1, 4, 64), profile=f"c{number}", weight=weight)
    snapshot = world.snapshot()
    (solution,) = solve_budgets(snapshot)
    return Frontier(solution)


@settings(max_examples=lanes.examples(40))
@given(classes, st.sampled_from((0.0, 120.0)), st.lists(st.floats(0.01, 1.2), min_size=2, max_size=6))
def test_more_money_never_makes_the_mean_job_slower_nor_the_rate_lower(
    drawn: list[tuple[float, float, float, float]], start: float, parts: list[float]
) -> None:
    # With equal weights: a weighted class may be made faster at the expense of the others.
    frontier = frontier_of([(p, h, a, 1.0) for p, h, a, _ in drawn], start)
    low, high = frontier.cheapest.micros, frontier.fastest.micros
    amounts = sorted(Money(round(low + part * (high - low))) for part in parts)
    bought = [frontier.at(amount) for amount in amounts]
    for less, more in pairwise(bought):
        assert more.rate >= less.rate * (1 - 1e-9)
        assert more.spend >= less.spend
        if less.mean_seconds is not None:
            assert more.mean_seconds is not None
            assert more.mean_seconds <= less.mean_seconds * (1 + 1e-9)


@settings(max_examples=lanes.examples(40))
@given(classes, st.floats(0.02, 0.98))
def test_one_more_dollar_saves_what_the_exchange_rate_says(
    drawn: list[tuple[float, float, float, float]], part: float
) -> None:
    frontier = frontier_of([(p, h, a, 1.0) for p, h, a, _ in drawn], 0.0)
    low, high = frontier.cheapest.micros, frontier.fastest.micros
    amount = Money(round(low + part * (high - low)))
    more = Money(amount.micros + 10_000)
    here, there = frontier.at(amount), frontier.at(more)
    if (
        BudgetFit.MET not in (here.fit,)
        or here.rate != there.rate
        or here.mean_seconds is None
        or there.mean_seconds is None
    ):
        return  # at a corner of the frontier the two sides save differently
    jobs = sum(arrivals for _, _, arrivals, _ in drawn) * frontier.period_seconds / 3600
    saved = (here.mean_seconds - there.mean_seconds) * jobs
    assert here.seconds_per_dollar is not None
    assert saved == pytest.approx(0.01 * here.seconds_per_dollar, rel=0.02, abs=1e-3)
