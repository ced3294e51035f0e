"""A job with a target runs on spot nodes while it has time to lose, and on demand when it has not."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from charterer.domain.ids import PoolId
from charterer.domain.job import SpotPolicy
from charterer.domain.nodes.hazard import Hazard
from charterer.domain.option import Option
from charterer.domain.pool import CapacityType
from charterer.domain.profile import ThroughputTable
from charterer.policy.budgets.deadline import deadline_need
from charterer.policy.jobs.group_key import menu_key
from charterer.policy.options.menu import Menu, Menus
from charterer.policy.options.option_value import JobPosition, OptionValues
from tests.worlds import World

HAZARD = Hazard((0.1,) * 4, 0.5, 0.0, 0.1, 0.05, 0.2, 5.0, 50.0)
WORK = 10 * 3600.0


def world_of(target_hours: float) -> World:
    """Ten hours of work for one node, which costs $10 an hour on demand and $3 on spot."""
    world = World()
    world.budget(amount="100000")
    world.pool("demand", gpus=8, price="10", gpu_type="a100")
    spot = world.pool("spot", gpus=8, price="3", gpu_type="a100", capacity=CapacityType.SPOT)
    world.pools[spot.id] = replace(spot, hazard=HAZARD)
    world.profile("sft", ThroughputTable(((8, 1.0),)), work_hours=10)
    world.job("train", gpus=8, profile="sft", spot=SpotPolicy.ALLOWED, target_hours=target_hours)
    return world


def chosen(world: World) -> tuple[Option, Menu]:
    """What the job would have now, or go to."""
    (job,) = world.jobs.values()
    menu = Menus(world.profiles, world.pools).menu(menu_key(job, frozenset(world.profiles)))
    need = deadline_need(job, menu, JobPosition(WORK), world.now, inf, {})
    assert need is not None
    values = OptionValues(menu, need.worth)
    if job.allocation is None:
        return values.entering(JobPosition(WORK))[0].option, menu
    moves = values.paying(job.allocation.option, JobPosition(WORK))
    return moves[0].to if moves else job.allocation.option, menu


@pytest.mark.parametrize(("hours", "pool"), [(20.0, "spot"), (11.6, "spot"), (11.1, "demand")])
def test_a_waiting_job_starts_on_spot_if_it_has_time_for_interruptions(hours: float, pool: str) -> None:
    assert chosen(world_of(hours))[0].pool == pool


@pytest.mark.parametrize(("hours", "pool"), [(12.0, "spot"), (10.9, "demand")])
def test_a_job_on_spot_nodes_leaves_them_when_its_reserve_is_touched(hours: float, pool: str) -> None:
    world = world_of(hours)
    option = next(option for option in chosen(world)[1].options if option.pool == PoolId("spot"))
    expected = WORK / option.speed / 3600.0
    assert 10.3 < expected < 10.8, "it would end in time, as far as is expected"
    world.rental("spot")
    world.runs_on("train", "spot-1", gpus=8, speed=option.speed)
    assert chosen(world)[0].pool == pool
