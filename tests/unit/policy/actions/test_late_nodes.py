"""An offer that keeps failing is an expected delay: a job whose time is worth it goes where nodes are to be had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import BudgetId, JobId, PoolId, Rate
from charterer.domain.money import Price
from charterer.domain.order import CoolDown, cool_down
from charterer.domain.plan import Allocate, Plan, ReasonCode, Rent
from charterer.domain.pool import NodeStart
from charterer.domain.profile import Amdahl, SpeedCurve
from charterer.domain.rental import RentalPhase
from charterer.domain.time import after
from charterer.estimate.waits import with_refusal, with_start
from charterer.policy.planner import plan, solve_budgets
from tests import factory
from tests.worlds import World

NEAR, FAR = PoolId("near"), PoolId("far")
PRICE = Price.parse("16")
RICH, POOR = "60000", "3000"


def two_pools(amount: str = RICH, hours: float = 1.0, gpus: tuple[int, int, int] = (8, 8, 8)) -> World:
    """A job that runs equally fast in a cheap pool and in one at 1.5 times its price."""
    world = World()
    world.budget("research", amount=amount)
    world.pool("near", price="16")
    world.pool("far", price="24")
    form = Amdahl(0.95, 1.0)
    world.profile("sft", form, gpu_type="near", work_hours=hours, others=[SpeedCurve("far", form)])
    world.job("train", gpus=gpus, profile="sft")
    return world


def refused(world: World, times: int) -> World:
    """The world a second after the last of so many cool-downs of the cheap pool in a row, the first of a minute."""
    cooled: tuple[CoolDown, ...] = ()
    now = world.now
    for _ in range(times):
        new = cool_down(cooled, factory.refusal(0, code="NoneLeft"), 60.0, now, None)
        cooled, now = (new,), new.until
    world.pools[NEAR] = replace(world.pools[NEAR], cooled=cooled)
    world.now = after(now, 1.0)
    return world


def wanted(decided: Plan) -> str:
    """The pool whose nodes the job is to have, which are rented for it."""
    pools = {command.pool for command in decided.commands if isinstance(command, Rent)}
    option = decided.jobs[JobId("train")].option
    assert option is not None
    assert pools == {option.pool}
    return option.pool


@pytest.mark.parametrize(("amount", "hours", "times"), [(RICH, 1.0, 1), (RICH, 20.0, 5)])
def test_the_dearer_pool_is_rented_once_the_expected_wait_costs_more_than_it(
    amount: str, hours: float, times: int
) -> None:
    world = two_pools(amount, hours)
    assert wanted(plan(world.snapshot())) == "near"
    assert wanted(plan(refused(two_pools(amount, hours), times - 1).snapshot())) == "near"
    assert wanted(plan(refused(world, times).snapshot())) == "far"


def test_a_job_whose_time_is_worth_little_asks_the_cheap_pool_again() -> None:
    assert wanted(plan(refused(long_job(1.0), 7).snapshot())) == "near"


def test_the_cheap_pool_is_taken_again_after_a_launch_or_once_it_was_left_alone_as_long_again() -> None:
    world = refused(two_pools(), 3)
    assert wanted(plan(world.snapshot())) == "far"
    world.passes(240.0)
    assert wanted(plan(world.snapshot())) == "near"
    world = refused(two_pools(), 3)
    world.budget("others")
    world.rental("near", budget="others", age=0.5)
    assert wanted(plan(world.snapshot())) == "near"


def office_hours(world: World, days: int, pool_id: PoolId = NEAR, last: int = 6) -> World:
    """The world, whose pool had no node on ``days`` days, from an hour before this hour until ``last`` + 1 after it."""
    pool, begin = world.pools[pool_id], after(world.now, -86_400.0 * days)
    launches = pool.launches
    for day in range(days):
        for hour in range(24):
            when = after(begin, 86_400.0 * day + 3600.0 * hour)
            refused_then = hour <= last or hour == 23
            start = NodeStart(when, when, after(when, 120.0))
            launches = with_refusal(launches, when) if refused_then else with_start(launches, start)
    world.pools[pool_id] = replace(pool, launches=launches)
    return world


def test_a_pool_that_never_has_nodes_at_this_hour_is_not_asked_by_a_job_whose_time_is_worth_the_other() -> None:
    assert wanted(plan(office_hours(two_pools(), 2).snapshot())) == "far"
    off = office_hours(two_pools(), 2)
    off.pools[NEAR] = replace(off.pools[NEAR], learns_waits=False)
    assert wanted(plan(off.snapshot())) == "near"


def cooling(world: World, learned_days: int) -> Plan:
    """The plan while the cheap pool cools, of a job of 300 hours whose hour is worth a dollar."""
    return plan(just_refused(office_hours(world, learned_days)).snapshot())


def test_a_job_waits_for_a_cheap_pool_whose_hours_are_known_while_that_costs_less_than_the_dear_one() -> None:
    decided = cooling(long_job(1.0), 10)
    verdict = decided.jobs[JobId("train")]
    assert not decided.commands
    assert verdict.reason.code is ReasonCode.POOL_COOLING
    assert "near is expected to give a node only after" in verdict.reason.message
    assert "hours like this one" in verdict.reason.message
    assert decided.again_at is not None


def long_job(dollars_an_hour: float) -> World:
    """A job of 300 hours, and a budget that pays that for an hour of its life."""
    world = two_pools(hours=300.0)
    name = BudgetId("research")
    world.budgets[name] = replace(world.budgets[name], fixed_rate=Rate(dollars_an_hour / 3600.0))
    return world


def just_refused(world: World) -> World:
    """The world while the cheap pool cools for the first time."""
    refused(world, 1)
    world.now = after(world.now, -31.0)
    return world


def test_a_job_waits_too_where_room_elsewhere_is_worth_more_than_none_but_less_than_the_wait() -> None:
    decided = plan(just_refused(office_hours(long_job(20.0), 10, last=0)).snapshot())
    assert not decided.commands
    assert decided.jobs[JobId("train")].reason.code is ReasonCode.POOL_COOLING


def independent(days: int = 0) -> World:
    """A job and two pools of equal price: the first, back earlier, has just refused, the other was not asked."""
    world = long_job(4.0)
    for pool, last in ((NEAR, 2), (FAR, 6)):
        quote = world.pools[pool].quote
        assert quote is not None
        world.pools[pool] = replace(world.pools[pool], quote=replace(quote, price=PRICE, worst=PRICE))
        office_hours(world, days, pool, last)
    return just_refused(world)


@pytest.mark.parametrize("days", [0, 10])
def test_a_job_that_waits_for_a_pool_asks_another_that_does_not_fail_with_it(days: int) -> None:
    """So its wait is the shortest of all pools': to ask costs nothing, and one of them may have a node."""
    assert wanted(plan(independent(days).snapshot())) == FAR


def test_a_job_waits_for_the_pool_that_is_back_first_once_all_have_refused() -> None:
    world = independent(10)
    cooled = cool_down((), factory.refusal(0, code="NoneLeft"), 60.0, world.now, None)
    world.pools[FAR] = replace(world.pools[FAR], cooled=(cooled,))
    decided = plan(world.snapshot())
    assert not decided.commands
    option = decided.jobs[JobId("train")].option
    assert option is not None
    assert option.pool == NEAR
    assert decided.again_at is not None
    assert decided.again_at <= after(world.now, 60.0)


def test_a_job_does_not_wait_for_what_is_not_known() -> None:
    assert wanted(cooling(two_pools("3000", 300.0), 0)) == "far"


def test_a_target_counts_the_wait_for_a_node() -> None:
    """The cheap pool would end in time if it had a node."""
    for days, pool in ((0, "near"), (10, "far")):
        world = _with_target(office_hours(two_pools(POOR), days))
        assert wanted(plan(world.snapshot())) == pool


def test_a_node_that_is_there_or_boots_comes_in_time() -> None:
    world = refused(two_pools(), 3)
    world.rental("near")
    (place,) = (command for command in plan(world.snapshot()).commands if isinstance(command, Allocate))
    assert place.allocation is not None
    assert place.allocation.option.pool == NEAR


@pytest.mark.parametrize(("phase", "rented"), [(RentalPhase.REQUESTED, ["far"]), (RentalPhase.STARTING, [])])
def test_a_node_that_was_asked_for_comes_as_late_as_one_that_is_to_be_until_it_has_a_machine(
    phase: RentalPhase, rented: list[str]
) -> None:
    """Another job asked for that node. A job that went elsewhere does not come back to wait for it."""
    for world in (office_hours(two_pools(), 10), _with_target(office_hours(two_pools(POOR), 10))):
        world.rental("near", phase=phase, age=1.0)
        commands = plan(world.snapshot()).commands
        assert [command.pool for command in commands if isinstance(command, Rent)] == rented


def _with_target(world: World) -> World:
    """The world, whose job is to end in three hours."""
    job = world.jobs[JobId("train")]
    world.jobs[job.id] = replace(job, target_completion=after(world.now, 3.0 * 3600.0))
    return world


@pytest.mark.parametrize(("days", "pools"), [(0, {"best", "near"}), (10, {"best", "far"})])
def test_where_room_is_shared_who_gets_none_of_the_full_pool_does_not_wait_for_late_nodes_of_another(
    days: int, pools: set[str]
) -> None:
    world = office_hours(two_pools(), days)
    world.pool("best", price="10", gpu_type="near", max_nodes=1)
    world.job("other", gpus=8, profile="sft")
    rents = [command for command in plan(world.snapshot()).commands if isinstance(command, Rent)]
    assert {command.pool for command in rents} == pools


def two_sizes(rate: float) -> World:
    """A job of ten hours on half a node, at so many dollars for an hour of its life; nodes of its size come late."""
    world = World()
    name = world.budget().id
    world.budgets[name] = replace(world.budgets[name], fixed_rate=Rate(rate / 3600.0))
    world.pool("near", gpus=4, gpu_type="a100", price="8")
    world.pool("far", gpus=8, gpu_type="a100", price="16")
    world.profile("sft", Amdahl(0.95, 1.0), gpu_type="a100", work_hours=40.0)
    world.job("train", gpus=4, profile="sft")
    return world


@pytest.mark.parametrize(("rate", "days", "pool"), [(30.0, 10, "far"), (30.0, 0, "near"), (2.0, 10, "near")])
def test_the_smaller_node_is_waited_for_while_that_costs_less_than_what_a_larger_one_would_leave_idle(
    rate: float, days: int, pool: str
) -> None:
    assert wanted(plan(office_hours(two_sizes(rate), days).snapshot())) == pool


def test_a_large_node_that_is_there_is_taken_while_the_smaller_one_comes_late() -> None:
    for days, placed in ((0, 0), (10, 1)):
        world = office_hours(two_sizes(30.0), days)
        world.rental("far")
        commands = plan(world.snapshot()).commands
        assert len([command for command in commands if isinstance(command, Allocate)]) == placed


def test_nobody_pays_for_the_wait_and_it_moves_neither_rate_nor_spend() -> None:
    worlds = two_pools(), refused(two_pools(), 6)
    worlds[0].now = after(worlds[1].now, -61.0)
    once, often = (solve_budgets(world.snapshot())[0] for world in (refused(worlds[0], 1), worlds[1]))
    assert once.rate == often.rate
    assert once.planned == often.planned


def test_the_reason_says_what_was_passed_over_and_the_plan_is_made_again_when_that_ends() -> None:
    world = refused(two_pools(), 3)
    decided = plan(world.snapshot())
    said = "waits until far-1 can take it; near is expected to give a node only after 4 min (refused 3 times in a row, "
    assert said in decided.jobs[JobId("train")].reason.message
    assert decided.again_at == after(world.now, 239.0)


def test_a_job_that_waits_is_told_why_the_pool_that_it_wants_has_no_node() -> None:
    """And not why another one has none, which was asked first because it suits the job better."""
    world = World()
    world.budget(amount=RICH)
    world.pool("full", gpu_type="A100", gpus=8, price="16", max_nodes=1)
    world.pool("cools", gpu_type="A100", gpus=1, price="3")
    world.job("first", gpus=8, hours_left=50.0)
    for _ in range(2):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    new = cool_down((), factory.refusal(0, code="NoneLeft"), 60.0, world.now, None)
    world.pools[PoolId("cools")] = replace(world.pools[PoolId("cools")], cooled=(new,))
    world.job("train", gpus=1, hours_left=4.0)
    verdict = plan(world.snapshot()).jobs[JobId("train")]
    assert verdict.option is not None
    assert (verdict.option.pool, verdict.reason.code) == (PoolId("full"), ReasonCode.POOL_FULL)
