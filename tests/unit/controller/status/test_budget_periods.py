"""What a budget shows of its period: of a week, and of a grant that has not begun or is over."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from charterer.domain.time import Calendar, Grant, Period, parse_instant
from tests.unit.controller.status.test_budget_view import status
from tests.worlds import World


def conditions(calendar: Calendar, now: str = "2026-06-16T00:00:00Z", **fields: Any) -> dict[str, Any]:
    world = World(now=parse_instant(now))
    world.budget(calendar=calendar, **fields)
    world.pool()
    world.job("train", gpus=8)
    return {"state": status(world)["state"], **{each["type"]: each for each in status(world)["conditions"]}}


def test_a_forecast_without_history_is_told_of_the_week() -> None:
    shown = conditions(Calendar("UTC", Period.WEEK))
    assert "If nothing else comes, the week ends at" in shown["WithinBudget"]["message"]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ("2026-05-31T23:59:00Z", "(spec.grant: 2026-06-01 to 2026-06-20) begins at 2026-06-01T00:00Z"),
        ("2026-06-21T00:00:00Z", "(spec.grant: 2026-06-01 to 2026-06-20) ended at 2026-06-21T00:00Z"),
    ],
)
def test_a_budget_outside_its_grant_is_closed_and_says_what_to_do(now: str, said: str) -> None:
    calendar = Calendar("UTC", Period.GRANT, Grant(date(2026, 6, 1), date(2026, 6, 20)))
    shown = conditions(calendar, now)
    ready = shown["Ready"]
    assert (shown["state"], ready["status"], ready["reason"]) == ("Closed", "False", "OutsideGrant")
    assert said in ready["message"]
    assert "create another GPUBudget" in ready["message"]
    shown = conditions(calendar, "2026-06-20T12:00:00Z")
    assert (shown["state"], shown["Ready"]["reason"]) == ("Ready", "Enforcing")


def test_a_commitment_is_not_covered_after_a_grant() -> None:
    world = World(now=parse_instant("2026-06-21T00:00:00Z"))
    world.budget(calendar=Calendar("UTC", Period.GRANT, Grant(date(2026, 6, 1), date(2026, 6, 20))))
    world.pool(max_nodes=1, committed_hours=48.0)
    shown = {each["type"]: each for each in status(world)["conditions"]}
    assert shown["CommitmentsCovered"]["reason"] == "LimitBelowCommitments"
