"""The currency of a GPUBudget's amounts, if that is not the dollar: what a dollar costs, and amounts of the status."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Final, Self

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from charterer.api.models.base import ApiModel, Cents, Rule, SignedCents, rules
from charterer.domain.money import Money
from charterer.domain.spending.currency import Currency

_LEAST_MICROS: Final = 100_000
_MOST_MICROS: Final = 10**12


def _per_dollar(value: object) -> int:
    """Millionths of a unit; ValueError for what no currency's dollar costs, which would make amounts too large."""
    if isinstance(value, int):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a string: put it in quotes")
    micros = Money.parse(value).micros
    if not _LEAST_MICROS <= micros < _MOST_MICROS:
        raise ValueError(f"{value!r} is not from 0.1 to less than a million units of a currency")
    return micros


def _day(value: object) -> date:
    return value if isinstance(value, date) else date.fromisoformat(str(value))


UnitsPerDollar = Annotated[
    int,
    PlainValidator(_per_dollar),
    PlainSerializer(lambda micros: Money(micros).decimal()),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": 13,
            **rules(
                Rule(
                    "self.matches('^(0[.][1-9][0-9]{0,5}|[1-9][0-9]{0,5}([.][0-9]{1,6})?)$')",
                    "write the units of the currency that a dollar costs, from 0.1 to less than a million, as "
                    'digits in quotes, such as "0.92"',
                )
            ),
        }
    ),
]
"""Millionths of a unit of a currency that a dollar costs: a decimal string from 0.1 to below a million."""

Day = Annotated[
    date, PlainValidator(_day), PlainSerializer(date.isoformat), WithJsonSchema({"type": "string", "format": "date"})
]
"""A day as ``2026-11-01``."""


class CurrencyRate(ApiModel):
    """What a dollar costs, and since when."""

    per_dollar: UnitsPerDollar
    """Units of spec.currency that a dollar costs, such as "0.92"."""
    as_of: Day
    """The day of this rate, such as "2026-11-01". After 35 days the condition CurrencyRateCurrent is False."""


class InCurrency(ApiModel):
    """Amounts of the status in the currency of the spec, at its present rate and rounded to hundredths of a unit."""

    currency: Annotated[str, Field(max_length=3)]
    """The currency."""
    rate: Annotated[str, Field(max_length=64)]
    """What a dollar costs, and since when."""
    spent: Cents
    """Spent in the current period."""
    remaining: SignedCents
    """What remains of the amount, and of what was carried over."""
    forecast: Cents | None = None
    """Expected to be spent by the end of the period."""

    @classmethod
    def of(cls, currency: Currency, spent: Money, remaining: Money, forecast: Money | None) -> Self:
        """The dollars in the currency."""
        return cls(
            currency=currency.code,
            rate=str(currency),
            spent=currency.units(spent),
            remaining=currency.units(remaining),
            forecast=None if forecast is None else currency.units(forecast),
        )
