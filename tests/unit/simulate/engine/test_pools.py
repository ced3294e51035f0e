"""Pools of a simulated world: speed, restart, stock and quota are their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.ids import BudgetId, PoolId, RentalId
from charterer.domain.job import SpotPolicy, Widths
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.plan import Plan, Reason, ReasonCode, Rent
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.reasons.nodes import AnyDemand
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.world import Policy
from charterer.tools.simulator.model.ground_truth import application_from_speeds, joined
from charterer.tools.simulator.model.node_market import NodeMarket, PoolModel
from charterer.tools.simulator.model.pools_file import exponential
from charterer.tools.simulator.model.scenario import JobTerms, Scenario
from charterer.tools.simulator.policies.baselines import FixedFleet, QueueOrder, RequestedWidth, UtilisationAutoscaler
from charterer.tools.simulator.policy_registry import PolicyChoice, simulate_scenario
from tests.unit.simulate.scenarios import HALVES, NODE, budget, run, scenario

BEGIN = Instant(0)
SLOW = PoolModel("slow", 4, Price.parse("3600"), "T4")
FAST = PoolModel("fast", 4, Price.parse("14400"), "A100")
BOTH = joined(
    [
        application_from_speeds("both", {4: 300.0}, gpu_type="T4"),
        application_from_speeds("both", {4: 100.0}, gpu_type="A100"),
    ]
)


def of_types(*arrivals: float, pools: tuple[PoolModel, ...] = (SLOW, FAST), **changes: Any) -> Scenario:
    """Jobs that can run on both types."""
    return scenario(*arrivals, application=BOTH, pools=pools, **changes)


@pytest.mark.parametrize(
    ("worth", "pool", "seconds", "dollars"), [(0.1, "slow", 300.0, "300"), (10.0, "fast", 100.0, "400")]
)
def test_a_job_trains_at_the_speed_of_the_type_that_is_worth_its_price(
    worth: float, pool: str, seconds: float, dollars: str
) -> None:
    """The fast type costs a dollar a job more, and saves 200 seconds: by 50 cents a second it is worth it."""
    result = run(of_types(0.0, budget=budget(rate=worth)))
    (job,) = result.jobs
    assert job.completion_seconds == pytest.approx(seconds)
    assert dict(job.pool_gpu_seconds) == {PoolId(pool): pytest.approx(4 * seconds)}
    assert result.spent_in[PoolId(pool)] == result.spent == Money.parse(dollars)


def test_a_job_that_changes_its_type_goes_on_where_it_was() -> None:
    """From second 150 the fast type costs what the slow one does; half of the job is left, which is 50 seconds
    there.
    """
    falling = replace(FAST, later_prices=((150.0, SLOW.hourly),))
    result = run(of_types(0.0, pools=(SLOW, falling), budget=budget(rate=0.1)))
    (job,) = result.jobs
    assert job.completion_seconds == pytest.approx(200.0)
    assert (job.restarts, result.spent) == (1, Money.parse("200"))


def test_a_restart_takes_as_long_as_its_pool_says() -> None:
    given = of_types(0.0, pools=(replace(SLOW, restart_seconds=40.0),), restart_seconds=5.0)
    assert run(given).mean_completion_seconds == pytest.approx(340.0)
    assert run(replace(given, pools=(SLOW,))).mean_completion_seconds == pytest.approx(305.0)


def test_who_permits_one_type_gets_that_one() -> None:
    def slow_only(_: object) -> JobTerms:
        return JobTerms(Widths(1, 4, 64), gpu_types=("T4",))

    for policy in (None, RequestedWidth(lambda _: 4)):
        given = of_types(0.0, budget=budget(rate=100.0), terms=slow_only, pools=(FAST, SLOW))
        assert run(given, policy).mean_completion_seconds == pytest.approx(300.0)


def test_a_baseline_uses_no_type_without_a_curve_and_no_spot_node_that_the_owner_does_not_allow() -> None:
    def never(_: object) -> JobTerms:
        return JobTerms(Widths(1, 4, 64), spot=SpotPolicy.NEVER)

    cheap = PoolModel("cheap", 4, Price.parse("1"), "K80")
    spot = replace(SLOW, name="spot", hourly=Price.parse("2"), capacity_type=CapacityType.SPOT)
    result = run(of_types(0.0, pools=(cheap, spot, FAST), terms=never), FixedFleet(1, lambda _: 4, QueueOrder.FIFO))
    (job,) = result.jobs
    assert list(job.pool_gpu_seconds) == ["fast"]


def test_spot_nodes_rented_last_are_taken_back_when_the_stock_falls_and_nothing_is_rented_above_it() -> None:
    spot = replace(NODE, capacity_type=CapacityType.SPOT, later_stock=((100.0, 1), (200.0, None)))
    result = run(scenario(0.0, 0.0, pool=spot, checkpoint_seconds=0.0), FixedFleet(2, lambda _: 4))
    first, second = sorted(result.jobs, key=lambda job: job.name)
    assert [job.finished for job in (first, second)] == pytest.approx([250.0, 350.0])
    assert result.counts.interruptions == 1


def test_a_smaller_stock_takes_no_node_that_is_not_spot() -> None:
    result = run(scenario(0.0, 0.0, pool=replace(NODE, later_stock=((100.0, 0),))), FixedFleet(2, lambda _: 4))
    assert result.counts.interruptions == 0
    assert result.mean_completion_seconds == pytest.approx(250.0)


def test_a_node_given_after_a_cool_down_ends_the_doubt_although_it_is_returned() -> None:
    """As in the operator: otherwise the same node may be rented and returned without end."""
    market = NodeMarket((replace(NODE, stock=1, cooldown_seconds=10.0),), BEGIN)
    (pool,) = market.pools
    orders = [
        Rent(
            RentalId(f"r{n}"),
            pool,
            BudgetId("b"),
            ZERO,
            NODE.hourly,
            Reason(ReasonCode.DEMAND, 0.0, ZERO, AnyDemand(ZERO)),
        )
        for n in range(3)
    ]
    first = market.rent(orders[0], BEGIN)
    assert first is not None
    assert market.rent(orders[1], BEGIN) is None
    assert market.pools[pool].cooled
    market.end(first, after(BEGIN, 1.0))
    later = market.rent(orders[2], after(BEGIN, 15.0))
    assert later is not None
    market.end(later, after(BEGIN, 16.0))
    assert market.pools[pool].cooled == ()


@pytest.mark.parametrize("limit", ["stock", "quota"])
def test_the_planner_is_refused_above_the_present_limit_and_comes_back_when_it_grows(limit: str) -> None:
    changes: dict[str, Any] = {limit: 1, f"later_{limit}": ((100.0, 2),)}
    pool = replace(NODE, cooldown_seconds=10.0, **changes)
    given = scenario(0.0, 0.0, application=application_from_speeds("wide", {4: 1000.0}), pool=pool)
    result = run(given)
    starts = sorted(job.started or 0.0 for job in result.jobs)
    assert starts[0] == 0.0
    assert 100.0 <= starts[1] < 200.0


def test_orders_of_one_moment_that_are_refused_make_one_cool_down() -> None:
    market = NodeMarket((replace(NODE, stock=0, cooldown_seconds=10.0),), BEGIN)
    pool = PoolId(NODE.name)
    for number in range(4):
        why = Reason(ReasonCode.DEMAND, 0.0, ZERO, AnyDemand(ZERO))
        market.rent(Rent(RentalId(f"r{number}"), pool, BudgetId("b"), ZERO, NODE.hourly, why), BEGIN)
    cooled = market.pools[pool].cool_down
    assert cooled is not None
    assert (cooled.times, cooled.until) == (1, after(BEGIN, 10.0))


@pytest.mark.parametrize("learns", [True, False])
def test_the_planner_sees_in_which_hours_a_pool_had_nodes_where_it_may_learn_that(learns: bool) -> None:
    seen: list[Pool] = []

    def planner(snapshot: Snapshot) -> Plan:
        seen.extend(snapshot.pools.values())
        return plan(snapshot)

    pool = replace(NODE, later_stock=((0.0, 0), (7200.0, 1)), learns_waits=learns)
    run(scenario(1.0, pool=pool), planner)
    assert seen[-1].launches.hours == pytest.approx(3.0, rel=0.01)
    assert sum(seen[-1].launches.given) == pytest.approx(1.0, rel=0.01)
    assert bool(seen[-1].known_launches.hours) is learns


@pytest.mark.parametrize("text", ["as-asked", "fixed:9", "utilisation"])
def test_no_baseline_rents_above_max_nodes(text: str) -> None:
    given = scenario(*[0.0] * 9, pool=replace(NODE, max_nodes=2))
    result = simulate_scenario(given, PolicyChoice(text))
    assert max(nodes for _, nodes in result.rented_nodes) == 2
    assert not result.never_completed


def test_one_seed_gives_one_result_event_for_event() -> None:
    spot = replace(NODE, capacity_type=CapacityType.SPOT, draw_lifetime=exponential(200.0, seed=4))
    given = scenario(*range(0, 400, 40), application=HALVES, pool=spot)
    first, again = run(given), run(given)
    assert first == again
    assert first.counts.interruptions > 0


POLICIES: Mapping[str, Callable[[], Policy | None]] = {
    "as asked": lambda: RequestedWidth(lambda _: 4),
    "fixed": lambda: FixedFleet(2, lambda _: 4),
    "utilisation": lambda: UtilisationAutoscaler(lambda _: 4),
    "charterer": lambda: None,
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_node_that_is_taken_back_before_it_is_ready_is_rented_anew(name: str) -> None:
    spot = replace(
        NODE, start_seconds=100.0, capacity_type=CapacityType.SPOT, cooldown_seconds=10.0,
        stock=2, later_stock=((60.0, 0), (500.0, 2)),
    )  # fmt: skip
    result = run(scenario(0.0, pool=spot, budget=budget(rate=10.0)), POLICIES[name]())
    (job,) = result.jobs
    assert job.finished is not None
    assert job.finished > 850.0 - 1e-9
    assert result.counts.machine_ends == result.counts.machines


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_a_simulation_ends_although_a_job_waits_for_stock_that_never_comes(name: str) -> None:
    sold_out = replace(NODE, stock=1, later_stock=((300.0, 0),))
    result = run(scenario(0.0, 1000.0, pool=sold_out, budget=budget(rate=10.0)), POLICIES[name]())
    assert result.never_completed == (() if name == "fixed" else ("j1",))  # a fixed fleet keeps its node
    assert result.ended_at < 8 * 86_400.0


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_a_simulation_ends_although_spot_nodes_never_live_to_a_checkpoint(name: str) -> None:
    short = replace(NODE, capacity_type=CapacityType.SPOT, start_seconds=3000.0, draw_lifetime=lambda _: 200.0)
    result = run(scenario(0.0, 5.0, pool=short, budget=budget(rate=10.0)), POLICIES[name]())
    assert result.never_completed == ("j0", "j1")
    assert 7 * 86_400.0 < result.ended_at < 8 * 86_400.0


def test_a_long_job_alone_is_not_taken_for_one_that_waits_in_vain() -> None:
    long = application_from_speeds("long", {4: 30 * 86_400.0})
    for policy in (UtilisationAutoscaler(lambda _: 4), None):
        result = run(scenario(0.0, application=long, budget=budget(rate=10.0)), policy)
        assert result.mean_completion_seconds == pytest.approx(30 * 86_400.0)


def test_a_fixed_fleet_is_paid_to_the_last_job_whatever_happens_later() -> None:
    plain = run(scenario(0.0), FixedFleet(2, lambda _: 4))
    later = replace(NODE, later_prices=((1e6, Price.parse("5")),))
    assert run(scenario(0.0, pool=later), FixedFleet(2, lambda _: 4)).spent == plain.spent
    alive = replace(NODE, capacity_type=CapacityType.SPOT, draw_lifetime=lambda _: 1e6)
    result = run(scenario(0.0, pool=alive), FixedFleet(2, lambda _: 4))
    assert (result.spent, result.rented_nodes) == (plain.spent, ((0.0, 2), (250.0, 0)))


def test_a_baseline_takes_the_pool_that_has_nodes_and_is_cheapest_when_the_job_arrives() -> None:
    sold_out = replace(SLOW, stock=0, later_stock=((1e5, 4),))
    (job,) = run(of_types(0.0, pools=(sold_out, FAST)), RequestedWidth(lambda _: 4)).jobs
    assert list(job.pool_gpu_seconds) == ["fast"]
    dearer = replace(SLOW, later_prices=((50.0, Price.parse("20000")),))
    first, second = run(of_types(0.0, 100.0, pools=(dearer, FAST)), RequestedWidth(lambda _: 4)).jobs
    pools = {job.name: list(job.pool_gpu_seconds) for job in (first, second)}
    assert pools == {"j0": ["slow"], "j1": ["fast"]}
