"""Dollars as decimal strings and as whole micro-dollars: the demo's own arithmetic, to check the ledger's with."""

from __future__ import annotations

from decimal import Decimal

_MICROS = 1_000_000


def micros(dollars: str) -> int:
    """A decimal string of dollars in micro-dollars; ValueError when it is finer than that."""
    amount = Decimal(dollars) * _MICROS
    if amount != amount.to_integral_value():
        raise ValueError(f"${dollars} is no whole number of micro-dollars")
    return int(amount)


def shown(dollars: float) -> str:
    """Dollars for people, to the cent."""
    return f"${dollars:,.2f}"
