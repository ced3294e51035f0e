"""``explain`` and ``plan`` for somebody who may read the jobs of one namespace only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from charterer.cli.main import main
from charterer.domain.time import parse_instant
from charterer.tools.commands.shared import one_namespace
from charterer.tools.commands.shared.cluster import ClusterOptions, ClusterReading, MayNotRead
from charterer.tools.commands.shared.one_namespace import OwnJobs

NOW = parse_instant("2026-06-15T08:00:12Z")
CHOSEN = {
    "pool": "a100",
    "gpuType": "NVIDIA-A100",
    "capacityType": "OnDemand",
    "gpus": 8,
    "hourly": "16.00",
    "secondsLeft": 10800,
    "costLeft": "48.00",
    "verdict": "chosen",
    "nodes": "it has them",
    "message": "8 GPUs on a100: 3.0 h for $48.00",
}
DEAR = {**CHOSEN, "gpus": 16, "perHourSaved": "14.04", "verdict": "too dear", "nodes": "pool full", "message": ""}
WORSE = {**CHOSEN, "pool": "t4", "verdict": "slower and dearer", "message": ""}
ADMITTED = ("Admitted", "True", "Accepted", "paid by GPUBudget ours")


def conditions(*shown: tuple[str, str, str, str]) -> list[Mapping[str, str]]:
    at = "2026-06-15T07:00:00Z"
    return [
        {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}
        for kind, status, reason, message in shown
    ]


def raw(name: str, **status: Any) -> dict[str, Any]:
    """A TrainingJob as the API server has it."""
    container = {"name": "trainer", "image": "train:1"}
    return {
        "kind": "TrainingJob",
        "metadata": {
            "namespace": "vision",
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": "2026-06-15T07:00:00Z",
        },
        "spec": {"gpus": {"min": 1, "max": 16}, "template": {"spec": {"containers": [container]}}},
        "status": status,
    }


def queued(name: str = "next", **more: Any) -> dict[str, Any]:
    capacity = ("CapacityAvailable", "False", "PoolFull", "8 GPUs on a100 wanted: a100 is full")
    shown = {
        "state": "Queued",
        "why": "PoolFull",
        "gpus": 0,
        "budget": "ours",
        "conditions": conditions(ADMITTED, capacity),
        "options": [{**CHOSEN, "message": capacity[3]}],
        "optionsAsOf": "2026-06-15T08:00:00Z",
    }
    return raw(name, **{**shown, **more})


def running(name: str = "mine", **more: Any) -> dict[str, Any]:
    option = {"pool": "a100", "gpus": 8, "speed": 1.0, "hourly": "16.00"}
    allocation = {
        "run": 1,
        "option": option,
        "placements": [{"rental": "a100-1", "gpus": 8}],
        "since": "2026-06-15T07:00:00Z",
    }
    shown = {
        "state": "Running",
        "why": "BudgetOptimal",
        "gpus": 8,
        "pool": "a100",
        "budget": "ours",
        "cost": "48.00",
        "eta": "2026-06-15T11:00:00Z",
        "allocation": allocation,
        "lastRun": 1,
        "options": [DEAR, WORSE, CHOSEN],
        "optionsAsOf": "2026-06-15T08:00:00Z",
        "conditions": conditions(ADMITTED),
    }
    return raw(name, **{**shown, **more})


def run(monkeypatch: pytest.MonkeyPatch, jobs: list[dict[str, Any]], *arguments: str) -> Result:
    """A command of somebody who may read these jobs, and nothing of the cluster."""

    def read(cluster: ClusterOptions) -> ClusterReading:
        raise MayNotRead("nodes is forbidden")

    seen = OwnJobs("vision", [one_namespace.seen_job(job) for job in jobs], NOW)
    for command, reader in (("explain", "own_job"), ("plan", "own_jobs")):
        monkeypatch.setattr(f"charterer.tools.commands.{command}.command.read", read)
        monkeypatch.setattr(f"charterer.tools.commands.{command}.command.{reader}", lambda *_: seen)
    return CliRunner().invoke(main, list(arguments))


def test_a_running_job_is_explained_from_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, [running()], "explain", "mine")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "TrainingJob vision/mine is Running on 8 GPUs on a100 (run 1), $48.00 so far."
    assert lines[1].startswith("From what the operator wrote into the status 12 s ago; ")
    assert lines[1].endswith("Your account may not read the whole cluster (ClusterRole charterer-view allows it).")
    assert lines[2] == "Why (BudgetOptimal): 8 GPUs on a100: 3.0 h for $48.00."
    (chosen,) = [line for line in lines if line.startswith("*")]
    assert " ".join(chosen.split()) == "* 8 GPUs on a100 NVIDIA-A100 $16.00 3.0 h $48.00 - chosen it has them"
    assert "$14.04  too dear  pool full" in result.stdout
    assert "and 1 that is both slower and dearer: --all shows it" in result.stdout
    assert "8 GPUs on t4" in run(monkeypatch, [running()], "explain", "mine", "--all").stdout


def test_a_waiting_job_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = run(monkeypatch, [queued()], "explain", "next").stdout
    assert "TrainingJob vision/next is Queued, submitted 60 min ago." in stdout
    assert "It waits (PoolFull): 8 GPUs on a100 wanted: a100 is full." in stdout


def test_what_is_wrong_with_the_object_or_its_pods_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ("Admitted", "False", "InvalidTemplate", "spec.template: no image")
    late = ("OnTarget", "False", "TargetMissed", "target 10:00Z cannot be met")
    pods = ("PodsReady", "False", "NotStarting", "0 of 1 pods are ready: no such image")
    broken = raw("next", state="Invalid", why="Invalid", conditions=conditions(refused, late))
    stdout = run(monkeypatch, [broken], "explain", "next").stdout
    assert stdout.count("spec.template: no image.") == 1
    assert "Its targetCompletionTime: target 10:00Z cannot be met." in stdout
    assert (
        "0 of 1 pods are ready: no such image."
        in run(monkeypatch, [running(conditions=conditions(ADMITTED, pods))], "explain", "mine").stdout
    )


def test_a_job_that_is_resized_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    change = ("Resizing", "True", "BudgetOptimal", "1 of 2 pods trains; 1 is getting ready; it pays")
    jobs = [running(state="Resizing", conditions=conditions(ADMITTED, change))]
    sentence = f"It is resized: {change[3]}."
    assert sentence in run(monkeypatch, jobs, "explain", "mine").stdout
    assert json.loads(run(monkeypatch, jobs, "explain", "mine", "-o", "json").stdout)["resizing"] == sentence
    steady = [running(conditions=conditions(ADMITTED, ("Resizing", "False", "Steady", "")))]
    assert json.loads(run(monkeypatch, steady, "explain", "mine", "-o", "json").stdout)["resizing"] is None


def test_what_holds_the_run_up_is_told_from_its_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    starving = ("InputStarved", "True", "WaitsForData", "40% of each step waits for data")
    jobs = [running(conditions=conditions(ADMITTED, starving))]
    assert f"{starving[0]}: {starving[3]}." in run(monkeypatch, jobs, "explain", "mine").stdout
    said = json.loads(run(monkeypatch, jobs, "explain", "mine", "-o", "json").stdout)
    assert said["heldUp"] == {starving[0]: {"reason": starving[2], "message": starving[3]}}


def test_ruled_out_options_are_told_with_what_rules_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    ruled_out = [{"pool": "a100", "verdict": "ruled out", "message": "spec.gpuTypes: a node has A100"}]
    stdout = run(monkeypatch, [queued(options=ruled_out)], "explain", "next").stdout
    assert "Its options, cheapest first, and what rules each of them out" in stdout
    assert "any on a100" in stdout
    assert stdout.rstrip().endswith("spec.gpuTypes: a node has A100")


def test_a_job_without_options_yet_and_one_that_nobody_has_looked_at_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        "ask again in half a minute"
        in run(monkeypatch, [queued(options=[], optionsAsOf=None)], "explain", "next").stdout
    )
    new = raw("next")
    assert "No operator has looked at TrainingJob vision/next yet." in run(monkeypatch, [new], "explain", "next").stdout


def test_json_has_the_keys_of_the_whole_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.loads(run(monkeypatch, [running()], "explain", "mine", "-o", "json").stdout)
    assert said["source"] == {"from": "status", "asOf": "2026-06-15T08:00:00.000000Z"}
    assert (said["state"], said["reason"], said["budget"]) == ("Running", "BudgetOptimal", "ours")
    assert said["message"] == "8 GPUs on a100: 3.0 h for $48.00"
    assert [(option["gpus"], option["rank"], option["chosen"]) for option in said["options"]] == [
        (16, "too dear", False),
        (8, "slower and dearer", False),
        (8, "chosen", True),
    ]


def test_a_plan_of_ones_own_jobs_is_a_row_each_and_no_money_table(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = raw(
        "old",
        state="Complete",
        finish={"kind": "Complete", "at": "2026-06-15T07:30:00Z", "reason": "Completed"},
    )
    jobs = [running(), queued(), ended]
    result = run(monkeypatch, jobs, "plan")
    assert result.exit_code == 0
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert rows[2:] == [
        "Jobs of namespace vision",
        "JOB STATE GPUS POOL WHY ETA COST BEST OPTION",
        "mine Running 8 a100 BudgetOptimal 2026-06-15 11:00 UTC $48.00 8 GPUs on a100: 3.0 h for $48.00",
        "next Queued - - PoolFull - - 8 GPUs on a100: 3.0 h for $48.00",
    ]
    said = json.loads(run(monkeypatch, jobs, "plan", "-o", "json").stdout)
    assert (said["namespace"], [job["name"] for job in said["jobs"]]) == ("vision", ["mine", "next"])
    assert said["jobs"][1]["best"]["pool"] == "a100"
    assert "and 1 more job: --jobs 0 shows all" in run(monkeypatch, jobs, "plan", "--jobs", "1").stdout


@pytest.mark.parametrize("asked", [("--amount", "ours=1"), ("--detailed-exitcode",)])
def test_what_needs_the_whole_cluster_is_refused_with_the_right_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]
) -> None:
    result = run(monkeypatch, [running()], "plan", *asked)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: nodes is forbidden\n"


def test_a_status_of_another_version_is_one_clear_line() -> None:
    with pytest.raises(click.ClickException, match=r"TrainingJob vision/mine: status\.state: .* use the version"):
        one_namespace.seen_job(running(state="Dreaming"))
