"""The effective speed of an option on nodes that are taken back: against an event simulation, and its limits."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.pool import Hazard
from charterer.estimate.hazard import events_per_hour
from charterer.policy.options.market import (
    LONGEST_INTERVAL_SECONDS,
    NodeHazard,
    RunTimes,
    advised_checkpoint_interval,
    checkpoint_interval,
    interruptions,
    shrinking_speed,
    waiting_speed,
)
from tests.property.policy.options.interrupted_job import InterruptedJob

RATES = st.floats(1e-4, 2.0)
TIMES = st.builds(RunTimes, st.floats(1.0, 60.0), st.floats(5.0, 300.0), st.floats(30.0, 1800.0))


def constant(rate: float, joint: float = 0.5) -> NodeHazard:
    return NodeHazard((rate, rate, rate, rate), joint, measured=True)


@pytest.mark.parametrize("joint", [0.0, 0.53])
@pytest.mark.parametrize(
    ("rate", "nodes", "times"),
    [
        (0.1, 1, RunTimes(30.0, 60.0, 120.0)),
        (0.1, 4, RunTimes(30.0, 60.0, 900.0)),
        (0.1, 16, RunTimes(10.0, 60.0, 120.0)),
        (0.3, 4, RunTimes(60.0, 30.0, 120.0)),
        (0.3, 8, RunTimes(30.0, 60.0, 120.0)),
    ],
)
@pytest.mark.parametrize("exponent", [None, 0.8])
def test_the_effective_speed_is_that_of_an_event_simulation(
    rate: float, nodes: int, times: RunTimes, joint: float, exponent: float | None
) -> None:
    narrower = None if exponent is None or nodes == 1 else ((nodes - 1) / nodes) ** exponent
    counted = interruptions(constant(rate, joint), nodes, None, times, narrower)
    if narrower is not None and shrinking_speed(counted.per_hour, times, narrower) < waiting_speed(
        counted.per_hour, times
    ):
        narrower = None  # it is better to wait, and so it is counted
    per_hour = events_per_hour(rate, joint, nodes)
    together = joint / (joint + (1.0 - joint) * nodes)
    job = InterruptedJob(per_hour, together, *times, counted.interval, narrower, Random(1))
    assert counted.kept == pytest.approx(job.speed(hours=8_000 / per_hour), rel=0.04)


@given(RATES, st.integers(1, 32), TIMES, st.floats(0.0, 1.0), st.floats(0.1, 1.0))
def test_a_job_keeps_a_part_of_its_speed_and_less_of_it_where_nodes_die_sooner(
    rate: float, nodes: int, times: RunTimes, joint: float, narrower: float
) -> None:
    less, more = (interruptions(constant(h, joint), nodes, None, times, narrower).kept for h in (rate, rate * 1.5))
    assert 0.0 <= more <= less <= 1.0


@given(TIMES, st.integers(1, 32))
def test_where_nodes_hardly_die_nothing_is_lost(times: RunTimes, nodes: int) -> None:
    assert interruptions(constant(1e-9), nodes, None, times, 0.9).kept == pytest.approx(1.0, abs=1e-3)


@given(RATES, TIMES, st.integers(2, 32))
def test_wider_jobs_lose_more_unless_nodes_die_together(rate: float, times: RunTimes, nodes: int) -> None:
    def kept(joint: float, width: int) -> float:
        return interruptions(constant(rate, joint), width, None, times, None).kept

    assert kept(0.0, nodes) <= kept(0.5, nodes) <= kept(1.0, nodes)
    assert kept(1.0, nodes) == pytest.approx(kept(1.0, 1))
    assert kept(0.0, nodes) <= kept(0.0, nodes - 1)


@pytest.mark.parametrize("per_hour", [0.05, 0.5])
def test_no_other_interval_between_checkpoints_loses_less(per_hour: float) -> None:
    times = RunTimes(30.0, 60.0, 120.0)
    best = checkpoint_interval(times.checkpoint, per_hour)

    def kept(interval: float) -> float:
        return InterruptedJob(per_hour, 1.0, *times, interval, None, Random(2)).speed(hours=500 / per_hour)

    assert kept(best) > max(kept(best * 4), kept(best / 4))


def test_the_interval_told_to_a_trainer_follows_the_nodes_ages() -> None:
    hazard = Hazard((0.8, 0.2, 0.05, 0.02), 0.5, 0.0, 0.1, 0.05, 0.2, 5.0, 50.0)
    fresh, old = (advised_checkpoint_interval(hazard, [hours] * 4, 30.0) for hours in (0.1, 10.0))
    assert fresh == pytest.approx((2 * 30 * 3600 / (0.8 * 2.5)) ** 0.5)
    assert old == pytest.approx((2 * 30 * 3600 / (0.02 * 2.5)) ** 0.5)
    assert advised_checkpoint_interval(hazard, [], 30.0) == LONGEST_INTERVAL_SECONDS


@pytest.mark.parametrize(("write", "factor"), [(10.0, 2.0), (60.0, 1.0)])
def test_a_checkpoint_that_fits_into_the_notice_is_written_less_often(write: float, factor: float) -> None:
    rates = (1.0,) * 4
    silent, warned = (Hazard(rates, 0.0, share, 1.0, 0.5, 2.0, 5.0, 50.0) for share in (0.0, 0.75))
    assert advised_checkpoint_interval(warned, [1.0], write) == pytest.approx(
        factor * advised_checkpoint_interval(silent, [1.0], write)
    )
