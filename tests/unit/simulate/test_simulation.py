"""What happens in a simulation, worked out by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from math import log
from typing import Any

import pytest

from charterer.domain.ids import BudgetId, PoolId, RentalId
from charterer.domain.job import ResizePolicy, SpotPolicy, Widths
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.plan import Plan, Reason, ReasonCode, Rent
from charterer.domain.pool import CapacityType
from charterer.domain.reasons.nodes import AnyDemand
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Calendar, Grant, Period, after
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.world import Policy
from charterer.tools.simulator.model.ground_truth import Application, application_from_speeds
from charterer.tools.simulator.model.node_market import NodeMarket, PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policies.baselines import FixedFleet, QueueOrder, RequestedWidth, UtilisationAutoscaler
from tests.bench import year
from tests.unit.simulate.scenarios import HALVES, NODE, START, budget, run, scenario


def whole_node(_: Submission) -> JobTerms:
    return JobTerms(Widths(4, 4, 4))


def spot(_: Submission) -> JobTerms:
    return JobTerms(Widths(4, 4, 4), spot=SpotPolicy.ALLOWED)


def test_a_job_runs_alone_and_its_node_is_billed_to_the_second() -> None:
    result = run(scenario(10.0, budget=budget(rate=1.0)))
    (job,) = result.jobs
    assert (job.started, job.finished) == (10.0, 260.0)
    assert result.spent == Money.parse("1000")
    assert result.total_gpu_hours == pytest.approx(1000 / 3600)


def test_start_up_and_restart_are_waited_for_and_only_the_node_is_billed() -> None:
    pool = replace(NODE, start_seconds=120.0)
    result = run(scenario(0.0, pool=pool, restart_seconds=30.0, budget=budget(rate=1.0)))
    assert result.mean_completion_seconds == pytest.approx(120 + 30 + 250)
    assert result.spent == Money.parse("1600")


BRIEF = application_from_speeds("brief", {4: 30.0})
EVERY_300_SECONDS = [300.0 * number for number in range(100)]


def brief(theta: float, **changes: Any) -> SimulationResult:
    """Jobs of 30 s on a node of $4 a second that takes 120 s to start; a second is worth ``theta`` dollars."""
    pool = replace(NODE, start_seconds=120.0, **changes)
    return run(scenario(*EVERY_300_SECONDS, application=BRIEF, pool=pool, terms=whole_node, budget=budget(rate=theta)))


def test_an_idle_node_is_kept_for_the_next_job_where_jobs_come_often_enough_for_what_a_second_is_worth() -> None:
    """That is known after ten batches; after the last job, 356 s without a sign of life are enough."""
    result = brief(10.0)
    waits = [job.started - job.submitted for job in result.jobs if job.started is not None]
    first = waits.index(0.0)
    assert 10 < first < 90
    assert waits == [*[120.0] * first, *[0.0] * (100 - first)]
    given_back = 99 * 300.0 + 30.0 + 120.0 / -log(1 - 4 / 14)
    assert result.spent.dollars == pytest.approx(4 * ((first - 1) * 150 + given_back - (first - 1) * 300.0), abs=40)


def test_an_idle_node_is_given_back_at_once_where_waiting_costs_less_than_keeping_it() -> None:
    result = brief(1.0)
    assert result.mean_completion_seconds == 150.0
    assert result.spent == Money.parse("60000")


def test_no_node_is_kept_in_a_pool_that_has_no_room_for_another() -> None:
    assert brief(10.0, max_nodes=1).mean_completion_seconds == 150.0


def test_small_jobs_share_a_node() -> None:
    flat = application_from_speeds("flat", {1: 100.0, 4: 90.0})
    result = run(scenario(0.0, 0.0, 0.0, 0.0, application=flat, budget=budget(rate=0.01)))
    assert result.total_gpu_hours == pytest.approx(400 / 3600)
    assert [job.gpu_seconds for job in result.jobs] == [pytest.approx(100.0)] * 4


def test_a_path_is_followed_and_its_restart_paid() -> None:
    """The first half is no faster on four GPUs, the second four times as fast."""
    late = Application("late", (0.5, 1.0), {"gpu": ({1: 0.5 / 400, 4: 0.5 / 400}, {1: 0.5 / 400, 4: 0.5 / 100})})
    result = run(scenario(0.0, application=late, restart_seconds=10.0, budget=budget(rate=10.0)))
    (job,) = result.jobs
    assert job.restarts == 1
    assert job.completion_seconds == pytest.approx(10 + 400 + 10 + 100, abs=1.5)


@pytest.mark.parametrize(
    ("resize", "restarts", "lost"), [(ResizePolicy.RESTART, 1, 10.0), (ResizePolicy.IN_PLACE, 0, 10 - 2.5)]
)
def test_whole_nodes_are_added_in_place_without_a_restart(resize: ResizePolicy, restarts: int, lost: float) -> None:
    """While the pods that join get ready, for as long as a restart, the others train: a quarter of what all would."""
    late = Application("late", (0.5, 1.0), {"gpu": ({8: 0.5 / 400, 16: 0.5 / 400}, {8: 0.5 / 400, 16: 0.5 / 100})})
    pays = budget(rate=10.0)
    terms = JobTerms(Widths(8, 8, 16), resize=resize)
    result = run(scenario(0.0, application=late, restart_seconds=10.0, budget=pays, terms=lambda _: terms))
    (job,) = result.jobs
    assert job.restarts == restarts
    assert job.completion_seconds == pytest.approx(10 + 400 + lost + 100, abs=1.5)
    assert job.gpu_seconds == pytest.approx(8 * 410 + 16 * (100 + lost), abs=24)


def test_a_resize_in_place_takes_as_long_as_the_profile_says() -> None:
    late = Application("late", (0.5, 1.0), {"gpu": ({8: 0.5 / 400, 16: 0.5 / 400}, {8: 0.5 / 400, 16: 0.5 / 100})})
    terms = JobTerms(Widths(8, 8, 16), resize=ResizePolicy.IN_PLACE)
    given = scenario(0.0, application=late, restart_seconds=10.0, resize_seconds=4.0, budget=budget(rate=10.0))
    (job,) = run(replace(given, terms=lambda _: terms)).jobs
    assert job.completion_seconds == pytest.approx(10 + 400 + 6 + 4 + (100 - 6 / 4), abs=1.5)


def test_what_runs_out_is_asked_again_after_its_cooldown() -> None:
    pool = replace(NODE, stock=1, cooldown_seconds=50.0)
    slow = application_from_speeds("slow", {4: 100.0})
    result = run(scenario(0.0, 0.0, application=slow, pool=pool, terms=whole_node))
    assert sorted(job.finished or 0.0 for job in result.jobs) == [100.0, 200.0]


def test_a_node_that_is_taken_back_costs_what_was_done_since_the_last_checkpoint_and_a_restart() -> None:
    lifetimes = iter([100.0, 10_000.0])
    pool = replace(NODE, capacity_type=CapacityType.SPOT, draw_lifetime=lambda _: next(lifetimes))
    slow = application_from_speeds("slow", {4: 300.0})
    result = run(scenario(0.0, application=slow, pool=pool, checkpoint_seconds=40.0, restart_seconds=10.0, terms=spot))
    (job,) = result.jobs
    assert job.finished == pytest.approx(100 + 10 + (300 - 2 * 40))


def test_on_nodes_that_can_be_taken_back_the_time_for_checkpoints_is_lost() -> None:
    slow = application_from_speeds("slow", {4: 300.0})
    on_demand = scenario(0.0, application=slow, checkpoint_seconds=40.0, checkpoint_write_seconds=10.0)
    spot_pool = replace(NODE, capacity_type=CapacityType.SPOT)
    seconds = [run(each).jobs[0].finished for each in (on_demand, replace(on_demand, pools=(spot_pool,), terms=spot))]
    assert seconds == pytest.approx([300.0, 300.0 * 50 / 40])


def test_the_rate_at_which_nodes_are_taken_back_is_learned_from_those_that_were() -> None:
    market = NodeMarket((replace(NODE, capacity_type=CapacityType.SPOT),), START)
    pool = PoolId(NODE.name)
    assumed = market.pools[pool].hazard
    for number in range(10):
        price = Price.parse("1")
        why = Reason(ReasonCode.DEMAND, 0.0, ZERO, AnyDemand(ZERO))
        order = Rent(RentalId(f"r{number}"), pool, BudgetId("b"), ZERO, price, why)
        machine = market.rent(order, after(START, number * 3600.0))
        assert machine is not None
        market.end(machine, after(START, number * 3600.0 + 1800.0), taken=True)
    learned = market.pools[pool].hazard
    assert assumed is not None
    assert learned is not None
    assert learned.deaths == pytest.approx(10.0, rel=0.02)
    assert learned.overall > 5 * assumed.overall


def test_months_are_closed_and_their_spend_is_the_bill() -> None:
    month = 30 * 86_400.0
    slow = application_from_speeds("slow", {4: 3600.0})
    result = run(scenario(month - 1800.0, month + 86_400.0, month * 2, application=slow, terms=whole_node))
    assert [spent for _, spent in result.periods] == [Money.parse("7200")]
    assert result.spent == Money.parse("43200")


def test_weeks_are_closed_as_months_are() -> None:
    """Simulations begin on a Monday."""
    week = 7 * 86_400.0
    slow = application_from_speeds("slow", {4: 3600.0})
    given = scenario(week - 1800.0, week + 86_400.0, week * 2, application=slow, terms=whole_node)
    result = run(replace(given, budget=replace(given.budget, calendar=Calendar("UTC", Period.WEEK))))
    assert [spent for _, spent in result.periods] == [Money.parse("7200"), Money.parse("21600")]
    assert result.spent == Money.parse("43200")


def test_jobs_run_only_while_a_grant_lasts() -> None:
    day = 86_400.0
    slow = application_from_speeds("slow", {4: 3600.0})
    given = scenario(0.0, 3 * day - 3600.0, application=slow, terms=whole_node, until=5 * day)
    grant = Calendar("UTC", Period.GRANT, Grant(date(2026, 6, 2), date(2026, 6, 3)))
    result = run(replace(given, budget=replace(given.budget, calendar=grant)))
    first, late = result.jobs
    assert first.completion_seconds == pytest.approx(day + 3600.0)
    assert late.completion_seconds is None
    (_, before), (_, granted) = result.periods
    assert (before, granted) == (Money(0), result.spent)
    assert Money.parse("14400") < granted < Money.parse("28800")


def test_a_price_that_changes_is_paid_from_then_on_by_running_and_by_new_nodes() -> None:
    pool = replace(NODE, later_prices=((1000.0, Price.parse("7200")), (3000.0, Price.parse("28800"))))
    slow = application_from_speeds("slow", {4: 2000.0})
    result = run(scenario(0.0, 5000.0, application=slow, pool=pool, terms=whole_node))
    assert result.spent.dollars == pytest.approx(1000 * 4 + 1000 * 2 + 2000 * 8)


@pytest.mark.slow
def test_jobs_do_not_go_to_and_fro_because_their_own_moves_turn_the_rate() -> None:
    few = year.Case("few nodes", jobs_a_month=250, mean_hours=20.0, dollars=1.6)
    result = year.simulated(few, 0, lambda snapshot: plan(snapshot), days=12.0)
    assert 0 < sum(job.restarts for job in result.jobs) < 2 * len(result.jobs)


def test_the_same_seed_gives_the_same_result() -> None:
    def once() -> object:
        draw = random.Random(7)
        pool = replace(NODE, start_seconds=60.0, draw_start_seconds=lambda: draw.expovariate(1 / 60))
        arrivals = [draw.uniform(0, 5000) for _ in range(40)]
        return run(scenario(*sorted(arrivals), pool=pool, budget=budget(rate=1.0)))

    assert once() == once()


def test_a_plan_with_a_memo_is_the_plan_without() -> None:
    memo = Memo()
    draw = random.Random(3)

    def both(snapshot: Snapshot) -> Plan:
        plain, quick = plan(snapshot), plan(snapshot, memo)
        assert plain == quick
        return quick

    late = Application("late", (0.5, 1.0), {"gpu": ({1: 0.5 / 400, 4: 0.5 / 300}, {1: 0.5 / 400, 4: 0.5 / 100})})
    arrivals = sorted(draw.uniform(0, 3000) for _ in range(15))
    result = run(scenario(*arrivals, application=late, restart_seconds=10.0, budget=budget(amount="20000")), both)
    assert len(result.completion_seconds) == 15


# --- what is done without Charterer -----------------------------------------------------------------------------------


def test_an_autoscaler_keeps_an_idle_node_for_its_delay() -> None:
    result = run(scenario(0.0), RequestedWidth(lambda _: 4, scale_down_seconds=600.0))
    assert result.mean_completion_seconds == 250.0
    assert result.spent == Money.parse("3400")


def test_a_fixed_fleet_queues_gangs_in_its_order() -> None:
    two = application_from_speeds("two", {4: 100.0})
    fifo = run(scenario(0.0, 1.0, 2.0, application=two), FixedFleet(1, lambda _: 4))
    assert sorted(job.finished or 0.0 for job in fifo.jobs) == [100.0, 200.0, 300.0]
    backwards = FixedFleet(1, lambda _: 4, QueueOrder.SHORTEST, lambda submission, *_: -float(submission.name[1:]))
    last_first = run(scenario(0.0, 1.0, 2.0, application=two), backwards)
    assert [job.name for job in last_first.jobs] == ["j0", "j2", "j1"]


def test_an_autoscaled_fleet_grows_with_its_use_and_ends() -> None:
    result = run(scenario(*[0.0] * 8, application=HALVES), UtilisationAutoscaler(lambda _: 4))
    assert len(result.completion_seconds) == 8
    assert max(nodes for _, nodes in result.rented_nodes) > 2
    assert result.rented_nodes[-1][1] == 0


DEAR = PoolModel("b100", 4, Price.parse("18000"))
POLICIES: dict[str, Callable[[], Policy]] = {
    "as asked": lambda: RequestedWidth(lambda _: 4),
    "fixed": lambda: FixedFleet(7, lambda _: 4),
    "utilisation": lambda: UtilisationAutoscaler(lambda _: 4),
}


@pytest.mark.parametrize("name", POLICIES)
def test_no_policy_rents_more_nodes_than_a_pool_may_have_and_jobs_wait_for_them(name: str) -> None:
    result = run(scenario(*[0.0] * 6, pool=replace(NODE, max_nodes=2)), POLICIES[name]())
    assert max(nodes for _, nodes in result.rented_nodes) == 2
    assert len(result.completion_seconds) == 6


@pytest.mark.parametrize("name", POLICIES)
def test_a_job_that_is_wider_than_the_pool_may_be_never_runs_and_keeps_no_node(name: str) -> None:
    result = run(scenario(0.0, pool=replace(NODE, gpus_per_node=1, max_nodes=3)), POLICIES[name]())
    assert result.never_completed == ("j0",)
    assert result.spent == Money(0)


@pytest.mark.parametrize("limit", [{"max_nodes": 1}, {"stock": 1}])
def test_jobs_that_the_cheapest_pool_has_no_nodes_for_run_in_the_next(limit: dict[str, Any]) -> None:
    pools = (DEAR, replace(NODE, **limit))
    result = run(scenario(0.0, 0.0, 1000.0, pools=pools), RequestedWidth(lambda _: 4, scale_down_seconds=0.0))
    assert result.completion_seconds == [250.0] * 3
    assert {str(pool): hours for pool, hours in result.rented_gpu_hours.items()} == {
        "a100": pytest.approx(2 * 4 * 250 / 3600),
        "b100": pytest.approx(4 * 250 / 3600),
    }
    assert result.hourly[0] == (0.0, 14_400.0 + 18_000.0)
    assert result.hourly[-1][1] == 0.0


def test_a_result_says_which_width_a_job_had_and_when() -> None:
    (job,) = run(scenario(0.0, application=HALVES), RequestedWidth(lambda _: 2)).jobs
    assert job.widths == ((0.0, 2), (500.0, 0))
