"""Changes of a budget's balance: those that come together are one write, and each fails for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from charterer.cluster.errors import Conflict
from charterer.controller.execute.context import BalanceWriter, Change, Stale
from charterer.domain.budget import Balance, Budget
from charterer.domain.ids import BudgetId, RentalId
from charterer.domain.money import Money
from charterer.domain.steps import Fold
from charterer.domain.time import Instant
from charterer.ledger.balance import StalePeriod, apply_fold
from tests import factory as make

TWO = make.TEAM, BudgetId("other")


class Server:
    """Budgets, and what was written of them; others come while one is written."""

    def __init__(self) -> None:
        self.budgets = {name: replace(make.budget(), id=name) for name in TWO}
        self.written: list[tuple[BudgetId, int]] = []
        self.raises: list[BaseException] = []
        self.begun = asyncio.Event()
        self.writer = BalanceWriter(self.budgets.__getitem__, self._write)

    async def _write(self, budget: Budget) -> None:
        self.begun.set()
        await asyncio.sleep(0)
        if self.raises:
            raise self.raises.pop()
        self.budgets[budget.id] = budget
        assert budget.balance is not None
        self.written.append((budget.id, len(budget.balance.folded)))

    async def fold(self, *numbers: int, budget: BudgetId = make.TEAM, period: int = 0) -> Sequence[object]:
        """Folds that are begun in one turn, and what became of each."""
        return await asyncio.gather(
            *(self.writer.change(budget, self._fold(number, budget, period)) for number in numbers),
            return_exceptions=True,
        )

    def _fold(self, number: int, budget: BudgetId, period: int) -> Change:
        def change(before: Balance | None) -> Balance:
            if before is None:
                raise Stale
            start = Instant(before.period_start + period)
            fold = Fold(RentalId(f"a-{number}"), f"uid-{number}", budget, Money(3), Money(5), start)
            return apply_fold(before, fold)

        return change


async def test_the_rentals_that_end_in_one_turn_are_one_write() -> None:
    server = Server()
    assert await server.fold(*range(20)) == [None] * 20
    assert server.written == [(make.TEAM, 20)]


async def test_what_comes_while_a_write_is_under_way_is_one_more_write_from_the_balance_that_it_left() -> None:
    server = Server()
    first = asyncio.create_task(server.fold(1))
    await server.begun.wait()
    await asyncio.gather(first, server.fold(2, 3), server.fold(3, 4))
    assert server.written == [(make.TEAM, 1), (make.TEAM, 4)]


async def test_budgets_are_written_for_themselves() -> None:
    server = Server()
    await asyncio.gather(server.fold(1, 2), server.fold(3, budget=TWO[1]))
    assert sorted(server.written) == sorted([(TWO[0], 2), (TWO[1], 1)])


async def test_a_change_that_is_out_of_date_stops_no_other() -> None:
    server = Server()
    stale, done = await asyncio.gather(server.fold(1, period=7), server.fold(2))
    assert isinstance(stale[0], StalePeriod)
    assert done == [None]
    assert server.written == [(make.TEAM, 1)]
    assert isinstance((await server.fold(1, period=7))[0], StalePeriod)
    assert len(server.written) == 1


async def test_a_write_that_fails_fails_for_all_that_were_in_it_and_for_no_later_one() -> None:
    server = Server()
    server.raises = [Conflict("PATCH", "/budget", 409, "Conflict", "changed")]
    assert [type(each) for each in await server.fold(1, 2)] == [Conflict, Conflict]
    assert await server.fold(1, 2) == [None, None]
    assert server.written == [(make.TEAM, 2)]


async def test_if_who_writes_is_cancelled_the_others_are_decided_anew() -> None:
    server = Server()
    server.raises = [asyncio.CancelledError()]
    found = await server.fold(1, 2)
    assert isinstance(found[0], asyncio.CancelledError)
    assert isinstance(found[1], Stale)
    assert await server.fold(1, 2) == [None, None]


async def test_a_budget_that_is_gone_is_stale() -> None:
    server = Server()

    def gone(name: BudgetId) -> Budget:
        raise Stale

    server.writer = BalanceWriter(gone, server._write)
    with pytest.raises(Stale):
        await server.writer.change(make.TEAM, server._fold(1, make.TEAM, 0))
