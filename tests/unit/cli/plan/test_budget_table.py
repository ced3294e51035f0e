"""The table of budgets that ``charterer plan`` prints."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from charterer.domain.budget import NOTHING, Currency, JobShare, Selector
from charterer.domain.ids import BudgetId
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


def test_what_counts_of_an_amount_in_its_first_month_is_told_beside_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.budget(amount="60000", opening=None)
    world.pool(gpus=8, price="16")
    charterer = charterer_over(world, monkeypatch)
    told = "$30,000.00 of its $60,000.00 count for the rest of its first month ($83.33/h)"
    assert f"research: {told}; if all of it" in " ".join(charterer("plan").stdout.split())
    (budget,) = json.loads(charterer("plan", "-o", "json").stdout)["budgets"]
    assert (budget["amount"], budget["aim"]) == ("60000.00", "30000.00")
    world.budget(amount="60000", opening="0")
    charterer = charterer_over(world, monkeypatch)
    assert "count for the rest" not in charterer("plan").stdout
    (budget,) = json.loads(charterer("plan", "-o", "json").stdout)["budgets"]
    assert (budget["amount"], budget["aim"]) == ("60000.00", "60000.00")


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


def test_budgets_are_a_tree_with_the_limits_that_hold_for_all_below(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget("org", amount="1000", hard_limit="2000", max_hourly="40")
    world.budget("vision", amount="900", parent="org", spent="12")
    world.budget("alone", amount="500")
    world.budget("speech", amount="600", parent="org", spent="3")
    org = world.budgets[BudgetId("org")]
    world.budgets[org.id] = replace(org, selector=NOTHING)
    for team in ("alone", "speech"):
        world.budgets[BudgetId(team)] = replace(world.budgets[BudgetId(team)], selector=Selector((("team", team),), ()))
    world.pool(gpus=8, price="16")
    world.rental(budget="vision", age=0.0)
    world.job("one", gpus=8, budget="vision")
    charterer = charterer_over(world, monkeypatch)
    said = charterer("plan").stdout
    table = said[said.index("BUDGET") :]
    rows = [line for line in table.splitlines() if line.split()[:1] in (["org"], ["vision"], ["alone"], ["speech"])][:4]
    assert [line.split()[0] for line in rows] == ["alone", "org", "speech", "vision"]
    assert [len(line) - len(line.lstrip()) for line in rows] == [0, 0, 2, 2]
    assert "those below ask for $1,500.00, and each has its part" in " ".join(table.split())
    plain = {each["name"]: each for each in json.loads(charterer("plan", "-o", "json").stdout)["budgets"]}
    assert (plain["vision"]["parent"], plain["vision"]["amount"]) == ("org", "600.00")
    family = plain["org"]["withDescendants"]
    assert (family["amount"], family["spent"], family["hourlyAtMost"]) == ("1000.00", "15.00", "16.00")
    assert plain["alone"]["withDescendants"] is None


def test_a_budget_whose_parent_is_missing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget("vision", parent="org")
    world.pool(gpus=8, price="16")
    world.job("one", gpus=8, budget="vision")
    said = " ".join(charterer_over(world, monkeypatch)("plan").stdout.split())
    assert "spec.parent of GPUBudget vision is org, which does not exist or cannot be read" in said


def test_who_lends_whom_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget("org", amount="90000", lends=True)
    world.budgets[BudgetId("org")] = replace(world.budgets[BudgetId("org")], selector=NOTHING)
    world.budget("research", amount="60000", parent="org", spent="61000")
    world.pool(gpus=8, price="16")
    charterer = charterer_over(world, monkeypatch)
    assert "org lends research $1,000.00 this month" in " ".join(charterer("plan").stdout.split())
    shown = {
        budget["name"]: budget["loans"] for budget in json.loads(charterer("plan", "-o", "json").stdout)["budgets"]
    }
    loan = {"lender": "org", "borrower": "research", "amount": "1000.00"}
    assert shown == {"org": [loan], "research": [loan]}


def test_shares_of_a_budget_are_told_by_plan_and_explain(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    budget = world.budget(amount="360")
    world.budgets[budget.id] = replace(budget, job_shares=(JobShare("vision", 0.5, label=("team", "vision")),))
    world.pool(gpus=8, price="16")
    for number in range(20):
        world.job(f"other-{number}", gpus=8)
    mine = world.job("mine", gpus=8)
    world.jobs[mine.id] = replace(mine, labels={"team": "vision"})
    charterer = charterer_over(world, monkeypatch)
    said = " ".join(charterer("plan").stdout.split())
    assert "research: share vision (50%): 1 job, up to $0.50/h, " in said
    assert "too little for the cheapest options of all of them: they queue." in said
    (shown,) = [each["shares"] for each in json.loads(charterer("plan", "-o", "json").stdout)["budgets"]]
    assert {share["name"]: (share["jobs"], share["feasible"]) for share in shown} == {
        "vision": (1, True),
        "(others)": (20, False),
    }
    said = " ".join(charterer("explain", "mine").stdout.split())
    assert "Of its money 50% is sure for such jobs, $0.50/h now: the job is of share vision." in said
    assert json.loads(charterer("explain", "mine", "-o", "json").stdout)["share"] == "vision"
    assert "the job is of none of its shares" in " ".join(charterer("explain", "other-0").stdout.split())
