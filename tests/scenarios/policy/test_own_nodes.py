"""Nodes that are there anyway: held for their budget, used before any other, with or without money."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.ids import JobId, NodeName, PoolId, RentalId
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import Notice
from charterer.domain.snapshot import OperatorLimits
from charterer.policy import plan
from charterer.policy.planner import solve_budgets
from tests.scenarios.policy.stories import STEEP, placed, releases, rents, settle, why
from tests.worlds import World

OWN = PoolId("own")


def world_with(nodes: int = 2, *, rented: bool = True, price: str = "0", **budget: Any) -> World:
    """So many own nodes, beside a pool of the same GPUs at $16 if ``rented``."""
    world = World()
    world.budget(**budget)
    if rented:
        world.pool("a100", gpus=8, price="16")
    world.pool(OWN, gpus=8, price=price, gpu_type="a100", max_nodes=nodes, own=True, start_seconds=0.0)
    world.profile("sft", STEEP, work_hours=40)
    return world


def pools_of_jobs(world: World) -> dict[str, str]:
    return {job.name: job.allocation.option.pool for job in world.jobs.values() if job.allocation is not None}


def strangers_hold(world: World, rental: str, gpus: int) -> None:
    node = world.rentals[RentalId(rental)].node
    assert node is not None
    world.nodes[node] = replace(world.nodes[node], foreign_gpus=gpus)


def test_they_are_held_at_once_and_for_as_long_as_the_pool_is_there() -> None:
    world = world_with()
    decided = plan(world.snapshot())
    assert rents(decided) == ["own-1", "own-2"]
    assert {command.reason.message for command in decided.commands} == {
        "it is there anyway (spec.existing of the GPUPool)"
    }
    settle(world)
    world.passes(40 * 86_400.0)
    assert (plan(world.snapshot()).commands, plan(world.snapshot()).again_at) == ((), None)


def test_they_are_used_before_what_is_rented() -> None:
    world = world_with()
    for name in ("one", "two"):
        world.job(name, gpus=8, hours_left=10.0)
    settle(world)
    assert pools_of_jobs(world) == {"one": "own", "two": "own"}
    assert [rental.pool for rental in world.rentals.values()] == ["own", "own"]


def test_more_is_rented_when_jobs_are_worth_it() -> None:
    world = world_with(amount="14000")
    for number in range(8):
        world.job(f"j{number}", gpus=(1, 8, 8), profile="sft")
    settle(world)
    assert set(pools_of_jobs(world).values()) == {"own", "a100"}
    assert len(pools_of_jobs(world)) == 8


def test_what_a_jobs_time_is_worth_is_as_without_them() -> None:
    """Nodes that cost nothing say nothing of it: with their price every job would be as narrow as it may be."""
    ceilings = []
    for nodes in (0, 2):
        world = world_with(nodes)
        world.job("train", gpus=(1, 8, 32), profile="sft")
        ceilings += [
            assignment.group.menu.ceiling
            for solution in solve_budgets(world.snapshot())
            for assignment in solution.assignments.values()
        ]
    assert ceilings[0] == ceilings[1] > 0.0


@pytest.mark.parametrize("amount", ["0", "5"])
def test_without_a_cloud_and_without_money_jobs_are_as_wide_as_the_nodes_let_them_be(amount: str) -> None:
    world = world_with(rented=False, amount=amount)
    world.job("train", gpus=(1, 1, 16), profile="sft")
    settle(world)
    allocation = world.jobs[JobId("train")].allocation
    assert allocation is not None
    assert allocation.option.gpus == 16


def test_without_money_jobs_share_the_nodes_and_wait_for_them_in_order() -> None:
    world = world_with(rented=False, amount="0")
    for number in range(3):
        world.job(f"j{number}", gpus=8, hours_left=10.0, age_seconds=100 - number)
    decided = settle(world)
    assert pools_of_jobs(world) == {"j0": "own", "j1": "own"}
    assert why(decided, "j2") in {ReasonCode.POOL_FULL, ReasonCode.WAITING_FOR_FREE_GPUS}


def test_when_the_money_is_spent_own_nodes_are_used_on() -> None:
    world = world_with(1, amount="100", spent="100")
    world.profile("often", STEEP, work_hours=40, arrivals_per_hour=3.0)
    world.job("rented", gpus=16, profile="often", age_seconds=60.0)
    world.job("own", gpus=8, profile="often")
    decided = settle(world)
    assert pools_of_jobs(world) == {"own": "own"}
    assert why(decided, "rented") is ReasonCode.WAITING_FOR_BUDGET


def test_without_money_nothing_is_rented() -> None:
    world = world_with(1, amount="0")
    for number in range(3):
        world.job(f"j{number}", gpus=8, hours_left=10.0)
    settle(world)
    assert {rental.pool for rental in world.rentals.values()} == {OWN}


def test_without_money_and_without_own_nodes_jobs_wait_for_money_as_ever() -> None:
    world = World()
    world.budget(amount="0")
    world.pool("a100", gpus=8, price="16")
    world.job("train", gpus=8, hours_left=10.0)
    assert why(plan(world.snapshot()), "train") is ReasonCode.WAITING_FOR_BUDGET


def test_a_price_an_hour_is_taken_out_of_the_money_for_jobs() -> None:
    nothing = solve_budgets(world_with(2).snapshot())[0]
    paid = solve_budgets(world_with(2, price="4").snapshot())[0]
    assert nothing.pacing.still_committed == 0.0
    assert paid.pacing.still_committed == pytest.approx(8.0 * 360.0)
    assert (nothing.allowed - paid.allowed) * 3600.0 == pytest.approx(8.0)


def test_gpus_of_strangers_are_not_free() -> None:
    world = world_with(2, rented=False, amount="0")
    settle(world)
    strangers_hold(world, "own-1", 3)
    strangers_hold(world, "own-2", 8)
    world.job("wide", gpus=8, hours_left=10.0)
    world.job("narrow", gpus=4, hours_left=10.0)
    decided = settle(world)
    assert [place.rental for place in world.jobs[JobId("narrow")].allocation.placements] == ["own-1"]  # type: ignore[union-attr]
    assert world.jobs[JobId("wide")].allocation is None
    assert why(decided, "wide") in {ReasonCode.POOL_FULL, ReasonCode.WAITING_FOR_FREE_GPUS}


def test_what_strangers_leave_is_taken_before_a_node_is_rented() -> None:
    world = world_with(1)
    settle(world)
    strangers_hold(world, "own-1", 3)
    world.job("narrow", gpus=4, hours_left=10.0)
    settle(world)
    assert pools_of_jobs(world) == {"narrow": "own"}


def test_a_node_that_takes_no_part_any_more_is_given_back_once_nobody_uses_it() -> None:
    world = world_with(2)
    world.job("train", gpus=8, hours_left=10.0)
    settle(world)
    busy = {place.rental for job in world.jobs.values() if job.allocation for place in job.allocation.placements}
    idle = ({RentalId("own-1"), RentalId("own-2")} - busy).pop()
    instances = {name: world.rentals[name].instance for name in (*busy, idle)}
    world.pools[OWN] = replace(world.pools[OWN], max_nodes=0)
    world.notices[OWN] = tuple(
        [Notice(instance, None, certain=False, why="it is cordoned") for instance in instances.values() if instance]
    )
    decided = plan(world.snapshot())
    assert releases(decided) == {idle: ReasonCode.IDLE}
    assert placed(decided) == {}
    (command,) = decided.commands
    assert command.reason.message == f"GPURental {idle} is given back: it is cordoned"


def test_a_broken_node_ends_what_runs_there_and_is_not_counted_on() -> None:
    world = world_with(1, rented=False, amount="0")
    world.job("train", gpus=8, hours_left=10.0)
    settle(world)
    node = NodeName("n-own-1")
    world.nodes[node] = replace(world.nodes[node], ready=False, not_ready_since=world.now)
    world.pools[OWN] = replace(world.pools[OWN], max_nodes=0)
    world.passes(60.0)
    decided = plan(world.snapshot())
    assert releases(decided) == {"own-1": ReasonCode.LOST_NODE}
    assert rents(decided) == []


def test_the_operators_limits_are_of_what_it_rents() -> None:
    world = world_with(3)
    limits = OperatorLimits(nodes=1)
    decided = plan(replace(world.snapshot(), limits=limits))
    assert rents(decided) == ["own-1", "own-2", "own-3"]
    settle(world)
    for number in range(5):
        world.job(f"j{number}", gpus=8, hours_left=10.0)
    assert rents(plan(replace(world.snapshot(), limits=limits))) == ["a100-1"]


def test_a_job_of_another_budget_is_told_whose_they_are() -> None:
    world = World()
    world.budget()
    world.pool(OWN, max_nodes=2, own=True, payer="prod", price="0")
    world.job("train", gpus=8)
    told = plan(world.snapshot()).jobs[JobId("train")].reason
    said = "GPUPool own is committed to GPUBudget prod (spec.existing): no other budget's jobs run there"
    assert (told.code, told.message) == (ReasonCode.NO_OPTION, said)
