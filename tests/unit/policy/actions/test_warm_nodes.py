"""Which idle nodes are kept for jobs to come, and for how long."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.ids import Rate
from charterer.domain.plan import Release
from charterer.domain.profile import PowerLaw
from charterer.policy.actions.release_idle import ExpectedArrivals, _warm_groups
from charterer.policy.planner import plan
from tests.worlds import World

PRICE, START = 4.0, 120.0


def test_a_node_is_kept_where_a_job_is_likelier_to_come_than_its_price_is_of_what_it_saves() -> None:
    """1 − exp(−Λ·T) against p / (p + θ)."""
    even = -log(1 - PRICE / (PRICE + 12.0)) / START
    assert _warm_groups([ExpectedArrivals(even * 0.99, 1, 12.0)], PRICE, START) == []
    (kept,) = _warm_groups([ExpectedArrivals(even * 1.01, 1, 12.0)], PRICE, START)
    assert kept.nodes == 1
    assert kept.seconds == pytest.approx(1 / even)


def test_jobs_that_need_several_nodes_are_kept_all_of_them_or_none() -> None:
    often = ExpectedArrivals(1 / 30, 4, 40.0)
    assert [block.nodes for block in _warm_groups([often], PRICE, START)] == [4]
    assert _warm_groups([ExpectedArrivals(1 / 300, 4, 12.0)], PRICE, START) == []


def test_more_nodes_are_kept_as_long_as_the_next_one_pays() -> None:
    mixed = [ExpectedArrivals(1 / 60, 1, 40.0), ExpectedArrivals(1 / 60, 2, 40.0), ExpectedArrivals(1 / 6000, 9, 40.0)]
    one, two = _warm_groups(mixed, PRICE, START)
    assert (one.nodes, two.nodes) == (1, 1)
    assert one.seconds > two.seconds


@pytest.mark.parametrize(
    ("stream", "price", "start"),
    [
        (ExpectedArrivals(1.0, 1, 10.0), PRICE, 0.0),
        (ExpectedArrivals(0.0, 1, 10.0), PRICE, START),
        (ExpectedArrivals(1.0, 1, 0.0), PRICE, START),
        (ExpectedArrivals(1.0, 1, 10.0), 0.0, START),
    ],
)
def test_nothing_is_kept_where_nodes_start_at_once_or_nobody_comes_or_a_second_is_worth_nothing(
    stream: ExpectedArrivals, price: float, start: float
) -> None:
    assert _warm_groups([stream], price, start) == []


STREAMS = st.lists(
    st.builds(ExpectedArrivals, st.floats(1e-7, 0.1), st.integers(1, 12), st.floats(0.0, 500.0)), min_size=1, max_size=6
)


@given(STREAMS, st.floats(0.01, 50.0), st.floats(1.0, 3000.0))
def test_what_is_kept_saves_more_than_it_costs_and_no_more_is_kept_than_a_job_needs(
    found: list[ExpectedArrivals], price: float, start: float
) -> None:
    kept = _warm_groups(found, price, start)
    assert sum(block.nodes for block in kept) <= max(expected.nodes for expected in found)
    assert [block.seconds for block in kept] == sorted((block.seconds for block in kept), reverse=True)
    arrivals = sum(expected.arrivals for expected in found)
    comes = 1 - exp(-arrivals * start)
    nodes = sum(block.nodes for block in kept)
    saves = sum(
        expected.arrivals
        / arrivals
        * (price * min(expected.nodes, nodes) + (expected.worth if expected.nodes <= nodes else 0.0))
        for expected in found
    )
    assert comes * saves >= price * nodes * (1 - 1e-9)


@pytest.mark.parametrize(("used", "released"), [(8, []), (7, ["a100-2"])])
def test_no_node_is_kept_for_jobs_that_fit_into_free_gpus_of_another(used: int, released: list[str]) -> None:
    world = World()
    budget = world.budget()
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(100.0 / 3600.0))
    world.pool(gpus=8, price="16")
    world.profile("narrow", PowerLaw(0.9, 1.0), work_hours=1.0, arrivals_per_hour=60.0)
    for _ in range(2):
        world.rental()
    for number in range(used):
        world.job(f"j{number}", gpus=1, profile="narrow")
        world.runs_on(f"j{number}", "a100-1", gpus=1)
    commands = plan(world.snapshot()).commands
    assert [command.rental for command in commands if isinstance(command, Release)] == released
