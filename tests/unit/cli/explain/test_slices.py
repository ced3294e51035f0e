"""``charterer explain`` of jobs that take slices."""

from __future__ import annotations

import json
from typing import cast

import pytest

from charterer.api.models.trainingjob_status import ComparedOption
from charterer.domain.ids import JobId
from charterer.domain.profile import SpeedCurve, ThroughputTable
from charterer.gpu_types import slice_type
from charterer.tools.commands.shared.one_namespace import compared_json, in_words
from tests.scenarios.policy.pairs import come, world_of_pairs
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World

A100 = "NVIDIA-A100-SXM4-80GB"
ONE = ThroughputTable(((1, 1.0),))


def slices_for_sale() -> World:
    """Whole A100s, and two pools whose GPUs are cut into slices, for a class whose speed is known on all."""
    world = World()
    world.budget()
    world.pool("whole", gpus=8, price="28", gpu_type=A100)
    world.pool("ones", gpus=8, price="28", gpu_type=A100, cut="1g.10gb")
    world.pool("twos", gpus=8, price="28", gpu_type=A100, cut="2g.20gb")
    others = [SpeedCurve(slice_type(A100, profile), ONE) for profile in ("1g.10gb", "2g.20gb")]
    world.profile("sft", ONE, gpu_type=A100, work_hours=4, others=others)
    return world


def test_a_slice_is_named_with_its_price_and_what_it_is_a_part_of(monkeypatch: pytest.MonkeyPatch) -> None:
    world = slices_for_sale()
    for number in range(60):
        world.job(f"j{number}", gpus=1, profile="sft", slices=("1g.10gb",))
    world.job("train", gpus=1, profile="sft", slices=("1g.10gb",))
    said = charterer_over(world, monkeypatch)("explain", "train").stdout
    (chosen,) = [" ".join(line.split()) for line in said.splitlines() if line.startswith("*")]
    assert chosen.startswith("* a 1g.10gb slice on ones $0.50 ")
    assert f"A 1g.10gb slice is one of 7 of a {A100}." in said
    assert "2g.20gb slices on twos are no option: spec.gpus.slices does not name 2g.20gb." in said


def test_nothing_of_slices_is_told_of_a_job_that_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    world = slices_for_sale()
    world.job("train", gpus=1, profile="sft")
    assert "slice" not in charterer_over(world, monkeypatch)("explain", "train").stdout


def test_a_job_without_an_option_is_told_which_slices_it_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    world = slices_for_sale()
    del world.pools[next(name for name in world.pools if name == "whole")]
    world.job("train", gpus=1, profile="sft")
    said = charterer_over(world, monkeypatch)("explain", "train").stdout
    assert "spec.gpus.slices does not name 1g.10gb" in said
    assert "spec.gpus.slices does not name 2g.20gb" in said


def test_slices_that_too_few_jobs_would_choose_are_no_option_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = slices_for_sale()
    world.pool("single", gpus=1, price="3.5", gpu_type=A100)
    world.job("train", gpus=1, profile="sft", slices=("1g.10gb",))
    said = charterer_over(world, monkeypatch)("explain", "train").stdout
    assert "1g.10gb slices on ones are no option now: too few jobs of the budget would choose them" in said


def test_programs_are_told_the_slice_of_each_option(monkeypatch: pytest.MonkeyPatch) -> None:
    world = slices_for_sale()
    world.job("train", gpus=1, profile="sft", slices=("1g.10gb",))
    told = json.loads(charterer_over(world, monkeypatch)("explain", "train", "-o", "json").stdout)
    assert {(option["pool"], option["slice"]) for option in told["options"]} == {("whole", ""), ("ones", "1g.10gb")}


def test_so_is_whoever_may_read_one_namespace_only() -> None:
    shared = ComparedOption(pool="pairs", gpu_type=slice_type(A100, "mps-2"), gpus=1, verdict="chosen")
    assert in_words(shared) == "a shared GPU on pairs"
    assert cast(dict[str, object], compared_json(shared))["slice"] == "mps-2"


def test_it_is_told_beside_whom_a_job_would_be_what_both_keep_and_how_that_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = {("heavy", "tiny"): 0.9, ("tiny", "heavy"): 0.9}
    world = world_of_pairs({("heavy", "heavy"): 0.4, ("light", "heavy"): 0.8, **small})
    come(world, ("first", "heavy"))
    world.job("train", gpus=1, profile="light", shared_mib=1024)
    said = " ".join(charterer_over(world, monkeypatch)("explain", "train").stdout.split())
    would = "Beside team/first it would keep 80% of its speed (20 reports), and team/first 75% of its speed (expected)."
    assert f"{would} Together they save $" in said
    world.job("loser", gpus=1, profile="heavy", shared_mib=1024)
    said = " ".join(charterer_over(world, monkeypatch)("explain", "loser").stdout.split())
    assert "At least one of them would lose, so they do not share a GPU." in said
    del world.jobs[JobId("loser")]
    come(world, ("train", "light"))
    said = " ".join(charterer_over(world, monkeypatch)("explain", "train").stdout.split())
    assert "Beside team/first it keeps 80% of its speed (20 reports)" in said
