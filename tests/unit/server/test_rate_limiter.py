"""One pod may not call without end, and remembering that costs bounded memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from charterer.server.listener import RateLimiter
from tests.unit.server.support import Clock


def test_a_burst_is_let_through_and_the_call_after_it_must_wait() -> None:
    clock = Clock()
    pace = RateLimiter(rate=2.0, burst=3, clock=clock)
    assert [pace.wait_seconds("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_waiting_as_long_as_told_is_enough() -> None:
    clock = Clock()
    pace = RateLimiter(rate=2.0, burst=1, clock=clock)
    pace.wait_seconds("a")
    clock.now += pace.wait_seconds("a")
    assert pace.wait_seconds("a") == 0.0


def test_one_pod_does_not_slow_another() -> None:
    pace = RateLimiter(rate=1.0, burst=1, clock=Clock())
    assert [pace.wait_seconds(key) for key in ("a", "b")] == [0.0, 0.0]


def test_the_longest_unused_pod_is_forgotten_first() -> None:
    pace = RateLimiter(rate=1.0, burst=1, size=2, clock=Clock())
    for key in ("a", "b", "c"):
        pace.wait_seconds(key)
    assert pace.wait_seconds("c") > 0
    assert pace.wait_seconds("a") == 0.0


def test_silence_saves_up_no_more_than_one_burst() -> None:
    clock = Clock()
    pace = RateLimiter(rate=2.0, burst=2, clock=clock)
    pace.wait_seconds("a")
    clock.now += 3600
    assert [pace.wait_seconds("a") for _ in range(3)] == [0.0, 0.0, 0.5]


@given(st.lists(st.floats(0, 5), max_size=100))
def test_no_more_calls_than_burst_and_rate_allow_are_admitted(pauses: list[float]) -> None:
    clock = Clock()
    begun = clock.now
    pace = RateLimiter(rate=2.0, burst=5, clock=clock)
    admitted = 0
    for pause in pauses:
        clock.now += pause
        admitted += pace.wait_seconds("a") == 0.0
    assert admitted <= 5 + 2.0 * (clock.now - begun) + 1e-6
