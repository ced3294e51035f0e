"""GPU types of which nothing is measured and no data sheet is known are guessed from their price."""

from __future__ import annotations

import json
from math import sqrt

import pytest

from charterer.domain.pool import CapacityType
from charterer.gpu_types import RelativeSpeed, data_sheet, relative_speeds, slice_type
from charterer.policy.options.market import pool_offer
from charterer.policy.options.speeds import assumed_speeds
from charterer.providers.gcp.prices import TABLE
from tests.worlds import World

T4, A100, NEW = "Tesla-T4", "NVIDIA-A100-SXM4-80GB", "NVIDIA-R300"


def assumed(world: World) -> dict[str, RelativeSpeed]:
    return dict(
        assumed_speeds(
            [(pool_offer(pool), pool.marginal) for pool in world.pools.values() if pool.marginal is not None]
        )
    )


def world_of(*pools: tuple[str, str]) -> World:
    world = World()
    for number, (gpu_type, price) in enumerate(pools):
        world.pool(f"p{number}", gpus=4, price=price, gpu_type=gpu_type)
    return world


def test_one_unknown_type_does_not_change_how_the_others_are_compared() -> None:
    with_new = assumed(world_of((T4, "3.5"), (A100, "12.80"), (NEW, "80")))
    assert {each: with_new[each] for each in (T4, A100)} == relative_speeds((T4, A100))


def test_an_unknown_type_does_as_much_for_a_dollar_as_the_known_ones_in_the_geometric_mean() -> None:
    speeds = assumed(world_of((T4, "2"), (A100, "20"), (NEW, "5")))
    for_a_dollar = sqrt(speeds[T4].estimate / 2 * speeds[A100].estimate / 20)
    assert speeds[NEW].estimate == pytest.approx(5 * for_a_dollar)


def test_it_is_at_most_as_fast_as_the_fastest_known_type_and_has_the_widest_interval() -> None:
    speeds = assumed(world_of((T4, "3.5"), (A100, "12.80"), (NEW, "800")))
    assert speeds[NEW] == RelativeSpeed(1.0, speeds[T4].low, 1.0)
    assert assumed(world_of((T4, "3.5"), (NEW, "0.1")))[NEW].low == pytest.approx(0.1 / 3.5)


def test_prices_of_one_market_are_compared() -> None:
    """A spot discount is no sign of a slow GPU."""
    world = world_of((A100, "20"))
    world.pool("spot", gpus=4, price="6", gpu_type=A100, capacity=CapacityType.SPOT)
    world.pool("new-spot", gpus=4, price="3", gpu_type=NEW, capacity=CapacityType.SPOT)
    assert assumed(world)[NEW].estimate == pytest.approx(0.5)


def test_nodes_that_are_paid_for_anyway_count_at_what_is_paid_for_them() -> None:
    world = world_of((A100, "20"))
    world.pool("new", gpus=4, price="10", gpu_type=NEW, committed_hours=1000.0)
    assert assumed(world)[NEW].estimate == pytest.approx(0.5)


def test_a_type_that_costs_nothing_is_taken_for_as_fast_as_the_fastest() -> None:
    assert assumed(world_of((A100, "20"), (NEW, "0")))[NEW].estimate == 1.0


def test_slices_of_an_unknown_gpu_relate_to_it_as_those_of_a_known_one() -> None:
    world = world_of((A100, "20"), (NEW, "10"))
    world.pool("shared", gpus=4, price="10", gpu_type=NEW, cut="mps-2")
    speeds = assumed(world)
    assert speeds[slice_type(NEW, "mps-2")].estimate == pytest.approx(speeds[NEW].estimate * 0.5**0.5)


def test_slices_of_known_gpus_make_no_unknown_type_faster() -> None:
    world = world_of((A100, "20"), (NEW, "10"))
    before = assumed(world)[NEW].estimate
    world.pool("slices", gpus=4, price="20", gpu_type=A100, cut="1g.10gb")
    assert assumed(world)[NEW].estimate == pytest.approx(before)


def test_if_no_type_is_known_all_are_equally_fast() -> None:
    assert assumed(world_of((NEW, "10"), ("Gaudi3", "30"))) == dict.fromkeys(
        (NEW, "Gaudi3"), RelativeSpeed(1.0, 0.0, 1.0)
    )


def test_on_the_price_list_that_ships_with_charterer_a_dollar_buys_nearly_the_same_of_every_type() -> None:
    hourly = json.loads(TABLE.read_text(encoding="utf-8"))["onDemand"]["us-central1"]
    machines = {
        "g2-standard-96": "L4",
        "g4-standard-384": "RTX PRO 6000",
        "a2-highgpu-8g": "A100",
        "a2-ultragpu-8g": "A100",
        "a3-highgpu-8g": "H100",
    }
    prices = [float(hourly[machine]) for machine in machines]
    sheets = [sheet for model in machines.values() if (sheet := data_sheet(model)) is not None]
    speeds = [sqrt(sheet.teraflops * sheet.bandwidth) for sheet in sheets]
    for_a_dollar = [speed / price for speed, price in zip(speeds, prices, strict=True)]
    assert max(prices) / min(prices) > 11.0
    assert max(for_a_dollar) / min(for_a_dollar) < 1.4
