"""``charterer plan --amount``: the same jobs at another amount."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from charterer.domain.profile import Amdahl
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World

AMOUNT = 5_000
DECLARED = 0.05
"""Jobs an hour of the class of which nine are in sight."""


def young(declared: float | None = None) -> World:
    """A budget of minutes, of which nothing but its jobs in sight is known; and a class of which more is.

    ``declared``: so many jobs an hour of the first class.
    """
    world = World()
    world.budget(amount=str(AMOUNT))
    world.pool("a100", gpus=4, price="12.80")
    world.pool("h100", gpus=8, price="55", gpu_type="h100")
    world.profile("vit", Amdahl(0.97, 1.0), work_hours=12, arrivals_per_hour=declared)
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=6, arrivals_per_hour=0.3)
    for number in range(9):
        world.job(f"vit-{number}", gpus=(1, 4, 32), profile="vit", weight=5.0 if number % 3 else 1.0)
    world.job("sft", gpus=(1, 4, 32), profile="sft")
    return world


def what_if(
    monkeypatch: pytest.MonkeyPatch, amount: float, declared: float | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plan as it is, and at that amount."""
    charterer = charterer_over(young(declared), monkeypatch)
    shown = json.loads(charterer("plan", "--amount", f"research={amount:.0f}", "-o", "json").stdout)
    return shown["whatIf"]["asItIs"], shown


def arrivals(plan: dict[str, Any]) -> dict[tuple[str, float], float]:
    return {(row["class"], row["weight"]): row["arrivalsPerHour"] for row in plan["classes"]}


@pytest.mark.parametrize("factor", [0.8, 1.2, 4.0])
def test_an_amount_changes_nothing_of_how_often_jobs_come(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = what_if(monkeypatch, AMOUNT * factor)
    assert arrivals(after) == pytest.approx(arrivals(before))
    before, after = what_if(monkeypatch, AMOUNT * factor, DECLARED)
    for end in ("smallestSufficient", "largestUseful"):
        assert after["budgets"][0]["moreOrLess"][end] == before["budgets"][0]["moreOrLess"][end]


def test_a_little_more_money_changes_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = what_if(monkeypatch, AMOUNT * 1.001)
    assert after["budgets"][0]["meanCompletionSeconds"] == pytest.approx(
        before["budgets"][0]["meanCompletionSeconds"], rel=0.03
    )


def test_jobs_never_take_longer_with_more_money(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [what_if(monkeypatch, AMOUNT * factor, DECLARED)[1] for factor in (0.8, 0.9, 1.1, 1.2, 1.5, 2.0, 4.0)]
    (budgets,) = zip(*(plan["budgets"] for plan in plans), strict=True)
    hours = [budget["meanCompletionSeconds"] for budget in budgets if budget["feasible"]]
    assert len(hours) >= 3
    assert hours == sorted(hours, reverse=True)
    assert hours[-1] < hours[0]
    for budget in budgets:
        saved = [point["secondsSavedByOneMoreDollar"] for point in budget["moreOrLess"]["amounts"]]
        known = [seconds for seconds in saved if seconds is not None]
        assert known == sorted(known, reverse=True)


def said(monkeypatch: pytest.MonkeyPatch, amount: float) -> str:
    charterer = charterer_over(young(DECLARED), monkeypatch)
    return " ".join(charterer("plan", "--amount", f"research={amount:.0f}").stdout.split())


def test_the_effect_on_this_month_is_said_first_in_hours_and_dollars(monkeypatch: pytest.MonkeyPatch) -> None:
    more = r"What if \* .* research: 20% more money: jobs end \S+ \S+ earlier on average for the rest of this month, "
    assert re.search(more + r"and (\$[\d,]+ more|as much) is spent by its end\.", said(monkeypatch, AMOUNT * 1.2))
    assert "research: 20% less money: jobs " in said(monkeypatch, AMOUNT * 0.8)


def test_an_amount_that_is_the_same_has_no_effect_to_tell_of(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "for the rest of this month" not in said(monkeypatch, AMOUNT)
