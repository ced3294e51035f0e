"""Instants and spans: an instant is whole microseconds since 1970-01-01 UTC, a span is seconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NewType
from zoneinfo import ZoneInfo

Instant = NewType("Instant", int)
"""Microseconds since 1970-01-01T00:00:00Z."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_WITHOUT_ZONE = _EPOCH.replace(tzinfo=None)
_MICROS = 1_000_000
LAST = Instant((datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1))
"""The last day that can be written: what is expected for later is expected never."""
_LONGEST_SECONDS = LAST / _MICROS


def instant(moment: datetime) -> Instant:
    """The instant of an aware datetime."""
    return Instant((moment - _EPOCH) // timedelta(microseconds=1))


def moment(at: Instant) -> datetime:
    """The datetime (UTC) of an instant."""
    return _EPOCH + timedelta(microseconds=at)


def parse_instant(text: str) -> Instant:
    """An RFC 3339 timestamp as Kubernetes and clouds write it; ValueError if it is no timestamp or has no zone."""
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
    """The minute in UTC, for sentences: ``2026-01-31T12:00Z``; at most ``LAST``."""
    return format_instant(min(at, LAST))[:16] + "Z"


def seconds_between(start: Instant, end: Instant) -> float:
    """Seconds from start to end; negative when end comes first."""
    return (end - start) / _MICROS


def after(at: Instant, seconds: float) -> Instant:
    """The instant ``seconds`` later, to the microsecond; ``LAST`` for any later one. ValueError for NaN."""
    return Instant(min(at + round(min(seconds, _LONGEST_SECONDS) * _MICROS), LAST))


# Budget periods, which are calendar months in the budget's own time zone, their days, and quiet hours.


_FIRST, _LAST = Instant(0), after(LAST, -40 * 86_400.0)
"""Months are those of instants between these two: calendars of other years may end before their month does."""


def _month(zone: ZoneInfo, index: int) -> Instant:
    """The first instant of the month ``index`` (months since year 0), also where a clock change hides midnight."""
    year, month = divmod(index, 12)
    return instant(datetime(year, month + 1, 1, tzinfo=zone))


def period_bounds(time_zone: str, at: Instant) -> tuple[Instant, Instant]:
    """The calendar month of ``time_zone`` that holds ``at``: its first instant and the next month's first instant.

    ``zoneinfo.ZoneInfoNotFoundError`` when the IANA database has no such zone.
    """
    zone = ZoneInfo(time_zone)
    at = min(max(at, _FIRST), _LAST)
    local = moment(at).astimezone(zone)
    index = local.year * 12 + local.month - 1
    if at >= _month(zone, index + 1):
        index += 1  # clocks set back across midnight repeat the old month's last minutes inside the new one
    return _month(zone, index), _month(zone, index + 1)


def period_end(time_zone: str, start: Instant) -> Instant:
    """When the period that began at ``start`` ends: the end of the month that most of it lies in.

    That is the month half a month after ``start``, which need not be a month's first instant: the budget's time zone
    may have changed.
    """
    return period_bounds(time_zone, after(start, 15 * 86_400))[1]


def day_bounds(time_zone: str, at: Instant) -> tuple[Instant, Instant]:
    """The day of ``time_zone`` that holds ``at``: its first instant and that of the day after it.

    Where a clock change hides or repeats midnight, days begin as months do, so that each day lies in one month.
    """
    zone = ZoneInfo(time_zone)
    at = min(max(at, _FIRST), _LAST)
    day = moment(at).astimezone(zone).toordinal()
    if at >= _midnight(zone, day + 1):
        day += 1
    return _midnight(zone, day), _midnight(zone, day + 1)


def _midnight(zone: ZoneInfo, ordinal: int) -> Instant:
    return instant(datetime.fromordinal(ordinal).replace(tzinfo=zone))


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
    """From ``start`` to ``end``, in minutes after local midnight, on ``days`` (every day if it is empty).

    If the end is before the start they last past midnight and belong to the day on which they start.
    """

    start: int
    end: int
    days: frozenset[Weekday] = frozenset()

    def on(self, day: datetime) -> tuple[datetime, datetime] | None:
        """First and last moment of the hours that start on a local ``day`` (its midnight, aware); None if none do."""
        if self.days and _DAYS[day.weekday()] not in self.days:
            return None
        lasts = (self.end - self.start) % _DAY_MINUTES or _DAY_MINUTES
        return day + timedelta(minutes=self.start), day + timedelta(minutes=self.start + lasts)


def quiet_until(hours: Iterable[QuietHours], time_zone: str, at: Instant) -> Instant | None:
    """When the quiet hours that ``at`` lies in are over, adjoining ones included; None if it is not quiet.

    Hours are those of a wall clock: on the day of a clock change they last an hour longer or shorter.
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
