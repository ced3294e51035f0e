"""The planner rents for a job of which nothing is measured, and one GPU type has no data sheet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import PoolId
from charterer.domain.plan import Rent
from charterer.policy.planner import plan
from tests.worlds import World

T4, A100, NEW = "Tesla-T4", "NVIDIA-A100-SXM4-80GB", "NVIDIA-R300"


def world_of(*pools: tuple[str, str]) -> World:
    """Pools ``p0``, ``p1``, … of nodes with four GPUs of these types at these prices."""
    world = World()
    world.budget(amount="20000")
    for number, (gpu_type, price) in enumerate(pools):
        world.pool(f"p{number}", gpus=4, price=price, gpu_type=gpu_type)
    return world


def rented(world: World) -> list[str]:
    return [command.pool for command in plan(world.snapshot()).commands if isinstance(command, Rent)]


@pytest.mark.parametrize("price", ["0.1", "1", "3.5", "12.80", "80", "800"])
def test_a_job_gets_what_it_would_get_without_the_unknown_type_if_that_does_no_more_for_a_dollar(price: str) -> None:
    world = world_of((T4, "3.5"), (A100, "12.80"), (NEW, price))
    world.job("unknown", gpus=4)
    assert rented(world) == ["p1"]


def test_it_is_tried_where_its_pace_lies_between_those_of_the_others_and_time_is_worth_that_much() -> None:
    """T4s are the cheapest and A100s the fastest. What lies between them is worth most at a rate between the two."""
    world = world_of((T4, "0.6"), (A100, "12.80"), (NEW, "4"))
    world.budget(amount="20000", ceiling="4")
    world.job("unknown", gpus=4)
    assert rented(world) == ["p2"]


def test_it_is_tried_where_the_known_types_are_full() -> None:
    world = world_of((T4, "3.5"), (A100, "12.80"), (NEW, "12"))
    for name in ("p0", "p1"):
        world.pools[PoolId(name)] = replace(world.pools[PoolId(name)], max_nodes=0)
    world.job("unknown", gpus=4)
    assert rented(world) == ["p2"]


def test_if_no_type_is_known_the_cheapest_is_begun_with() -> None:
    world = world_of((NEW, "10"), ("Gaudi3", "30"))
    world.job("unknown", gpus=4)
    assert rented(world) == ["p0"]
