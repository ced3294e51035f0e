"""Speeds, menus and widths."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from charterer.domain.ids import ClassId
from charterer.domain.job import SpotPolicy, Widths
from charterer.domain.option import MOST_PODS
from charterer.domain.pool import CapacityType, Hazard
from charterer.domain.profile import Amdahl, Phase, PowerLaw, Profile, SpeedCurve, ThroughputTable
from charterer.policy.options.market import MenuKey, market, pool_offer
from charterer.policy.options.menu import Menu, build_menu
from charterer.policy.options.sources import offered_widths
from charterer.policy.options.speeds import speed, throughput
from tests.worlds import World

TABLE = ThroughputTable(((8, 400.0), (16, 700.0), (32, 1000.0)))


def profile(*curves: SpeedCurve) -> Profile:
    return Profile(ClassId("team", "x"), 1, (Phase(1.0, curves),), None, None, 45.0)


@pytest.mark.parametrize(("gpus", "value"), [(8, 400.0), (12, 550.0), (16, 700.0), (24, 850.0), (32, 1000.0)])
def test_a_table_is_read_linearly_between_its_points(gpus: int, value: float) -> None:
    assert throughput(TABLE, gpus) == pytest.approx(value)


@pytest.mark.parametrize("gpus", [1, 4, 33, 64])
def test_a_table_says_nothing_beyond_its_points(gpus: int) -> None:
    assert throughput(TABLE, gpus) is None


def test_amdahl_approaches_its_serial_part() -> None:
    assert throughput(Amdahl(0.9, 3.0), 1) == pytest.approx(3.0)
    assert throughput(Amdahl(0.9, 3.0), 10**9) == pytest.approx(30.0)


def test_a_power_law_is_a_power() -> None:
    assert throughput(PowerLaw(0.5, 3.0), 16) == pytest.approx(12.0)


def test_speed_is_one_at_the_first_curves_smallest_width_and_comparable_across_gpu_types() -> None:
    known = profile(SpeedCurve("a100", TABLE), SpeedCurve("h100", ThroughputTable(((8, 800.0),))))
    assert speed(known, 0, "a100", 8) == 1.0
    assert speed(known, 0, "h100", 8) == 2.0
    assert speed(known, 0, "t4", 8) is None
    assert speed(profile(), 0, "a100", 8) is None


@pytest.mark.parametrize(
    ("node", "widths", "nodes", "offered"),
    [
        (8, Widths(1, 4, 40), 99, [1, 2, 4, 8, 16, 24, 32, 40]),
        (8, Widths(2, 3, 8), 99, [2, 3, 4, 8]),
        (8, Widths(1, 12, 32), 2, [1, 2, 4, 8, 16]),
        (4, Widths(8, 8, 8), 99, [8]),
        (8, Widths(12, 12, 12), 99, []),
        (1, Widths(1, 2, 3), 99, [1, 2, 3]),
        (6, Widths(1, 6, 12), 99, [1, 2, 4, 6, 12]),
    ],
)
def test_widths_are_powers_of_two_below_a_node_and_whole_nodes_above(
    node: int, widths: Widths, nodes: int, offered: list[int]
) -> None:
    assert offered_widths("V100", node, widths, nodes) == offered


def test_a_menu_stays_small_however_wide_a_job_may_be() -> None:
    offered = offered_widths("V100", 8, Widths(1, 1, 100_000), 10_000)
    assert len(offered) < 500
    assert offered[-1] <= 8 * MOST_PODS
    assert {8 * 192, 8 * 256, 8 * 384, 8 * 512, 8 * 3072} <= set(offered)
    assert [wide for wide in offered if wide >= 8][:128] == [8 * nodes for nodes in range(1, 129)]
    assert all(more <= 1.02 * fewer for fewer, more in pairwise(offered) if fewer >= 8 * 128)


def test_the_widths_that_a_wide_job_names_are_offered() -> None:
    assert offered_widths("V100", 8, Widths(8 * 1001, 8 * 1002, 8 * 1003), 10_000) == [8 * 1001, 8 * 1002, 8 * 1003]


def menu(world: World, known: Profile | None, widths: Widths, spot: SpotPolicy = SpotPolicy.NEVER) -> Menu:
    key = MenuKey(None if known is None else known.id, widths.min, widths.preferred, widths.max, spot=spot)
    return build_menu(key, known, market(map(pool_offer, world.pools.values())))


def test_an_option_costs_its_share_of_the_node_also_while_it_starts() -> None:
    world = World()
    world.pool("a100", gpus=8, price="16", start_seconds=120.0)
    (option,) = menu(world, profile(SpeedCurve("a100", Amdahl(1.0, 1.0))), Widths(4, 4, 4)).options
    assert option.price.decimal() == "8.00"
    assert option.entry_seconds == 165.0
    assert option.entry_cost == option.price.cost(165)


def test_a_class_without_a_curve_is_offered_its_preferred_width_alone() -> None:
    world = World()
    world.pool("a100", gpus=8)
    offered = menu(world, None, Widths(1, 8, 32))
    assert [(option.gpus, option.speed) for option in offered.options] == [(8, 1.0)]
    assert [(option.gpus, option.speed) for option in offered.narrower] == [(1, 0.125), (2, 0.25), (4, 0.5)]


def test_a_preferred_width_that_no_node_count_makes_gives_the_widest_below_it() -> None:
    world = World()
    world.pool("a100", gpus=4)
    offered = menu(world, None, Widths(2, 6, 8))
    assert [option.gpus for option in offered.options] == [4]
    assert [option.gpus for option in offered.narrower] == [2]
    assert menu(world, None, Widths(6, 6, 6)).options == ()


def test_gpu_types_without_a_curve_are_not_mixed_with_those_that_have_one() -> None:
    world = World()
    world.pool("a100")
    world.pool("t4", price="1")
    offered = menu(world, profile(SpeedCurve("a100", Amdahl(0.9, 1.0))), Widths(8, 8, 8))
    assert [option.pool for option in offered.options] == ["a100"]


def spot_menu(hazard: Hazard | None, capacity: CapacityType = CapacityType.SPOT) -> Menu:
    world = World()
    made = world.pool("a100", gpus=8, capacity=capacity)
    key = MenuKey(ClassId("team", "x"), 8, 8, 32, (), SpotPolicy.ALLOWED)
    return build_menu(key, profile(SpeedCurve("a100", TABLE)), market([pool_offer(replace(made, hazard=hazard))]))


def hazard_of(rate: float) -> Hazard:
    return Hazard((rate,) * 4, 0.5, 0.0, rate, rate / 2, rate * 2, 5.0, 50.0)


def test_an_option_is_as_much_slower_as_interruptions_cost_and_no_dearer() -> None:
    calm, wild = spot_menu(None).options, spot_menu(hazard_of(0.3)).options
    for before, option in zip(calm, wild, strict=True):
        assert option.interruptions is not None
        assert option.speed == before.speed * option.interruptions.kept < before.speed
        assert option.price == before.price
    kept = [option.interruptions.kept for option in wild if option.interruptions is not None]
    assert kept == sorted(kept, reverse=True), "wide jobs meet more interruptions"


def test_where_no_node_is_expected_to_die_options_have_the_numbers_of_their_curves() -> None:
    assert spot_menu(hazard_of(0.0)).options == spot_menu(None).options
    assert all(option.interruptions is None for option in spot_menu(None).options)


def test_a_rate_that_hardly_changes_changes_no_menu() -> None:
    pool = World().pool("a100")
    offers = [pool_offer(replace(pool, hazard=hazard_of(rate))) for rate in (0.1, 0.1001)]
    assert offers[0] == offers[1]
