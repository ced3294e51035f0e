"""Command-line options and parameter types that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from charterer.domain.time import Instant, instant, month_bounds, parse_instant

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


# Groups of command-line options that a command gets as one value.


F = TypeVar("F", bound=Callable[..., object])


def option_group(parameter: str, group: type[DataclassInstance], *options: Callable[..., Any]) -> Callable[[F], F]:
    """Add ``options`` to a command, and pass their values as one ``group`` object in the argument ``parameter``.

    ``options`` are results of ``click.option`` in the order of --help. Their names must be the field names of
    ``group``.
    """
    names = [field.name for field in fields(group)]

    def decorate(command: F) -> F:
        @wraps(command)
        def grouped(**values: Any) -> object:
            chosen = {name: values.pop(name) for name in names}
            return command(**values, **{parameter: group(**chosen)})

        decorated: Any = grouped
        for option in reversed(options):
            decorated = option(decorated)
        result: F = decorated
        return result

    return decorate


# The option that names the record of costs.


AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any] | click.Command)


def record_option(**more: Any) -> Callable[[AnyCommand], AnyCommand]:
    """Return the option ``--record PLACE``.

    ``more`` are further arguments of ``click.option``, such as ``required``.
    """
    return click.option(
        "--record",
        metavar="PLACE",
        envvar="CHARTERER_COST_RECORD",
        help="The record of costs: a folder, s3://BUCKET/PREFIX, gs:// or az://. Default: $CHARTERER_COST_RECORD.",
        **more,
    )


# Times as a user types them.


class TimeType(click.ParamType[Instant]):
    """Parameter type of a date and time with a time zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Instant:
        """Return the instant."""
        if isinstance(value, int):
            return Instant(value)
        try:
            return parse_instant(value)
        except ValueError as error:
            self.fail(f"{value!r}: write date and time with a zone, 2026-12-01T18:00:00Z ({error})", param, ctx)


# Months as a user types them, in the time zone of a budget.


_MONTH: Final = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")


class MonthType(click.ParamType[str]):
    """Parameter type of a month such as 2026-11."""

    name = "month"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text, if it is a valid month."""
        found = _MONTH.fullmatch(str(value))
        if found is None or not 1970 <= int(found[1]) < 9999:
            self.fail(f"{str(value)!r} is no month: write year and month, like 2026-11", param, ctx)
        return found[0]


@lru_cache
def bounds(month: str, time_zone: str) -> tuple[Instant, Instant]:
    """Return the first instant of the month, and the first instant of the next one."""
    year, number = map(int, month.split("-"))
    return month_bounds(time_zone, instant(datetime(year, number, 15, 12, tzinfo=UTC)))
