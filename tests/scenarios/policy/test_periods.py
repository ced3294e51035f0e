"""Budgets of a week, and of a grant from a day to a day, as short stories."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId, JobId
from charterer.domain.money import ZERO, Money
from charterer.domain.plan import ReasonCode
from charterer.domain.steps import OpenPeriod
from charterer.domain.time import Calendar, Grant, Period, after, parse_instant
from charterer.lifecycle import next_steps
from charterer.policy import plan
from tests.scenarios.policy.stories import placed, releases, rents, why
from tests.worlds import World

RESEARCH = BudgetId("research")
WEEKLY = Calendar("UTC", Period.WEEK)
GRANT = Calendar("UTC", Period.GRANT, Grant(date(2026, 6, 10), date(2026, 6, 20)))


def world_of(calendar: Calendar, now: str, amount: str = "60000", **fields: Any) -> World:
    """A budget with that calendar and one pool, at a time."""
    world = World(now=parse_instant(now))
    world.budget(amount=amount, calendar=calendar, **fields)
    world.pool()
    return world


def open_period(world: World) -> Budget:
    """Open the period that has begun, as the budget's life cycle does."""
    steps, _ = next_steps(world.snapshot())
    budget = world.budgets[RESEARCH]
    (step,) = [each for each in steps.values() if isinstance(each, OpenPeriod)]
    assert budget.balance is not None
    balance = replace(budget.balance, period_start=step.start, settled=ZERO)
    world.budgets[RESEARCH] = replace(budget, balance=balance)
    return world.budgets[RESEARCH]


def allowed(world: World) -> float:
    return plan(world.snapshot()).budgets[RESEARCH].allowed.dollars_per_hour


def message(world: World, job: str) -> str:
    return plan(world.snapshot()).jobs[JobId(job)].reason.message


def test_an_amount_a_week_is_spread_over_the_week() -> None:
    world = world_of(WEEKLY, "2026-06-15T00:00:00Z", amount="1680")
    assert allowed(world) == pytest.approx(10.0)
    world = world_of(WEEKLY, "2026-06-18T12:00:00Z", amount="1680", opening=None)
    assert allowed(world) == pytest.approx(10.0), "of the first week the rest counts"


def test_a_week_ends_on_monday_and_the_next_one_has_new_money() -> None:
    world = world_of(WEEKLY, "2026-06-21T20:00:00Z", hard_limit="60000", spent="60000")
    world.job("train", gpus=8)
    assert why(plan(world.snapshot()), "train") is ReasonCode.HARD_LIMIT
    assert world.budgets[RESEARCH].period == (
        parse_instant("2026-06-15T00:00:00Z"),
        parse_instant("2026-06-22T00:00:00Z"),
    )
    world.now = parse_instant("2026-06-22T00:00:01Z")
    assert rents(plan(world.snapshot())) == ["a100-1"], "also before its period is opened"
    assert open_period(world).period[1] == parse_instant("2026-06-29T00:00:00Z")
    assert rents(plan(world.snapshot())) == ["a100-1"]


def test_nothing_is_rented_before_a_grant_begins_and_everything_from_its_first_day_on() -> None:
    world = world_of(GRANT, "2026-06-09T23:00:00Z")
    world.job("train", gpus=8)
    decided = plan(world.snapshot())
    assert (rents(decided), why(decided, "train")) == ([], ReasonCode.HARD_LIMIT)
    assert "begins at 2026-06-10T00:00Z" in message(world, "train")
    assert decided.again_at == parse_instant("2026-06-10T00:00:00Z")
    assert decided.budgets[RESEARCH].to_come == ZERO
    world.now = parse_instant("2026-06-10T00:00:01Z")
    assert rents(plan(world.snapshot())) == ["a100-1"], "also before its period is opened"
    budget = open_period(world)
    assert (budget.counted, budget.closed) == (Money.parse("60000"), False)
    assert rents(plan(world.snapshot())) == ["a100-1"]


def test_what_runs_before_a_grant_begins_ends() -> None:
    """Of a former budget of the name, say."""
    world = world_of(GRANT, "2026-06-01T00:00:00Z")
    world.rental()
    assert releases(plan(world.snapshot())) == {"a100-1": ReasonCode.HARD_LIMIT}


def running(now: str, grace: int = 60) -> World:
    world = world_of(GRANT, "2026-06-20T12:00:00Z")
    world.rental(age=3_600.0)
    world.job("train", gpus=8, grace_seconds=grace)
    world.runs_on("train", "a100-1", gpus=8)
    world.now = parse_instant(now)
    return world


def test_all_nodes_end_before_a_grant_is_over_and_the_instant_is_known() -> None:
    world = running("2026-06-20T23:00:00Z", grace=600)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert decided.again_at is not None
    ends = parse_instant("2026-06-21T00:00:00Z")
    assert after(ends, -1_200.0) < decided.again_at < after(ends, -600.0)
    world.now = after(decided.again_at, 1.0)
    decided = plan(world.snapshot())
    assert releases(decided) == {"a100-1": ReasonCode.HARD_LIMIT}
    assert placed(decided) == {"train": 0}
    assert "ends at 2026-06-21T00:00Z" in message(world, "train")


def test_nothing_is_rented_or_started_too_late_to_be_of_use_before_a_grant_ends() -> None:
    world = world_of(GRANT, "2026-06-20T23:45:00Z")
    world.job("late", gpus=8, grace_seconds=0)
    assert rents(plan(world.snapshot())) == []
    assert "ends at 2026-06-21T00:00Z" in message(world, "late")
    world.rental(age=3_600.0)
    assert placed(plan(world.snapshot())) == {"late": 8}, "a ready node is of use for longer"
    world.now = parse_instant("2026-06-20T23:50:00Z")
    assert placed(plan(world.snapshot())) == {}


@pytest.mark.parametrize("opened", [False, True])
def test_nothing_is_spent_after_a_grant(opened: bool) -> None:
    world = running("2026-06-21T00:00:01Z")
    if opened:
        open_period(world)
    decided = plan(world.snapshot())
    assert releases(decided) == {"a100-1": ReasonCode.HARD_LIMIT}
    assert placed(decided) == {"train": 0}
    world.job("next", gpus=8)
    assert "ended at 2026-06-21T00:00Z" in message(world, "next")
    assert "create another GPUBudget" in message(world, "next")
    assert world.budgets[RESEARCH].in_period_of(world.now).aim == ZERO


def test_a_parent_of_another_period_is_none() -> None:
    world = world_of(WEEKLY, "2026-06-16T00:00:00Z")
    world.budget("company", amount="1", hard_limit="1")
    budget = world.budgets[RESEARCH]
    world.budgets[RESEARCH] = replace(budget, parent=BudgetId("company"))
    world.job("train", gpus=8)
    decided = plan(world.snapshot())
    assert (rents(decided), why(decided, "train")) == ([], ReasonCode.PARENT_UNKNOWN)
    assert "spec.period of GPUBudget research is Week, and that of its parent company is Month" in message(
        world, "train"
    )
    assert decided.budgets[BudgetId("company")].with_descendants is None
