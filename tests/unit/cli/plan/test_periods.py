"""``charterer plan`` speaks of the period that a budget has."""

from __future__ import annotations

import json
import re
from datetime import date

import pytest

from charterer.domain.time import Calendar, Grant, Period, parse_instant
from tests.unit.cli.plan.test_month_sums import known, young
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World

WEEKLY = Calendar("UTC", Period.WEEK)


def with_calendar(world: World, calendar: Calendar, amount: str = "20000") -> World:
    world.budgets.clear()
    world.budget(amount=amount, spent="6.77", calendar=calendar)
    return world


def told(world: World, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    return " ".join(charterer_over(world, monkeypatch)("plan", *arguments).stdout.split())


def test_a_plan_of_a_weekly_budget_has_no_month(monkeypatch: pytest.MonkeyPatch) -> None:
    for world in (young(), known()):
        text = told(with_calendar(world, WEEKLY), monkeypatch)
        assert "month" not in text.lower()
    assert "If nothing else comes, the week ends at" in told(with_calendar(young(), WEEKLY), monkeypatch)
    text = told(with_calendar(known(), WEEKLY), monkeypatch)
    assert "A row is an amount for every week from now on" in text
    assert "What this week's dollars were for" in text
    assert "IN 9 OF 10 WEEKS" in text


def test_budgets_of_several_periods_have_them_in_their_own_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    world = with_calendar(young(), WEEKLY)
    world.budget("nlp", spent="3")
    text = told(world, monkeypatch)
    assert "What this period's dollars were for" in text
    assert "research: $6.77 spent" in text


def test_the_period_is_in_the_json(monkeypatch: pytest.MonkeyPatch) -> None:
    world = with_calendar(known(), WEEKLY)
    (budget,) = json.loads(charterer_over(world, monkeypatch)("plan", "-o", "json").stdout)["budgets"]
    assert budget["period"] == "Week"


def test_another_amount_is_one_of_a_week(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(with_calendar(known(), WEEKLY), monkeypatch, "--amount", "research=30000")
    assert "budget research is $30,000.00 a week instead of $20,000.00" in text
    assert "for the rest of this week" in text


def test_a_part_of_the_amount_counts_in_the_first_week(monkeypatch: pytest.MonkeyPatch) -> None:
    world = young()
    world.budgets.clear()
    world.budget(amount="7000", calendar=WEEKLY, opening=None)
    assert re.search(
        r"count for the rest of its first week .* what was spent before in that week", told(world, monkeypatch)
    )


def test_a_grant_that_is_over_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = young()
    world.now = parse_instant("2026-06-16T00:00:00Z")
    with_calendar(world, Calendar("UTC", Period.GRANT, Grant(date(2026, 6, 1), date(2026, 6, 15))))
    text = told(world, monkeypatch)
    assert "(spec.grant: 2026-06-01 to 2026-06-15) ended at 2026-06-16T00:00Z: nothing more is spent" in text
