"""The periods of budgets: weeks, months, quarters, years, and grants from a day to a day, in any time zone."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from charterer.domain.time import Calendar, Grant, Instant, Period, after, common_word, parse_instant

DAY = 86_400.0
ZONES = ("UTC", "Europe/Berlin", "America/Sao_Paulo", "Pacific/Kiritimati", "Pacific/Apia", "America/St_Johns")


def at(text: str) -> Instant:
    return parse_instant(f"{text}Z")


def grant(first: str, last: str, zone: str = "UTC") -> Calendar:
    return Calendar(zone, Period.GRANT, Grant(date.fromisoformat(first), date.fromisoformat(last)))


@pytest.mark.parametrize(
    ("calendar", "moment", "first", "following"),
    [
        (Calendar("UTC", Period.WEEK), "2027-01-01T12:00:00", "2026-12-28T00:00:00", "2027-01-04T00:00:00"),
        (Calendar("UTC", Period.WEEK), "2027-01-03T23:59:59", "2026-12-28T00:00:00", "2027-01-04T00:00:00"),
        (Calendar("UTC", Period.WEEK), "2027-01-04T00:00:00", "2027-01-04T00:00:00", "2027-01-11T00:00:00"),
        # The clocks are changed on a Sunday: a week of 167 hours, and one of 169.
        (Calendar("Europe/Berlin", Period.WEEK), "2026-03-28T12:00:00", "2026-03-22T23:00:00", "2026-03-29T22:00:00"),
        (Calendar("Europe/Berlin", Period.WEEK), "2026-10-25T12:00:00", "2026-10-18T22:00:00", "2026-10-25T23:00:00"),
        (Calendar("UTC", Period.MONTH), "2028-02-29T23:59:59", "2028-02-01T00:00:00", "2028-03-01T00:00:00"),
        (Calendar("UTC", Period.QUARTER), "2028-02-29T12:00:00", "2028-01-01T00:00:00", "2028-04-01T00:00:00"),
        (Calendar("UTC", Period.QUARTER), "2026-12-31T23:59:59", "2026-10-01T00:00:00", "2027-01-01T00:00:00"),
        (Calendar("Asia/Tokyo", Period.QUARTER), "2026-12-31T16:00:00", "2026-12-31T15:00:00", "2027-03-31T15:00:00"),
        (Calendar("UTC", Period.YEAR), "2028-12-31T23:59:59", "2028-01-01T00:00:00", "2029-01-01T00:00:00"),
        (grant("2026-03-15", "2027-02-28"), "2026-03-14T23:59:59", "2026-01-01T00:00:00", "2026-03-15T00:00:00"),
        (grant("2026-03-15", "2027-02-28"), "2026-03-15T00:00:00", "2026-03-15T00:00:00", "2027-03-01T00:00:00"),
        (grant("2026-03-15", "2027-02-28"), "2027-02-28T23:59:59", "2026-03-15T00:00:00", "2027-03-01T00:00:00"),
        (grant("2026-03-15", "2027-02-28"), "2027-03-01T00:00:00", "2027-03-01T00:00:00", "2028-01-01T00:00:00"),
        (grant("2026-03-15", "2027-02-28"), "2031-03-01T00:00:00", "2031-01-01T00:00:00", "2032-01-01T00:00:00"),
        (grant("2028-02-29", "2028-02-29"), "2028-02-29T12:00:00", "2028-02-29T00:00:00", "2028-03-01T00:00:00"),
        # The clocks are changed on its only day.
        (
            grant("2026-03-29", "2026-03-29", "Europe/Berlin"),
            "2026-03-29T10:00:00",
            "2026-03-28T23:00:00",
            "2026-03-29T22:00:00",
        ),
    ],
)
def test_the_period_of_an_instant(calendar: Calendar, moment: str, first: str, following: str) -> None:
    assert calendar.bounds(at(moment)) == (at(first), at(following))


@st.composite
def calendars(draw: st.DrawFn) -> Calendar:
    period, zone = draw(st.sampled_from(Period)), draw(st.sampled_from(ZONES))
    if period is not Period.GRANT:
        return Calendar(zone, period)
    first = date(2011, 12, 1) + timedelta(days=draw(st.integers(0, 400)))
    return Calendar(zone, period, Grant(first, first + timedelta(days=draw(st.integers(0, 900)))))


INSTANTS = st.integers(at("2011-01-01T00:00:00"), at("2016-01-01T00:00:00")).map(Instant)


@given(calendars(), INSTANTS)
@example(
    Calendar("Pacific/Apia", Period.GRANT, Grant(date(2011, 12, 30), date(2011, 12, 31))), at("2011-12-30T12:00:00")
)
def test_periods_follow_each_other_without_a_gap_and_are_numbered(calendar: Calendar, moment: Instant) -> None:
    start, end = calendar.bounds(moment)
    assert start <= moment < end
    assert calendar.bounds(start) == calendar.bounds(Instant(end - 1)) == (start, end)
    assert calendar.end(start) == end
    assert calendar.bounds(end)[0] == end
    assert calendar.number(end) == calendar.number(start) + 1


@given(calendars(), st.sampled_from(ZONES), INSTANTS)
def test_a_period_that_began_by_another_time_zone_ends_with_the_one_that_most_of_it_lies_in(
    calendar: Calendar, zone: str, moment: Instant
) -> None:
    if calendar.period is Period.GRANT:
        return  # its time zone cannot be changed
    start, end = calendar.bounds(moment)
    moved = Calendar(zone, calendar.period)
    assert abs(moved.end(start) - end) <= 26 * 3_600_000_000
    assert moved.number(start) == calendar.number(start), "they are the same periods"


@given(calendars(), INSTANTS)
def test_money_may_be_spent_in_every_period_but_those_before_and_after_a_grant(
    calendar: Calendar, moment: Instant
) -> None:
    start, _ = calendar.bounds(moment)
    bounds = calendar.grant_bounds
    assert calendar.is_open(start) == (bounds is None or bounds[0] <= moment < bounds[1])
    if bounds is not None:
        assert (calendar.number(start) < 0) == (moment < bounds[0])
        assert (calendar.number(start) > 0) == (moment >= bounds[1])


@given(calendars(), INSTANTS)
def test_the_usual_length_is_about_that_of_a_period(calendar: Calendar, moment: Instant) -> None:
    start, end = calendar.bounds(moment)
    if calendar.is_open(start):
        assert calendar.usual_seconds == pytest.approx((end - start) / 1e6, rel=0.08, abs=DAY)


def test_a_word_for_several_calendars() -> None:
    week, month = Calendar("UTC", Period.WEEK), Calendar("UTC")
    assert common_word([week, Calendar("Asia/Tokyo", Period.WEEK)]) == "week"
    assert common_word([month]) == "month"
    assert common_word([week, month]) == common_word([]) == "period"
    assert grant("2026-01-01", "2026-01-02").word == "grant"


def test_a_time_long_after_all_calendars_has_a_period() -> None:
    for calendar in (Calendar("UTC", Period.YEAR), grant("2026-01-01", "2999-12-31")):
        start, end = calendar.bounds(after(Instant(0), 1e15))
        assert start < end
