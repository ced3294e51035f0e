"""plan and explain say of a template what the operator says: its verdict where it has one, else a dry run's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from charterer.api.decode import DecodedJob
from charterer.cluster.errors import Forbidden, NotFound
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.tools.commands.shared.cluster import ClusterOptions, ClusterReading
from charterer.tools.commands.shared.plan_report import with_trials
from tests.unit.cli.dry_runs import MAY_NOT, MISSPELT, REFUSED, DryRuns
from tests.unit.cli.worlds import Charterer, charterer_over, seen_of
from tests.worlds import NAMESPACE, World

FILE = f"""
apiVersion: charterer.dev/v1alpha1
kind: TrainingJob
metadata: {{name: more, namespace: {NAMESPACE}}}
spec: {{gpus: {{min: 1, max: 8}}, template: {{spec: {{containers: [{{name: t, image: i}}]}}}}}}
"""
EDITED = FILE.replace("more", "train")


def world_with(*jobs: str) -> World:
    world = World()
    world.budget("research", amount="60000")
    world.pool("a100", gpus=8, price="19.80")
    for job in jobs:
        world.job(job, gpus=(1, 8, 32))
    return world


def state_of(world: World, verdicts: Mapping[str, str | None]) -> ClusterState:
    """What was seen of the world, with what the conditions of its jobs say of their templates (None: nothing)."""
    seen = seen_of(world)
    jobs: dict[ObjectKey, DecodedJob] = {
        key: replace(decoded, template_verdict=verdicts.get(key.name)) for key, decoded in seen.jobs.items()
    }
    return replace(seen, jobs=jobs)


def over(world: World, monkeypatch: pytest.MonkeyPatch, api: DryRuns, verdicts: Mapping[str, str | None]) -> Charterer:
    charterer = charterer_over(world, monkeypatch)
    reading = ClusterReading(state_of(world, verdicts), world.now, NAMESPACE)
    for command in ("plan", "explain"):
        monkeypatch.setattr(f"charterer.tools.commands.{command}.command.read", lambda cluster: reading)
    api.serve(monkeypatch)
    return charterer


def test_plan_and_explain_say_of_a_refused_template_what_the_operator_says(monkeypatch: pytest.MonkeyPatch) -> None:
    api = DryRuns()
    api.refuses["train"] = MISSPELT
    charterer = over(world_with("train"), monkeypatch, api, {})
    planned = charterer("plan", "--detailed-exitcode")
    assert planned.exit_code == 0
    assert "Nothing to do" in planned.stdout
    explained = charterer("explain", "tj/train").stdout
    assert f"TrainingJob {NAMESPACE}/train is Invalid" in explained
    assert f"It gets no GPUs (Invalid): {REFUSED}." in explained


def test_what_the_operator_says_of_a_template_already_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    api = DryRuns()
    charterer = over(world_with("wrong", "right"), monkeypatch, api, {"wrong": REFUSED, "right": ""})
    jobs = json.loads(charterer("plan", "-o", "json").stdout)["jobs"]
    assert {job["name"]: job["state"] for job in jobs} == {"wrong": "Invalid", "right": "Queued"}
    assert api.tried == []


def test_of_many_new_jobs_at_most_eight_are_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    api = DryRuns()
    api.serve(monkeypatch)
    names = [f"job{number}" for number in range(30)]
    with_trials(ClusterOptions(), state_of(world_with(*names), {}), {})
    assert sorted(api.tried) == sorted(names)
    assert api.most_under_way == 8


def test_who_may_not_create_jobs_is_told_so_in_a_line_and_gets_a_plan_without_dry_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = DryRuns()
    names = [f"job{number}" for number in range(30)]
    api.refuses = dict.fromkeys(names, MAY_NOT)
    charterer = over(world_with(*names), monkeypatch, api, {})
    said = charterer("plan").stdout
    assert said.startswith(
        f"Warning: you may not create Jobs in namespace {NAMESPACE}, so the templates of 30 new jobs are taken to be "
        "right without a dry run\n"
    )
    assert said.count("Warning") == 1
    assert "Charterer would do now" in said
    assert len(api.tried) <= 8
    (warning,) = json.loads(charterer("plan", "-o", "json").stdout)["warnings"]
    assert warning.startswith("you may not create Jobs")


def test_a_job_that_a_quota_keeps_from_being_tried_is_shown_as_the_operator_shows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = DryRuns()
    api.refuses["train"] = Forbidden("POST", "/jobs", 403, "Forbidden", "exceeded quota: jobs")
    said = over(world_with("train"), monkeypatch, api, {})("explain", "train").stdout
    assert f"Warning: the template of {NAMESPACE}/train cannot be tried now: exceeded quota: jobs" in said
    assert "It gets no GPUs (Checking)" in said


def test_a_job_in_a_file_is_tried_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(FILE)
    api = DryRuns()
    charterer = over(world_with(), monkeypatch, api, {})
    assert charterer("plan", "-f", str(file), "--detailed-exitcode").exit_code == 2
    api.refuses["more"] = MISSPELT
    refused = charterer("plan", "-f", str(file), "--detailed-exitcode")
    assert refused.exit_code == 0
    assert REFUSED in refused.stdout
    assert api.tried == ["more", "more"]


def test_a_template_in_a_namespace_that_only_the_file_has_is_taken_to_be_right_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    namespace = f"---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n"
    api = DryRuns()
    api.refuses["more"] = NotFound("POST", "/jobs", 404, "NotFound", f'namespaces "{NAMESPACE}" not found')
    charterer = over(world_with(), monkeypatch, api, {})
    planned = charterer("plan", "-f", "-", "--detailed-exitcode", stdin=FILE + namespace)
    assert planned.exit_code == 2
    assert (
        f"Warning: templates in namespace {NAMESPACE} are taken to be right without a dry run: it does not exist yet"
    ) in planned.stdout


def test_a_name_that_somebody_else_has_taken_is_told_before_the_job_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(FILE)
    api = DryRuns()
    api.strangers.add(f"/api/v1/namespaces/{NAMESPACE}/services/more")
    refused = over(world_with(), monkeypatch, api, {})("plan", "-f", str(file), "--detailed-exitcode")
    assert refused.exit_code == 0
    assert f"Service {NAMESPACE}/more is somebody else's" in refused.stdout


def test_a_running_job_whose_file_has_a_refused_template_runs_on_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(EDITED)
    world = world_with("train")
    rental = world.rental()
    world.runs_on("train", rental.id, gpus=8)
    api = DryRuns()
    api.refuses["train"] = MISSPELT
    said = over(world, monkeypatch, api, {"train": ""})("plan", "-f", str(file)).stdout
    assert f"Warning: {NAMESPACE}/train runs on, but no further run could start: {REFUSED}" in said
