"""Laws of the expected wait for a node, whatever a pool's answers were."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.pool import NO_LAUNCHES, LaunchHistory, NodeStart
from charterer.domain.time import Instant, after, parse_instant
from charterer.estimate.waits import LONGEST_SECONDS, expected_wait, with_refusal, with_start

BEGAN = parse_instant("2026-06-01T00:00:00Z")
_HOURS = st.integers(0, 24 * 21)


@st.composite
def pasts(draw: st.DrawFn) -> tuple[LaunchHistory, Instant]:
    """Some hours of three weeks in which a pool was asked, and a time after them."""
    launches = NO_LAUNCHES
    for hour in sorted(draw(st.sets(_HOURS, max_size=30))):
        when = after(BEGAN, 3600.0 * hour)
        refused = draw(st.booleans())
        launches = (
            with_refusal(launches, when) if refused else with_start(launches, NodeStart(when, when, after(when, 100.0)))
        )
    return launches, after(BEGAN, 3600.0 * (24 * 21 + draw(_HOURS)))


@given(pasts(), st.none() | st.floats(1.0, 1e5))
def test_a_wait_lies_within_its_interval_and_a_week(past: tuple[LaunchHistory, Instant], refused: float | None) -> None:
    launches, now = past
    wait = expected_wait(launches, now, refused)
    assert 0.0 <= wait.low <= wait.seconds * (1.0 + 1e-9)
    assert wait.seconds <= wait.high * (1.0 + 1e-9)
    assert wait.seconds <= LONGEST_SECONDS


@given(pasts())
def test_one_more_refusal_of_this_hour_never_shortens_the_wait_and_a_node_never_lengthens_it(
    past: tuple[LaunchHistory, Instant],
) -> None:
    launches, now = past
    before = expected_wait(launches, now).seconds
    assert expected_wait(with_refusal(launches, now), now).seconds >= before - 1e-6
    given_one = with_start(launches, NodeStart(now, now, now))
    assert expected_wait(given_one, now).seconds <= before + 1e-6


@given(pasts())
def test_a_pool_known_to_refuse_now_is_waited_for_at_least_as_long(past: tuple[LaunchHistory, Instant]) -> None:
    launches, now = past
    wait = expected_wait(launches, now)
    assert expected_wait(launches, now, max(wait.seconds, 1.0)).seconds >= wait.seconds * (1.0 - 1e-9)
