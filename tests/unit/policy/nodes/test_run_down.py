"""What nodes cost until they can be given back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.policy.nodes.pool_room import NodeOffer, RunDown, StandingNode, StandingNodes, WaitingJob

OFFER = NodeOffer(size=8, price=2.0, start=100.0, most=10)
MONTH = 1e6


def run_down(nodes: Iterable[StandingNode], waiting: Iterable[WaitingJob], offer: NodeOffer, seconds: float) -> float:
    """Dollars of the nodes with the jobs that wait, each of which adds what it was said to add."""
    found = RunDown(StandingNodes(nodes), offer, seconds)
    for job in waiting:
        expected = found.dollars + found.adds(job)
        found.add(job)
        assert found.dollars == expected
    return found.dollars


def test_a_node_is_paid_for_as_a_whole_until_the_last_of_its_jobs_has_left() -> None:
    node = StandingNode(2.0, jobs=[(1, 500.0), (2, 3000.0)])
    assert run_down([node], (), OFFER, MONTH) == 6000.0


def test_nothing_is_counted_beyond_the_period_not_even_of_a_job_without_an_end() -> None:
    assert run_down([StandingNode(2.0, jobs=[(1, inf)])], (), OFFER, 1000.0) == 2000.0


def test_a_node_without_jobs_costs_what_is_left_of_its_billing_minimum() -> None:
    assert run_down([StandingNode(2.0, least=60.0), StandingNode(2.0)], (), OFFER, MONTH) == 120.0


def test_a_job_that_waits_goes_beside_others_and_costs_only_what_it_makes_the_node_stand_longer() -> None:
    node = StandingNode(2.0, jobs=[(4, 1000.0)])
    assert run_down([node], [WaitingJob(4, 1, 800.0)], OFFER, MONTH) == 2000.0
    assert run_down([node], [WaitingJob(4, 1, 1500.0)], OFFER, MONTH) == 3000.0


def test_jobs_that_wait_share_a_new_node_which_is_paid_for_from_its_launch() -> None:
    assert run_down((), [WaitingJob(4, 1, 900.0), WaitingJob(4, 1, 400.0)], OFFER, MONTH) == 2000.0
    assert run_down((), [WaitingJob(5, 1, 900.0), WaitingJob(4, 1, 400.0)], OFFER, MONTH) == 3000.0


def test_a_job_of_two_nodes_begins_when_both_are_ready() -> None:
    assert run_down([StandingNode(2.0)], [WaitingJob(8, 2, 900.0)], OFFER, MONTH) == 4000.0


def test_a_job_that_runs_until_then_begins_on_each_of_its_nodes_when_that_is_ready() -> None:
    """What the first node costs while it waits for the second is no more of it than the job's own time."""
    both = RunDown(StandingNodes([StandingNode(2.0), StandingNode(2.0, ready=50.0)]), OFFER, MONTH)
    assert both.add(WaitingJob(8, 2, 900.0, runs=True)) == 50.0
    assert both.dollars == 2.0 * (900.0 + 950.0)
    assert both.add(WaitingJob(8, 99, 900.0)) is None


@pytest.mark.parametrize(
    ("gpus", "most", "dollars"),
    [(1, 10, 3000.0), (4, 10, 3000.0), (5, 10, 4000.0), (1, 0, 2225.0)],
)
def test_a_job_that_waits_for_gpus_that_others_leave_begins_where_they_come_free_first(
    gpus: int, most: int, dollars: float
) -> None:
    """For 900 s beside jobs of 600 and 1,000 s, or after the second of these; in a full pool it pays for its GPUs."""
    found = RunDown(
        StandingNodes([StandingNode(2.0, jobs=[(4, 600.0), (4, 1000.0)])]), replace(OFFER, most=most), MONTH
    )
    found.follow(WaitingJob(gpus, 1, 900.0 if gpus < 5 else 1000.0))
    assert found.dollars == dollars


def test_who_waits_for_gpus_that_others_leave_leaves_them_to_nobody_before_its_own_end() -> None:
    found = RunDown(StandingNodes([StandingNode(2.0, jobs=[(8, 600.0)])]), OFFER, MONTH)
    for _ in range(2):
        found.follow(WaitingJob(8, 1, 900.0))
    assert found.dollars == 2.0 * (600.0 + 900.0 + 900.0)


@pytest.mark.parametrize(("gpus", "dollars"), [(8, 1800.0), (5, 1800.0), (4, 900.0)])
def test_a_job_without_room_follows_the_others_beside_as_many_as_a_node_takes(gpus: int, dollars: float) -> None:
    full = NodeOffer(size=8, price=2.0, start=100.0, most=0)
    node = StandingNode(2.0, jobs=[(8, 500.0)])
    assert run_down([node], [WaitingJob(gpus, 1, 900.0)], full, MONTH) == 1000.0 + dollars


JOBS = st.lists(st.builds(WaitingJob, st.integers(1, 8), st.just(1), st.floats(1.0, 1e5)), max_size=8)


@given(JOBS, st.floats(1.0, 1e5), st.floats(0.0, 1e5))
def test_more_time_never_costs_less_and_no_job_costs_less_than_its_gpus(
    jobs: list[WaitingJob], seconds: float, more: float
) -> None:
    dollars = run_down((), jobs, OFFER, seconds)
    assert dollars <= run_down((), jobs, OFFER, seconds + more)
    held = sum(job.gpus / OFFER.size * min(job.seconds, max(seconds - OFFER.start, 0.0)) for job in jobs)
    assert dollars >= OFFER.price * held * (1.0 - 1e-9)


@given(st.lists(st.tuples(st.floats(0.0, 9.0), st.floats(0.0, 1e6) | st.just(inf))), st.floats(0.0, 1e6))
def test_what_nodes_cost_within_any_time_is_the_sum_over_them(nodes: list[tuple[float, float]], seconds: float) -> None:
    standing = StandingNodes(StandingNode(price, jobs=[(1, left)]) for price, left in nodes)
    each = [price * min(left, seconds) for price, left in nodes]
    assert standing.dollars(seconds) == pytest.approx(sum(each), rel=1e-9, abs=1e-9)
