"""Training without a clock: work is done at the run's speed, and only what was saved survives."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.training import Training

TEN_MINUTES = Training(work=600.0, checkpoint_every=100.0)

seconds = st.floats(min_value=0.0, max_value=5_000.0)
speeds = st.floats(min_value=0.1, max_value=30.0)


def test_no_work_is_done_while_nothing_runs() -> None:
    assert TEN_MINUTES.advance(1_000.0).done == 0.0


def test_no_work_is_done_during_the_restart() -> None:
    assert TEN_MINUTES.begin(1, 50.0, speed=2.0, restart_seconds=30.0).advance(80.0).done == 0.0


def test_work_is_done_at_the_speed_of_the_run() -> None:
    training = TEN_MINUTES.begin(1, 50.0, speed=2.0, restart_seconds=30.0).advance(130.0)
    assert training.done == pytest.approx(100.0)
    assert training.fraction == pytest.approx(1 / 6)


def test_a_run_finishes_when_it_said_it_would() -> None:
    training = TEN_MINUTES.begin(1, 50.0, speed=3.0, restart_seconds=30.0)
    assert training.finishes_at == pytest.approx(280.0)
    assert training.advance(training.finishes_at).finished
    assert not training.advance(training.finishes_at - 0.01).finished


def test_nothing_finishes_while_nothing_runs() -> None:
    assert TEN_MINUTES.finishes_at == math.inf


def test_two_runs_at_a_time_are_refused() -> None:
    with pytest.raises(ValueError, match="run 2 begins while run 1 is training"):
        TEN_MINUTES.begin(1, 0.0, 1.0, 0.0).begin(2, 1.0, 1.0, 0.0)


@given(begun=seconds, ran=seconds, speed=speeds)
def test_a_graceful_stop_keeps_all_work(begun: float, ran: float, speed: float) -> None:
    training = TEN_MINUTES.begin(1, begun, speed, 0.0)
    assert training.stop(begun + ran).saved == training.advance(begun + ran).done


@given(begun=seconds, ran=seconds, speed=speeds)
def test_a_crash_loses_less_than_one_checkpoint_interval(begun: float, ran: float, speed: float) -> None:
    training = TEN_MINUTES.begin(1, begun, speed, 10.0)
    done, crashed = training.advance(begun + ran).done, training.crash(begun + ran)
    assert crashed.done == crashed.saved
    assert done - 100.0 * speed <= crashed.done + 1e-6
    assert crashed.done <= done


@given(ran=seconds, speed=speeds, looks=st.lists(seconds, max_size=20))
def test_how_often_one_looks_changes_nothing(ran: float, speed: float, looks: list[float]) -> None:
    once = often = TEN_MINUTES.begin(1, 0.0, speed, 30.0)
    for at in sorted(look for look in looks if look <= ran):
        often = often.advance(at)
    assert often.advance(ran).done == once.advance(ran).done
    assert often.crash(ran).saved == once.crash(ran).saved


@given(passes=st.lists(st.tuples(seconds, speeds, st.booleans()), max_size=12))
def test_saved_work_never_shrinks_and_never_exceeds_what_is_done(passes: list[tuple[float, float, bool]]) -> None:
    training, at = TEN_MINUTES, 0.0
    for run, (ran, speed, graceful) in enumerate(passes, 1):
        before = training.saved
        training = training.begin(run, at, speed, 5.0)
        at += ran
        training = training.stop(at) if graceful else training.crash(at)
        assert before <= training.saved <= training.done <= training.work
