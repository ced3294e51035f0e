"""``charterer simulate`` from the cluster: its own past under policies side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from charterer.controller.snapshot.offline import OtherJobs
from charterer.domain.budget import Mode
from charterer.domain.profile import ThroughputTable
from tests.unit.cli.histories import ended, observed
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World


def observing() -> World:
    world = World()
    world.budget(mode=Mode.OBSERVE)
    world.pool(gpus=8, price="16")
    world.profile("sft", ThroughputTable(((1, 1.0), (2, 1.8), (4, 3.2), (8, 5.0), (16, 7.0))))
    return world


def test_the_clusters_history_is_simulated_saved_and_simulated_again_alike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = observing()
    ended(world, "own", hours_ago=3, hours=1, speed=5.0, profile="sft")
    charterer = charterer_over(world, monkeypatch, others=observed(world, 5))
    file = tmp_path / "history.csv"
    options = ("--processes", "1", "-o", "json")
    direct = charterer("simulate", "--from-cluster", "--last", "7d", *options)
    assert direct.exit_code == 0, direct.output
    saved = charterer("simulate", "--from-cluster", "--last", "7d", "--save", str(file))
    assert (saved.exit_code, saved.stdout) == (0, "")
    again = charterer("simulate", str(file), *options)
    assert json.loads(again.stdout) == json.loads(direct.stdout)
    assert {row["jobs"] for row in json.loads(direct.stdout)} == {6}
    assert direct.stderr == ""


def test_a_saved_history_says_which_pools_are_not_in_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = observing()
    world.pool("small", gpus=1, price="1", gpu_type="a100")
    ended(world, "own", hours_ago=3, hours=1, speed=5.0, profile="sft")
    charterer = charterer_over(world, monkeypatch)
    saved = charterer("simulate", "--from-cluster", "--save", str(tmp_path / "history.csv"))
    assert saved.exit_code == 0
    assert "GPUPools in which none of its jobs ran (small); --pools puts them on sale." in saved.stderr


def test_what_was_not_modelled_stands_below_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    world = observing()
    ended(world, "own", hours_ago=3, hours=1)
    charterer = charterer_over(world, monkeypatch)
    shown = charterer("simulate", "--from-cluster", "--policy", "as-asked", "--processes", "1")
    told = "1 x jobs without a known curve: they run only at the width that was asked for."
    assert told in shown.stdout
    numbers = charterer("simulate", "--from-cluster", "--policy", "as-asked", "--processes", "1", "-o", "json")
    assert told in numbers.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "name one thing to simulate: a workload file, or --from-cluster"),
        (("--from-cluster", "--last", "soon"), "--last 'soon' is no span of time: write it like 90m, 12h, 7d or 2w"),
        (("--from-cluster",), "the cluster holds no job of the past that can be simulated"),
        (("--from-cluster", "-n", "nowhere"), "no namespace 'nowhere' in this cluster"),
        (("--save", "x.csv"), "name one thing to simulate"),
        (("--from-cluster", "--pools", __file__), "--pools is about a workload file"),
        (("--from-cluster", "--speeds", __file__), "--speeds is about a workload file"),
        (("--from-cluster", "--max-nodes", "2"), "--max-nodes is about a workload file"),
    ],
)
def test_a_wrong_call_says_what_to_do(arguments: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = charterer_over(observing(), monkeypatch, others=OtherJobs())("simulate", *arguments)
    assert done.exit_code == 1
    assert told in done.stderr
