"""Budgets that lend each other money on a real control plane, with an operator that dies around every step of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from charterer.cluster.paths import GPU_BUDGETS
from charterer.domain.money import ZERO, Money, total
from charterer.domain.time import after, format_instant, month_bounds, parse_instant
from tests.cluster.test_crash import LISTED_SECONDS
from tests.testbed.bed import Bed, group
from tests.testbed.call_killer import around
from tests.testbed.operators import Killer

_OWN = {"company": "0.00", "rich": "2000000.00", "team": "5.00"}
"""What each budget may spend without loans. The company keeps nothing for itself, and rich pays for no namespace."""


def _status(bed: Bed, budget: str) -> Mapping[str, Any]:
    return (bed.mirror.one(GPU_BUDGETS, budget) or {}).get("status") or {}


def _lent(bed: Bed, budget: str) -> list[tuple[str, str]]:
    return [(loan["lender"], loan["borrower"]) for loan in _status(bed, budget).get("loans", ())]


@asynccontextmanager
async def _killed_around(bed: Bed, *kinds: str) -> AsyncIterator[None]:
    """An operator that dies before and after the first of each of these steps, all of which happen."""
    journal = bed.directory / "-".join(kinds)
    async with bed.operator(killer=Killer(journal, frozenset(kinds))).revived():
        yield
    assert set(journal.read_text().splitlines()) == around(kinds)


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.groups(group("a100", hourlyPrice="3600.00", listedSeconds=LISTED_SECONDS))
async def test_a_loan_is_spent_and_paid_back_once_however_often_the_operator_dies(bed: Bed) -> None:
    terms: dict[str, Any] = {"carryOverPercent": 100, "parent": "company", "openingSpend": "0"}
    await bed.create("GPUBudget", "company", {"amount": "2000005", "carryOverPercent": 100, "loans": "Allowed"})
    await bed.create("GPUBudget", "rich", {"amount": _OWN["rich"], **terms})
    await bed.budget(amount=_OWN["team"], **terms)
    await bed.pool()
    async with _killed_around(bed, "Rent", "KeepBooks"):
        await bed.job("train")
        await bed.running("train")
        await bed.until(lambda: Money.parse(_status(bed, "team").get("spent", "0")) > Money.parse(_OWN["team"]))
        await bed.until(lambda: _lent(bed, "team") == _lent(bed, "rich") == [("rich", "team")])
        assert _status(bed, "team")["loans"] == _status(bed, "rich")["loans"]
        await bed.finish("train")
        await bed.until(lambda: not bed.rentals(), 120)
    spent = {name: Money.parse(_status(bed, name)["settled"]) for name in _OWN}
    assert total(spent.values()).micros == (await bed.bill())[1]
    await _a_month_passes(bed)
    async with _killed_around(bed, "OpenPeriod"):
        await bed.until(lambda: all(_status(bed, name).get("history") for name in _OWN), 120)
    closed = {name: _status(bed, name)["history"] for name in _OWN}
    assert {name: len(months) for name, months in closed.items()} == {"company": 1, "rich": 1, "team": 1}
    beyond = spent["team"] - Money.parse(_OWN["team"])
    assert beyond > ZERO
    (loan,) = closed["team"][0]["borrowed"]
    assert (loan["lender"], Money.parse(loan["amount"])) == ("rich", beyond)
    assert not closed["rich"][0].get("borrowed")
    carried = {name: Money.parse(_status(bed, name).get("carried", "0")) for name in _OWN}
    assert carried == {name: Money.parse(own) - spent[name] for name, own in _OWN.items()}


async def _a_month_passes(bed: Bed) -> None:
    """What was spent in this month was spent in the last one."""
    for name in _OWN:
        start = parse_instant(_status(bed, name)["periodStart"])
        before, _ = month_bounds("UTC", after(start, -1.0))
        record = {"status": {"periodStart": format_instant(before)}}
        await bed.kube.merge_patch(GPU_BUDGETS.status(name), record)
