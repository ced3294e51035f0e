"""``charterer plan``: what it says of each kind of capacity."""

from __future__ import annotations

import json

import pytest

from charterer.domain.job import SpotPolicy
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Amdahl
from tests.unit.cli.worlds import charterer_over
from tests.unit.policy.explain.test_capacity_kinds import two_types
from tests.worlds import World


def test_plan_says_what_the_same_jobs_would_cost_without_spot(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget(amount="60000", ceiling="40")
    world.pool("ours", gpu_type="a100", price="16", start_seconds=0)
    world.pool("cheap", gpu_type="a100", price="4", start_seconds=0, capacity=CapacityType.SPOT)
    world.profile("sft", Amdahl(0.95, 1.0), gpu_type="a100", work_hours=40, arrivals_per_hour=0.5, restart_seconds=0)
    world.job("one", gpus=(1, 8, 16), profile="sft", spot=SpotPolicy.ALLOWED)
    charterer = charterer_over(world, monkeypatch)
    said = " ".join(charterer("plan").stdout.split())
    assert "without spot (pool cheap) the same jobs would cost $" in said
    assert "%) if they were as fast" in said
    (budget,) = json.loads(charterer("plan", "-o", "json").stdout)["budgets"]
    (lost,) = budget["withoutCapacity"]
    assert (lost["kind"], lost["pools"]) == ("spot", ["cheap"])
    # Four times the price is three times the bill more, less what interruptions are expected to cost.
    assert 2.0 < float(lost["more"]) / float(lost["costs"]) < 3.0


def test_a_kind_of_capacity_that_brings_nothing_has_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget(amount="60000", ceiling="40")
    world.pool("ours", gpu_type="a100", price="16", start_seconds=0)
    world.pool("dear", gpu_type="a100", price="40", start_seconds=0, capacity=CapacityType.SPOT)
    world.profile("sft", Amdahl(0.95, 1.0), gpu_type="a100", work_hours=40, arrivals_per_hour=0.5, restart_seconds=0)
    world.job("one", gpus=(1, 8, 16), profile="sft", spot=SpotPolicy.ALLOWED)
    charterer = charterer_over(world, monkeypatch)
    assert "What each kind of capacity brings" not in charterer("plan").stdout
    (budget,) = json.loads(charterer("plan", "-o", "json").stdout)["budgets"]
    assert [lost["kind"] for lost in budget["withoutCapacity"]] == ["spot"]


@pytest.mark.parametrize(
    ("amount", "says"),
    [
        ("7000", "would take 2.27 times as long, for $2,994 a month more (+82%); no amount makes up for it"),
        ("5000", "would queue: even their cheapest options left cost more than the amount"),
    ],
)
def test_plan_says_how_long_jobs_would_take_for_the_amount_where_no_money_makes_them_as_fast(
    amount: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = " ".join(charterer_over(two_types(amount), monkeypatch)("plan").stdout.split())
    assert "without h100 (pool h100) the same jobs would " in said
    assert says in said
    assert "at the least" not in said


def test_plan_says_nothing_of_kinds_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget()
    world.pool("ours", gpu_type="a100")
    world.job("one", gpus=8)
    assert "kind of capacity" not in charterer_over(world, monkeypatch)("plan").stdout
