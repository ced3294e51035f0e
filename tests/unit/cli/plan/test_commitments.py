"""What ``charterer plan`` says of commitments."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.unit.cli.worlds import charterer_over
from tests.worlds import World


def committed_world() -> World:
    world = World()
    world.budget()
    world.pool("reserved", price="16", max_nodes=2, committed_hours=2_000.0)
    rental = world.rental("reserved", age=36_000.0)
    world.rentals[rental.id] = replace(rental, ready=rental.launched)
    return world


def test_what_was_used_and_what_a_node_less_or_more_would_change_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    charterer = charterer_over(committed_world(), monkeypatch)
    said = " ".join(charterer("plan").stdout.split())
    assert "What was used of commitments this month" in said
    assert "reserved: $0.00 used (0 GPU-hours, 0% of all), $160.00 not used (80 GPU-hours)" in said
    assert (
        "a node less would have saved $160.00, and one more cost $160.00 more, by the nodes that are on record" in said
    )
    assert "$11,520.00 for nodes that are paid for whether they are used or not" in said
    (budget,) = json.loads(charterer("plan", "-o", "json").stdout)["budgets"]
    assert budget["commitmentsToCome"] == "11520.00"
    (use,) = budget["commitments"]
    assert (use["pool"], use["unused"], use["nodeLessSaves"]) == ("reserved", "160.00", "160.00")


def test_a_cluster_without_commitments_says_nothing_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.budget()
    world.pool()
    world.job("train", gpus=8)
    said = charterer_over(world, monkeypatch)("plan").stdout
    assert "commitment" not in said
    assert "used or not" not in said
