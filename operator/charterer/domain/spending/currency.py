"""The currency in which a budget's owner writes amounts, where that is not the dollar of the clouds' bills.

The ledger stays in dollars. The owner says what a dollar costs, and since when that holds: nothing asks a bank.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final

from charterer.domain.money import Money, Price
from charterer.domain.time import Instant, moment

DAYS_CURRENT: Final = 35
"""Days for which a rate is taken for current: one that is set anew every month is."""
_MICROS: Final = 1_000_000


def _rounded(dividend: int, divisor: int) -> int:
    """The nearest whole number, half rounded up."""
    return (2 * dividend + divisor) // (2 * divisor)


@dataclass(frozen=True, slots=True)
class Currency:
    """``code`` as in ISO 4217. A dollar costs ``per_dollar`` millionths of a unit, as of ``as_of``."""

    code: str
    per_dollar: int
    as_of: date

    def dollars(self, amount: Money) -> Money:
        """The dollars of an amount that counts units of this currency, to the micro-dollar."""
        return Money(_rounded(amount.micros * _MICROS, self.per_dollar))

    def dollars_hourly(self, price: Price) -> Price:
        """The same of an amount an hour."""
        return Price(self.dollars(Money(price.micros_per_hour)).micros)

    def units(self, dollars: Money) -> Money:
        """The amount in millionths of a unit that so many dollars are."""
        return Money(_rounded(dollars.micros * self.per_dollar, _MICROS))

    def days_old(self, now: Instant) -> int:
        """Days since the rate was set; below 0 where that is still to come."""
        return (moment(now).date() - self.as_of).days

    def amount(self, dollars: Money) -> str:
        """``18,400.00 EUR``."""
        return f"{str(self.units(dollars)).replace('$', '')} {self.code}"

    def __str__(self) -> str:
        return f"{Money(self.per_dollar).decimal()} {self.code} a dollar, as of {self.as_of.isoformat()}"
