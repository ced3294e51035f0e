"""The heartbeat blames the watch for what it owes, and for nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from charterer.cluster.lease import Heartbeat


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_owed_before_the_first_renewal() -> None:
    assert Heartbeat().lag() == 0


def test_a_renewal_not_delivered_counts_from_when_it_was_known() -> None:
    heartbeat = Heartbeat(clock=(clock := Clock()))
    heartbeat.renewed(5)
    clock.now = 3
    heartbeat.renewed(6)
    clock.now = 10
    assert heartbeat.lag() == 10
    heartbeat.delivered(5)
    assert heartbeat.lag() == 7
    heartbeat.delivered(6)
    assert heartbeat.lag() == 0


def test_a_watch_that_skips_to_the_newest_owes_nothing() -> None:
    heartbeat = Heartbeat(clock=(clock := Clock()))
    for version in (5, 6, 7):
        heartbeat.renewed(version)
    heartbeat.delivered(7)
    clock.now = 100
    assert heartbeat.lag() == 0


def test_an_event_that_comes_before_the_renewals_own_answer_settles_it() -> None:
    heartbeat = Heartbeat(clock=(clock := Clock()))
    heartbeat.delivered(5)
    heartbeat.renewed(5)
    clock.now = 100
    assert heartbeat.lag() == 0


def test_an_outage_without_renewals_is_not_the_watchs_fault() -> None:
    heartbeat = Heartbeat(clock=(clock := Clock()))
    heartbeat.renewed(5)
    heartbeat.delivered(5)
    clock.now = 1_000
    assert heartbeat.lag() == 0


def test_hearing_of_the_same_renewal_again_does_not_make_it_younger() -> None:
    heartbeat = Heartbeat(clock=(clock := Clock()))
    heartbeat.renewed(5)
    clock.now = 50
    heartbeat.renewed(5)
    assert heartbeat.lag() == 50


@given(st.integers(1, 5_000))
def test_a_dead_watch_is_noticed_however_many_renewals_it_missed(missed: int) -> None:
    heartbeat = Heartbeat(clock=(clock := Clock()))
    for version in range(missed):
        clock.now += 5
        heartbeat.renewed(version)
    clock.now += 60
    assert heartbeat.lag() >= 60
