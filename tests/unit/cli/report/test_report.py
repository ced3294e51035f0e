"""``charterer report``: what it says of the last month's jobs, and when it says no number."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from charterer.domain.budget import Cause, Costs, DayCosts, JobTime, Mode
from charterer.domain.money import Money
from charterer.domain.profile import ThroughputTable
from charterer.domain.time import after
from charterer.tools.simulator.engine.world import PlannerError
from tests import factory
from tests.unit.cli.histories import observed
from tests.unit.cli.pages import Page
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World

JOBS = 40


def month(mode: Mode = Mode.OBSERVE) -> World:
    world = World()
    world.budget(mode=mode)
    world.pool(gpus=8, price="16")
    world.profile("sft", ThroughputTable(((1, 1.0), (2, 1.8), (4, 3.2), (8, 5.0), (16, 7.0))))
    return world


def test_savings_and_what_more_money_brings_have_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    world = month()
    charterer = charterer_over(world, monkeypatch, others=observed(world, JOBS))
    (found,) = json.loads(charterer("report", "-o", "json").stdout)["budgets"]
    assert (found["name"], found["jobs"], found["jobsWithCurve"]) == ("research", JOBS, JOBS)
    money, time = found["atTheSameMoney"], found["atTheSameMeanTime"]
    assert 0 < money["savesJobHoursLow"] < money["savesJobHours"] < money["savesJobHoursHigh"]
    assert 0 < float(time["savesLow"]) < float(time["saves"]) < float(time["savesHigh"])
    more, less = found["withOtherMoney"]
    assert (more["times"], less["times"]) == (1.2, 0.8)
    assert 0 <= more["soonerLow"] < more["sooner"] < more["soonerHigh"]
    assert less["sooner"] < less["soonerHigh"] < 0
    # The budget only observes: what is paid today is what the jobs cost as they were asked for.
    assert more["today"] == {key: money[key] for key in ("spends", "meanCompletionSeconds")}
    assert float(found["asAsked"]["spends"]) < float(more["spends"]) <= 1.2 * float(found["asAsked"]["spends"])
    assert found["interval"]["level"] == 0.9


@pytest.mark.slow
def test_a_budget_that_rents_is_asked_from_what_it_pays_now(monkeypatch: pytest.MonkeyPatch) -> None:
    world = month(Mode.ENFORCE)
    world.job("now", gpus=(1, 8, 16), profile="sft")
    charterer = charterer_over(world, monkeypatch, others=observed(world, JOBS))
    (found,) = json.loads(charterer("report", "-o", "json", "--percent", "20").stdout)["budgets"]
    assert float(found["paysPerHourSaved"]) > 0
    (more,) = found["withOtherMoney"]
    assert float(more["today"]["spends"]) != pytest.approx(float(found["asAsked"]["spends"]), rel=0.01)


def test_what_was_lost_is_said_by_cause_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    world = month()
    (name, budget), *_ = world.budgets.items()
    known = {JobTime.TRAINED: Money.parse("6"), JobTime.WAITING_FOR_PEERS: Money.parse("1.5")}
    spent = {Cause.JOB: Money.parse("8"), Cause.STARTING: Money.parse("2")}
    old = DayCosts(after(world.now, -31 * 86_400.0), {Cause.IDLE: Money.parse("99")}, {})
    day = DayCosts(after(world.now, -86_400.0), spent, {"team": Money.parse("8")}, known)
    world.budgets[name] = replace(budget, balance=factory.balance(costs=Costs(days=(old, day))))
    charterer = charterer_over(world, monkeypatch, others=observed(world, 31))
    text = charterer("report").stdout
    assert "What budget research lost in the last 30 days" in text
    assert "Lost: $3.50, 35% of the $10.00 that machines cost. Of $0.50 (5%) it is not known" in text
    assert re.search(r"^waiting for peers +\$1\.50 +15% +estimated +ranks waited for each other$", text, re.MULTILINE)
    assert re.search(r"1\. +starting, \$2\.00", text)
    (found,) = json.loads(charterer("report", "-o", "json").stdout)["budgets"]
    assert found["losses"]["lost"] == "3.50"


def test_too_little_history_is_said_and_no_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = month()
    charterer = charterer_over(world, monkeypatch, others=observed(world, 31))
    file = tmp_path / "page.html"
    shown = charterer("report", "--html", str(file))
    reason = "too little history: 31 jobs of the last 30 days can be simulated, and with fewer than 32"
    assert f"No number: {reason}" in shown.stdout
    assert "the same money" not in shown.stdout
    assert reason in file.read_text()
    assert "<svg" not in file.read_text()
    (found,) = json.loads(charterer("report", "-o", "json").stdout)["budgets"]
    assert (found["atTheSameMoney"], found["withOtherMoney"]) == (None, [])
    assert found["noNumberBecause"].startswith("too little history: 31 jobs")


def test_a_simulation_that_fails_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> object:
        raise PlannerError("at 7 s: no rest")

    monkeypatch.setattr("charterer.tools.commands.report._simulated", fail)
    world = month()
    shown = charterer_over(world, monkeypatch, others=observed(world, JOBS))("report")
    assert "No number: the simulation failed (at 7 s: no rest); report it." in shown.stdout


@pytest.mark.slow
def test_sentences_table_and_page_say_the_same_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = month()
    file = tmp_path / "page.html"
    charterer = charterer_over(world, monkeypatch, others=observed(world, JOBS))
    shown = " ".join(charterer("report", "research", "--percent", "50", "--html", str(file)).stdout.split())
    told = re.search(r"With 50% more money, which is \$30,000 of the amount, they would end (\d+% sooner)", shown)
    assert told is not None
    assert re.search(rf"by Charterer with 50% more money \$[0-9,.]+ \d+ min {told[1]} ", shown) is not None
    page = Page(file.read_text())
    assert page.tags.count("svg") == 1
    assert page.links == []
    assert told[0] in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("reserch",), "no GPUBudget 'reserch': did you mean research?"),
        (("--percent", "-100"), "-100"),
        (("--percent", "x"), "'x' is not a valid float range"),
    ],
)
def test_a_wrong_call_says_what_to_do(arguments: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = charterer_over(month(), monkeypatch)("report", *arguments)
    assert done.exit_code == 1
    assert told in done.stderr


def test_without_a_budget_there_is_nothing_to_report(monkeypatch: pytest.MonkeyPatch) -> None:
    done = charterer_over(World(), monkeypatch)("report")
    assert done.exit_code == 1
    assert "no GPUBudget is in this cluster" in done.stderr
