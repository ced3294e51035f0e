"""Money in whole micro-dollars, and prices per hour.

Amounts in accounts are never floats. So the sum over a month of many nodes stays exact, and a ledger can equal a bill
to the micro-dollar. Floats appear only in planning (``Money.of``, ``dollars``, ``Price.per_second``,
``dollars_per_second``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Protocol, TypeVar

_MICROS = 1_000_000
MOST_HOURLY_DOLLARS = 1_000_000
"""Upper limit, in dollars, of the price of one node per hour. A higher price is a mistake."""
_MOST_MICROS = 10**18 - 1
"""A trillion dollars, the largest amount that can be written. Larger expected amounts are limited to it."""
_HOUR = 3600
MAYBE_THOUSANDS = re.compile("[1-9][0-9]{0,2}[.][0-9]{3}")
"""A number that may mean thousands, as many countries write them. No amount of a budget or job needs three decimals."""
_DECIMAL = re.compile(r"(-?)(\d{1,12})(?:\.(\d{1,6}))?")


def _parse_micros(text: str) -> int:
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no amount of money; write dollars with up to six decimals, like 19.80")
    sign, whole, fraction = match.groups()
    micros = int(whole) * _MICROS + int((fraction or "").ljust(6, "0"))
    return -micros if sign else micros


def _format_micros(micros: int, least_decimals: int) -> str:
    whole, fraction = divmod(abs(micros), _MICROS)
    digits = f"{fraction:06d}".rstrip("0").ljust(least_decimals, "0")
    return f"{'-' if micros < 0 else ''}{whole}{'.' if digits else ''}{digits}"


def _whole(micros: float) -> int:
    return round(min(max(micros, -_MOST_MICROS), _MOST_MICROS))


@dataclass(frozen=True, slots=True, order=True)
class Money:
    """An amount of money in micro-dollars (1,000,000 are one dollar)."""

    micros: int

    @classmethod
    def parse(cls, text: str) -> Money:
        """Parse dollars from a decimal string with at most six decimals; ValueError otherwise."""
        return cls(_parse_micros(text))

    @classmethod
    def given(cls, text: str) -> Money:
        """As ``parse``, for text written by a person: ValueError also for 60.000, which may mean thousands."""
        if MAYBE_THOUSANDS.fullmatch(text):
            digits, cents = text.replace(".", ""), f"{text}0"
            raise ValueError(f"{text!r} may be meant as thousands: write {digits}, or {cents} if it is not")
        return cls.parse(text)

    @classmethod
    def of(cls, dollars: float) -> Money:
        """The amount nearest to ``dollars``, for floats computed in planning; limited to a trillion dollars, ValueError
        for NaN."""
        return cls(_whole(dollars * _MICROS))

    @property
    def dollars(self) -> float:
        """The amount as a float, for planning and pictures only."""
        return self.micros / _MICROS

    def decimal(self) -> str:
        """The exact decimal string of the API: ``19.80``, ``0.000001``."""
        return _format_micros(self.micros, 2)

    def written(self) -> str:
        """The decimal string that ``given`` accepts."""
        text = self.decimal()
        return f"{text}0" if MAYBE_THOUSANDS.fullmatch(text) else text

    def __add__(self, other: Money) -> Money:
        return Money(self.micros + other.micros)

    def __sub__(self, other: Money) -> Money:
        return Money(self.micros - other.micros)

    def __neg__(self) -> Money:
        return Money(-self.micros)

    def __str__(self) -> str:
        """For people, to the cent: ``$1,234.57``."""
        cents = (abs(self.micros) + 5_000) // 10_000
        return f"{'-' if self.micros < 0 and cents else ''}${cents // 100:,}.{cents % 100:02d}"


ZERO = Money(0)


def total(amounts: Iterable[Money]) -> Money:
    """The sum; zero dollars without amounts."""
    return Money(sum(amount.micros for amount in amounts))


class _Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


_Key = TypeVar("_Key", bound=_Ordered)


def apportion(amount: Money, weights: Mapping[_Key, int]) -> dict[_Key, Money]:
    """Divide ``amount`` exactly in proportion to ``weights``, by largest remainder. Weights: >= 0, not all zero."""
    whole = sum(weights.values())
    parts = {name: divmod(amount.micros * weight, whole) for name, weight in weights.items()}
    left = amount.micros - sum(quotient for quotient, _ in parts.values())
    first = set(sorted(parts, key=lambda name: (-parts[name][1], name))[:left])
    return {name: Money(quotient + (name in first)) for name, (quotient, _) in parts.items() if weights[name] > 0}


@dataclass(frozen=True, slots=True, order=True)
class Price:
    """Micro-dollars per hour. Prices are not per second, because $2.48/h is no whole number of micro-dollars per
    second."""

    micros_per_hour: int

    @classmethod
    def parse(cls, text: str) -> Price:
        """Parse dollars per hour from a decimal string; ValueError otherwise."""
        return cls(_parse_micros(text))

    @classmethod
    def rounded(cls, dollars: Decimal) -> Price:
        """The price nearest to ``dollars`` per hour, half a micro-dollar rounded up."""
        return cls(int((dollars * _MICROS).to_integral_value(ROUND_HALF_UP)))

    @classmethod
    def per_second(cls, dollars: float) -> Price:
        """The price nearest to ``dollars`` per second, for floats computed in planning; ValueError for NaN."""
        return cls(_whole(dollars * _HOUR * _MICROS))

    def cost(self, seconds: int) -> Money:
        """The cost of ``seconds`` whole seconds, rounded half up to the micro-dollar; ValueError if negative."""
        if seconds < 0:
            raise ValueError(f"cannot bill {seconds} seconds")
        return Money((self.micros_per_hour * seconds + _HOUR // 2) // _HOUR)

    def for_gpus(self, gpus: int, of: int) -> Price:
        """The price of ``gpus`` of a node's ``of`` GPUs, for planning; rounded to a micro-dollar per hour."""
        return Price((self.micros_per_hour * gpus + of // 2) // of)

    @property
    def dollars_per_hour(self) -> float:
        """The price as a float, for planning and pictures only."""
        return self.micros_per_hour / _MICROS

    @property
    def dollars_per_second(self) -> float:
        """The price as a float, for planning only."""
        return self.micros_per_hour / _MICROS / _HOUR

    def decimal(self) -> str:
        """Dollars per hour as the exact decimal string of the API."""
        return _format_micros(self.micros_per_hour, 2)

    def __str__(self) -> str:
        return f"{Money(self.micros_per_hour)}/h"
