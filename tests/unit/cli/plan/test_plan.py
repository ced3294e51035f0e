"""``charterer plan``: what it says, its exit codes, what-ifs, pictures and pages."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
import yaml

from charterer.domain.budget import Mode
from charterer.domain.errors import Problem
from charterer.domain.ids import PoolId
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.plan import PathVerdict, Stage
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Amdahl
from charterer.policy.planner import plan
from charterer.tools.commands.shared.output import mixed
from tests.unit.cli.pages import Page
from tests.unit.cli.worlds import charterer_over
from tests.worlds import World

JOB = """
apiVersion: charterer.dev/v1alpha1
kind: TrainingJob
metadata: {name: more}
spec:
  gpus: {min: 1, preferred: 8, max: 64}
  resizePolicy: Restart
  profileName: sft
  template: {spec: {containers: [{name: trainer, image: acme/sft:1}]}}
"""
POOL = """
apiVersion: charterer.dev/v1alpha1
kind: GPUPool
metadata: {name: h100}
spec:
  fake: {endpoint: "http://cloud:8080", group: h100}
  maxNodes: 4
  price: {hourly: "20"}
status:
  offering: {gpuType: a100, gpusPerNode: 8}
"""


def busy(amount: str = "20000", mode: Mode = Mode.ENFORCE) -> World:
    world = World()
    world.budget(amount=amount, mode=mode)
    world.pool(gpus=8, price="16")
    world.profile("sft", Amdahl(0.95, 1.0), work_hours=40, arrivals_per_hour=0.4)
    world.job("one", gpus=(1, 8, 64), profile="sft")
    return world


def steady(amount: str = "20000") -> World:
    world = busy(amount)
    for _ in range(3):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    return world


def test_what_planning_fails_with_is_a_problem_and_all_else_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    world = busy()
    faulty = world.profile("bad", Amdahl(0.9, 1.0), arrivals_per_hour=1.0, budget="research")
    world.profiles[faulty.id] = replace(faulty, mean_work=float("nan"))
    charterer = charterer_over(world, monkeypatch)
    result = charterer("plan")
    assert result.exit_code == 0
    assert "SpeedupProfile team/bad spec: planning fails (" in result.stdout
    assert "+ rent 2 nodes of a100 for research" in result.stdout
    (problem,) = yaml.safe_load(charterer("plan", "-o", "yaml").stdout)["problems"]
    assert (problem["kind"], problem["name"]) == ("SpeedupProfile", "bad")


def test_what_would_be_done_is_said_with_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    result = charterer_over(busy(), monkeypatch)("plan")
    assert result.exit_code == 0
    assert "+ rent 2 nodes of a100 for research at $16.00/h each: team/one waits for 16 GPUs on a100\n" in result.stdout
    assert "Nodes: 2 to rent, 0 to release; jobs: 0 to start, 0 to move, 0 to stop." in result.stdout
    assert "research pays up to $" in result.stdout
    assert "per job-hour saved" in result.stdout
    assert result.stderr == ""


def test_nothing_to_do_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    result = charterer_over(steady(), monkeypatch)("plan")
    assert result.stdout.startswith("Nothing to do: nodes and jobs are as Charterer would have them.")


@pytest.mark.parametrize(
    ("world", "what_if", "code"),
    [
        (busy(), (), 2),
        (busy(mode=Mode.OBSERVE), (), 2),
        (steady(), (), 0),
        (steady("900000"), ("--amount", "research=901000"), 0),
        (steady(), ("-f", "-"), 2),
    ],
    ids=["to do", "only observed", "nothing to do", "what-if without effect", "what-if with effect"],
)
def test_whether_something_would_be_done_is_an_exit_code_only_where_that_is_asked_for(
    world: World, what_if: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    charterer = charterer_over(world, monkeypatch)
    assert charterer("plan", "--detailed-exitcode", *what_if, stdin=JOB).exit_code == code
    assert charterer("plan", *what_if, stdin=JOB).exit_code == 0


def test_a_budget_that_observes_has_its_plan_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    result = charterer_over(busy(mode=Mode.OBSERVE), monkeypatch)("plan")
    assert "Charterer would do this if its budget were not in mode Observe" in result.stdout
    assert "Charterer would do now" not in result.stdout


def test_json_and_yaml_say_the_same_and_all_that_the_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    charterer = charterer_over(busy(), monkeypatch)
    said = json.loads(charterer("plan", "-o", "json").stdout)
    assert yaml.safe_load(charterer("plan", "-o", "yaml").stdout) == said
    (budget,) = said["budgets"]
    assert budget["amount"] == "20000.00"
    assert [row["times"] for row in budget["moreOrLess"]["amounts"]] == [0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4]
    (action,) = said["actions"]
    assert (action["action"], action["count"], action["onlyObserved"]) == ("rent", 2, False)
    (job,) = said["jobs"]
    assert job["has"] is None
    assert job["wants"]["pool"] == "a100"
    assert job["endsAbout"].startswith("2026-06-1")
    (of_class,) = said["classes"]
    assert sum(path["partOfJobs"] for path in of_class["paths"]) == 1.0
    assert of_class["paths"][0]["stages"][0]["untilPartOfWork"] == 1.0


def test_a_budget_too_small_says_what_would_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = charterer_over(busy("2000"), monkeypatch)("plan").stdout
    assert "research pays only for the cheapest options.\n" in stdout
    assert "too small for what is left of the month" in stdout
    assert "A row is an amount for every month from now on, whatever was spent of this one so far." in stdout
    assert "the cheapest options of its jobs need $23,064.00 a month" in stdout
    assert "too small if jobs keep coming at this rate: it pays for 9% of them" in stdout


def test_a_budget_of_zero_is_no_error_and_says_that_nothing_can_be_rented(monkeypatch: pytest.MonkeyPatch) -> None:
    result = charterer_over(busy("0"), monkeypatch)("plan")
    assert result.exit_code == 0
    assert (
        "the amount is 0: nothing can be rented; the cheapest options of its jobs need $23,064.00 a month"
        in result.stdout
    )


def test_long_lists_of_jobs_are_cut_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = busy()
    for number in range(8):
        world.job(f"j{number}", gpus=8)
    charterer = charterer_over(world, monkeypatch)
    assert "and 6 more: --jobs 0 or -o json shows all" in charterer("plan", "--jobs", "3").stdout
    assert "more: --jobs" not in charterer("plan", "--jobs", "0").stdout
    assert len(json.loads(charterer("plan", "--jobs", "3", "-o", "json").stdout)["jobs"]) == 9


def test_problems_of_objects_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem("SpeedupProfile", "team", "bad", "spec.curves[0]", "CurveNotIncreasing", "throughput falls")
    stdout = charterer_over(busy(), monkeypatch, problem)("plan").stdout
    assert "! SpeedupProfile team/bad spec.curves[0]: throughput falls" in stdout


def test_a_spot_pool_without_a_price_is_a_problem_in_plan_and_named_to_a_job_that_nothing_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = busy()
    spot = world.pool("spot", gpus=8, price="5", capacity=CapacityType.SPOT)
    world.pools[spot.id] = replace(spot, quote=None)
    charterer = charterer_over(world, monkeypatch)
    told = "! GPUPool spot spec.price.hourly: is empty, and the cloud has told no price, so no node is rented: do what"
    assert charterer("plan").stdout.count(told) == 1
    (problem,) = json.loads(charterer("plan", "-o", "json").stdout)["problems"]
    assert (problem["kind"], problem["name"], problem["field"]) == ("GPUPool", "spot", "spec.price.hourly")
    refused = charterer("plan", "--price", "spot=3").stderr
    assert "--price: the price of GPUPool spot is not known, so there is none to change: set its spec.price" in refused
    del world.pools[PoolId("a100")]
    told = (
        "no pool has a known price and size; GPUPool spot: the cloud has told no price of a node: set spec.price.hourly"
    )
    assert told in charterer("explain", "one", "-n", "team").stdout


@pytest.mark.parametrize("change", [{"deleting": True}, {"price_override": Price.parse("5")}])
def test_a_pool_that_is_deleted_or_whose_spec_has_a_price_lacks_none(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = busy()
    spot = world.pool("spot", gpus=8, price="5")
    world.pools[spot.id] = replace(spot, quote=None, **change)
    assert "Problems" not in charterer_over(world, monkeypatch)("plan").stdout


# --- what-ifs ---------------------------------------------------------------------------------------------------------


def test_one_more_job_from_a_file_shows_the_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    result = charterer_over(steady(), monkeypatch)("plan", "-f", str(file))
    assert f"* TrainingJob team/more as in {file}" in result.stdout
    assert "Then Charterer would also do now" in result.stdout
    assert "team/more" in result.stdout
    assert "AS IT IS" in result.stdout


def test_objects_may_come_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.loads(charterer_over(steady(), monkeypatch)("plan", "-f", "-", "-o", "json", stdin=JOB).stdout)
    assert "team/more" in str(said["whatIf"]["actionsAdded"])
    assert [job["name"] for job in said["whatIf"]["asItIs"]["jobs"]] == ["one"]


def test_a_pool_that_no_cloud_was_asked_about_is_taken_as_the_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(POOL.replace('"20"', '"8"'))
    said = json.loads(charterer_over(busy(), monkeypatch)("plan", "-f", str(file), "-o", "json").stdout)
    assert said["jobs"][0]["wants"]["pool"] == "h100"
    assert said["whatIf"]["asItIs"]["jobs"][0]["wants"]["pool"] == "a100"


def test_a_lower_price_buys_more_and_a_larger_amount_too(monkeypatch: pytest.MonkeyPatch) -> None:
    charterer = charterer_over(busy(), monkeypatch)
    for what in (("--price", "a100=8/h"), ("--amount", "research=30000")):
        said = json.loads(charterer("plan", *what, "-o", "json").stdout)
        before = said["whatIf"]["asItIs"]["budgets"][0]["meanCompletionSeconds"]
        assert said["budgets"][0]["meanCompletionSeconds"] < before
    stdout = charterer("plan", "--price", "a100=8").stdout
    assert "* a node of a100 costs $8.00/h instead of $16.00/h" in stdout
    assert (
        "* budget research is $30,000.00 a month instead of $20,000.00"
        in charterer("plan", "--amount", "research=30,000").stdout
    )


def test_a_what_if_that_changes_nothing_now_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    result = charterer_over(steady("900000"), monkeypatch)("plan", "--amount", "research=901000")
    assert "It would do the same as without that." in result.stdout


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--price", "b100=2"), "--price: no GPUPool 'b100'; did you mean a100?"),
        (("--price", "a100"), "'a100' is no price of a pool; write POOL=2.10/h"),
        (("--price", "a100=-20"), "-20 is no price of a node: it has to be more than 0; write POOL=2.10/h"),
        (("--price", "a100=0/h"), "0/h is no price of a node: it has to be more than 0; write POOL=2.10/h"),
        (
            ("--price", "a100=cheap"),
            "'cheap' is no amount of money; write dollars with up to six decimals, like 19.80;",
        ),
        (("--amount", "reserach=5"), "--amount: no GPUBudget 'reserach'; did you mean research?"),
        (("--amount", "research=-5"), "'research=-5' is no amount of a budget; write BUDGET=60000"),
        (("--amount", "research=60.000"), "'60.000' may be meant as thousands: write 60000, or 60.0000 if it is not"),
        (("--picture", "plan.pdf"), "plan.pdf: a picture is written as .svg or .png"),
        (("-f", "no-such-file.yaml"), "no-such-file.yaml cannot be read: No such file or directory"),
        (("--nonsense",), "No such option '--nonsense'"),
    ],
)
def test_what_was_given_wrongly_is_an_error_with_exit_code_1(
    arguments: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = charterer_over(busy(), monkeypatch)("plan", *arguments)
    assert result.exit_code == 1
    assert told in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [b", "is no YAML"),
        ("just words", "this is no Kubernetes object; begin it with apiVersion and kind"),
        (JOB.replace("min: 1", "min: 9"), "spec.gpus: min 9, preferred 8, max 64 must be in ascending order"),
        (JOB.replace("{min: 1,", "{min: none,"), "spec.gpus.min is 'none', and has to be of type integer\n"),
        (JOB.replace("name: more", "namespace: teem, name: more"), "no namespace 'teem'; did you mean team?"),
        (JOB.replace("name: more", ""), "TrainingJob has no metadata.name"),
        (JOB.replace("charterer.dev/v1alpha1", "batch/v1"), "apiVersion is 'batch/v1', kind 'TrainingJob'"),
        (JOB.replace("kind: TrainingJob", "kind: Rental"), "Rental more is no TrainingJob, SpeedupProfile, GPUBudget"),
        (
            POOL.partition("status:")[0],
            "GPUPool h100: no cloud has been asked about this pool yet, so a what-if has to be told. Add to the file, "
            "with your values: status: {offering: {gpuType: NVIDIA-A100-SXM4-40GB, gpusPerNode: 8}} (what a node is)",
        ),
        (
            POOL.partition("  price:")[0],
            '(what a node is) and spec.price: {hourly: "12.80"} (the dollars that it costs)',
        ),
        (
            POOL.replace('  price: {hourly: "20"}\n', "  capacityType: Spot\n"),
            "GPUPool h100: no cloud has been asked about this pool yet, so a what-if has to be told. Add to the file, "
            'with your values: spec.price: {hourly: "12.80"} (the dollars that it costs)',
        ),
        (POOL.replace('  price: {hourly: "20"}\n', ""), 'with your values: spec.price: {hourly: "12.80"} (the dollars'),
        (
            JOB.replace("min: 1, preferred: 8, max: 64", "min: 8, max: 4"),
            "TrainingJob more: spec.gpus: min 8, max 4 must be in ascending order",
        ),
        (f"{JOB}\n---\n[]", "document 2: this is no Kubernetes object"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_what_is_wrong(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "what.yaml"
    file.write_text(text)
    result = charterer_over(busy(), monkeypatch)("plan", "-f", str(file))
    assert result.exit_code == 1
    assert str(file) in result.stderr
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_cluster_without_a_budget_is_an_error_unless_a_file_brings_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = busy()
    world.budgets.clear()
    charterer = charterer_over(world, monkeypatch)
    result = charterer("plan")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: no GPUBudget is in this cluster")
    file = tmp_path / "budget.yaml"
    file.write_text(
        "{apiVersion: charterer.dev/v1alpha1, kind: GPUBudget, metadata: {name: new}, "
        "spec: {amount: '60000', namespaceSelector: {}}}"
    )
    assert charterer("plan", "-f", str(file)).exit_code == 0


# --- pictures and pages -----------------------------------------------------------------------------------------------


def test_the_page_holds_everything_and_loads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, picture = tmp_path / "plan.html", tmp_path / "money.png"
    result = charterer_over(busy(), monkeypatch)("plan", "--html", str(file), "--picture", str(picture))
    assert result.exit_code == 0
    assert result.stderr == f"wrote {picture}\nwrote {file}\n"
    assert picture.read_bytes().startswith(b"\x89PNG")
    page = Page(file.read_text())
    assert page.tags.count("svg") == 1
    assert "script" not in page.tags
    assert page.links == []
    assert "What more or less money would buy" in file.read_text()
    assert "PAYS/H-SAVED is the most that it pays to end a job one hour earlier" in file.read_text()


def test_without_matplotlib_it_is_said_how_to_get_it_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_spec(name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr("charterer.tools.documents.pictures.find_spec", find_spec)
    result = charterer_over(busy(), monkeypatch)("plan", "--html", str(tmp_path / "plan.html"))
    assert result.exit_code == 1
    assert result.stderr == "Error: pictures need matplotlib: pip install matplotlib\n"
    assert not list(tmp_path.iterdir())


def test_a_picture_of_a_cluster_without_jobs_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = busy()
    world.jobs.clear()
    world.profiles.clear()
    result = charterer_over(world, monkeypatch)("plan", "--picture", str(tmp_path / "money.svg"))
    assert result.exit_code == 1
    assert "no budget has a history of jobs, or profiles that expect any" in result.stderr


def test_jobs_of_a_class_with_other_terms_have_rows_that_say_how_they_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    world = busy()
    world.job("narrow", gpus=(1, 2, 4), profile="sft")
    shown = charterer_over(world, monkeypatch)("plan").stdout
    assert "team/sft (1 to 64 GPUs, asks for 8)" in shown
    assert "team/sft (1 to 4 GPUs, asks for 2)" in shown
    assert "team/sft  " in charterer_over(busy(), monkeypatch)("plan").stdout


def test_the_paths_of_a_class_are_told_with_their_shares_the_most_frequent_first() -> None:
    def on(gpus: int, fraction: float) -> PathVerdict:
        return PathVerdict(fraction, (Stage(1.0, Option(PoolId("a100"), gpus, 1.0, Price.parse("16"))),))

    assert mixed((on(2, 0.07), on(4, 0.93))) == "93% of jobs: 4 GPUs on a100; 7% of jobs: 2 GPUs on a100"
    assert mixed((on(2, 1.0),)) == "2 GPUs on a100"
