"""Nodes are rented as a whole: what is told of them counts their empty GPUs until they can be given back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.controller.status.budgets_and_pools import within_budget
from charterer.domain.budget import Mode
from charterer.domain.job import ResizePolicy
from charterer.domain.money import Money
from charterer.domain.plan import BudgetVerdict, ReasonCode
from charterer.domain.profile import Amdahl
from charterer.policy.planner import plan
from tests.scenarios.policy.stories import placed, why
from tests.worlds import World


def team(*, mode: Mode = Mode.ENFORCE) -> World:
    """A node of eight GPUs for $55 an hour, and a job of four hours on one of them."""
    world = World()
    world.budget(amount="500", mode=mode)
    world.pool("h100", gpus=8, price="55", gpu_type="h100")
    world.profile("sft", Amdahl(0.97, 1.0), gpu_type="h100", work_hours=4)
    world.job("one", gpus=1, profile="sft", resize=ResizePolicy.NEVER)
    return world


def running(*jobs: str) -> World:
    """The same, where the node is ready, and the job runs there, beside others like it."""
    world = team()
    world.rental("h100", age=600.0)
    for job in ("one", *jobs):
        world.job(job, gpus=1, profile="sft", resize=ResizePolicy.NEVER)
        world.runs_on(job, "h100-1", gpus=1)
    return world


def told(world: World) -> BudgetVerdict:
    (verdict,) = plan(world.snapshot()).budgets.values()
    return verdict


@pytest.mark.parametrize("mode", [Mode.ENFORCE, Mode.OBSERVE])
def test_a_job_alone_on_a_node_is_told_to_cost_the_whole_node_before_it_is_rented(mode: Mode) -> None:
    assert 4 * 55.0 <= told(team(mode=mode)).in_sight.dollars <= 4.2 * 55.0


@pytest.mark.parametrize("others", [(), ("two",)])
def test_a_node_in_use_is_told_to_cost_the_same_whoever_shares_it(others: tuple[str, ...]) -> None:
    assert told(running(*others)).in_sight.dollars == pytest.approx(4 * 55.0)


def test_a_node_for_which_a_job_waits_is_counted_once() -> None:
    world = team()
    made = plan(world.snapshot())
    world.carry_out(made)
    (before,) = made.budgets.values()
    assert told(world).in_sight.dollars == pytest.approx(before.in_sight.dollars)


def test_a_node_that_is_given_back_now_costs_nothing_more() -> None:
    world = team()
    world.jobs.clear()
    world.rental("h100")
    assert told(world).in_sight == Money(0)


def test_the_forecast_is_at_least_what_the_nodes_of_running_jobs_cost() -> None:
    world = running()
    name = next(iter(world.profiles))
    world.profiles[name] = replace(world.profiles[name], arrivals_per_hour=0.0001)
    verdict = told(world)
    assert verdict.forecast is not None
    assert verdict.forecast.high >= verdict.forecast.expected >= verdict.spent + Money.of(4 * 55.0)


def test_what_a_hard_limit_forbids_is_not_told_to_be_spent() -> None:
    world = running()
    world.budget(amount="500", hard_limit="100")
    verdict = told(world)
    assert verdict.spent + verdict.in_sight <= Money.parse("100")


def poor(amount: str = "100") -> World:
    """A budget with a job on a node of eight GPUs ($55 spent, two hours to come); one hour and 50 hours wait."""
    world = World()
    world.budget(amount=amount)
    world.pool("h100", gpus=8, price="55", max_nodes=1)
    world.job("runs", gpus=1, hours_left=2.0)
    world.runs_on("runs", world.rental("h100").id, gpus=1)
    for name, hours in (("short", 1.0), ("long", 50.0)):
        world.job(name, gpus=1, hours_left=hours)
    return world


def test_a_job_that_waits_for_money_takes_empty_gpus_of_a_node_that_stands_for_another_in_any_case() -> None:
    decided = plan(poor("50").snapshot())
    assert placed(decided) == {"short": 1}
    assert why(decided, "long") is ReasonCode.WAITING_FOR_BUDGET


def test_a_job_that_waits_for_money_counts_in_the_months_end_only_if_there_will_be_any_left() -> None:
    """The node takes all of $100; of $200 something is left, for which the last job begins alone."""
    assert told(poor()).in_sight.dollars == pytest.approx(2 * 55.0)
    assert 52 * 55.0 <= told(poor("200")).in_sight.dollars <= 52.2 * 55.0


def test_a_month_that_ends_above_its_amount_if_nothing_else_comes_is_told_so_at_once() -> None:
    (budget,) = poor().budgets.values()
    found, reason, message = within_budget(budget, told(poor()))
    assert (found, reason) == (False, "ForecastExceedsAmount")
    assert "the month ends at $165.00 of $100.00" in message
