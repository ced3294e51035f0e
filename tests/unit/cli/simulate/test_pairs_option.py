"""``charterer simulate --pairs``: policies under which jobs share GPUs, as the example shows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from charterer.cli import main

EXAMPLE = Path(__file__).parents[4] / "examples" / "simulate" / "types"
BOTH = "application,beside,kept\nsft,sft,0.9\nsft,eval,0.8\neval,sft,0.5\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two jobs of 1,000 s, ten seconds apart, and what they keep beside each other."""
    (tmp_path / "jobs.csv").write_text("name,time,application,num_replicas\na,0,sft,1\nb,10,eval,1\n")
    (tmp_path / "speeds.csv").write_text("application,gpus,seconds\nsft,1,1000\neval,1,1000\n")
    (tmp_path / "pairs.csv").write_text(BOTH)
    return tmp_path


def simulate(folder: Path, *arguments: str) -> Result:
    files = [str(folder / "jobs.csv"), "--speeds", str(folder / "speeds.csv"), "--gpus-per-node", "1"]
    at_once = ["--start-seconds", "0", "--restart-seconds", "0", "--processes", "1"]
    return CliRunner().invoke(main, ["simulate", *files, *at_once, *arguments])


def test_what_jobs_keep_is_read_and_the_other_policies_share_nothing(folder: Path) -> None:
    """In turn the jobs take 1,000 and 1,990 s. Together a does 990 s of work at 0.8, and b the rest of its alone."""
    orders = ["shortest", "sjf-ffs", "sjf-bsbf"]
    policies = [word for order in orders for word in ("--policy", f"fixed:1:{order}")]
    done = simulate(folder, *policies, "--pairs", str(folder / "pairs.csv"), "-o", "json")
    assert done.exit_code == 0, done.output
    means = {row["policy"]: row["meanCompletionSeconds"] for row in json.loads(done.stdout)}
    together = 990 / 0.8
    assert means["fixed:1:shortest"] == pytest.approx((1000 + 1990) / 2)
    assert means["fixed:1:sjf-ffs"] == pytest.approx((10 + together + together + 1000 - together * 0.5) / 2, abs=1e-3)
    assert means["fixed:1:sjf-bsbf"] == pytest.approx(means["fixed:1:sjf-ffs"])


def test_a_note_says_how_many_pairs_of_the_workload_are_known(folder: Path) -> None:
    shown = simulate(folder, "--policy", "fixed:1:sjf-ffs", "--pairs", str(folder / "pairs.csv")).stdout
    assert "pairs.csv knows 2 of 3 pairs of the workload's applications; others never share." in shown


def test_the_example_runs_under_every_policy_of_a_fixed_number_of_nodes() -> None:
    files = [str(EXAMPLE / "jobs.csv"), "--speeds", str(EXAMPLE / "speeds.csv"), "--pools", str(EXAMPLE / "pools.csv")]
    orders = ["las", "srtf", "sjf-ffs", "sjf-bsbf"]
    policies = [word for order in orders for word in ("--policy", f"fixed:2:{order}")]
    pairs = ["--pairs", str(EXAMPLE / "pairs.csv"), "--processes", "1", "-o", "json"]
    done = CliRunner().invoke(main, ["simulate", *files, *policies, *pairs])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert len(rows) == 4
    assert all(row["never"] == [] for row in rows)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("application,kept\n", "no column beside: its first line must name application, beside, kept"),
        (BOTH + "sft,sft,0.8\n", "pairs.csv line 5: application 'sft' has two rows beside 'sft': leave one out"),
        (
            BOTH + "sft,new,0.8\n",
            "line 5: application 'new' has no row beside 'sft': say what it keeps there",
        ),
        (
            BOTH + "new,new,1.2\n",
            "line 5: kept '1.2' is no part of a speed: give a number from 0 (the two do",
        ),
        (BOTH + "new,new,\n", "pairs.csv line 5: kept '' is no part of a speed"),
        ("application,beside,kept\na,a,1\n", "has no pair of the workload's applications (eval, sft): use their names"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(folder: Path, text: str, told: str) -> None:
    (folder / "pairs.csv").write_text(text)
    done = simulate(folder, "--policy", "fixed:1:sjf-bsbf", "--pairs", str(folder / "pairs.csv"))
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert told in done.stderr


def test_several_types_of_gpu_need_a_column_for_them(folder: Path) -> None:
    files = [str(EXAMPLE / "jobs.csv"), "--speeds", str(EXAMPLE / "speeds.csv"), "--pools", str(EXAMPLE / "pools.csv")]
    pairs = ["--policy", "fixed:1:sjf-bsbf", "--pairs", str(folder / "pairs.csv")]
    done = CliRunner().invoke(main, ["simulate", *files, *pairs])
    assert done.exit_code == 1
    assert (
        "no column gpu_type, and the pools have several: say of each row whether it is about P100 or V100"
        in done.stderr
    )


def test_sharing_and_what_is_kept_need_each_other(folder: Path) -> None:
    without = simulate(folder, "--policy", "fixed:1:sjf-bsbf")
    assert without.exit_code == 1
    assert (
        "fixed:1:sjf-bsbf lets jobs share GPUs, and nothing says how fast they are then: add --pairs" in without.stderr
    )
    alone = simulate(folder, "--policy", "fixed:1", "--pairs", str(folder / "pairs.csv"))
    assert alone.exit_code == 1
    assert "--pairs is for policies under which jobs share GPUs: add one (sjf-ffs or sjf-bsbf)" in alone.stderr
