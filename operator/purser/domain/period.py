"""Budget periods: calendar months in the budget's own time zone."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from purser.domain.time import Instant, after, instant, moment


def _month(zone: ZoneInfo, index: int) -> Instant:
    """The first instant of the month ``index`` (months since year 0), also where a clock change hides midnight."""
    year, month = divmod(index, 12)
    return instant(datetime(year, month + 1, 1, tzinfo=zone))


def period_bounds(time_zone: str, at: Instant) -> tuple[Instant, Instant]:
    """The calendar month of ``time_zone`` that holds ``at``: its first instant and the next month's first instant.

    ``zoneinfo.ZoneInfoNotFoundError`` when the IANA database has no such zone.
    """
    zone = ZoneInfo(time_zone)
    local = moment(at).astimezone(zone)
    index = local.year * 12 + local.month - 1
    if at >= _month(zone, index + 1):
        index += 1  # clocks set back across midnight repeat the old month's last minutes inside the new one
    return _month(zone, index), _month(zone, index + 1)


def period_end(time_zone: str, start: Instant) -> Instant:
    """When the period that began at ``start`` ends: the end of the month it lies in for the most part.

    Asked half a month in, because ``start`` is no month's first instant once the budget's time zone was changed.
    """
    return period_bounds(time_zone, after(start, 15 * 86_400))[1]
