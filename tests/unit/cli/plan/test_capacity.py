"""``charterer plan``: what it says of each kind of capacity."""

from __future__ import annotations

import json

import pytest

from charterer.domain.job import SpotPolicy
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Amdahl
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World


def test_plan_says_what_the_same_jobs_would_cost_without_spot(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget(amount="60000")
    world.pool("ours", gpu_type="a100", price="16", start_seconds=0)
    world.pool("cheap", gpu_type="a100", price="4", start_seconds=0, capacity=CapacityType.SPOT)
    world.profile("sft", Amdahl(0.95, 1.0), gpu_type="a100", work_hours=40, arrivals_per_hour=0.5, restart_seconds=0)
    world.job("one", gpus=(1, 8, 64), profile="sft", spot=SpotPolicy.ALLOWED)
    charterer = charterer_over(world, monkeypatch)
    said = " ".join(charterer("plan").stdout.split())
    assert "without spot (pool cheap) the same jobs would cost $" in said
    assert "%) if they were as fast" in said
    (budget,) = json.loads(charterer("plan", "-o", "json").stdout)["budgets"]
    (lost,) = budget["withoutCapacity"]
    assert (lost["kind"], lost["pools"]) == ("spot", ["cheap"])
    # Four times the price is three times the bill more, less what interruptions are expected to cost.
    assert 2.0 < float(lost["more"]) / float(lost["costs"]) < 3.0


def test_plan_says_nothing_of_kinds_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget()
    world.pool("ours", gpu_type="a100")
    world.job("one", gpus=8)
    assert "kind of capacity" not in charterer_over(world, monkeypatch)("plan").stdout
