"""The world that stories of budgets begin with (one cheap pool, jobs that scale well) and short views of a plan."""

from __future__ import annotations

from typing import Any

from charterer.domain.ids import JobId
from charterer.domain.plan import Allocate, Plan, ReasonCode, Release, Rent
from charterer.domain.profile import PowerLaw
from charterer.policy import plan
from tests.worlds import World

STEEP = PowerLaw(0.9, 1.0)
WIDE = (1, 4, 32)


def simple(**budget: Any) -> World:
    world = World()
    world.budget(**budget)
    world.pool("a100", gpus=8, price="16")
    world.profile("sft", STEEP, work_hours=40)
    return world


def rents(decided: Plan) -> list[str]:
    return [command.rental for command in decided.commands if isinstance(command, Rent)]


def releases(decided: Plan) -> dict[str, ReasonCode]:
    return {command.rental: command.reason.code for command in decided.commands if isinstance(command, Release)}


def placed(decided: Plan) -> dict[str, int]:
    """Width by job, 0 for those that lose their place."""
    commands = [command for command in decided.commands if isinstance(command, Allocate)]
    return {command.job: command.allocation.option.gpus if command.allocation else 0 for command in commands}


def why(decided: Plan, job: str) -> ReasonCode:
    return decided.jobs[JobId(job)].reason.code


def settle(world: World, turns: int = 4) -> Plan:
    """Plan, carry out and let everything start, a few times."""
    for _ in range(turns):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
        world.passes(1.0)
    return plan(world.snapshot())
