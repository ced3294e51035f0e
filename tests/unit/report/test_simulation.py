"""Pictures of simulations: curves that can be read, and any result can be drawn."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations

import pytest

from charterer.domain.money import Money
from charterer.tools.documents.pictures import MARKERS, drawing, encoded, label_points
from charterer.tools.documents.simulation import Simulated, draw, integral, means
from charterer.tools.simulator.history.history import HistoryPart
from charterer.tools.simulator.policy_registry import PolicyChoice
from charterer.tools.simulator.replay import replay
from tests.unit.simulate.test_replay import FLEET

STEPS = [(10.0, 2.0), (30.0, 6.0), (50.0, 0.0)]


def test_the_mean_over_a_stretch_counts_each_value_for_as_long_as_it_lasts() -> None:
    assert means(STEPS, 20.0) == [(0.0, 1.0), (20.0, pytest.approx(4.0)), (40.0, pytest.approx(3.0)), (60.0, 0.0)]
    assert means([], 20.0) == []


def test_means_lose_nothing() -> None:
    assert sum(value * 7.0 for _, value in means(STEPS, 7.0)) == pytest.approx(integral(STEPS)[-1][1])


@cache
def simulated() -> list[Simulated]:
    return [
        Simulated(choice, (replay(HistoryPart((FLEET,)), choice),))
        for choice in (PolicyChoice("charterer", 2.0), PolicyChoice("as-asked"))
    ]


@pytest.mark.parametrize("budget", [None, Money(0), Money.parse("60000")])
def test_any_simulations_can_be_drawn_and_the_same_are_the_same_picture(budget: Money | None) -> None:
    svg = draw(simulated(), "svg", budget)
    assert svg == draw(simulated(), "svg", budget)
    assert (b"spent evenly" in svg or budget is None) is True


def test_no_two_labels_of_points_lie_on_each_other() -> None:
    with drawing(5.0, 4.0) as figure:
        axes = figure.subplots()
        points = [(1.0 + at / 500, 2.0) for at in range(60)]
        axes.plot(*zip(*points, strict=True))
        label_points(axes, [(f"${at}", point) for at, point in enumerate(points)], "black")
        encoded(figure, "png")
        figure.draw_without_rendering()
        shown = [label.get_window_extent() for label in axes.texts if label.get_visible()]
    assert 2 <= len(shown) < 60
    assert not any(box.overlaps(other) for box, other in combinations(shown, 2))


def test_no_label_lies_on_the_marker_of_another_simulation() -> None:
    with drawing(5.0, 4.0) as figure:
        axes = figure.subplots()
        axes.plot([1.0, 2.0], [1.0, 1.0], marker=MARKERS[0])
        (other,) = axes.plot([1.04], [1.05], marker=MARKERS[1], ms=7)
        axes.set_ylim(0.0, 2.0)
        label_points(axes, [("$8", (1.0, 1.0)), ("$16", (2.0, 1.0))], "black")
        encoded(figure, "png")
        figure.draw_without_rendering()
        labels = [label.get_window_extent() for label in axes.texts if label.get_visible()]
        marker = axes.transData.transform(other.get_xydata())[0]
    assert len(labels) == 2
    assert not any(box.contains(*marker) for box in labels)


def test_rates_that_come_to_the_same_share_a_label() -> None:
    past = replace(FLEET, jobs=FLEET.jobs[:1])
    choices = [PolicyChoice("charterer", rate) for rate in (2000.0, 4000.0)]
    found = [Simulated(choice, (replay(HistoryPart((past,)), choice),)) for choice in choices]
    assert b"$2000 to $4000" in draw(found, "svg")
