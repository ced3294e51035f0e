"""``charterer simulate`` as a user calls it: in a pipe, with files, and wrongly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from charterer.cli import main
from tests.unit.cli.pages import Page

SPEEDS = "application,gpus,seconds\nsft,1,4000\nsft,4,1200\nsft,8,700\nsft,16,450\n"
WORKLOAD = "name,time,application,num_replicas\na,0,sft,4\nb,600,sft,8\nc,900,sft,4\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A workload and its speeds."""
    workload, speeds = tmp_path / "jobs.csv", tmp_path / "speeds.csv"
    workload.write_text(WORKLOAD)
    speeds.write_text(SPEEDS)
    return workload, speeds


def call(files: tuple[Path, Path], *arguments: str) -> Result:
    workload, speeds = files
    return CliRunner().invoke(
        main, ["simulate", str(workload), "--speeds", str(speeds), "--processes", "1", *arguments]
    )


def test_policies_stand_side_by_side_as_numbers(files: tuple[Path, Path]) -> None:
    done = call(files, "--policy", "charterer", "--pays", "4", "--pays", "400", "--policy", "as-asked", "-o", "json")
    assert done.exit_code == 0, done.output
    cheap, dear, asked = json.loads(done.stdout)
    assert [cheap["paysPerJobHour"], dear["paysPerJobHour"], asked["paysPerJobHour"]] == [4.0, 400.0, None]
    assert dear["meanCompletionSeconds"] < cheap["meanCompletionSeconds"]
    assert dear["dollars"] > cheap["dollars"]
    assert {row["complete"] for row in (cheap, dear, asked)} == {3}


def test_charterer_can_be_made_to_learn_the_curves_and_what_it_is_compared_with_stays(files: tuple[Path, Path]) -> None:
    known, asked = json.loads(call(files, "--pays", "400", "-o", "json").stdout)
    done = call(files, "--pays", "400", "--learn", "-o", "json")
    assert done.exit_code == 0, done.output
    learning, same = json.loads(done.stdout)
    assert [row["learns"] for row in (known, asked, learning, same)] == [False, False, True, False]
    assert same == asked
    assert learning["complete"] == 3
    assert learning["meanCompletionSeconds"] > known["meanCompletionSeconds"]
    assert "charterer --learn at $400 per job-hour" in call(files, "--pays", "400", "--learn").stdout


def test_a_table_has_a_row_for_each(files: tuple[Path, Path]) -> None:
    done = call(files, "--policy", "fixed:2:fair", "--policy", "utilisation:40-90")
    assert done.exit_code == 0, done.output
    assert "fixed:2:fair" in done.stdout
    assert "utilisation:40-90" in done.stdout
    assert "3 of 3" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_page_and_a_picture_are_written(files: tuple[Path, Path], tmp_path: Path) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "report.png"
    done = call(files, "--pays", "4", "--html", str(page), "--picture", str(picture))
    assert done.exit_code == 0, done.output
    shown = Page(page.read_text())
    assert (shown.tags.count("svg"), shown.tags.count("table"), shown.links) == (1, 1, [])
    assert "script" not in shown.tags
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--policy", "best"], "'best' is no policy: use one of charterer, as-asked, fixed:NODES"),
        (["--policy", "fixed:none"], "'none' is no number of nodes: write it like fixed:16"),
        (["--policy", "utilisation:90-40"], "'90-40' is no range of percents"),
        (["--picture", "x.gif"], "a picture is written as .svg or .png"),
        (["--node-price", "cheap"], "cheap"),
    ],
)
def test_a_wrong_call_says_what_to_do(files: tuple[Path, Path], arguments: list[str], told: str) -> None:
    done = call(files, *arguments)
    assert done.exit_code == 1
    assert told in done.stderr
    assert "Traceback" not in done.output


def test_a_trace_needs_no_speeds_and_a_workload_without_times_does(files: tuple[Path, Path], tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_time,gpu_num,duration\n1,2020-04-01 00:00:00,8,3600\n2,2020-04-01 01:00:00,3,60\n")
    done = CliRunner().invoke(main, ["simulate", str(trace), "--policy", "as-asked", "--processes", "1", "-o", "json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)[0]["complete"] == 2
    alone = CliRunner().invoke(main, ["simulate", str(files[0])])
    assert alone.exit_code == 1
    assert "jobs.csv: has no column duration, so nothing tells how long its jobs take: add that column" in alone.stderr


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"\n\n", b'submitted,gpus,duration\n0,1,"\n'])
def test_what_is_no_workload_is_one_line(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "odd.csv"
    file.write_bytes(content)
    done = CliRunner().invoke(main, ["simulate", str(file)])
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("Error: odd.csv")


def test_a_curve_that_does_not_rise_is_named(files: tuple[Path, Path]) -> None:
    files[1].write_text(SPEEDS + "sft,32,500\n")
    done = call(files)
    assert done.exit_code == 1
    assert "speeds.csv line 6: seconds 500 on 32 GPUs is not faster than 450 on fewer" in done.stderr
