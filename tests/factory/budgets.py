"""Budgets and their balances."""

from __future__ import annotations

from typing import Any

from charterer.domain.budget import Balance, Budget, Mode, Selector
from charterer.domain.ids import BudgetId
from charterer.domain.money import ZERO, Money
from charterer.domain.time import Calendar
from tests.factory.times import MARCH

TEAM = BudgetId("team")


def balance(**changes: Any) -> Balance:
    """An empty balance of the month that T0 lies in."""
    fields: dict[str, Any] = {
        "period_start": MARCH,
        "settled": ZERO,
        "lifetime": ZERO,
        "folded": frozenset(),
        "history": (),
    }
    return Balance(**(fields | changes))


def budget(**changes: Any) -> Budget:
    """A budget of $1,000 a month that enforces, guarded, with its period open; all counts, whenever it was made."""
    fields: dict[str, Any] = {
        "id": TEAM,
        "uid": "team-uid",
        "resource_version": "1",
        "generation": 1,
        "created": MARCH,
        "amount": Money.parse("1000"),
        "calendar": Calendar("UTC"),
        "selector": Selector((), ()),
        "mode": Mode.ENFORCE,
        "hard_limit": None,
        "max_hourly_rate": None,
        "opening_spend": ZERO,
        "weights": (),
        "balance": balance(),
        "deleting": False,
        "guarded": True,
    }
    return Budget(**(fields | changes))
