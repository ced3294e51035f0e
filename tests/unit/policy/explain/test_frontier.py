"""What more or less money buys: the ends of the frontier, the queue below it, the surplus above it."""

from __future__ import annotations

import pytest

from charterer.domain.ids import Rate
from charterer.domain.money import Money
from charterer.domain.profile import Amdahl
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.planner import solve_budgets
from charterer.policy.solve.hull import BudgetFit
from charterer.tools.frontier import Frontier, mean_seconds
from tests.worlds import World


def stood(world: World) -> BudgetSolution:
    snapshot = world.snapshot()
    (solution,) = solve_budgets(snapshot)
    return solution


def busy(amount: str = "60000", ceiling: str | None = "3600") -> World:
    world = World()
    world.budget(amount=amount, ceiling=ceiling)
    world.pool(gpus=8, price="16", start_seconds=0)
    world.profile("sft", Amdahl(0.95, 1.0), work_hours=40, arrivals_per_hour=0.5, restart_seconds=0, budget="research")
    world.job("one", gpus=(1, 8, 64), profile="sft")
    return world


def test_the_smallest_sufficient_budget_is_every_job_on_its_cheapest_option() -> None:
    frontier = Frontier(stood(busy()))
    # 360 jobs in a June of 720 hours, each 40 hours on one GPU of a $16 node with eight.
    assert frontier.cheapest.dollars == pytest.approx(360 * 40 * 2.0)
    assert frontier.at(frontier.cheapest).fit is BudgetFit.MET
    below = frontier.at(Money(frontier.cheapest.micros // 2))
    assert below.fit is BudgetFit.INFEASIBLE
    assert below.mean_seconds is None
    assert below.seconds_per_dollar is None
    assert below.served == pytest.approx(0.5)


def test_above_the_fastest_options_a_surplus_stays_unspent_and_buys_nothing() -> None:
    frontier = Frontier(stood(busy()))
    twice = frontier.at(Money(frontier.fastest.micros * 2))
    assert twice.fit is BudgetFit.SURPLUS
    assert twice.spend.dollars == pytest.approx(frontier.fastest.dollars)
    assert twice.seconds_per_dollar == 0.0
    assert twice.mean_seconds == pytest.approx(40 * 3600 * (0.05 + 0.95 / 64))


def test_no_budget_pays_more_than_five_times_an_hour_as_asked_for_unless_it_says_so() -> None:
    frontier = Frontier(stood(busy(ceiling=None)))
    twice = frontier.at(Money(frontier.fastest.micros * 2))
    assert twice.fit is BudgetFit.SURPLUS
    assert twice.rate * 3600 == pytest.approx(5 * 8 * 2.0)
    # From 24 to 32 GPUs an hour costs 24·32·$2·0.05/0.95 = $81, from 16 to 24 $40.
    assert twice.mean_seconds == pytest.approx(40 * 3600 * (0.05 + 0.95 / 24))


def test_a_ceiling_of_its_own_bounds_what_a_budget_pays() -> None:
    frontier = Frontier(stood(busy(ceiling="120")))
    twice = frontier.at(Money(frontier.fastest.micros * 2))
    assert twice.rate * 3600 == pytest.approx(120.0)
    assert twice.mean_seconds == pytest.approx(40 * 3600 * (0.05 + 0.95 / 32))


def full() -> World:
    """The same with room for sixteen of the twenty GPUs that the cheapest options take; the other pool is dearer."""
    world = busy()
    world.pool(gpus=8, price="16", start_seconds=0, max_nodes=2)
    world.pool("dear", gpus=8, price="40", start_seconds=0, gpu_type="a100", max_nodes=3)
    return world


def test_a_point_says_where_pools_have_no_room_for_what_jobs_would_choose() -> None:
    frontier = Frontier(stood(full()))
    assert not frontier.at(frontier.cheapest).room
    assert not frontier.at(frontier.fastest).room
    assert frontier.at(Money(round(frontier.cheapest.micros * 0.79))).room
    assert Frontier(stood(busy())).at(frontier.cheapest).room


def test_one_times_the_amount_is_about_what_the_planner_chooses_when_the_month_begins() -> None:
    """It does not know how large the jobs to come will be, and pays for those of the month's end in the next."""
    world = busy()
    world.passes(-15 * 86_400)
    world.job("one", gpus=(1, 8, 64), profile="sft")
    solution = stood(world)
    bought = Frontier(solution).at(solution.budget.amount)
    assert 1.0 < solution.rate / bought.rate < 1.5
    assert bought.mean_seconds == pytest.approx(mean_seconds(solution), rel=0.05)
    assert bought.factor == 1.0


def test_a_rate_is_reached_at_the_amount_that_is_told_for_it_and_not_below() -> None:
    frontier = Frontier(stood(busy()))
    rate = frontier.at(Money.parse("60000")).rate
    enough = frontier.amount_for(rate)
    assert frontier.at(Money(round(enough.micros * 1.001))).rate > rate
    assert frontier.at(Money(round(enough.micros * 0.999))).rate <= rate
    assert frontier.amount_for(Rate(0.0)) == frontier.cheapest


def test_a_budget_of_zero_is_compared_with_the_smallest_that_suffices() -> None:
    frontier = Frontier(stood(busy("0")))
    points = frontier.times((0.5, 1.0, 2.0))
    assert [point.amount for point in points] == [
        Money(round(frontier.cheapest.micros * factor)) for factor in (0.5, 1.0, 2.0)
    ]
    assert frontier.at(Money(0)).served == 0.0


def test_without_jobs_there_is_no_frontier() -> None:
    world = World()
    world.budget()
    world.pool()
    solution = stood(world)
    assert Frontier(solution).empty
    assert mean_seconds(solution) is None


def test_while_jobs_queue_there_is_no_mean_completion_time() -> None:
    assert mean_seconds(stood(busy("100"))) is None
