"""What an option and a move are worth to a job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.ids import PoolId, Rate
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.policy.options.menu import Menu
from charterer.policy.options.option_value import JobPosition, OptionValues, in_place
from charterer.policy.solve.phase_dp import InPlaceResize, OptionTable


def option(gpus: int, speed: float, price: str = "3600", pool: str = "a") -> Option:
    each = Price(Price.parse(price).micros_per_hour * gpus)
    return Option(PoolId(pool), gpus, speed, each, 150.0, each.cost(150))


def menu(*stages: tuple[Option, ...], until: tuple[float, ...] = (1.0,), restart: float = 30.0) -> Menu:
    return Menu(stages, until, (), True, False, OptionTable.of(stages, restart), Rate(0.0))


def test_a_move_is_charged_its_restart_in_seconds_and_dollars() -> None:
    here, to = option(1, 1.0), option(2, 1.5)
    move = OptionValues(menu((here, to)), 3.0).move(here, to, JobPosition(900.0), rented=False)
    assert move.saved_seconds == pytest.approx(900 - 600 - 30)
    assert move.cost.dollars == pytest.approx(2 * 600 + 2 * 30 - 900)
    assert move.gain == pytest.approx(3.0 * 270 - 360)


def test_nodes_that_must_be_rented_boot_while_the_job_runs_on_and_cost_only_what_it_is_wider() -> None:
    here, to, other = option(1, 1.0), option(2, 1.5), option(2, 1.5, pool="b")
    values = OptionValues(menu((here, to, other)), 3.0)
    for target, wider in ((to, 1), (other, 2)):
        ready, rented = (values.move(here, target, JobPosition(900.0), rented=rented) for rented in (False, True))
        assert rented.saved_seconds == ready.saved_seconds
        assert (rented.cost - ready.cost).dollars == pytest.approx(wider * 120)


def test_a_resize_in_place_is_charged_what_it_takes_and_anything_else_a_restart() -> None:
    one, two, four = option(4, 1.0), option(8, 1.8), option(16, 3.0)
    other = option(8, 1.8, pool="b")
    stage = (one, two, four, other)
    elastic = InPlaceResize(2.0, {PoolId("a"): 4, PoolId("b"): 4})
    values = OptionValues(
        Menu((stage,), (1.0,), (), True, False, OptionTable.of((stage,), 30.0, elastic), Rate(0.0)), 3.0
    )
    left = JobPosition(9000.0)
    for here, to, seconds in (
        (two, four, 2.0),
        (four, two, 2.0),
        (one, two, 30.0),
        (two, one, 30.0),
        (two, other, 30.0),
    ):
        move = values.move(here, to, left, rented=False)
        assert move.saved_seconds == pytest.approx(9000 / here.speed - 9000 / to.speed - seconds)
        joining = max(to.gpus - here.gpus, 0) * 28.0 if seconds == 2.0 else 0.0
        assert move.cost.dollars == pytest.approx(
            to.gpus * (9000 / to.speed + seconds) - here.gpus * 9000 / here.speed + joining, abs=1e-5
        )


def test_a_trainer_that_forms_its_groups_itself_is_resized_in_place_from_one_node_on() -> None:
    one, two = option(4, 1.0), option(8, 1.8)
    own = InPlaceResize(2.0, {PoolId("a"): 4}, fewest=1)
    values = OptionValues(
        Menu(((one, two),), (1.0,), (), True, False, OptionTable.of(((one, two),), 30.0, own), Rate(0.0)), 3.0
    )
    for here, to in ((one, two), (two, one)):
        move = values.move(here, to, JobPosition(9000.0), rented=False)
        assert move.saved_seconds == pytest.approx(9000 / here.speed - 9000 / to.speed - 2.0)


SPEEDS = st.lists(
    st.tuples(st.integers(1, 64), st.floats(0.1, 50.0)), min_size=1, max_size=8, unique_by=lambda one: one[0]
)


@given(SPEEDS, st.floats(0.0, 50.0), st.floats(1.0, 1e6), st.floats(0.0, 150.0), st.sampled_from((None, 0.0, 10.0)))
def test_the_quick_search_finds_exactly_the_moves_that_gain(
    found: list[tuple[int, float]], worth: float, work: float, restart: float, resize: float | None
) -> None:
    options = tuple(option(gpus, speed) for gpus, speed in found)
    in_place = None if resize is None else InPlaceResize(min(resize, restart), {PoolId("a"): 4})
    ways = OptionTable.of((options,), restart, in_place)
    here, values = options[0], OptionValues(Menu((options,), (1.0,), (), True, False, ways, Rate(0.0)), worth)
    paying = values.paying(here, JobPosition(work))
    expected = [values.move(here, to, JobPosition(work), rented=False) for to in options[1:]]
    sure = {move.to for move in expected if move.gain > 1e-6 * work}
    assert sure <= {move.to for move in paying} <= {move.to for move in expected if move.gain > 0}
    assert [move.gain for move in paying] == sorted((move.gain for move in paying), reverse=True)


def test_only_a_change_in_the_number_of_equal_pods_is_made_in_place() -> None:
    assert in_place(option(16, 1.0), 2, option(32, 1.0), 4, 2)
    assert not in_place(option(16, 1.0), 2, option(32, 1.0), 4, 0)
    assert not in_place(option(8, 1.0), 1, option(16, 1.0), 2, 2)
    assert in_place(option(8, 1.0), 1, option(16, 1.0), 2, 1)
    assert not in_place(option(4, 1.0), 1, option(8, 1.0), 1, 1)
    assert not in_place(option(16, 1.0), 2, option(32, 1.0, pool="b"), 4, 2)
    assert not in_place(option(16, 1.0), 2, option(16, 1.0), 4, 2)


@pytest.mark.parametrize("phases", [1, 2])
def test_where_nodes_are_free_the_fastest_option_is_best(phases: int) -> None:
    stages = [tuple(option(gpus, speed, "0") for gpus, speed in ((1, 1.0), (4, 3.0), (8, 2.0)))] * phases
    free = menu(*stages, until=(0.5, 1.0)[2 - phases :])
    best, path = OptionValues(free, 0.0).newcomer(36_000.0)
    assert best.option.gpus == 4
    assert [stop.gpus for stop in path] == [4] * phases
    assert [[stop.gpus for stop in corner] for corner in free.hull(36_000.0).paths] == [[4] * phases]
