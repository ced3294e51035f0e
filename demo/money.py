"""Conversion between decimal dollars and micro-dollars. The demo does not use the ledger's code for this."""

from __future__ import annotations

from decimal import Decimal

_MICROS = 1_000_000


def micros(dollars: str) -> int:
    """Convert a decimal string of dollars to micro-dollars. Raises ValueError for a fraction of a micro-dollar."""
    amount = Decimal(dollars) * _MICROS
    if amount != amount.to_integral_value():
        raise ValueError(f"${dollars} is no whole number of micro-dollars")
    return int(amount)


def shown(dollars: float) -> str:
    """Format dollars to the cent, such as $1,234.50."""
    return f"${dollars:,.2f}"
