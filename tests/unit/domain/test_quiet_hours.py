"""Hours of the week in which it is quiet, by the clock on the wall."""

from __future__ import annotations

import pytest

from charterer.domain.time import QuietHours, Weekday, format_instant, parse_instant, quiet_until

WORK = QuietHours(8 * 60, 18 * 60, frozenset({Weekday.MONDAY, Weekday.TUESDAY}))
NIGHT = QuietHours(22 * 60, 6 * 60, frozenset({Weekday.FRIDAY}))
ALWAYS = QuietHours(0, 24 * 60)


def until(text: str, *hours: QuietHours, zone: str = "Europe/Berlin") -> str | None:
    end = quiet_until(hours, zone, parse_instant(text))
    return None if end is None else format_instant(end)[:16]


@pytest.mark.parametrize(
    ("at", "end"),
    [
        ("2026-06-15T08:00:00+02:00", "2026-06-15T16:00"),  # a Monday
        ("2026-06-15T17:59:59+02:00", "2026-06-15T16:00"),
        ("2026-06-15T18:00:00+02:00", None),
        ("2026-06-15T07:59:59+02:00", None),
        ("2026-06-17T12:00:00+02:00", None),  # a Wednesday
    ],
)
def test_hours_hold_from_their_start_to_their_end_on_their_days(at: str, end: str | None) -> None:
    assert until(at, WORK) == end


def test_a_night_belongs_to_the_day_on_which_it_begins() -> None:
    assert until("2026-06-20T03:00:00+02:00", NIGHT) == "2026-06-20T04:00"  # a Saturday
    assert until("2026-06-19T03:00:00+02:00", NIGHT) is None


def test_hours_that_follow_each_other_are_one() -> None:
    evening = QuietHours(18 * 60, 20 * 60)
    assert until("2026-06-15T09:00:00+02:00", evening, WORK) == "2026-06-15T18:00"


def test_without_hours_it_is_never_quiet_and_always_ends_within_days() -> None:
    assert until("2026-06-15T09:00:00+02:00") is None
    assert until("2026-06-15T09:00:00+02:00", ALWAYS) == "2026-06-22T22:00"


def test_the_clock_on_the_wall_counts_where_clocks_change() -> None:
    night = QuietHours(60, 4 * 60)
    assert until("2026-03-29T00:30:00Z", night) == "2026-03-29T02:00"  # an hour is missing
    assert until("2026-10-25T00:30:00Z", night) == "2026-10-25T03:00"  # an hour comes twice
