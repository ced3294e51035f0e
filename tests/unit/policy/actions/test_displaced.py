"""Jobs that must leave their nodes: who pays for where they go, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.ids import JobId, Rate, RentalId
from charterer.domain.job import ResizePolicy
from charterer.domain.plan import Allocate, ReasonCode, Release, Rent
from charterer.domain.pool import Notice
from charterer.domain.profile import Amdahl, SpeedCurve
from charterer.policy import plan
from tests.worlds import World


def settle(world: World) -> None:
    """Carry out plans until all jobs run that can, and let five minutes pass."""
    for _ in range(2):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    world.passes(300.0)


def is_taken_back(world: World, rental: str) -> None:
    """The cloud says so of the rental's instance."""
    taken = world.rentals[RentalId(rental)]
    assert taken.instance is not None
    world.notices[taken.pool] = (Notice(taken.instance, world.now),)


def test_a_displaced_job_is_paid_by_what_it_would_still_have_cost_where_it_was() -> None:
    world = World()
    world.budget(amount="300")
    world.pool("a100", price="16", max_nodes=1)
    world.pool("h100", gpus=4, price="60", max_nodes=1)
    world.job("train", gpus=1, hours_left=50.0)
    settle(world)
    world.job("other", gpus=1, hours_left=50.0)
    is_taken_back(world, "a100-1")
    assert world.jobs[JobId("train")].allocation is not None
    assert any(isinstance(command, Rent) for command in plan(world.snapshot()).commands)


def test_what_makes_it_leave_is_told_where_a_limit_makes_it_narrower_too() -> None:
    world = World()
    world.budget(amount="60000", max_hourly="40")
    world.pool("a100", price="16")
    world.job("train", gpus=(8, 16, 64), resize=ResizePolicy.NEVER)
    settle(world)
    is_taken_back(world, "a100-1")
    given = {command.job: command for command in plan(world.snapshot()).commands if isinstance(command, Allocate)}
    command = given[JobId("train")]
    assert command.allocation is not None
    assert command.allocation.option.gpus == 8
    assert command.reason.code is ReasonCode.INTERRUPTION
    assert command.reason.message.startswith("the cloud takes back i-a100-1 of a100-1; 8 GPUs on a100")


def test_a_job_that_may_not_move_takes_no_worse_gpus_for_life_because_they_are_ready() -> None:
    """It waits two minutes for a new node of its pool; one that may move begins at once, and moves later."""
    for resize, pool in ((ResizePolicy.NEVER, "h100"), (ResizePolicy.RESTART, "t4")):
        world = World()
        budget = world.budget()
        world.budgets[budget.id] = replace(budget, fixed_rate=Rate(20.0 / 3600.0))
        world.pool("h100", gpus=4, price="12")
        world.pool("t4", gpus=4, price="6")
        curves = (SpeedCurve("t4", Amdahl(0.9, 0.1)),)
        world.profile("sft", Amdahl(0.9, 1.0), gpu_type="h100", work_hours=4.0, others=curves)
        world.job("train", gpus=4, profile="sft", resize=resize)
        settle(world)
        world.rental("t4")
        is_taken_back(world, "h100-1")
        option = plan(world.snapshot()).jobs[JobId("train")].option
        assert option is not None
        assert option.pool == pool


def wide_job(world: World, hours_left: float) -> None:
    """A job on the 16 GPUs of four h100 nodes, of which the first is taken back; there is no room for it on a100."""
    world.pool("a100", price="16", max_nodes=2)
    world.pool("h100", gpus=4, price="40")
    world.profile("sft", Amdahl(0.97, 1.0), work_hours=20, others=(SpeedCurve("h100", Amdahl(0.98, 2.0)),))
    world.job("train", gpus=16, profile="sft", hours_left=hours_left)
    world.job("other", gpus=1)
    world.rental()
    world.runs_on("other", "a100-1", gpus=1)
    nodes = [world.rental("h100").id for _ in range(4)]
    world.runs_on("train", *nodes, gpus=16)
    world.passes(300.0)
    is_taken_back(world, "h100-1")


def test_a_displaced_job_waits_for_no_room_while_only_its_own_pods_are_leaving() -> None:
    world = World()
    budget = world.budget()
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(0.0))
    wide_job(world, hours_left=100.0)
    for _ in range(2):
        decided = plan(world.snapshot())
        assert decided.jobs[JobId("train")].reason.code is ReasonCode.WAITING_FOR_NODE
        assert not any(isinstance(command, Release) for command in decided.commands)
        world.carry_out(decided)


def test_no_node_is_rented_for_it_that_the_next_plan_finds_too_dear() -> None:
    world = World()
    world.budget(amount="500")
    wide_job(world, hours_left=50.0)
    first = plan(world.snapshot())
    world.carry_out(first)
    rented = {command.rental for command in first.commands if isinstance(command, Rent)}
    then = plan(world.snapshot()).commands
    assert not rented & {command.rental for command in then if isinstance(command, Release)}
