"""``charterer explain`` and ``charterer plan`` of a node that is mostly empty."""

from __future__ import annotations

import json

import pytest

from tests.scenarios.policy.test_whole_nodes import running, team
from tests.unit.cli.worlds import charterer_over


def test_the_empty_gpus_of_a_running_jobs_node_are_told_with_what_is_paid_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    charterer = charterer_over(running(), monkeypatch)
    assert "Its node h100-1 has 8 GPUs, 7 are empty: the budget pays $55.00/h." in charterer("explain", "one").stdout
    node = json.loads(charterer("explain", "one", "-o", "json").stdout)["node"]
    assert node == {"rental": "h100-1", "gpus": 8, "empty": 7, "hourly": "55.00"}


def test_before_it_is_rented_they_are_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    said = charterer_over(team(), monkeypatch)("explain", "one").stdout
    assert "Its node has 8 GPUs, 7 are empty unless others come: the budget pays $55.00/h." in said


def test_a_full_node_is_not_spoken_of(monkeypatch: pytest.MonkeyPatch) -> None:
    world = running("two", "three", "four", "five", "six", "seven", "eight")
    assert "Its node" not in charterer_over(world, monkeypatch)("explain", "one").stdout


def test_idle_gpus_are_assumed_until_they_were_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = charterer_over(running(), monkeypatch)("explain", "one").stdout.splitlines()
    (idle,) = [line for line in lines if line.startswith("idle GPUs")]
    assert idle.split()[-1] == "assumed"


def test_the_plan_tells_what_rented_nodes_cost_now(monkeypatch: pytest.MonkeyPatch) -> None:
    charterer = charterer_over(running(), monkeypatch)
    lines = charterer("plan").stdout.splitlines()
    header, row = [line for line in lines if line.startswith(("BUDGET ", "research  "))][:2]
    assert row[: header.index("NOW/H") + len("NOW/H")].split()[-1] == "$55.00"
    (budget,) = json.loads(charterer("plan", "-o", "json").stdout)["budgets"]
    assert budget["nowPerHour"] == "55.00"
