"""The table of budgets that ``charterer plan`` prints."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from charterer.domain.spending.currency import Currency
from charterer.domain.time import moment
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World


@pytest.mark.parametrize("amount", ["0", "20000"])
def test_a_budget_without_money_or_jobs_has_a_dash_for_its_exchange_rate(
    monkeypatch: pytest.MonkeyPatch, amount: str
) -> None:
    world = World()
    world.budget(amount=amount)
    world.pool(gpus=8, price="16")
    if amount == "0":
        world.job("one", gpus=(1, 8, 64))
    charterer = charterer_over(world, monkeypatch)
    said = charterer("plan").stdout
    header, row = [line for line in said.splitlines() if line.startswith(("BUDGET", "research"))][:2]
    assert row[header.index("PAYS/H-SAVED") :].split()[0] == "-"
    assert "pays up to" not in said
    (budget,) = json.loads(charterer("plan", "-o", "json").stdout)["budgets"]
    assert budget["paysPerHourSaved"] is None


@pytest.mark.parametrize(("jobs", "told"), [(1, "its only job cannot"), (2, "none of its 2 jobs can")])
def test_a_budget_whose_jobs_have_no_option_is_not_said_to_have_none(
    jobs: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.budget()
    world.pool(gpus=8)
    for number in range(jobs):
        world.job(f"job-{number}", gpus=8, gpu_types=("H100",))
    said = charterer_over(world, monkeypatch)("plan").stdout
    assert f"{told} be given GPUs: see WHY" in said
    assert "no jobs" not in said


def test_without_a_pool_a_job_is_told_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget()
    world.job("one", gpus=8)
    assert "there is no GPUPool: apply one" in charterer_over(world, monkeypatch)("plan").stdout


def test_a_budget_in_euros_is_told_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    budget = world.budget(amount="20000", spent="1000")
    euro = Currency("EUR", 920_000, moment(world.now).date())
    world.budgets[budget.id] = replace(budget, currency=euro)
    world.pool(gpus=8, price="16")
    charterer = charterer_over(world, monkeypatch)
    told = f"research: the amount is 18,400.00 EUR and 920.00 EUR are spent, at {euro}."
    assert told in charterer("plan").stdout.replace("\n", " ")
    (shown,) = json.loads(charterer("plan", "-o", "json").stdout)["budgets"]
    assert (shown["amount"], shown["inCurrency"]["amount"]) == ("20000.00", "18400.00")
    asked = charterer("plan", "--amount", "research=9200").stdout
    assert "budget research is $10,000.00 a month instead of $20,000.00" in " ".join(asked.split())
