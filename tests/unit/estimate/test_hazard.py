"""The rate at which a pool's nodes are taken back, from the nodes that it had."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from charterer.domain.pool import NOTHING_COUNTED, CapacityType, EndedNode, NodeLifetimes
from charterer.domain.time import Instant, after
from charterer.estimate.hazard import HALF_LIFE_SECONDS, hazard, mean_rate, with_ended, without_rentals
from tests.lifetimes import GCP, lifetimes, missing

NOW = Instant(1_700_000_000_000_000)
SPOT, ON_DEMAND = CapacityType.SPOT, CapacityType.ON_DEMAND


def counted(*nodes: tuple[float, bool], others: int = 0, apart: float = 3600.0) -> NodeLifetimes:
    """The numbers after nodes of those hours ended, one after the other; True: the cloud took it."""
    lifetimes = NOTHING_COUNTED
    for number, (hours, taken) in enumerate(nodes):
        ended = EndedNode(f"uid-{number}", hours, after(NOW, number * apart), taken, others)
        lifetimes = with_ended(lifetimes, ended)
    return lifetimes


def test_before_a_node_was_seen_a_spot_pool_has_the_rate_of_other_pools_and_an_on_demand_pool_none() -> None:
    spot, on_demand = (hazard(NOTHING_COUNTED, (), NOW, kind) for kind in (SPOT, ON_DEMAND))
    assert spot.rates == pytest.approx((1.14 / 8.9,) * 4)
    assert not spot.measured
    assert spot.low < spot.overall < spot.high
    assert on_demand.never


def test_deaths_count_in_the_band_of_their_age_and_hours_in_every_band_that_the_node_lived_through() -> None:
    lifetimes = counted((0.25, True), (3.0, True), (30.0, False))
    assert lifetimes.deaths == pytest.approx((1.0, 0.0, 1.0, 0.0), rel=0.01)
    assert lifetimes.hours == pytest.approx((1.25, 3.0, 3.0, 26.0), rel=0.01)


def test_a_node_that_was_given_back_or_still_runs_shows_that_nodes_live() -> None:
    before = hazard(NOTHING_COUNTED, (), NOW, SPOT).overall
    released = hazard(counted((50.0, False)), (), NOW, SPOT).overall
    running = hazard(NOTHING_COUNTED, (50.0,), NOW, SPOT).overall
    assert released == pytest.approx(running) == pytest.approx(1.14 / 58.9)
    assert released < before


def test_on_demand_nodes_that_die_are_noticed_at_the_second_death() -> None:
    once, twice = (hazard(counted(*[(5.0, True)] * times), (), NOW, ON_DEMAND) for times in (1, 2))
    assert 0.0 < once.overall < 0.006
    assert twice.overall > 1.9 * once.overall


def test_nodes_that_die_within_five_minutes_of_each_other_died_together() -> None:
    alone = hazard(counted(*[(1.0, True)] * 30, others=3), (), NOW, SPOT)
    lifetimes = NOTHING_COUNTED
    for event in range(10):
        for number in range(4):
            at = after(NOW, event * 3600.0 + number * 60.0)
            lifetimes = with_ended(lifetimes, EndedNode(f"uid-{event}-{number}", 1.0, at, True, 3 - number))
    together = hazard(lifetimes, (), NOW, SPOT)
    assert alone.joint < 0.15
    assert together.joint > 0.85
    assert together.high / together.low > 1.5 * alone.high / alone.low


def test_nodes_that_died_together_tell_of_the_rate_what_one_node_does() -> None:
    """Four nodes that die after an hour are one event in an hour, as a single one is: not four in four hours."""
    one, four = (
        hazard(counted(*[(1.0, True)] * nodes, others=nodes - 1, apart=0.0), (), NOW, SPOT) for nodes in (1, 4)
    )
    assert four.overall == pytest.approx(one.overall)
    assert (four.low, four.high) == pytest.approx((one.low, one.high))
    apart = hazard(counted(*[(1.0, True)] * 4), (), NOW, SPOT)
    assert apart.overall > 1.5 * four.overall


def test_a_rental_counts_once_and_is_forgotten_when_its_object_is_gone() -> None:
    lifetimes = counted((1.0, True))
    assert with_ended(lifetimes, EndedNode("uid-0", 1.0, NOW, True, 0)) is lifetimes
    assert without_rentals(lifetimes, ()).counted == ()
    assert without_rentals(lifetimes, ()).deaths == lifetimes.deaths


def test_what_was_seen_a_month_ago_counts_half() -> None:
    lifetimes = counted((8.0, True), (8.0, True))
    now, later = (hazard(lifetimes, (), at, SPOT) for at in (lifetimes.at or NOW, after(NOW, 3600 + HALF_LIFE_SECONDS)))
    assert later.deaths == pytest.approx(now.deaths / 2)
    assert later.node_hours == pytest.approx(now.node_hours / 2)


def test_a_clock_that_goes_back_changes_no_number() -> None:
    lifetimes = counted((8.0, True))
    earlier = hazard(replace(lifetimes, at=after(NOW, 1e6)), (), NOW, SPOT)
    assert earlier.deaths == pytest.approx(1.0)


def test_the_mean_rate_over_a_jobs_length_falls_as_nodes_that_die_young_are_gone() -> None:
    rates = (0.7, 0.25, 0.09, 0.03)
    means = [mean_rate(rates, hours) for hours in (0.0, 0.5, 1.0, 4.0, 24.0)]
    assert means[:2] == pytest.approx([0.7, 0.7])
    assert means == sorted(means, reverse=True)
    assert mean_rate(rates, 24.0) == mean_rate(rates, 1000.0)


@pytest.mark.skipif(bool(missing(GCP)), reason=missing(GCP))
def test_the_rates_of_measured_lifetimes_are_found_from_a_fifth_of_the_machines() -> None:
    machines = lifetimes(GCP)
    found, truth = (
        hazard(counted(*some, apart=400.0), (), NOW, SPOT) for some in (Random(1).sample(machines, 300), machines)
    )
    for rate, true in zip(found.rates, truth.rates, strict=True):
        assert rate == pytest.approx(true, rel=0.3)
    assert truth.rates[0] > 5 * truth.rates[3]
    assert found.low < truth.overall < found.high
