"""All that is due in a budget's balance is one write, made from the newest balance."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from charterer.controller.execute.context import ExecutionContext, Stale
from charterer.controller.execute.rental_steps import keep_books
from charterer.domain.budget import Budget
from charterer.domain.ids import RentalId
from charterer.domain.money import Money
from charterer.domain.steps import BookEntry, Fold, KeepBooks, PruneFolded
from charterer.domain.time import Instant
from charterer.ledger.balance import StalePeriod
from tests import factory as make


class Scene:
    """A budget, and what is recorded of it."""

    def __init__(self, budget: Budget) -> None:
        self.recorded: list[Budget] = []
        decided = SimpleNamespace(budget=lambda name: budget)
        self.context = cast(ExecutionContext, SimpleNamespace(decided=decided, objects=self))

    async def record_budget(self, budget: Budget) -> None:
        self.recorded.append(budget)


def fold(number: int, start: Instant = make.MARCH) -> Fold:
    return Fold(RentalId(f"a-{number}"), f"uid-{number}", make.TEAM, Money(3), Money(5), start)


async def test_all_entries_are_one_write() -> None:
    scene = Scene(make.budget(balance=make.balance(folded=frozenset({"uid-gone"}))))
    entries: list[BookEntry] = [PruneFolded(make.TEAM, ("uid-gone",)), *(fold(number) for number in range(20))]
    await keep_books(scene.context, KeepBooks(make.TEAM, tuple(entries)))
    (written,) = scene.recorded
    assert written.balance is not None
    assert written.balance.folded == {f"uid-{number}" for number in range(20)}
    assert written.balance.lifetime == Money(100)


async def test_an_entry_of_another_period_leaves_the_balance_as_it_is() -> None:
    scene = Scene(make.budget(balance=make.balance(period_start=make.APRIL)))
    with pytest.raises(StalePeriod):
        await keep_books(scene.context, KeepBooks(make.TEAM, (fold(1, make.APRIL), fold(2))))
    assert scene.recorded == []


async def test_a_budget_without_a_period_has_no_books() -> None:
    scene = Scene(replace(make.budget(), balance=None))
    with pytest.raises(Stale):
        await keep_books(scene.context, KeepBooks(make.TEAM, (fold(1),)))
