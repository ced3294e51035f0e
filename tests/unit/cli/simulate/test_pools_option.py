"""``charterer simulate --pools``: a choice between GPU types and capacity types, as the example shows it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from charterer.cli import main

EXAMPLE = Path(__file__).parents[4] / "examples" / "simulate" / "types"


def simulate(folder: Path, *arguments: str) -> Result:
    files = [str(folder / "jobs.csv"), "--speeds", str(folder / "speeds.csv"), "--pools", str(folder / "pools.csv")]
    return CliRunner().invoke(main, ["simulate", *files, "--processes", "1", *arguments])


def numbers(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    done = simulate(folder, *arguments, "-o", "json")
    assert done.exit_code == 0, done.output
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example, with a third of its jobs."""
    for file in EXAMPLE.iterdir():
        shutil.copy(file, tmp_path)
    jobs = (EXAMPLE / "jobs.csv").read_text().splitlines(keepends=True)
    (tmp_path / "jobs.csv").write_text("".join(jobs[:11]))
    return tmp_path


def test_charterer_uses_types_and_spot_nodes_and_the_table_says_where_the_hours_went(folder: Path) -> None:
    (cheap,), (dear,) = (numbers(folder, "--policy", "charterer", "--pays", rate) for rate in ("0.5", "16"))
    assert (cheap["complete"], dear["complete"]) == (10, 10)
    assert dear["meanCompletionSeconds"] < cheap["meanCompletionSeconds"]
    assert cheap["pools"]["v100-spot"]["rentedGPUHours"] > 0.0
    assert dear["dollars"] == pytest.approx(sum(pool["dollars"] for pool in dear["pools"].values()), abs=1e-4)
    shown = simulate(folder, "--policy", "charterer", "--pays", "16").stdout
    assert "GPU-hours in" in shown
    assert "v100-spot (4 x V100 spot at $2.96/h, ready after 120 s, 30 s a restart)" in shown


def test_without_the_spot_pool_the_same_speed_costs_more(folder: Path) -> None:
    (with_spot,) = numbers(folder, "--policy", "charterer", "--pays", "4")
    pools = (folder / "pools.csv").read_text().splitlines(keepends=True)
    (folder / "pools.csv").write_text("".join(line for line in pools if "Spot" not in line))
    (without,) = numbers(folder, "--policy", "charterer", "--pays", "4")
    worth = [row["dollars"] + 4.0 * 10 * row["meanCompletionSeconds"] / 3600 for row in (with_spot, without)]
    assert worth[0] < worth[1]


@pytest.mark.slow
def test_all_policies_and_learning_run_on_several_pools(folder: Path) -> None:
    names = ("charterer", "as-asked", "fixed:2:shortest", "fixed:2:fair", "utilisation")
    policies = [word for name in names for word in ("--policy", name)]
    rows = numbers(folder, *policies, "--pays", "4", "--learn")
    assert [row["complete"] for row in rows] == [10] * 5


def test_another_seed_draws_other_lifetimes_and_the_same_one_gives_the_same_numbers(folder: Path) -> None:
    pools = (folder / "pools.csv").read_text()
    (folder / "pools.csv").write_text(pools.replace("lifetimes.csv", "3600"))
    first, same, other = (numbers(folder, "--policy", "as-asked", "--seed", seed) for seed in ("3", "3", "4"))
    assert first == same
    assert first[0]["interruptions"] > 0
    assert first != other


def test_a_file_of_lifetimes_that_is_not_there_is_one_line(folder: Path) -> None:
    (folder / "lifetimes.csv").unlink()
    done = simulate(folder)
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "pools.csv: lifetimes 'lifetimes.csv' is no file in the folder of pools.csv: correct the name" in done.stderr


@pytest.mark.parametrize(
    ("file", "row", "told"),
    [
        ("speeds.csv", "lm,H100,1,100", "speeds.csv line 27: gpu_type 'H100' is of no pool (they have P100, V100)"),
        (
            "speeds.csv",
            "new,P100,1,3600\nnew,V100,1,1",
            "speeds.csv: application 'new': on 1 GPU, P100 is 3,600 times as slow as V100, and no GPU types differ 100 "
            "times: give both in the same unit",
        ),
        ("lifetimes.csv", "-5,0", "lifetimes.csv line 130: lifetime_seconds '-5' is no lifetime: give seconds above 0"),
        (
            "pools.csv",
            "new,V100,4,,Spot,,,,",
            "pools.csv line 5: node_price '' is empty: give spot pool 'new' the price of a node, like 19.80",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_one_line_that_names_file_line_and_value(
    folder: Path, file: str, row: str, told: str
) -> None:
    with (folder / file).open("a") as lines:
        lines.write(f"{row}\n")
    done = simulate(folder)
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert told in done.stderr


def test_files_of_a_spreadsheet_may_begin_with_a_byte_order_mark(folder: Path) -> None:
    plain = numbers(folder, "--policy", "as-asked")
    for name in ("jobs.csv", "speeds.csv", "pools.csv"):
        (folder / name).write_text("\ufeff" + (folder / name).read_text(), encoding="utf-8")
    assert numbers(folder, "--policy", "as-asked") == plain


def test_curves_that_cannot_be_learned_are_one_line(folder: Path) -> None:
    (folder / "jobs.csv").write_text("name,time,application,num_replicas\nj0,0,a,1\n")
    (folder / "speeds.csv").write_text("application,gpu_type,gpus,seconds\na,V100,1,1000\na,P100,2,900\n")
    done = simulate(folder, "--policy", "charterer", "--pays", "2", "--learn")
    assert done.exit_code == 1
    assert done.output.startswith("Error: a: to be learned, it needs a number of GPUs")


def test_speeds_may_name_the_type_of_the_only_pool_for_a_history_too(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submitted,gpus,duration,class\n0,1,1000,a\n10,1,1000,a\n")
    (tmp_path / "speeds.csv").write_text("application,gpu_type,gpus,seconds\na,V100,1,1000\na,V100,2,500\n")
    (tmp_path / "pools.csv").write_text("name,gpu_type,gpus_per_node,node_price\nv,V100,4,8\n")
    done = simulate(tmp_path, "--policy", "charterer", "--pays", "10")
    assert done.exit_code == 0, done.output
    assert "2 of 2 jobs have a curve" in done.stdout


def test_a_policy_under_which_no_job_completes_can_be_drawn(folder: Path) -> None:
    (folder / "pools.csv").write_text("name,gpu_type,stock\nv,V100,0:0\np,P100,0:0\n")
    page = folder / "report.html"
    for policies in (["fixed:2"], ["fixed:2", "as-asked"]):
        chosen = [word for policy in policies for word in ("--policy", policy)]
        done = simulate(folder, *chosen, "--html", str(page))
        assert done.exit_code == 0, done.output
        assert "10 of 10 jobs never completed" in page.read_text()
