"""The operator's clock counts only while others agree with it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from charterer.controller.surveys import TOLERATED_SECONDS, Reading, TrustedClock
from charterer.domain.time import Instant, seconds_between
from tests.factory import at

DAYS = 12 * 86_400.0


def shown(own: float, *others: float) -> float:
    """Seconds after T0 that the clock gives when clocks show these seconds after T0."""
    clock = TrustedClock(lambda: at(own), lambda: 0.0, lambda: [Reading(at(other), 0.0) for other in others])
    return seconds_between(at(0), clock.now())


def test_without_other_clocks_the_own_one_counts() -> None:
    assert shown(DAYS) == DAYS


def test_a_small_difference_is_left_alone() -> None:
    assert shown(20.0, 0.0, 1.0) == 20.0


def test_one_clock_that_is_far_off_changes_nothing_whoever_it_belongs_to() -> None:
    for off in (-DAYS, DAYS):
        assert shown(off, 0.0, 1.0) in (0.0, 1.0)
        assert shown(0.0, off, 1.0) == 0.0
        assert shown(0.0, 1.0, off) == 0.0


def test_of_two_that_differ_the_earlier_counts_so_that_no_month_begins_too_early() -> None:
    assert shown(DAYS, 0.0) == 0.0
    assert shown(0.0, DAYS) == 0.0


def test_between_answers_the_monotonic_clock_carries_the_others_on() -> None:
    clock = TrustedClock(lambda: at(DAYS), lambda: 500.0, lambda: [Reading(at(0.0), 100.0), Reading(at(390.0), 490.0)])
    assert clock.now() == at(400.0)


@given(own=st.floats(-1e8, 1e8), first=st.floats(-5.0, 5.0), second=st.floats(-5.0, 5.0))
def test_while_two_others_are_right_it_is_never_far_off(own: float, first: float, second: float) -> None:
    assert abs(shown(own, first, second)) <= TOLERATED_SECONDS + 5.0


def test_the_time_of_the_clock_is_an_instant() -> None:
    assert isinstance(TrustedClock(lambda: Instant(7), lambda: 0.0, list).now(), int)
