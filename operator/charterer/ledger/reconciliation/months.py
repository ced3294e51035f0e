"""The calendar months of a time zone, each worked out once."""

from __future__ import annotations

from typing import NamedTuple

from charterer.domain.period import period_bounds
from charterer.domain.time import Instant, moment


class CalendarMonth(NamedTuple):
    """``name``: like ``2026-10``. [``start``, ``end``)."""

    name: str
    start: Instant
    end: Instant


class CalendarMonths:
    """The months of any time zone. They are kept, because many rows and lines ask for few months."""

    def __init__(self) -> None:
        self._known: dict[str, list[CalendarMonth]] = {}

    def of(self, time_zone: str, at: Instant) -> CalendarMonth:
        """The month that holds an instant."""
        known = self._known.setdefault(time_zone, [])
        for month in known:
            if month.start <= at < month.end:
                return month
        start, end = period_bounds(time_zone, at)
        middle = moment(Instant((start + end) // 2))
        month = CalendarMonth(f"{middle.year:04}-{middle.month:02}", start, end)
        if month.start <= at < month.end:
            known.append(month)
        return month
