"""What a job would cost and when it would end: three choices, and what their intervals are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log

import pytest

from charterer.domain.budget import ClassHistory
from charterer.domain.ids import ClassId, JobId, PoolId
from charterer.domain.job import SpotPolicy
from charterer.domain.money import Money
from charterer.domain.pool import CapacityType, Hazard
from charterer.domain.profile import ThroughputTable
from charterer.policy.explain.alternatives import Comparison
from charterer.policy.explain.quote import Choice, Estimate, LogSums, estimates, next_log
from charterer.policy.planner import plan, solve_budgets
from tests.worlds import NAMESPACE, World

CURVE = ThroughputTable(((1, 50.0), (2, 98.0), (4, 180.0), (8, 310.0), (16, 480.0), (32, 640.0)))
SFT = ClassId(NAMESPACE, "sft")
NOTHING = LogSums(0.0, 0.0, 0.0)


def a_world(amount: str = "60000") -> World:
    world = World()
    world.budget(amount=amount)
    world.pool(gpus=8, price="16")
    world.profile("sft", CURVE, work_hours=40, arrivals_per_hour=1.0)
    world.job("train", gpus=(1, 8, 32), profile="sft")
    return world


def of(world: World) -> dict[Choice, Estimate]:
    snapshot = world.snapshot()
    job = snapshot.jobs[JobId("train")]
    found = estimates(job, plan(snapshot).jobs[job.id], Comparison.of(solve_budgets(snapshot)[0]))
    return {each.choice: each for each in found}


def completed(world: World, logs: Sequence[float], class_id: ClassId = SFT) -> World:
    """The world once jobs of the class have come to so many times what was predicted, by the logarithm."""
    ((name, budget),) = world.budgets.items()
    assert budget.balance is not None
    jobs, total, squares = float(len(logs)), sum(logs), sum(each**2 for each in logs)
    history = ClassHistory(jobs, 1.0, 1.0, 1.0, world.now, world.now, jobs, jobs, jobs, *(total, squares) * 2)
    world.budgets[name] = replace(budget, balance=replace(budget.balance, class_history={class_id: history}))
    return world


def test_the_cheapest_costs_least_the_fastest_ends_first_and_the_budgets_own_is_the_planners() -> None:
    world = a_world()
    found, chosen = of(world), plan(world.snapshot()).jobs[JobId("train")].option
    assert found[Choice.BUDGET].way.option == chosen
    dollars = [found[choice].dollars.middle for choice in Choice]
    seconds = [found[choice].seconds.middle for choice in Choice]
    assert dollars == sorted(dollars)
    assert seconds == sorted(seconds, reverse=True)
    assert found[Choice.FASTEST].way.option.gpus == 32


def test_the_cheapest_is_so_with_the_gpus_of_its_nodes_that_stay_empty() -> None:
    assert of(a_world())[Choice.CHEAPEST].way.option.gpus == 8  # alone on a node of eight, one GPU would cost all of it


def test_a_job_that_can_have_nothing_has_no_estimate() -> None:
    world = a_world()
    world.job("train", gpus=(1, 8, 32), profile="sft", max_cost="1")
    assert of(world) == {}


def test_jobs_that_completed_narrow_the_interval_and_move_it_to_what_they_came_to() -> None:
    unknown, alike = of(a_world())[Choice.BUDGET], of(completed(a_world(), [log(2.0)] * 40))[Choice.BUDGET]
    assert unknown.dollars.high / unknown.dollars.middle > 3.0 * alike.dollars.high / alike.dollars.middle
    assert alike.dollars.middle == pytest.approx(2.0 * unknown.dollars.middle, rel=0.1)
    assert alike.seconds.middle == pytest.approx(2.0 * unknown.seconds.middle, rel=0.1)
    assert (round(unknown.jobs), round(alike.jobs), alike.others) == (0, 40, 0.0)


def test_what_other_classes_came_to_counts_where_the_own_has_shown_nothing() -> None:
    unknown = of(a_world())[Choice.BUDGET]
    others = of(completed(a_world(), [-0.1, 0.1] * 20, ClassId(NAMESPACE, "other")))[Choice.BUDGET]
    assert others.dollars.high / others.dollars.middle < unknown.dollars.high / unknown.dollars.middle
    assert (others.jobs, round(others.others)) == (0.0, 40)


def test_an_interval_is_as_wide_below_as_above_and_holds_what_it_says() -> None:
    known = next_log(LogSums(1e6, 0.0, 1e6), [])
    interval = known.of(100.0)
    assert interval.middle == pytest.approx(100.0)
    assert log(interval.high / 100.0) == pytest.approx(1.645, rel=1e-3) == log(100.0 / interval.low)
    within = known.below(log(interval.high / 100.0)) - known.below(log(interval.low / 100.0))
    assert within == pytest.approx(0.9, abs=1e-3)


def test_jobs_of_the_class_count_for_more_than_three_of_others() -> None:
    wide = [LogSums(50.0, 0.0, 50.0)]
    own = [next_log(LogSums(jobs, 0.0, 0.0), wide).variance for jobs in (0.0, 3.0, 30.0)]
    assert own[0] == pytest.approx(4.0 / 9.0, rel=0.1)  # Student's with 3 degrees has three times the variance
    assert own[0] > own[1] > own[2] > 0.0


def test_nodes_that_are_taken_back_widen_both_intervals() -> None:
    def spread(capacity: CapacityType) -> Estimate:
        world = a_world()
        pool = world.pool(gpus=8, price="16", capacity=capacity)
        taken_back = Hazard((0.3,) * 4, 0.5, 0.0, 0.3, 0.15, 0.6, 5.0, 50.0)
        world.pools[pool.id] = replace(pool, hazard=taken_back if capacity is CapacityType.SPOT else None)
        world.job("train", gpus=(1, 8, 32), profile="sft", spot=SpotPolicy.ALLOWED)
        return of(completed(world, [0.0] * 40))[Choice.BUDGET]

    spot, on_demand = spread(CapacityType.SPOT), spread(CapacityType.ON_DEMAND)
    assert spot.spot > on_demand.spot == 0.0
    assert spot.dollars.high / spot.dollars.middle > on_demand.dollars.high / on_demand.dollars.middle


def test_of_a_job_that_waits_for_money_nobody_knows_when_it_starts_and_the_quote_names_no_end() -> None:
    world = a_world(amount="5")
    world.job("before", gpus=(1, 8, 32), profile="sft", age_seconds=3600.0)
    found = of(world)[Choice.BUDGET]
    assert not found.starts
    told = found.told(world.now)
    assert told.end_low is None is told.end_high
    assert Money(0) < told.cost_low < told.cost_high


def test_what_cannot_be_had_now_is_no_choice() -> None:
    world = a_world()
    world.pool("h100", gpus=8, price="64", cooled_for=1e5)
    world.profiles[SFT] = replace(world.profiles[SFT])
    assert {each.way.option.pool for each in of(world).values()} == {PoolId("a100")}
