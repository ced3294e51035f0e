"""Pictures of simulations: curves that can be read, and any result can be drawn."""

from __future__ import annotations

import pytest

from charterer.domain.money import Money
from charterer.report.simulation import Simulated, draw, integral, means
from charterer.simulate.policy_registry import PolicyChoice
from charterer.simulate.replay import replay
from tests.unit.simulate.test_replay import FLEET

STEPS = [(10.0, 2.0), (30.0, 6.0), (50.0, 0.0)]


def test_the_mean_over_a_stretch_counts_each_value_for_as_long_as_it_lasts() -> None:
    assert means(STEPS, 20.0) == [(0.0, 1.0), (20.0, pytest.approx(4.0)), (40.0, pytest.approx(3.0)), (60.0, 0.0)]
    assert means([], 20.0) == []


def test_means_lose_nothing() -> None:
    assert sum(value * 7.0 for _, value in means(STEPS, 7.0)) == pytest.approx(integral(STEPS)[-1][1])


@pytest.mark.parametrize("budget", [None, Money(0), Money.parse("60000")])
def test_any_simulations_can_be_drawn_and_the_same_are_the_same_picture(budget: Money | None) -> None:
    found = [
        Simulated(choice, (replay(FLEET, choice),))
        for choice in (PolicyChoice("charterer", 2.0), PolicyChoice("as-asked"))
    ]
    svg = draw(found, "svg", budget)
    assert svg == draw(found, "svg", budget)
    assert (b"spent evenly" in svg or budget is None) is True
