"""Lifetimes of nodes: the same for every policy, distributed as measured."""

from __future__ import annotations

from math import exp, inf
from statistics import fmean

import pytest

from charterer.tools.simulator.model.pools_file import Lifetimes, exponential, measured, uniform

DRAWS = range(1, 4001)


def test_a_node_lives_equally_long_under_every_policy_and_unlike_other_nodes_and_seeds() -> None:
    lifetimes = exponential(3600.0, seed=7)
    assert [lifetimes(number) for number in (1, 2, 1)] == [lifetimes(1), lifetimes(2), lifetimes(1)]
    assert len({exponential(3600.0, seed)(number) for seed in range(3) for number in range(3)}) == 9


def test_numbers_are_spread_evenly_over_the_unit_interval() -> None:
    drawn = sorted(uniform(5, number) for number in DRAWS)
    assert max(abs((at + 0.5) / len(drawn) - value) for at, value in enumerate(drawn)) < 1.63 / len(drawn) ** 0.5


def test_exponential_lifetimes_have_the_mean_and_the_survivors_that_they_should_have() -> None:
    drawn = [exponential(3600.0, seed=1)(number) for number in DRAWS]
    assert fmean(drawn) == pytest.approx(3600.0, rel=0.05)
    assert sum(life > 3600.0 for life in drawn) / len(drawn) == pytest.approx(exp(-1.0), abs=0.025)


def test_measured_lifetimes_without_censoring_are_drawn_as_often_as_they_occurred() -> None:
    lifetimes = measured([(100.0, False), (100.0, False), (300.0, False), (400.0, False)], seed=3)
    assert lifetimes.ages == (100.0, 300.0, 400.0)
    assert lifetimes.dead == pytest.approx((0.5, 0.75, 1.0))
    assert {lifetimes(number) for number in DRAWS} == {100.0, 300.0, 400.0}


def test_who_was_last_seen_alive_counts_only_until_then() -> None:
    """By hand: of 4, one dies at 100; one is lost sight of at 200; of the 2 left, one dies at 300, one lives at 400."""
    lifetimes = measured([(100.0, False), (200.0, True), (300.0, False), (400.0, True)], seed=3)
    assert lifetimes.dead == pytest.approx((1 / 4, 1 - 3 / 4 * 1 / 2))
    assert lifetimes.hazard == pytest.approx(2 / 1000)
    drawn = [lifetimes(number) for number in DRAWS]
    survivors = [life - 400.0 for life in drawn if life > 300.0]
    assert len(survivors) / len(drawn) == pytest.approx(3 / 8, abs=0.03)
    assert min(survivors) > 0.0
    assert fmean(survivors) == pytest.approx(500.0, rel=0.1)


def test_nobody_outlives_the_clouds_own_limit_and_nobody_dies_where_nobody_ever_did() -> None:
    assert max(exponential(90_000.0, seed=1, most=86_400.0)(number) for number in DRAWS) == 86_400.0
    assert measured([(3600.0, True)], seed=1)(1) == inf
    assert Lifetimes(seed=1, most=60.0)(1) == 60.0
