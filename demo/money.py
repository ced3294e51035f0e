"""Dollars as decimal strings and as micro-dollars: the demo's own arithmetic, independent of the ledger's."""

from __future__ import annotations

from decimal import Decimal

_MICROS = 1_000_000


def micros(dollars: str) -> int:
    """A decimal string of dollars in micro-dollars. ValueError where it is no whole number of them."""
    amount = Decimal(dollars) * _MICROS
    if amount != amount.to_integral_value():
        raise ValueError(f"${dollars} is no whole number of micro-dollars")
    return int(amount)


def shown(dollars: float) -> str:
    """Dollars to the cent, like $1,234.50."""
    return f"${dollars:,.2f}"
