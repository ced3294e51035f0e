"""When a running job moves, as short stories."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.ids import JobId
from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.plan import Allocate, ReasonCode
from charterer.policy import plan
from tests.scenarios.policy.stories import WIDE, placed, rents, settle, simple, why
from tests.worlds import World


def running_narrow(resize: ResizePolicy, hours_left: float, amount: str = "11520") -> World:
    world = simple(amount=amount)
    world.rental()
    world.job("train", gpus=WIDE, profile="sft", resize=resize, hours_left=hours_left)
    world.runs_on("train", "a100-1", gpus=2, speed=2**0.9)
    return world


def test_a_job_alone_on_a_node_moves_wider_when_that_pays() -> None:
    world = running_narrow(ResizePolicy.RESTART, 40.0)
    decided = plan(world.snapshot())
    assert why(decided, "train") is ReasonCode.MOVE_PAYS
    world.carry_out(decided)
    settle(world)
    allocation = world.jobs[JobId("train")].allocation
    assert allocation is not None
    assert allocation.option.gpus > 2
    assert allocation.run > 1


def test_a_job_that_is_nearly_done_does_not_pay_a_restart() -> None:
    world = running_narrow(ResizePolicy.RESTART, 0.01)
    assert plan(world.snapshot()).commands == ()


def test_a_never_job_keeps_its_width() -> None:
    world = running_narrow(ResizePolicy.NEVER, 40.0)
    assert plan(world.snapshot()).commands == ()


def test_a_job_runs_on_while_the_nodes_it_moves_to_boot() -> None:
    world = running_narrow(ResizePolicy.RESTART, 40.0, amount="130")
    decided = plan(world.snapshot())
    assert placed(decided) == {}
    assert rents(decided) == ["a100-2"]
    option = decided.jobs[JobId("train")].option
    assert option is not None
    assert option.gpus == 16


def test_a_job_whose_widths_were_edited_must_move() -> None:
    world = running_narrow(ResizePolicy.RESTART, 40.0)
    world.jobs[JobId("train")] = replace(world.jobs[JobId("train")], widths=Widths(4, 4, 4))
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 4}
    assert why(decided, "train") is ReasonCode.WIDTH_NO_LONGER_ALLOWED


def test_an_in_place_job_grows_by_pods_and_keeps_its_run() -> None:
    world = simple(amount="23040")
    for _ in range(4):
        world.rental(age=0.0)
    world.job("train", gpus=WIDE, profile="sft", resize=ResizePolicy.IN_PLACE)
    before = world.runs_on("train", "a100-1", "a100-2", gpus=16, speed=16**0.9)
    assert before.allocation is not None
    decided = plan(world.snapshot())
    command = next(item for item in decided.commands if isinstance(item, Allocate))
    assert command.allocation is not None
    assert command.allocation.run == before.allocation.run
    assert command.allocation.option.gpus == 32
    assert command.allocation.placements[:2] == before.allocation.placements
