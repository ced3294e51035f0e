"""Months as a person writes them, in a budget's time zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import click

from charterer.domain.period import period_bounds
from charterer.domain.time import Instant, instant

_MONTH: Final = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")


class MonthType(click.ParamType[str]):
    """A month such as 2026-11."""

    name = "month"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text itself."""
        found = _MONTH.fullmatch(str(value))
        if found is None or not 1970 <= int(found[1]) < 9999:
            self.fail(f"{str(value)!r} is no month: write year and month, like 2026-11", param, ctx)
        return found[0]


@lru_cache
def bounds(month: str, time_zone: str) -> tuple[Instant, Instant]:
    """The first instant of the month, and that of the next one."""
    year, number = map(int, month.split("-"))
    return period_bounds(time_zone, instant(datetime(year, number, 15, 12, tzinfo=UTC)))
