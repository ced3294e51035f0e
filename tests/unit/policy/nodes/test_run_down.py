"""What nodes cost until they can be given back."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.policy.nodes.run_down import NodeOffer, StandingNode, WaitingJob, run_down

OFFER = NodeOffer(size=8, price=2.0, start=100.0, most=10)
MONTH = 1e6


def test_a_node_is_paid_for_as_a_whole_until_the_last_of_its_jobs_has_left() -> None:
    node = StandingNode(2.0, jobs=[(1, 500.0), (2, 3000.0)])
    assert run_down([node], (), OFFER, MONTH).dollars == 6000.0


def test_nothing_is_counted_beyond_the_period_not_even_of_a_job_without_an_end() -> None:
    assert run_down([StandingNode(2.0, jobs=[(1, inf)])], (), OFFER, 1000.0).dollars == 2000.0


def test_a_node_without_jobs_costs_what_is_left_of_its_billing_minimum() -> None:
    assert run_down([StandingNode(2.0, least=60.0), StandingNode(2.0)], (), OFFER, MONTH).dollars == 120.0


def test_a_job_that_waits_goes_beside_others_and_costs_only_what_it_makes_the_node_stand_longer() -> None:
    node = StandingNode(2.0, jobs=[(4, 1000.0)])
    assert run_down([node], [WaitingJob(4, 1, 800.0)], OFFER, MONTH).dollars == 2000.0
    assert run_down([node], [WaitingJob(4, 1, 1500.0)], OFFER, MONTH).dollars == 3000.0


def test_jobs_that_wait_share_a_new_node_which_is_paid_for_from_its_launch() -> None:
    assert run_down((), [WaitingJob(4, 1, 900.0), WaitingJob(4, 1, 400.0)], OFFER, MONTH).dollars == 2000.0
    assert run_down((), [WaitingJob(5, 1, 900.0), WaitingJob(4, 1, 400.0)], OFFER, MONTH).dollars == 3000.0


def test_a_job_of_two_nodes_begins_when_both_are_ready() -> None:
    assert run_down([StandingNode(2.0)], [WaitingJob(8, 2, 900.0)], OFFER, MONTH).dollars == 4000.0


@pytest.mark.parametrize(("gpus", "dollars"), [(8, 1800.0), (5, 1800.0), (4, 900.0)])
def test_a_job_without_room_follows_the_others_beside_as_many_as_a_node_takes(gpus: int, dollars: float) -> None:
    full = NodeOffer(size=8, price=2.0, start=100.0, most=0)
    node = StandingNode(2.0, jobs=[(8, 500.0)])
    assert run_down([node], [WaitingJob(gpus, 1, 900.0)], full, MONTH).dollars == 1000.0 + dollars


JOBS = st.lists(st.builds(WaitingJob, st.integers(1, 8), st.just(1), st.floats(1.0, 1e5)), max_size=8)


@given(JOBS, st.floats(1.0, 1e5), st.floats(0.0, 1e5))
def test_more_time_never_costs_less_and_no_job_costs_less_than_its_gpus(
    jobs: list[WaitingJob], seconds: float, more: float
) -> None:
    dollars = run_down((), jobs, OFFER, seconds).dollars
    assert dollars <= run_down((), jobs, OFFER, seconds + more).dollars
    held = sum(job.gpus / OFFER.size * min(job.seconds, max(seconds - OFFER.start, 0.0)) for job in jobs)
    assert dollars >= OFFER.price * held * (1.0 - 1e-9)
