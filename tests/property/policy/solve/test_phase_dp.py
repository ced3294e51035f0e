"""Paths through a job's phases: the best one is the best of all that there are, and the hull has every best one."""

from __future__ import annotations

from itertools import accumulate, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.ids import PoolId
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.policy.solve.hull import path_hull
from charterer.policy.solve.phase_dp import (
    BackwardInduction,
    CostToGo,
    InPlaceResize,
    OptionTable,
    UnitCosts,
    phase_at,
    work_of_phases,
)

RESTARTS = st.floats(0.0, 300.0)
WORTHS = st.floats(0.0, 0.5)


@st.composite
def stages(draw: st.DrawFn) -> tuple[tuple[Option, ...], ...]:
    """Two to four phases of up to four options on up to two pools, with any speeds."""
    start = draw(st.sampled_from([0.0, 120.0]))
    places = draw(
        st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2, 4, 8])), min_size=1, max_size=4, unique=True)
    )
    phases = draw(st.integers(2, 4))
    found = []
    for _ in range(phases):
        stage = []
        for pool, gpus in places:
            price = Price(round(gpus * (1.0 if pool == "a" else 1.7) * 1e6))
            speed = draw(st.floats(0.2, 4.0)) * gpus**0.5
            stage.append(Option(PoolId(pool), gpus, speed, price, start + RESTART, price.cost(round(start + RESTART))))
        found.append(tuple(stage))
    return tuple(found)


RESTART = 30.0
ELASTIC = (
    None,
    InPlaceResize(0.0, {PoolId("a"): 2, PoolId("b"): 2}),
    InPlaceResize(5.0, {PoolId("a"): 1}),
    InPlaceResize(5.0, {PoolId("a"): 2}, fewest=1),
)


def every_path(
    found: tuple[tuple[Option, ...], ...], work: tuple[float, ...], in_place: InPlaceResize | None = None
) -> list[tuple[float, float]]:
    """Dollars and seconds of all paths, by the definition."""
    points = []
    for path in product(range(len(found[0])), repeat=len(found)):
        options = [stage[at] for stage, at in zip(found, path, strict=True)]
        seconds = options[0].entry_seconds + sum(x / option.speed for x, option in zip(work, options, strict=True))
        money = options[0].entry_cost.dollars + sum(
            x / option.speed * option.price.dollars_per_second for x, option in zip(work, options, strict=True)
        )
        for before, then in pairwise(options):
            if (before.pool, before.gpus) != (then.pool, then.gpus):
                wider = then.price.dollars_per_second - (
                    before.price.dollars_per_second if before.pool == then.pool else 0.0
                )
                fleet = None if in_place is None else in_place.resizable_pool(before)
                resized = in_place is not None and fleet is not None and fleet == in_place.resizable_pool(then)
                change = in_place.seconds if in_place is not None and resized else RESTART
                money += then.price.dollars_per_second * change + max(wider, 0.0) * (then.entry_seconds - change)
                seconds += change
        points.append((money, seconds))
    return points


WORK = (4000.0, 900.0, 2500.0, 60.0)


def phases(many: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Work of so many phases, and the part of it at which each ends."""
    work = WORK[:many]
    return work, (*(done / sum(work) for done in list(accumulate(work))[:-1]), 1.0)


@given(stages(), WORTHS, st.sampled_from(ELASTIC))
def test_the_best_path_is_the_best_of_all(
    found: tuple[tuple[Option, ...], ...], worth: float, in_place: InPlaceResize | None
) -> None:
    work, until = phases(len(found))
    course = CostToGo(
        BackwardInduction(UnitCosts(OptionTable.of(found, RESTART, in_place), until, worth), sum(work)), 0.0
    )
    entered = [
        cost + worth * one.entry_seconds + one.entry_cost.dollars
        for cost, one in zip(course.cost, found[0], strict=True)
    ]
    best = min(worth * seconds + money for money, seconds in every_path(found, work, in_place))
    assert min(entered) == pytest.approx(best, rel=1e-9)
    for at, cost in enumerate(course.cost):
        money, seconds = course.point(at)
        assert worth * seconds + money == pytest.approx(cost, rel=1e-9)


@given(stages(), WORTHS)
def test_some_corner_of_the_hull_is_best_at_any_rate(found: tuple[tuple[Option, ...], ...], worth: float) -> None:
    work, until = phases(len(found))
    hull = path_hull(found, OptionTable.of(found, RESTART), until, sum(work))
    best = min(worth * seconds + money for money, seconds in every_path(found, work))
    corners = [worth * seconds + money for money, seconds in zip(hull.money, hull.seconds, strict=True)]
    assert min(corners) == pytest.approx(best, rel=1e-6)
    assert list(hull.slopes) == sorted(hull.slopes)


@given(st.lists(st.floats(0.01, 0.99), max_size=5, unique=True), st.floats(0.0, 0.999), st.floats(1.0, 1e6))
def test_the_work_ahead_is_what_is_not_done(ends: list[float], done: float, total: float) -> None:
    until = [*sorted(ends), 1.0]
    phase, left = phase_at(until, total, done)
    ahead = [left, *work_of_phases(until, total)[phase + 1 :]]
    assert sum(ahead) == pytest.approx(total * (1 - done))
    assert min(ahead) >= 0.0


def test_a_hull_of_very_many_paths_is_bounded_and_keeps_its_ends() -> None:
    def stage(bend: float) -> tuple[Option, ...]:
        return tuple(Option(PoolId("a"), gpus, gpus**bend, Price(gpus * 1_000_000)) for gpus in range(1, 201))

    many = tuple(stage(bend) for bend in (0.5, 0.7, 0.9))
    found = path_hull(many, OptionTable.of(many, 0.0), (0.3, 0.6, 1.0), 36_000.0)
    assert 50 < len(found.paths) <= 128
    assert [option.gpus for option in found.paths[0]] == [1, 1, 1]
    assert [option.gpus for option in found.paths[-1]] == [200, 200, 200]
    assert all(low < high for low, high in pairwise(found.slopes))
