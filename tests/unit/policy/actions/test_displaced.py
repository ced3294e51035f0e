"""Jobs that must leave their nodes: who pays for where they go, and what is said of it."""

from __future__ import annotations

from charterer.domain.ids import InstanceId, JobId, PoolId
from charterer.domain.job import ResizePolicy
from charterer.domain.plan import Allocate, ReasonCode, Rent
from charterer.domain.pool import Notice
from charterer.policy import plan
from tests.worlds import World


def settle(world: World) -> None:
    """Carry out plans until all jobs run that can, and let five minutes pass."""
    for _ in range(2):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    world.passes(300.0)


def is_taken_back(world: World, instance: str) -> None:
    """The cloud says so, of an instance of the pool a100."""
    world.notices[PoolId("a100")] = (Notice(InstanceId(instance), world.now),)


def test_it_is_paid_by_what_it_would_still_have_cost_where_it_was() -> None:
    world = World()
    world.budget(amount="300")
    world.pool("a100", price="16", max_nodes=1)
    world.pool("h100", gpus=4, price="40", max_nodes=1)
    world.job("train", gpus=1, hours_left=50.0)
    settle(world)
    world.job("other", gpus=1, hours_left=50.0)
    is_taken_back(world, "i-a100-1")
    assert world.jobs[JobId("train")].allocation is not None
    assert any(isinstance(command, Rent) for command in plan(world.snapshot()).commands)


def test_what_makes_it_leave_is_told_where_a_limit_makes_it_narrower_too() -> None:
    world = World()
    world.budget(amount="60000", max_hourly="40")
    world.pool("a100", price="16")
    world.job("train", gpus=(8, 16, 64), resize=ResizePolicy.NEVER)
    settle(world)
    is_taken_back(world, "i-a100-1")
    given = {command.job: command for command in plan(world.snapshot()).commands if isinstance(command, Allocate)}
    command = given[JobId("train")]
    assert command.allocation is not None
    assert command.allocation.option.gpus == 8
    assert command.reason.code is ReasonCode.INTERRUPTION
    assert command.reason.message.startswith("the cloud takes back i-a100-1 of a100-1; 8 GPUs on a100")
