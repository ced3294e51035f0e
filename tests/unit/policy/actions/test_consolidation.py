"""When the jobs of a node that is left half empty move together to free GPUs of other nodes, and when they may not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import pytest

from charterer.domain.budget import MoveLimits
from charterer.domain.ids import BudgetId, JobId, NodeName, PoolId, Rate
from charterer.domain.job import ResizePolicy, SpotPolicy
from charterer.domain.money import Money
from charterer.domain.plan import Allocate, Plan, ReasonCode, Release, Rent
from charterer.domain.pool import CapacityType, NodeStart, Notice, Pool
from charterer.domain.time import QuietHours, after
from charterer.estimate.waits import with_start
from charterer.policy.planner import plan
from tests.worlds import World

LONG = 10.0
"""Hours."""


def two_nodes(hours: float = LONG, **pool: Any) -> World:
    """``one`` and ``two`` alone on a100-2; a100-1 has three free GPUs beside ``wide``, which may not move."""
    world = World()
    world.budget()
    world.pool(**pool)
    for _ in range(2):
        world.rental()
    runs(world, "wide", "a100-1", 5, 2 * LONG, resize=ResizePolicy.NEVER)
    runs(world, "one", "a100-2", 1, hours)
    runs(world, "two", "a100-2", 2, hours / 2)
    return world


def runs(world: World, job: str, rental: str, gpus: int, hours: float, **fields: Any) -> None:
    world.job(job, gpus=gpus, hours_left=hours, **fields)
    world.runs_on(job, rental, gpus=gpus)


def moved(decided: Plan) -> dict[str, str]:
    """Where jobs go."""
    return {
        command.job: command.allocation.placements[0].rental
        for command in decided.commands
        if isinstance(command, Allocate) and command.allocation is not None
    }


def test_all_jobs_of_a_node_move_into_the_holes_of_another_and_say_why() -> None:
    decided = plan(two_nodes().snapshot())
    assert moved(decided) == {"one": "a100-1", "two": "a100-1"}
    why = decided.jobs[JobId("one")].reason
    assert why.code is ReasonCode.NODE_EMPTIED
    assert why.message == (
        "1 GPU on a100: from a100-2 to a100-1, so that a100-2 can be given back, which saves $159.17, restarts included"
    )
    assert sum(command.reason.money.micros for command in decided.commands) == pytest.approx(-159.17e6, rel=1e-4)


def test_the_node_is_given_back_once_it_is_empty_and_nothing_is_taken_back() -> None:
    world = two_nodes()
    first = plan(world.snapshot())
    assert not [command for command in first.commands if isinstance(command, Release | Rent)]
    world.carry_out(first)
    assert plan(world.snapshot()).commands == ()  # the pods of the old runs hold their GPUs until they have ended
    world.everything_starts()
    assert [command.rental for command in plan(world.snapshot()).commands if isinstance(command, Release)] == ["a100-2"]


def test_the_gpus_that_are_moved_to_are_nobody_elses() -> None:
    world = two_nodes()
    world.job("new", gpus=2, hours_left=1.0)
    decided = plan(world.snapshot())
    assert moved(decided) == {"new": "a100-1"}  # who waits comes first
    world.carry_out(decided)
    world.everything_starts()
    assert plan(world.snapshot()).commands == ()


def test_jobs_that_are_nearly_done_stay() -> None:
    assert plan(two_nodes(hours=0.02).snapshot()).commands == ()


def test_a_node_is_not_emptied_before_its_billing_minimum_is_over() -> None:
    world = two_nodes(hours=2.0, billing_minimum=3 * 3600)
    assert plan(world.snapshot()).commands == ()


@pytest.mark.parametrize(("more", "moves"), [(3, True), (4, False)], ids=["three quarters", "more"])
def test_a_node_that_is_more_than_three_quarters_full_is_left_alone(more: int, moves: bool) -> None:
    world = two_nodes()
    world.rental()
    runs(world, "pinned", "a100-3", 1, LONG, resize=ResizePolicy.NEVER)
    runs(world, "more", "a100-2", more, LONG)
    assert set(moved(plan(world.snapshot()))) == ({"one", "two", "more"} if moves else set())


def test_of_two_nodes_that_could_be_emptied_the_one_with_the_cheaper_restarts_is() -> None:
    world = two_nodes()
    world.rental()
    runs(world, "three", "a100-3", 3, LONG)
    budget = world.budgets[BudgetId("research")]
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(2.0 / 3600.0))
    assert moved(plan(world.snapshot())) == {"three": "a100-1"}  # a100-2 has as many GPUs in use, by two jobs


def test_nodes_that_start_slower_than_declared_are_given_back_for_longer_rests_only() -> None:
    world = two_nodes(hours=0.2)
    assert set(moved(plan(world.snapshot()))) == {"one", "two"}
    world.pools[PoolId("a100")] = slow(world.pools[PoolId("a100")], 3600.0)
    assert moved(plan(world.snapshot())) == {}


def slow(pool: Pool, seconds: float) -> Pool:
    """The pool, of whose nodes many were seen to take so long to start."""
    begun = after(pool.created, 0.0)
    starts = [NodeStart(begun, begun, after(begun, seconds))] * 100
    return replace(pool, launches=reduce(with_start, starts, pool.launches))


def test_jobs_do_not_follow_one_that_ends_before_a_node_could_start() -> None:
    world = two_nodes()
    change(world, "wide", remaining=100.0)
    assert moved(plan(world.snapshot())) == {}


def test_a_single_job_moves_however_wide_it_is() -> None:
    world = two_nodes()
    world.rental()
    runs(world, "six", "a100-3", 5, LONG)
    assert moved(plan(world.snapshot())) == {"one": "a100-1", "two": "a100-1"}
    del world.jobs[JobId("one")], world.jobs[JobId("two")]
    runs(world, "three", "a100-2", 3, LONG)
    assert moved(plan(world.snapshot())) == {"three": "a100-1"}


def test_nothing_moves_where_one_job_finds_no_room() -> None:
    world = two_nodes()
    runs(world, "small", "a100-1", 1, LONG)
    assert plan(world.snapshot()).commands == ()


def change(world: World, name: str, **fields: Any) -> None:
    world.jobs[JobId(name)] = replace(world.jobs[JobId(name)], **fields)


def _quiet(world: World) -> None:
    limits = MoveLimits(quiet_hours=(QuietHours(0, 1439),))
    world.budgets[BudgetId("research")] = replace(world.budgets[BudgetId("research")], moves=limits)


def _few_moves(world: World) -> None:
    budget = world.budgets[BudgetId("research")]
    world.budgets[budget.id] = replace(budget, moves=MoveLimits(per_job_and_day=0))


def _hard_limit(world: World) -> None:
    """A job that takes an hour to end would raise the exposure of the node that it comes to."""
    budget = world.budgets[BudgetId("research")]
    world.budgets[budget.id] = replace(budget, hard_limit=Money.parse("60"))
    change(world, "one", grace_seconds=3600)


def _interrupted(world: World) -> None:
    instance = world.rentals[next(name for name in world.rentals if name == "a100-1")].instance
    assert instance is not None
    world.notices[PoolId("a100")] = (Notice(instance, after(world.now, 120)),)


def _cordoned(world: World) -> None:
    world.nodes[NodeName("n-a100-1")] = replace(world.nodes[NodeName("n-a100-1")], unschedulable=True)


def _foreign(world: World) -> None:
    del world.jobs[JobId("two")]
    world.nodes[NodeName("n-a100-2")] = replace(world.nodes[NodeName("n-a100-2")], foreign_gpus=1)


VETOES: dict[str, Callable[[World], None]] = {
    "a job that is never resized": lambda world: change(world, "two", resize=ResizePolicy.NEVER),
    "quiet hours": _quiet,
    "a limit on moves": _few_moves,
    "the hard limit": _hard_limit,
    "a maximum cost": lambda world: change(world, "one", max_cost=Money.parse("20.10")),
    "a target that is near": lambda world: change(world, "one", target_completion=after(world.now, LONG * 3600 + 60)),
    "a run that is not all there": lambda world: change(world, "one", runs=()),
    "an interruption notice on the other node": _interrupted,
    "another node that takes no pods": _cordoned,
    "a pod that is nobody's": _foreign,
}


@pytest.mark.parametrize("veto", VETOES)
def test_nothing_moves_against(veto: str) -> None:
    world = two_nodes()
    VETOES[veto](world)
    assert not {"one", "two"} & set(moved(plan(world.snapshot())))


def test_a_target_that_is_far_and_a_cost_that_suffices_forbid_nothing() -> None:
    world = two_nodes()
    change(world, "one", target_completion=after(world.now, 2 * LONG * 3600), max_cost=Money.parse("40"))
    assert set(moved(plan(world.snapshot()))) == {"one", "two"}


def test_when_quiet_hours_end_the_plan_is_made_again() -> None:
    world = two_nodes()
    limits = MoveLimits(quiet_hours=(QuietHours(0, 60),))
    world.budgets[BudgetId("research")] = replace(world.budgets[BudgetId("research")], moves=limits)
    assert plan(world.snapshot()).again_at == after(world.now, 3600)


def test_emptying_a_node_counts_as_a_move_of_each_job() -> None:
    world = two_nodes()
    world.carry_out(plan(world.snapshot()))
    assert world.jobs[JobId("one")].moves == (world.now,)


def small_nodes(price: str = "2", **pool: Any) -> World:
    """``one`` on a node of one GPU; a100-1 has three of eight free."""
    world = World()
    world.budget()
    world.pool()
    world.pool("small", gpus=1, price=price, gpu_type="a100", **pool)
    world.rental()
    world.rental("small")
    runs(world, "wide", "a100-1", 5, LONG)
    runs(world, "one", "small-1", 1, LONG, spot=SpotPolicy.ALLOWED)
    return world


def test_a_job_moves_into_the_hole_of_a_larger_node_of_its_kind() -> None:
    decided = plan(small_nodes().snapshot())
    assert moved(decided) == {"one": "a100-1"}
    option = decided.jobs[JobId("one")].option
    assert option is not None
    assert option.pool == "a100"


@pytest.mark.parametrize("pool", [{"price": "1.5"}, {"capacity": CapacityType.SPOT}])
def test_a_job_stays_where_a_gpu_costs_less_or_is_of_another_kind(pool: dict[str, Any]) -> None:
    assert moved(plan(small_nodes(**pool).snapshot())) == {}
