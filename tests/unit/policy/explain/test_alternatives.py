"""Why this option: the rows are the planner's numbers, and what is said would make another one win does make it win."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.ids import JobId, PoolId, Rate
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.plan import Rent
from charterer.domain.profile import Amdahl, ThroughputTable
from charterer.domain.reports import Progress
from charterer.domain.snapshot import OperatorLimits, Stop
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.alternatives import Alternatives, Basis, Comparison, Rank, alternatives, basis
from charterer.policy.outlook.outlook import NodeSource
from charterer.policy.planner import plan, solve_budgets
from tests.worlds import World

CURVE = ThroughputTable(((1, 50.0), (2, 98.0), (4, 180.0), (8, 310.0), (16, 480.0), (32, 640.0)))


def world_with(amount: str = "60000", arrivals: float = 1.0) -> World:
    world = World()
    world.budget(amount=amount)
    world.pool(gpus=8, price="16")
    world.profile("sft", CURVE, work_hours=40, arrivals_per_hour=arrivals)
    return world


def standing_of(world: World) -> BudgetSolution:
    snapshot = world.snapshot()
    return solve_budgets(snapshot)[0]


def weighed(world: World, name: str) -> Alternatives:
    snapshot = world.snapshot()
    found = alternatives(
        snapshot.jobs[JobId(name)], plan(snapshot).jobs[JobId(name)], Comparison.of(standing_of(world))
    )
    assert found is not None
    return found


def chosen_width(world: World, name: str) -> int:
    option = plan(world.snapshot()).jobs[JobId(name)].option
    assert option is not None
    return option.gpus


def at_rate(world: World, rate: float) -> World:
    budgets = {name: replace(budget, fixed_rate=Rate(rate)) for name, budget in world.budgets.items()}
    return replace(world, budgets=budgets)


def waiting(rate: float = 16.0) -> World:
    """A job that waits while a job-hour saved is worth so many dollars."""
    world = at_rate(world_with(), rate / 3600)
    world.job("new", gpus=(8, 8, 24), profile="sft")
    return world


def test_a_waiting_jobs_row_is_chosen_by_the_planner_and_every_other_one_loses_at_its_rate() -> None:
    world = waiting()
    found = weighed(world, "new")
    assert found.chosen.option.gpus == chosen_width(world, "new")
    assert {row.rank for row in found.rows} == {Rank.CHOSEN, Rank.TOO_DEAR, Rank.TOO_SLOW}
    for row in found.rows:
        if row.rank is Rank.TOO_DEAR:
            assert row.seconds < found.chosen.seconds
            assert row.per_hour_saved is not None
            assert row.per_hour_saved > 16.0
        if row.rank is Rank.TOO_SLOW:
            assert row.seconds > found.chosen.seconds
            assert row.per_hour_saved is not None
            assert row.per_hour_saved < 16.0


def test_the_rate_that_is_said_to_change_a_waiting_jobs_choice_does_so_and_a_little_less_does_not() -> None:
    world = waiting()
    now = chosen_width(world, "new")
    changes = weighed(world, "new").changes
    assert len(changes) == 2
    for change in changes:
        beyond, before = (1.01, 0.99) if change.to.gpus > now else (0.99, 1.01)
        assert chosen_width(at_rate(world, change.rate * beyond), "new") == change.to.gpus
        assert chosen_width(at_rate(world, change.rate * before), "new") == now


def test_the_price_that_is_said_to_change_the_choice_does_so_at_todays_rate() -> None:
    world = waiting()
    now = chosen_width(world, "new")
    for change in weighed(world, "new").changes:
        assert change.node_price is not None
        beyond, before = (0.99, 1.01) if change.to.gpus > now else (1.01, 0.99)
        for factor, width in ((beyond, change.to.gpus), (before, now)):
            repriced = replace(world, pools=dict(world.pools))
            repriced.pool(gpus=8, price=f"{change.node_price.micros_per_hour * factor / 1e6:.6f}")
            assert chosen_width(repriced, "new") == width


def running(rate: float = 16.0, progress: float = 0.5) -> World:
    world = waiting(rate)
    for _ in range(3):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
        world.passes(60)
    job = world.jobs[JobId("new")]
    assert job.allocation is not None
    said = Progress(job.allocation.run, progress, None, None, world.now)
    world.jobs[job.id] = replace(job, progress=said, remaining=40 * 3600 * (1 - progress))
    return world


def test_a_running_jobs_other_rows_contain_the_restart_that_a_move_costs() -> None:
    found = weighed(running(), "new")
    assert found.chosen.nodes is NodeSource.HERE
    for row in found.rows:
        restart = 0.0 if row.rank is Rank.CHOSEN else 30.0
        assert row.seconds == pytest.approx(20 * 3600 / row.option.speed + restart)


def test_a_running_job_moves_at_the_rate_that_is_said_to_make_another_option_win() -> None:
    world = running()
    faster, _ = weighed(world, "new").changes
    assert faster.rate > 16.0 / 3600
    assert plan(world.snapshot()).commands == ()
    assert plan(at_rate(world, faster.rate * 0.99).snapshot()).commands == ()
    (rent,) = plan(at_rate(world, faster.rate * 1.01).snapshot()).commands
    assert isinstance(rent, Rent)
    assert f"waits for {faster.to.gpus} GPUs" in rent.reason.message


def test_a_running_job_with_little_left_moves_with_the_work_that_is_said_to_be_needed_and_not_with_less() -> None:
    halfway = running()
    rate = weighed(halfway, "new").changes[0].rate * 1.05
    world = at_rate(running(progress=0.98), rate)
    assert plan(world.snapshot()).commands == ()
    faster = weighed(world, "new").changes[0]
    assert faster.work is not None
    job = world.jobs[JobId("new")]
    for factor, moves in ((1.01, True), (0.99, False)):
        longer = replace(world, jobs={**world.jobs, job.id: replace(job, remaining=faster.work * factor)})
        assert bool(plan(longer.snapshot()).commands) is moves


def test_an_option_whose_pool_has_no_room_says_so() -> None:
    world = waiting(rate=200.0)
    world.pool(gpus=8, price="16", max_nodes=3)
    for _ in range(2):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    world.job("later", gpus=(8, 8, 32), profile="sft")
    found = weighed(world, "later")
    assert {row.nodes for row in found.rows} == {NodeSource.FULL}


def test_an_option_that_needs_more_nodes_than_its_pool_may_still_have_is_not_said_to_be_rented() -> None:
    world = waiting()
    world.pool(gpus=8, price="16", max_nodes=2)
    world.job("first", gpus=8)
    world.rental()
    world.runs_on("first", "a100-1", gpus=8)
    world.job("later", gpus=(8, 8, 16), profile="sft")
    nodes = {row.option.gpus: row.nodes for row in weighed(world, "later").rows}
    assert nodes == {8: NodeSource.RENT, 16: NodeSource.FULL}


@pytest.mark.parametrize(
    ("snapshot", "budget", "says"),
    [
        ({"stop": Stop.RENT}, {}, NodeSource.STOPPED),
        ({"limits": OperatorLimits(nodes=0)}, {}, NodeSource.OPERATOR_LIMIT),
        ({}, {"max_hourly_rate": Price.parse("5")}, NodeSource.HOURLY_LIMIT),
        ({}, {"hard_limit": Money.parse("1")}, NodeSource.HARD_LIMIT),
        ({}, {"deleting": True}, NodeSource.CLOSED),
    ],
)
def test_a_limit_that_forbids_nodes_is_not_called_a_full_pool(
    snapshot: dict[str, Any], budget: dict[str, Any], says: NodeSource
) -> None:
    world = waiting()
    world.budgets = {name: replace(each, **budget) for name, each in world.budgets.items()}
    taken = replace(world.snapshot(), **snapshot)
    verdict = replace(plan(taken).jobs[JobId("new")], option=Option(PoolId("a100"), 8, 1.0, Price.parse("16")))
    found = alternatives(taken.jobs[JobId("new")], verdict, Comparison.of(solve_budgets(taken)[0]))
    assert found is not None
    assert {row.nodes for row in found.rows} == {says}


def test_a_job_that_is_given_less_than_it_asks_for_has_its_own_option_among_the_others() -> None:
    world = world_with()
    world.job("unknown", gpus=(1, 8, 32))
    snapshot = world.snapshot()
    name = JobId("unknown")
    verdict = replace(plan(snapshot).jobs[name], option=Option(PoolId("a100"), 4, 0.5, Price.parse("8")))
    found = alternatives(snapshot.jobs[name], verdict, Comparison.of(standing_of(world)))
    assert found is not None
    assert found.chosen.option.gpus == 4
    assert [row.option.gpus for row in found.rows if row.rank is not Rank.CHOSEN] == [8]


def test_what_a_speed_rests_on_is_told_for_each_width() -> None:
    world = world_with()
    world.pool("h100", gpus=8, price="50")
    table, formula = world.profiles.values(), world.profile("amdahl", Amdahl(0.9, 1.0))
    (measured,) = [profile for profile in table if profile is not formula]
    assert basis(measured, "a100", 8) is Basis.DECLARED
    assert basis(measured, "a100", 24) is Basis.INTERPOLATED
    assert basis(measured, "h100", 8) is Basis.ASSUMED
    assert basis(formula, "a100", 8) is Basis.FORMULA
    assert basis(None, "a100", 8) is Basis.ASSUMED


def test_a_job_that_nothing_can_be_offered_has_no_alternatives() -> None:
    world = world_with()
    world.job("other", gpus=8, gpu_types=("tpu",))
    snapshot = world.snapshot()
    verdict = plan(snapshot).jobs[JobId("other")]
    assert alternatives(snapshot.jobs[JobId("other")], verdict, Comparison.of(standing_of(world))) is None
