"""What a pool's refusals and starts have been becomes an expected wait by hour of the week."""

from __future__ import annotations

import pytest

from charterer.domain.pool import NO_LAUNCHES, LaunchHistory, NodeStart
from charterer.domain.time import Instant, after, parse_instant
from charterer.estimate.waits import expected_wait, queue_seconds, slot_of, with_refusal, with_start

MONDAY = parse_instant("2026-06-01T00:00:00Z")
HOUR, DAY = 3600.0, 86_400.0


def at(day: int, hour: float) -> Instant:
    """So many days after a Monday, at that hour."""
    return after(MONDAY, day * DAY + hour * HOUR)


def started(launches: LaunchHistory, when: Instant, boot: float = 120.0, queued: float = 5.0) -> LaunchHistory:
    return with_start(launches, NodeStart(after(when, -queued), when, after(when, boot)))


def office_hours(days: int) -> LaunchHistory:
    """A pool that was asked each hour and had no node from 9 to 17 on working days."""
    launches = NO_LAUNCHES
    for day in range(days):
        for hour in range(24):
            out = day % 7 < 5 and 9 <= hour < 17
            launches = with_refusal(launches, at(day, hour)) if out else started(launches, at(day, hour))
    return launches


class TestCounting:
    def test_many_refusals_or_nodes_of_one_hour_count_once(self) -> None:
        launches = NO_LAUNCHES
        for minute in range(10):
            launches = with_refusal(launches, at(0, 9 + minute / 60))
        assert (sum(launches.refused), sum(launches.given)) == (1.0, 0.0)
        for minute in range(10):
            launches = started(launches, at(0, 10 + minute / 60))
        assert (sum(launches.refused), sum(launches.given), round(launches.starts, 2)) == pytest.approx(
            (1, 1, 10), 1e-2
        )

    def test_an_hour_with_a_node_is_one_in_which_a_node_could_be_had(self) -> None:
        later = started(with_refusal(NO_LAUNCHES, at(0, 9.1)), at(0, 9.5))
        assert (sum(later.refused), sum(later.given)) == pytest.approx((0.0, 1.0), abs=1e-3)
        before = with_refusal(started(NO_LAUNCHES, at(0, 9.1)), at(0, 9.5))
        assert (sum(before.refused), sum(before.given)) == (0.0, 1.0)

    def test_evidence_counts_half_after_four_weeks(self) -> None:
        launches = with_refusal(with_refusal(NO_LAUNCHES, at(0, 9)), at(28, 9))
        assert launches.refused[slot_of(at(0, 9))] == pytest.approx(1.5)

    def test_slots_are_hours_of_the_week_from_monday_on(self) -> None:
        assert [slot_of(at(day, hour)) for day, hour in ((0, 0), (0, 9.99), (4, 16), (6, 23), (7, 0))] == [
            0,
            9,
            112,
            167,
            0,
        ]


class TestStarts:
    def test_a_start_is_as_declared_until_it_was_seen_and_then_as_seen(self) -> None:
        launches = NO_LAUNCHES
        assert launches.start_seconds(120.0) == 120.0
        for number in range(40):
            launches = started(launches, at(number, 3), boot=600.0)
        assert launches.start_seconds(120.0) == pytest.approx(600.0, rel=0.15)
        assert started(NO_LAUNCHES, at(0, 3), boot=600.0).start_seconds(120.0) < 250.0, "one start may be bad luck"

    def test_a_pool_that_starts_at_once_by_declaration_does_so(self) -> None:
        assert started(NO_LAUNCHES, at(0, 3)).start_seconds(0.0) == 0.0

    def test_a_cloud_that_lets_orders_wait_before_it_launches_costs_time_and_no_money(self) -> None:
        launches = NO_LAUNCHES
        for number in range(20):
            launches = started(launches, at(number, 3), queued=1200.0)
        assert queue_seconds(launches) == pytest.approx(1100.0, abs=120.0)
        wait = expected_wait(launches, at(21, 12))
        assert (wait.seconds, wait.measured) == (queue_seconds(launches), False)


class TestExpected:
    def test_nothing_is_expected_of_a_pool_that_was_never_refused(self) -> None:
        assert expected_wait(NO_LAUNCHES, at(0, 9)).seconds == 0.0
        assert expected_wait(started(NO_LAUNCHES, at(0, 8)), at(0, 9)).seconds == 0.0

    def test_a_pool_that_is_out_of_stock_in_office_hours_is_waited_for_until_they_end(self) -> None:
        launches = office_hours(21)
        week = 21
        for hour, least, most in ((9.0, 5.5, 8.5), (13.0, 3.0, 4.5), (16.75, 0.2, 0.7)):
            wait = expected_wait(launches, at(week, hour))
            assert least * HOUR <= wait.seconds <= most * HOUR, hour
            assert wait.low <= wait.seconds <= wait.high
            assert wait.measured
        assert expected_wait(launches, at(week, 3)).seconds < 300
        assert expected_wait(launches, at(week + 5, 11)).seconds < 600, "a Saturday"

    def test_two_days_are_enough_to_expect_it_of_the_third(self) -> None:
        launches = office_hours(2)
        assert expected_wait(launches, at(2, 9)).seconds > 0.8 * HOUR
        assert expected_wait(launches, at(2, 3)).seconds < 0.2 * HOUR

    def test_a_wait_is_measured_once_the_same_hour_of_three_working_days_was_seen(self) -> None:
        measured = [expected_wait(office_hours(days), at(days, 9)).measured for days in (2, 4)]
        assert measured == [False, True]

    def test_what_hours_have_been_outweighs_how_long_it_has_just_been_refused(self) -> None:
        launches = office_hours(21)
        ending = expected_wait(launches, at(21, 16.75), refused_seconds=7.75 * HOUR)
        assert ending.seconds < HOUR, "it ends at 17 as it always did"
        begun = expected_wait(launches, at(21, 9.1), refused_seconds=60.0)
        assert begun.seconds > 4 * HOUR, "and it has just begun"

    def test_of_a_pool_without_a_past_the_last_row_of_refusals_says_all(self) -> None:
        wait = expected_wait(NO_LAUNCHES, at(0, 9), refused_seconds=600.0)
        assert (wait.seconds, wait.measured) == (600.0, False)
        assert wait.low == pytest.approx(15.6, abs=0.1)
        assert wait.high == pytest.approx(2083.3, abs=0.1)

    def test_a_pool_that_never_delivers_is_not_waited_for_longer_than_a_week(self) -> None:
        launches = NO_LAUNCHES
        for hour in range(24 * 28):
            launches = with_refusal(launches, at(0, hour))
        wait = expected_wait(launches, at(28, 0))
        assert DAY / 4 < wait.seconds <= 7 * DAY
        assert wait.high <= 7 * DAY

    def test_a_pool_is_asked_again_once_what_was_seen_has_faded(self) -> None:
        launches = office_hours(14)
        waits = [expected_wait(launches, at(14 + 7 * week, 9)).seconds for week in (0, 8, 16, 32)]
        assert waits == sorted(waits, reverse=True)
        assert waits[-1] < 600.0
