"""Writes balances: the changes of one budget that come together are one write."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from charterer.controller.execute.decided import Stale
from charterer.domain.budget import Balance, Budget
from charterer.domain.ids import BudgetId
from charterer.ledger.balance import StalePeriod

Change: TypeAlias = Callable[[Balance | None], Balance]
"""The balance with a change, made from the newest one. Raises Stale and StalePeriod."""


@dataclass(slots=True)
class _Waiting:
    """A change whose write may be somebody else's; ``error`` once it is known that it was not written."""

    change: Change
    taken: bool = False
    error: Exception | None = None


class BalanceWriter:
    """``budget`` gives a budget as it is now; ``write`` writes its record and keeps what the API server answers.

    Several rentals often end together, and each write must be made from the balance that the one before it left: what
    comes while a budget is being written waits, and is written together.
    """

    def __init__(self, budget: Callable[[BudgetId], Budget], write: Callable[[Budget], Awaitable[None]]) -> None:
        self._budget = budget
        self._write = write
        self._waiting: dict[BudgetId, list[_Waiting]] = defaultdict(list)
        self._locks: dict[BudgetId, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def change(self, name: BudgetId, change: Change) -> None:
        """Returns once the change is written; raises what it or the write raises."""
        mine = _Waiting(change)
        self._waiting[name].append(mine)
        async with self._locks[name]:
            if not mine.taken:
                await asyncio.sleep(0)  # so that all changes of a turn are there
                await self._write_waiting(name)
        if mine.error is not None:
            raise mine.error

    async def _write_waiting(self, name: BudgetId) -> None:
        together = self._waiting.pop(name)
        for each in together:
            each.taken = True
        try:
            budget = self._budget(name)
            balance = budget.balance
            for each in together:
                try:
                    balance = each.change(balance)
                except (Stale, StalePeriod) as error:
                    each.error = error
            if balance is not None and any(each.error is None for each in together):
                await self._write(replace(budget, balance=balance))
        except Exception as error:
            _fail(together, error)
        except asyncio.CancelledError:
            _fail(together, Stale())
            raise


def _fail(changes: Iterable[_Waiting], error: Exception) -> None:
    for each in changes:
        each.error = each.error or error
