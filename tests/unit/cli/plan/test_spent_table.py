"""The table of ``charterer plan`` that says what this month's dollars were for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from charterer.domain.budget import Cause, Costs
from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.money import Money, total
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World


def spending(spent: str, **causes: str) -> World:
    """A budget whose ledger has counted ``causes`` of what it has spent."""
    world = World()
    made = world.budget(spent=spent)
    assert made.balance is not None
    costs = Costs({(PoolId("a100"), Cause(cause)): Money.parse(dollars) for cause, dollars in causes.items()})
    world.budgets[BudgetId("research")] = replace(made, balance=replace(made.balance, costs=costs))
    world.pool(gpus=8)
    world.job("one", gpus=8)
    return world


def test_its_rows_add_up_to_the_dollars_spent_to_the_micro_dollar(monkeypatch: pytest.MonkeyPatch) -> None:
    world = spending(
        "1074.516384", job="56.244631", starting="7.1", idle="9.17", ending="0.000003", incomplete_gang="2"
    )
    charterer = charterer_over(world, monkeypatch)
    said = charterer("plan").stdout
    table = said[said.index("What this month's dollars were for") :].split("\n\n")[0].splitlines()[2:]
    found = {line.split("  ")[0]: line.split() for line in table}
    assert list(found) == ["training", "starting", "idle", "ending", "incomplete gang", "not sorted yet", "spent"]
    amounts = [next(word for word in words if "." in word) for words in found.values()]
    micros = [Money.parse(amount.replace(",", "")) for amount in amounts]
    assert micros[-1] == Money.parse("1074.516384") == total(micros[:-1])
    (budget,) = json.loads(charterer("plan", "-o", "json").stdout)["budgets"]
    assert budget["spentFor"]["incompleteGang"] == "2.00"
    assert total(Money.parse(amount) for amount in budget["spentFor"].values()) == Money.parse(budget["spent"])


def test_there_is_none_before_anything_was_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "dollars were for" not in charterer_over(spending("0"), monkeypatch)("plan").stdout
