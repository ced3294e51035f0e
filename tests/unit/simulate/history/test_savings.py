"""What is saved: read off the lower envelope, with intervals that hold as often as they say."""

from __future__ import annotations

from math import sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.tools.simulator.history.savings import LEAST_JOBS, LowerEnvelope, SavingsReplay, next_rates, savings
from tests.lanes import repeats


def replayed(rate: float | None, seconds: float, dollars: float, jobs: int = LEAST_JOBS) -> SavingsReplay:
    return SavingsReplay(rate, [seconds] * jobs, [dollars / jobs] * jobs)


ASKED = replayed(None, 200.0, 100.0)


def test_at_the_same_money_and_at_the_same_time_the_envelope_is_read_log_log() -> None:
    found = savings(ASKED, [replayed(1, 400, 25), replayed(2, 50, 400), replayed(3, 500, 300)], Random(0).random)
    assert found is not None
    assert found.hours is not None
    assert found.dollars is not None
    assert list(found.at_money or ()) == pytest.approx([100.0, sqrt(400 * 50)])
    assert found.hours.value == pytest.approx((200 - sqrt(400 * 50)) * LEAST_JOBS / 3600)
    assert list(found.at_time or ()) == pytest.approx([25 * 4 ** (2 / 3), 200.0])
    assert found.dollars.low == pytest.approx(found.dollars.value)


def test_what_is_better_in_both_saves_both_and_leaves_money_unspent() -> None:
    found = savings(ASKED, [replayed(1, 150, 80)], Random(0).random)
    assert found is not None
    assert (found.at_money, found.at_time) == ((80.0, 150.0), (80.0, 150.0))


def test_what_cannot_be_had_is_no_number() -> None:
    found = savings(ASKED, [replayed(1, 150, 120)], Random(0).random)
    assert found is not None
    assert found.hours is None
    assert found.dollars is not None
    assert found.dollars.value == pytest.approx(-20.0)


def test_too_few_jobs_say_nothing() -> None:
    few = LEAST_JOBS - 1
    assert savings(replayed(None, 9, 9, few), [replayed(1, 1, 1, few)], Random(0).random) is None


@given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(1, 1e6)), min_size=1), st.floats(1, 1e6))
def test_no_point_lies_below_the_envelope(points: list[tuple[float, float]], money: float) -> None:
    envelope = LowerEnvelope.of(points)
    for dollars, seconds in points:
        reached = envelope.at_dollars(dollars)
        assert reached is not None
        assert reached[1] <= seconds * (1 + 1e-9)
    at = envelope.at_dollars(money)
    assert (at is None) == (money < min(dollars for dollars, _ in points))
    assert at is None or at[0] <= money * (1 + 1e-9)


def test_rates_are_tried_where_the_history_lies_between_two() -> None:
    found = [replayed(1, 400, 25), replayed(4, 100, 50), replayed(16, 50, 400)]
    assert next_rates(ASKED, found) == (2.0, 8.0)


@pytest.mark.parametrize("jobs", [LEAST_JOBS, *repeats(128)])
def test_intervals_hold_as_often_as_they_say(jobs: int) -> None:
    """Jobs of exponential sizes, of whose time Charterer takes half in the mean, for nearly the same money."""
    random, held, trials = Random(7), 0, 300
    for _ in range(trials):
        sizes = [random.expovariate(1 / 3600) for _ in range(jobs)]
        faster = [size * random.uniform(0.3, 0.7) for size in sizes]
        asked = SavingsReplay(None, sizes, [size / 100 for size in sizes])
        found = savings(asked, [SavingsReplay(1, faster, [size / 101 for size in sizes])], random.random, 200)
        assert found is not None
        assert found.hours is not None
        assert found.hours.low is not None
        assert found.hours.high is not None
        held += found.hours.low <= 0.5 * jobs <= found.hours.high
    assert 0.86 <= held / trials <= 0.94
