"""A job with a target runs on spot nodes while it has time to lose, and on demand when it has not."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from charterer.domain.ids import PoolId, Rate
from charterer.domain.job import ResizePolicy, SpotPolicy, Widths
from charterer.domain.option import Option
from charterer.domain.plan import Allocate, Rent
from charterer.domain.pool import CapacityType, Hazard
from charterer.domain.profile import Amdahl, PowerLaw, ThroughputTable
from charterer.domain.time import after, seconds_between
from charterer.policy.budgets.deadline import deadline_need
from charterer.policy.jobs.job_facts import menu_key
from charterer.policy.options.menu import Menu, Menus
from charterer.policy.options.option_value import JobPosition, OptionValues
from charterer.policy.planner import plan
from tests import factory
from tests.worlds import World

HAZARD = Hazard((0.1,) * 4, 0.5, 0.0, 0.1, 0.05, 0.2, 5.0, 50.0)
WORK = 10 * 3600.0
SPOT = PoolId("spot")


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


def chosen(world: World, *, moves: bool = True) -> tuple[Option, Menu]:
    """What the job would have now, or go to."""
    (job,) = world.jobs.values()
    menu = Menus(world.profiles, world.pools).menu(menu_key(job, frozenset(world.profiles)))
    need = deadline_need(job, menu, JobPosition(WORK), world.now, inf, {}, moves=moves)
    assert need is not None
    values = OptionValues(menu, need.worth)
    if job.allocation is None:
        return values.entering(JobPosition(WORK))[0].option, menu
    paying = values.paying(job.allocation.option, JobPosition(WORK))
    return paying[0].to if paying else job.allocation.option, menu


# One interruption loses 0.41 h between two checkpoints, and each start takes 150 s (0.04 h). So a job that goes on for
# ten hours on demand afterwards needs 10.57 h where it is to enter spot nodes, and 10.53 h where it stays there.


@pytest.mark.parametrize(("hours", "pool"), [(20.0, "spot"), (10.6, "spot"), (10.55, "demand")])
def test_a_waiting_job_starts_on_spot_if_it_can_be_interrupted_once_and_still_end_on_demand_in_time(
    hours: float, pool: str
) -> None:
    assert chosen(world_of(hours))[0].pool == pool


@pytest.mark.parametrize(("hours", "pool"), [(12.0, "spot"), (10.55, "spot"), (10.5, "demand")])
def test_a_job_on_spot_nodes_leaves_them_when_one_more_interruption_would_make_it_late(hours: float, pool: str) -> None:
    world = on_spot(hours)
    assert chosen(world)[0].pool == pool


@pytest.mark.parametrize(("hours", "pool"), [(11.6, "spot"), (11.1, "demand")])
def test_a_job_that_cannot_leave_spot_nodes_at_any_time_needs_time_for_all_interruptions_to_be_expected(
    hours: float, pool: str
) -> None:
    assert chosen(world_of(hours), moves=False)[0].pool == pool
    never = world_of(hours)
    never.jobs = {name: replace(job, resize=ResizePolicy.NEVER) for name, job in never.jobs.items()}
    assert chosen(never)[0].pool == pool


def on_spot(target_hours: float) -> World:
    """The job runs on a spot node."""
    world = world_of(target_hours)
    option = next(option for option in chosen(world)[1].options if option.pool == SPOT)
    world.rental("spot")
    world.runs_on("train", "spot-1", gpus=8, speed=option.speed)
    return world


def without_hurry(world: World) -> World:
    """Time is worth nothing to its budget."""
    world.budgets = {name: replace(budget, fixed_rate=Rate(0.0)) for name, budget in world.budgets.items()}
    return world


@pytest.mark.parametrize(("hours", "rented"), [(20.0, []), (10.8, ["demand"])])
def test_a_job_with_time_to_lose_waits_for_spot_nodes_and_a_late_one_starts_on_demand(
    hours: float, rented: list[str]
) -> None:
    world = without_hurry(world_of(hours))
    world.pools[SPOT] = replace(world.pools[SPOT], cooled=factory.cooled(after(world.now, 60.0)))
    commands = plan(world.snapshot()).commands
    assert [command.pool for command in commands if isinstance(command, Rent)] == rented


def test_the_plan_is_made_again_when_the_last_spare_second_of_a_job_on_spot_nodes_is_over() -> None:
    world = without_hurry(on_spot(10.6))
    again = plan(world.snapshot()).again_at
    assert again is not None
    spare = seconds_between(world.now, again)
    assert 0.0 < spare < 0.1 * 3600.0
    assert Allocate not in {type(command) for command in plan(world.snapshot()).commands}
    world.passes(spare + 1.0)
    assert [command.pool for command in plan(world.snapshot()).commands if isinstance(command, Rent)] == ["demand"]


def test_a_job_that_waits_on_demand_for_spot_nodes_moves_to_no_other_on_demand_nodes_meanwhile() -> None:
    world = without_hurry(world_of(12.0))
    world.profile("sft", ThroughputTable(((8, 1.0), (16, 1.7), (32, 2.9))), work_hours=10)
    (job,) = world.jobs.values()
    world.jobs = {job.id: replace(job, widths=Widths(8, 8, 32))}
    world.pools[SPOT] = replace(world.pools[SPOT], cooled=factory.cooled(after(world.now, 60.0)))
    for _ in range(3):
        world.rental("demand")
    world.runs_on("train", "demand-1", "demand-2", gpus=16, speed=1.7)
    assert not [command for command in plan(world.snapshot()).commands if isinstance(command, Allocate)]


@pytest.mark.parametrize("minutes", [25.0, 43.0, 60.0])
def test_a_job_on_demand_goes_back_to_spot_only_if_what_that_saves_pays_for_the_way_there_and_back(
    minutes: float,
) -> None:
    """It would need 64 minutes on the one spot GPU, and have to go back to eight others soon: again and again."""
    world = World()
    world.budget(amount="1000")
    world.profile("crowd", PowerLaw(0.8, 1.0), work_hours=100, arrivals_per_hour=1000.0, budget="research")
    world.pool("demand", gpus=4, price="5.90", gpu_type="a100")
    world.pool("spot", gpus=1, price="0.87", gpu_type="a100", capacity=CapacityType.SPOT, max_nodes=1)
    world.profile("sft", PowerLaw(0.8, 1.0), work_hours=2)
    for pool in ("demand", "demand", "spot"):
        world.rental(pool)
    world.job(
        "train", gpus=(1, 1, 8), profile="sft", spot=SpotPolicy.ALLOWED, hours_left=1.05, target_hours=minutes / 60
    )
    world.runs_on("train", "demand-1", "demand-2", gpus=8, speed=8**0.8)
    moves = [command.allocation for command in plan(world.snapshot()).commands if isinstance(command, Allocate)]
    assert all(allocation is not None and allocation.option.pool == "demand" for allocation in moves)


@pytest.mark.parametrize("minutes", [60.0, 66.0])
def test_a_job_whose_best_spot_node_is_taken_goes_to_none_on_which_it_would_be_late(minutes: float) -> None:
    """Four GPUs end in 53 minutes; two would in 77, and cost less at what a second of spot's four is worth."""
    world = World()
    world.budget(amount="1000")
    world.profile("crowd", PowerLaw(0.8, 1.0), work_hours=100, arrivals_per_hour=1000.0, budget="research")
    world.pool("demand", gpus=4, price="12", gpu_type="a100", start_seconds=0.0)
    world.pool("spot", gpus=4, price="6.44", gpu_type="a100", capacity=CapacityType.SPOT, max_nodes=1)
    world.profile("sft", Amdahl(0.8, 1.0), work_hours=2, restart_seconds=300.0)
    for pool in ("demand", "demand", "spot"):
        world.rental(pool)
    world.job("other", gpus=4, profile="sft", spot=SpotPolicy.ALLOWED)
    world.runs_on("other", "spot-1", gpus=4)
    world.job(
        "train", gpus=(2, 4, 8), profile="sft", spot=SpotPolicy.ALLOWED, hours_left=2.0, target_hours=minutes / 60
    )
    world.runs_on("train", "demand-1", "demand-2", gpus=8)
    (move,) = (command.allocation for command in plan(world.snapshot()).commands if isinstance(command, Allocate))
    assert move is not None
    assert (move.option.pool, move.option.gpus) == ("demand", 4)
