"""``charterer plan``: what a month's forecast is made of, and what it says before there is any history."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from charterer.domain.ids import ClassId
from charterer.domain.money import Money
from charterer.domain.profile import Amdahl
from tests.unit.cli.worlds import charterer_over
from tests.worlds import NAMESPACE, World


def young() -> World:
    """A budget of minutes with nine jobs, of which nothing says how often they come."""
    world = World()
    world.budget(amount="20000", spent="6.77")
    world.pool("a100", gpus=4, price="12.80")
    world.profile("vit", Amdahl(0.97, 1.0), work_hours=12)
    for number in range(9):
        world.job(f"vit-{number}", gpus=(1, 4, 32), profile="vit")
    return world


def known() -> World:
    """The same, and the class declares how often its jobs come."""
    world = young()
    name = ClassId(NAMESPACE, "vit")
    world.profiles[name] = replace(world.profiles[name], arrivals_per_hour=0.5)
    return world


def said(world: World, monkeypatch: pytest.MonkeyPatch) -> str:
    return " ".join(charterer_over(world, monkeypatch)("plan").stdout.split())


def test_what_is_spent_in_sight_and_to_come_adds_up_to_the_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    (budget,) = json.loads(charterer_over(known(), monkeypatch)("plan", "-o", "json").stdout)["budgets"]
    spent, in_sight, to_come, forecast = (
        Money.parse(budget[field]) for field in ("spent", "inSight", "toCome", "forecast")
    )
    assert spent + in_sight + to_come == forecast
    assert min(in_sight, to_come) > Money(0)


def test_without_history_there_is_no_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    (budget,) = json.loads(charterer_over(young(), monkeypatch)("plan", "-o", "json").stdout)["budgets"]
    assert [budget[field] for field in ("forecast", "forecastLow", "forecastHigh")] == [None, None, None]
    assert (budget["arrivals"]["basis"], budget["arrivals"]["batches"]) == ("Assumed", 1)


def test_without_history_it_says_what_is_assumed_and_how_the_month_ends_if_nothing_else_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = said(young(), monkeypatch)
    assert "research: $6.77 spent, $" in text
    assert " for 9 jobs in sight, $" in text
    assert " for jobs to come, assumed: there is no history yet. If nothing else comes, the month ends at $" in text
    assert not [words for words in ("too small", "used in full", "nothing faster is worth it.") if words in text]


def test_without_history_the_page_promises_nothing_of_more_money(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "plan.html"
    charterer_over(young(), monkeypatch)("plan", "--html", str(file))
    page = file.read_text().partition("<body>")[2]
    assert "research has spent $6.77 of $20,000.00 (under 1%) this month, with 9 jobs in sight. If nothing else" in page
    assert "with a fifth more" not in page
    assert "<svg" not in page


def test_without_history_no_amount_is_called_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = young()
    world.pool("h100", gpus=8, price="55", gpu_type="h100")
    charterer, file = charterer_over(world, monkeypatch), tmp_path / "money.svg"
    text = " ".join(charterer("plan").stdout.split())
    assert "research: there is no history yet, so what more or less money would buy is not known." in text
    assert "A row is an amount" not in text
    assert "without h100" not in text
    (budget,) = json.loads(charterer("plan", "-o", "json").stdout)["budgets"]
    assert (budget["moreOrLess"], budget["withoutCapacity"]) == (None, [])
    drawn = charterer("plan", "--picture", str(file))
    assert (drawn.exit_code, file.exists()) == (1, False)
    assert "no budget has a history of jobs" in drawn.stderr


def test_without_history_jobs_that_cost_more_than_is_left_queue_and_no_amount_is_said_to_suffice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = young()
    world.budget(amount="20")
    text = said(world, monkeypatch)
    assert "jobs queue; the jobs that are there cost more than that" in text
    assert "the cheapest options of its jobs need" not in text


def test_without_history_a_what_if_assumes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(charterer_over(young(), monkeypatch)("plan", "--amount", "research=24000").stdout.split())
    assert " for jobs to come, assumed: there is no history yet." in text
    assert "used in full" not in text


@pytest.mark.parametrize(("amount", "part"), [("1400", "93% less"), ("24000", "20% more")])
def test_without_history_only_the_jobs_in_sight_are_compared_at_two_amounts(
    amount: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    charterer = charterer_over(young(), monkeypatch)
    text = " ".join(charterer("plan", "--amount", f"research={amount}").stdout.split())
    told = rf"research: {part} money: (\d) of 9 jobs in sight would have other GPUs now; "
    found = re.search(told + "there is no history yet, so what more or less money would buy is not known", text)
    assert found is not None
    for claim in (
        "as early as now",
        "earlier on average",
        "is spent by its end",
        "smallest budget",
        "in the long run $",
    ):
        assert claim not in text
    (effect,) = json.loads(charterer("plan", "--amount", f"research={amount}", "-o", "json").stdout)["whatIf"][
        "effects"
    ]
    unknown = ("meanCompletionSecondsBefore", "meanCompletionSeconds", "moreSpent")
    assert [effect[field] for field in unknown] == [None, None, None]
    assert (effect["jobsInSight"], effect["jobsWithOtherGpus"]) == (9, int(found[1]))


def test_with_history_nothing_is_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = said(known(), monkeypatch)
    assert " for jobs expected to come." in text
    assert "history" not in text
