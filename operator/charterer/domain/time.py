"""Instants and spans. An instant is whole microseconds since 1970-01-01 UTC; a span is seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import NewType
from zoneinfo import ZoneInfo

Instant = NewType("Instant", int)
"""Microseconds since 1970-01-01T00:00:00Z."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_WITHOUT_ZONE = _EPOCH.replace(tzinfo=None)
_MICROS = 1_000_000
LAST = Instant((datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1))
"""The last representable instant. Anything expected later is expected never."""
_LONGEST_SECONDS = LAST / _MICROS


def instant(moment: datetime) -> Instant:
    """The instant of an aware datetime."""
    return Instant((moment - _EPOCH) // timedelta(microseconds=1))


def moment(at: Instant) -> datetime:
    """The datetime (UTC) of an instant."""
    return _EPOCH + timedelta(microseconds=at)


def parse_instant(text: str) -> Instant:
    """Parse an RFC 3339 timestamp of Kubernetes or a cloud; ValueError if it is no timestamp or has no time zone."""
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; write it like 2026-01-31T12:00:00Z")
    return instant(parsed)


def format_instant(at: Instant) -> str:
    """RFC 3339 in UTC with microseconds, as Kubernetes writes a MicroTime."""
    return (_EPOCH_WITHOUT_ZONE + timedelta(microseconds=at)).isoformat(timespec="microseconds") + "Z"


def format_second(at: Instant) -> str:
    """RFC 3339 in UTC with whole seconds, rounded down: ``2026-01-31T12:00:07Z``."""
    return format_instant(at)[:19] + "Z"


def format_minute(at: Instant) -> str:
    """The minute in UTC, for sentences: ``2026-01-31T12:00Z``. Later instants are written as ``LAST``."""
    return format_instant(min(at, LAST))[:16] + "Z"


def seconds_between(start: Instant, end: Instant) -> float:
    """Seconds from start to end; negative if end comes first."""
    return (end - start) / _MICROS


def after(at: Instant, seconds: float) -> Instant:
    """The instant ``seconds`` later, to the microsecond; ``LAST`` for any later one. ValueError for NaN."""
    return Instant(min(at + round(min(seconds, _LONGEST_SECONDS) * _MICROS), LAST))


# Days, calendar months, the periods of budgets, and quiet hours.


_FIRST, _LAST = Instant(0), after(LAST, -400 * 86_400.0)
"""Instants are limited to this range before days and periods are computed, so that no date lies beyond the last
possible year.
"""


def _midnight(zone: ZoneInfo, day: date) -> Instant:
    """The first instant of a day, even if a clock change skips midnight."""
    return instant(datetime(day.year, day.month, day.day, tzinfo=zone))


def _day(zone: ZoneInfo, at: Instant) -> date:
    """The local day that holds ``at``, limited to the supported range."""
    at = min(max(at, _FIRST), _LAST)
    day = moment(at).astimezone(zone).date()
    following = day + timedelta(days=1)
    # If clocks are set back across midnight, the last minutes of the old day repeat inside the new one.
    return following if at >= _midnight(zone, following) else day


def day_bounds(time_zone: str, at: Instant) -> tuple[Instant, Instant]:
    """The first instant of the day that holds ``at`` in ``time_zone``, and the first instant of the next day.

    ``zoneinfo.ZoneInfoNotFoundError`` if the IANA database has no such zone.
    """
    zone = ZoneInfo(time_zone)
    day = _day(zone, at)
    return _midnight(zone, day), _midnight(zone, day + timedelta(days=1))


def month_bounds(time_zone: str, at: Instant) -> tuple[Instant, Instant]:
    """The first instants of the calendar month that holds ``at`` in ``time_zone``, and of the next month.

    Clouds bill by calendar months. So the record of costs uses them for every kind of budget period.
    """
    return Calendar(time_zone).bounds(at)


class Period(StrEnum):
    """The kind of time span that a budget's amount is for."""

    WEEK = "Week"
    MONTH = "Month"
    QUARTER = "Quarter"
    YEAR = "Year"
    GRANT = "Grant"


_DAY_SECONDS = 86_400.0
_USUAL_DAYS: Mapping[Period, int] = {Period.WEEK: 7, Period.MONTH: 30, Period.QUARTER: 91, Period.YEAR: 365}
_INSIDE_SECONDS: Mapping[Period, float] = {
    Period.WEEK: 3.5 * _DAY_SECONDS,
    Period.MONTH: 15 * _DAY_SECONDS,
    Period.QUARTER: 45 * _DAY_SECONDS,
    Period.YEAR: 182 * _DAY_SECONDS,
    Period.GRANT: 0.5 * _DAY_SECONDS,
}
"""Seconds after a period's start that surely lie inside it, even if the start was computed in another time zone: about
half of the shortest period."""
_MONTHS: Mapping[Period, int] = {Period.MONTH: 1, Period.QUARTER: 3, Period.YEAR: 12}


@dataclass(frozen=True, slots=True)
class Grant:
    """The days for which money is granted, including ``first`` and ``last``."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """The number of days."""
        return (self.last - self.first).days + 1


@dataclass(frozen=True, slots=True)
class Calendar:
    """The periods of a budget in its own time zone. ``grant``: set exactly for the period GRANT.

    Weeks begin on Monday. The days before and after a grant belong to periods too, one for each calendar year. In
    these periods nothing may be spent (``is_open``). So every bill belongs to some period.
    """

    time_zone: str
    period: Period = Period.MONTH
    grant: Grant | None = None

    @property
    def word(self) -> str:
        """The word for the period in a sentence, such as ``month``."""
        return self.period.lower()

    @property
    def usual_seconds(self) -> float:
        """The usual length of a period in seconds; a month has 30 days."""
        return (_USUAL_DAYS[self.period] if self.grant is None else self.grant.days) * _DAY_SECONDS

    def bounds(self, at: Instant) -> tuple[Instant, Instant]:
        """The first instant of the period that holds ``at``, and the first instant of the next period.

        ``zoneinfo.ZoneInfoNotFoundError`` if the IANA database has no such zone.
        """
        zone = ZoneInfo(self.time_zone)
        first, following = self._days(_day(zone, at))
        return _midnight(zone, first), _midnight(zone, following)

    def end(self, start: Instant) -> Instant:
        """The end of the period that began at ``start``.

        If the budget's time zone has changed, ``start`` may not be the first instant of a period. Then the period that
        begins nearest to ``start`` counts.
        """
        return self.bounds(self._inside(start))[1]

    def number(self, start: Instant) -> int:
        """The number of the period that began at ``start``. The next period has the next number.

        The number is the same in every time zone.
        """
        day = _day(ZoneInfo(self.time_zone), self._inside(start))
        if self.period is Period.WEEK:
            return (day.toordinal() - 1) // 7
        if self.grant is None:
            return (day.year * 12 + day.month - 1) // _MONTHS[self.period]
        if day < self.grant.first:
            return day.year - self.grant.first.year - 1
        return 0 if day <= self.grant.last else day.year - (self.grant.last + timedelta(days=1)).year + 1

    def is_open(self, start: Instant) -> bool:
        """Whether money may be spent in the period that began at ``start``: the period does not lie outside a grant."""
        if self.grant is None:
            return True
        return self.grant.first <= _day(ZoneInfo(self.time_zone), self._inside(start)) <= self.grant.last

    @property
    def grant_bounds(self) -> tuple[Instant, Instant] | None:
        """The first instant of the grant, and the first instant after the grant; None without a grant."""
        if self.grant is None:
            return None
        zone = ZoneInfo(self.time_zone)
        return _midnight(zone, self.grant.first), _midnight(zone, self.grant.last + timedelta(days=1))

    def _inside(self, start: Instant) -> Instant:
        return after(start, _INSIDE_SECONDS[self.period])

    def _days(self, day: date) -> tuple[date, date]:
        """The first day of the period that holds ``day``, and the first day of the next period."""
        if self.period is Period.WEEK:
            first = day - timedelta(days=day.weekday())
            return first, first + timedelta(days=7)
        if self.grant is None:
            months = _MONTHS[self.period]
            number = (day.year * 12 + day.month - 1) // months
            return _first_day(number * months), _first_day((number + 1) * months)
        first, following = _first_day(day.year * 12), _first_day(day.year * 12 + 12)
        begins, over = self.grant.first, self.grant.last + timedelta(days=1)
        if day < begins:
            return first, min(following, begins)
        return (begins, over) if day < over else (max(first, over), following)


def _first_day(month: int) -> date:
    """The first day of a month. ``month`` counts months since year 0."""
    return date(month // 12, month % 12 + 1, 1)


def common_word(calendars: Iterable[Calendar]) -> str:
    """The word for the period in a sentence if all calendars share it, otherwise ``period``."""
    words = {calendar.word for calendar in calendars}
    return words.pop() if len(words) == 1 else "period"


class Weekday(StrEnum):
    """The days, in the order of ``datetime.weekday``."""

    MONDAY = "Monday"
    TUESDAY = "Tuesday"
    WEDNESDAY = "Wednesday"
    THURSDAY = "Thursday"
    FRIDAY = "Friday"
    SATURDAY = "Saturday"
    SUNDAY = "Sunday"


_DAYS = tuple(Weekday)
_DAY_MINUTES = 1_440


def weekday(time_zone: str, at: Instant) -> Weekday:
    """The day of the week in that time zone."""
    return _DAYS[moment(at).astimezone(ZoneInfo(time_zone)).weekday()]


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Quiet hours from ``start`` to ``end``, in minutes after local midnight, on ``days`` (empty: every day).

    If the end is not after the start, the hours last past midnight and belong to the day on which they start.
    """

    start: int
    end: int
    days: frozenset[Weekday] = frozenset()

    def on(self, day: datetime) -> tuple[datetime, datetime] | None:
        """Start and end of the quiet hours that start on ``day`` (an aware local midnight); None if none start on that
        day."""
        if self.days and _DAYS[day.weekday()] not in self.days:
            return None
        lasts = (self.end - self.start) % _DAY_MINUTES or _DAY_MINUTES
        return day + timedelta(minutes=self.start), day + timedelta(minutes=self.start + lasts)


def quiet_until(hours: Iterable[QuietHours], time_zone: str, at: Instant) -> Instant | None:
    """When the quiet hours that hold ``at`` are over, including adjoining ones; None if ``at`` is not in quiet hours.

    Hours follow the wall clock. On the day of a clock change they are an hour longer or shorter.
    """
    every = tuple(hours)
    zone = ZoneInfo(time_zone)
    today = moment(at).astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    days = (today + timedelta(days=day) for day in range(-1, 8))
    spans = [span for day in days for quiet in every if (span := quiet.on(day)) is not None]
    until = at
    for first, last in sorted((instant(first), instant(last)) for first, last in spans):
        if first <= until < last:
            until = last
    return until if until > at else None
