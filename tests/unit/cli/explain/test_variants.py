"""``charterer explain`` of a job with variants."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from charterer.domain.ids import ClassId, JobId
from charterer.domain.job import ResizePolicy, Variant
from charterer.domain.profile import ThroughputTable
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World

TRAIN = JobId("train")


def graph(*speed: tuple[int, float]) -> World:
    """A job on 4 or 8 GPUs, with a variant on one."""
    world = World()
    world.budget()
    world.pool(gpus=8, price="16")
    world.profile("gnn", ThroughputTable(((4, 620.0), (8, 1000.0))), work_hours=40)
    if speed:
        world.profile("gnn.outofcore", ThroughputTable(speed))
    world.job("train", gpus=(4, 8, 8), profile="gnn")
    variant = Variant("outofcore", ClassId("team", "gnn.outofcore"), 1, 1, 1)
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], variants=(variant,))
    return world


def test_each_option_names_its_variant_and_how_its_speed_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    charterer = charterer_over(graph((1, 700.0)), monkeypatch)
    said = charterer("explain", "train", "--all").stdout
    rows = [" ".join(line.split()) for line in said.splitlines() if "1 GPU on a100 (outofcore)" in line]
    assert any("declared to be rented" in line for line in rows)
    options = json.loads(charterer("explain", "train", "-o", "json").stdout)["options"]
    assert {(option["variant"], option["gpus"], option["speedIs"]) for option in options} == {
        ("outofcore", 1, "declared"),
        ("", 4, "declared"),
        ("", 8, "declared"),
    }


@pytest.mark.parametrize(
    ("explores", "resize", "why"),
    [
        (0, ResizePolicy.RESTART, "spec.explorationPercent of GPUBudget research pays for no trial"),
        (2, ResizePolicy.NEVER, "a job with resizePolicy Never tries nothing"),
        (2, ResizePolicy.RESTART, "it is tried once jobs of the class have reported"),
    ],
)
def test_a_variant_that_is_no_option_says_why(
    explores: int, resize: ResizePolicy, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = graph()
    (budget,) = world.budgets.values()
    world.budgets[budget.id] = replace(budget, exploration_percent=explores)
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], resize=resize)
    charterer = charterer_over(world, monkeypatch)
    said = " ".join(charterer("explain", "train").stdout.split())
    unknown = "nothing is known of its speed, and SpeedupProfile gnn.outofcore declares none"
    assert f"Variant outofcore is no option: {unknown}; {why}" in said
    unused = json.loads(charterer("explain", "train", "-o", "json").stdout)["unusedVariants"]
    assert why in unused["outofcore"]


def test_a_variant_in_another_unit_is_named_with_both_values(monkeypatch: pytest.MonkeyPatch) -> None:
    said = " ".join(charterer_over(graph((1, 0.7)), monkeypatch)("explain", "train").stdout.split())
    assert "Variant outofcore is no option: by SpeedupProfile gnn.outofcore a GPU of a100 does 0.7" in said
