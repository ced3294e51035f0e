"""What the plan does with nodes that the cloud takes back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import JobId, RentalId
from charterer.domain.job import SpotPolicy
from charterer.domain.plan import Allocate, Release
from charterer.domain.pool import CapacityType, Hazard, Notice
from charterer.domain.profile import PowerLaw
from charterer.domain.time import after
from charterer.policy import plan
from tests.worlds import World

FALLING = Hazard((0.8, 0.3, 0.1, 0.03), 0.5, 0.0, 0.1, 0.05, 0.2, 5.0, 50.0)


def spot_world(hours: float = 10.0) -> World:
    """A spot pool, a budget with plenty of money, and a class whose jobs take that long on one node."""
    world = World()
    world.budget(amount="60000")
    pool = world.pool("spot", gpus=8, price="3", capacity=CapacityType.SPOT, gpu_type="a100")
    world.pools[pool.id] = replace(pool, hazard=FALLING)
    world.profile("sft", PowerLaw(0.8, 1.0), work_hours=hours)
    return world


def test_a_job_gets_the_oldest_nodes_because_these_are_taken_back_last() -> None:
    world = spot_world()
    for age in (600.0, 20_000.0, 60.0):
        world.rental("spot", age=age)
    world.job("train", gpus=8, profile="sft", spot=SpotPolicy.ALLOWED)
    (allocate,) = [each for each in plan(world.snapshot()).commands if isinstance(each, Allocate)]
    assert allocate.allocation is not None
    assert [place.rental for place in allocate.allocation.placements] == ["spot-2"]


def test_idle_nodes_that_are_not_needed_are_given_back_and_an_old_node_is_not_swapped_for_an_equal_one() -> None:
    world = spot_world()
    for age in (20_000.0, 60.0):
        world.rental("spot", age=age)
    world.job("train", gpus=8, profile="sft", spot=SpotPolicy.ALLOWED)
    world.runs_on("train", "spot-1", gpus=8, speed=0.9)
    other = replace(next(iter(world.pools.values())), hazard=FALLING)
    twin = world.pool("twin", gpus=8, price="3", capacity=CapacityType.SPOT, gpu_type="a100")
    world.pools[twin.id] = replace(twin, hazard=other.hazard)
    commands = plan(world.snapshot()).commands
    assert not [each for each in commands if isinstance(each, Allocate)]
    assert [each.rental for each in commands if isinstance(each, Release)] == ["spot-2"]


def test_on_a_notice_a_job_goes_on_at_once_with_what_is_left() -> None:
    world = spot_world(hours=40.0)
    for _ in range(4):
        world.rental("spot", age=20_000.0)
    world.job("train", gpus=(8, 32, 32), profile="sft", spot=SpotPolicy.ALLOWED)
    world.runs_on("train", "spot-1", "spot-2", "spot-3", "spot-4", gpus=32, speed=20.0)
    leaving = world.rentals[RentalId("spot-4")].instance
    assert leaving is not None
    world.notices[world.rentals[RentalId("spot-4")].pool] = (Notice(leaving, None),)
    for _ in range(3):
        world.carry_out(plan(world.snapshot()))
    allocation = world.jobs[JobId("train")].allocation
    assert allocation is not None
    kept = {place.rental for place in allocation.placements}
    assert RentalId("spot-4") not in kept
    assert len(kept) == 3


@pytest.mark.parametrize("write_seconds", [1.0, 600.0])
@pytest.mark.parametrize(("free", "placed"), [(1, ["spot-2"]), (0, [])])
def test_on_a_notice_a_job_stops_at_once_whether_or_not_a_checkpoint_fits(
    write_seconds: float, free: int, placed: list[str]
) -> None:
    world = spot_world()
    (profile,) = world.profiles.values()
    world.profiles[profile.id] = replace(profile, checkpoint_seconds=write_seconds)
    for _ in range(1 + free):
        world.rental("spot", age=20_000.0)
    world.job("train", gpus=8, profile="sft", spot=SpotPolicy.ALLOWED)
    world.runs_on("train", "spot-1", gpus=8, speed=5.0)
    leaving = world.rentals[RentalId("spot-1")].instance
    assert leaving is not None
    world.notices[world.rentals[RentalId("spot-1")].pool] = (Notice(leaving, after(world.now, 30.0)),)
    (change,) = [each for each in plan(world.snapshot()).commands if isinstance(each, Allocate)]
    given = change.allocation
    assert [place.rental for place in (() if given is None else given.placements)] == placed
    assert given is None or given.run == 2
