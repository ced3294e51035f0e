"""``charterer simulate`` as a user calls it: in a pipe, with files, and wrongly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from charterer.cli import main
from charterer.domain.ids import BudgetId
from charterer.domain.money import Money
from charterer.tools.commands.simulate import monthly_budget
from charterer.tools.simulator.history.history import PastJob
from tests.unit.cli.pages import Page
from tests.worlds import World

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
    known, asked, _ = json.loads(call(files, "--pays", "400", "-o", "json").stdout)
    done = call(files, "--pays", "400", "--learn", "-o", "json")
    assert done.exit_code == 0, done.output
    learning, same, _ = json.loads(done.stdout)
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
    assert "all 3 ran" in done.stdout
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
        (["--policy", "best"], "'best' is no policy: use one of charterer, as-asked[:IDLE-SECONDS], fixed:NODES"),
        (["--policy", "fixed:none"], "'none' is no number of nodes up to 100000: write it like fixed:16"),
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
    assert "odd.csv" in done.stderr


def test_a_width_that_is_not_faster_is_a_warning_and_a_job_that_asks_for_it_is_that_slow(
    files: tuple[Path, Path],
) -> None:
    files[1].write_text(SPEEDS + "sft,32,500\n")
    files[0].write_text("name,time,application,num_replicas\na,0,sft,32\n")
    done = call(files, "--pays", "400", "-o", "json", "--node-price", "0.01")
    assert done.exit_code == 0, done.output
    chosen, asked, _ = json.loads(done.stdout)
    assert asked["meanCompletionSeconds"] == pytest.approx(120 + 30 + 500)
    assert chosen["meanCompletionSeconds"] == pytest.approx(120 + 30 + 450)
    assert done.stderr == (
        "speeds.csv: sft is not faster on 32 GPUs (500 s) than on 16 (450 s): Charterer never gives it 32; a job that "
        "asks for them gets them, and is that slow\n"
    )
    assert "sft is not faster on 32 GPUs" in call(files, "--pays", "400").stdout


def test_a_width_that_is_given_twice_is_named(files: tuple[Path, Path]) -> None:
    files[1].write_text(SPEEDS + "sft,16,460\n")
    done = call(files)
    assert done.exit_code == 1
    assert "speeds.csv line 6: application 'sft' has two rows for 16 GPUs: leave one out" in done.stderr


@pytest.mark.parametrize("unit", [1e-3, 10.0, 1e6])
def test_the_documented_curve_gives_the_same_numbers_in_any_unit_and_as_submissions(
    unit: float, tmp_path: Path
) -> None:
    history, submitted, speeds = tmp_path / "history.csv", tmp_path / "jobs.csv", tmp_path / "speeds.csv"
    curve = " ".join(f"{gpus}:{speed * unit!r}" for gpus, speed in ((1, 1.0), (2, 1.9), (4, 3.6)))
    rows = [f"{at * 9000},1,3600,sft,{curve},Restart" for at in range(4)]
    history.write_text("\n".join(["submitted,gpus,duration,class,curve,resize", *rows]))
    speeds.write_text(f"application,gpus,seconds\nsft,1,3600\nsft,2,{3600 / 1.9!r}\nsft,4,1000\n")
    rows = [f"job-{at + 1},{at * 9000},sft,1" for at in range(4)]
    submitted.write_text("\n".join(["name,time,application,num_replicas", *rows]))
    rates = ("--pays", "1", "--pays", "100", "--gpus-per-node", "1", "--node-price", "4", "-o", "json")
    of_history = CliRunner().invoke(main, ["simulate", str(history), *rates])
    of_submissions = CliRunner().invoke(main, ["simulate", str(submitted), "--speeds", str(speeds), *rates])
    assert json.loads(of_history.stdout) == json.loads(of_submissions.stdout)
    narrow, wide, *_ = json.loads(of_history.stdout)
    assert narrow["meanCompletionSeconds"] == pytest.approx(150 + 3600 / 1.9, abs=0.001)
    assert wide["meanCompletionSeconds"] == pytest.approx(150 + 1000, abs=0.001)
    assert wide["dollars"] == pytest.approx(4 * 1150 * 16 / 3600, abs=1e-5)


POLICIES = ("charterer", "as-asked", "fixed:9", "fixed:9:shortest", "fixed:9:fair", "utilisation")


def test_no_policy_rents_more_than_max_nodes_and_what_is_wider_is_told(files: tuple[Path, Path]) -> None:
    files[0].write_text(WORKLOAD + "wide,950,sft,16\n")
    policies = [word for policy in POLICIES for word in ("--policy", policy)]
    done = call(files, *policies, "--max-nodes", "1", "--pays", "400", "-o", "json")
    assert done.exit_code == 0, done.output
    charterer, *baselines = json.loads(done.stdout)
    assert (charterer["complete"], charterer["never"]) == (4, [])
    assert [(run["complete"], run["never"]) for run in baselines] == [(3, ["wide"])] * 5
    shown = call(files, "--policy", "charterer", "--policy", "as-asked", "--max-nodes", "1", "--pays", "400").stdout
    assert "all 4 ran" in shown
    assert "3 of 4 ran; 1 never" in shown
    assert "as-asked: 1 of 4 jobs never completed (wide), and its times leave them out." in shown
    assert "Mean completion of the 3 jobs that completed under every policy: " in shown


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--node-price", "-3", "Error: --node-price -3 is no price of a node: give from $0 to $1,000,000.00/h"),
        ("--node-price", "99999999", "is no price of a node: give from $0 to $1,000,000.00/h"),
        ("--node-price", "abc", "Error: --node-price abc is no price of a node: give from $0 to $1,000,000.00/h"),
        ("--budget", "much", "Error: --budget much is no budget: give dollars a month from 0 on"),
        ("--budget", "-5", "Error: --budget -5 is no budget: give dollars a month from 0 on"),
        ("--policy", "as-asked:soon", "'soon' is no number of idle seconds up to 31536000: write it like as-asked:600"),
        ("--policy", "fixed:10000000", "'10000000' is no number of nodes up to 100000"),
    ],
)
def test_absurd_figures_are_refused_in_one_line(files: tuple[Path, Path], option: str, value: str, told: str) -> None:
    done = call(files, option, value)
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert told in done.stderr


@pytest.mark.parametrize("option", ["--pays", "--start-seconds", "--restart-seconds"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e300"])
def test_options_take_finite_numbers_only(files: tuple[Path, Path], option: str, value: str) -> None:
    done = call(files, option, value)
    assert done.exit_code == 1
    assert "is not in the range" in done.stderr


def test_a_node_may_cost_nothing(files: tuple[Path, Path]) -> None:
    done = call(files, "--node-price", "0", "--pays", "1", "-o", "json")
    assert done.exit_code == 0, done.output
    assert {run["dollars"] for run in json.loads(done.stdout)} == {0.0}


def test_time_begins_with_the_first_submission_and_that_is_said(files: tuple[Path, Path]) -> None:
    def numbers() -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(call(files, "--pays", "4", "-o", "json").stdout)
        return found

    from_zero = numbers()
    assert "Time begins" not in call(files, "--pays", "4").stdout
    files[0].write_text(
        WORKLOAD.replace("a,0,", "a,1700000000,").replace("b,600", "b,1700000600").replace("c,900", "c,1700000900")
    )
    assert numbers() == from_zero
    assert "Time begins with the first submission, at 1,700,000,000 s of the file." in call(files, "--pays", "4").stdout


def test_how_long_as_asked_keeps_idle_nodes_is_said_and_can_be_set(files: tuple[Path, Path]) -> None:
    shown = call(files, "--policy", "as-asked").stdout
    assert "as-asked ends a node after 10 idle minutes, as a cluster autoscaler does by default; " in shown
    kept, ended = json.loads(call(files, "--policy", "as-asked", "--policy", "as-asked:0", "-o", "json").stdout)
    assert ended["dollars"] < kept["dollars"]
    assert ended["usedGPUHours"] == kept["usedGPUHours"]


def test_jobs_as_asked_are_simulated_with_and_without_idle_minutes(files: tuple[Path, Path]) -> None:
    policies = [run["policy"] for run in json.loads(call(files, "--pays", "4", "-o", "json").stdout)]
    assert policies == ["charterer", "as-asked", "as-asked:0"]


def test_a_history_too_short_for_any_node_to_be_idle_enough_says_so(files: tuple[Path, Path]) -> None:
    files[1].write_text("application,gpus,seconds\nsft,4,40\nsft,8,30\n")
    said = "no node is given back before the last job ends. Compare with as-asked:0."
    assert said not in " ".join(call(files, "--policy", "as-asked").stdout.split())
    files[0].write_text(WORKLOAD.replace(",600,", ",60,").replace(",900,", ",90,"))
    shown = " ".join(call(files, "--policy", "as-asked").stdout.split())
    assert said in shown
    assert said not in " ".join(call(files, "--policy", "as-asked:20").stdout.split())


def test_only_budgets_that_pay_for_the_simulated_jobs_are_drawn() -> None:
    world = World()
    for name, amount in (("research", "60000"), ("vision", "5000"), ("idle", "900000")):
        world.budget(name, amount=amount)
    research, vision, idle = (world.budgets[BudgetId(name)] for name in ("research", "vision", "idle"))
    payers = {"team": research, "other-team": research, "images": vision, "nobody": idle}
    jobs = [PastJob(name, 0.0, 1, 60.0) for name in ("team/a", "other-team/b", "images/job/c")]
    assert monthly_budget(jobs, payers) == Money.parse("65000")
    assert monthly_budget(jobs[:1], payers) == Money.parse("60000")
    assert monthly_budget([], payers) == Money(0)
