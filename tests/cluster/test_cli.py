"""The commands that look, run as a person runs them: by a kubeconfig that may read and knows of no cloud."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from charterer.cluster.paths import JOBS
from charterer.domain.snapshot import OperatorLimits
from tests.cluster.commands import charterer
from tests.lanes import repeats
from tests.testbed.bed import Bed, group


def person(bed: Bed, *, role: str | None = "charterer-view") -> Path:
    """The kubeconfig of somebody who has this ClusterRole everywhere, or none."""
    name = f"person-{bed.namespace}-{role or 'nobody'}"
    bed.plane.kubectl("create", "serviceaccount", name, "-n", bed.namespace)
    if role is not None:
        account = f"{bed.namespace}:{name}"
        bed.plane.kubectl("create", "clusterrolebinding", name, f"--clusterrole={role}", f"--serviceaccount={account}")
    return bed.plane.service_account_kubeconfig(bed.namespace, name)


@pytest.mark.parametrize("role", ["charterer-view", *repeats("view")])
async def test_who_may_view_sees_that_nothing_is_left_to_do_and_why_the_job_has_what_it_has(
    bed: Bed, role: str, tmp_path: Path
) -> None:
    bed.operator(limits=OperatorLimits(nodes=9))
    await bed.pool()
    await bed.budget()
    await bed.job("train", gpus=4)
    await bed.running("train")
    me = person(bed, role=role)
    planned = await charterer(me, "plan", "-o", "json")
    assert (planned.code, planned.err) == (0, "")
    assert planned.json["actions"] == []
    assert (planned.json["operatorLimits"]["nodes"], planned.json["operatorLimits"]["hasNodes"]) == (9, 1)
    (job,) = planned.json["jobs"]
    assert (job["name"], job["state"], job["has"]["gpus"], job["has"]["pool"]) == ("train", "Running", 4, "a100")
    (budget,) = planned.json["budgets"]
    assert budget["feasible"] is True
    explained = await charterer(me, "explain", "tj/train", "-n", bed.namespace)
    assert explained.code == 0
    assert f"TrainingJob {bed.namespace}/train is Running on 4 GPUs on a100 (run 1)" in explained.out
    assert "* " in explained.out
    assert "\x1b" not in explained.out
    looked = await charterer(me, "preflight", "a100")
    assert (looked.code, looked.err) == (0, "")
    assert "OK GPUPool a100: taints: none that training pods do not tolerate" in looked.out
    file = tmp_path / "profile.json"
    profile = {"apiVersion": "charterer.dev/v1alpha1", "kind": "SpeedupProfile", "metadata": {"name": "resnet"}}
    file.write_text(json.dumps(profile | {"spec": {"model": {"flopsPerSample": 24.5e9, "parameters": 25.6e6}}}))
    predicted = await charterer(me, "predict", "-f", str(file), "--gpu-type", "T4", "-o", "json")
    assert (predicted.code, predicted.err) == (0, "")
    (found,) = predicted.json["classes"]
    assert "T4" in [step["gpuType"] for step in found["steps"]]
    assert found["checkpointSeconds"] == pytest.approx(7.6, abs=0.1)


@pytest.mark.repeats  # tests/unit/cli/plan
@pytest.mark.groups(group("a100"), group("other"))
async def test_what_ifs_show_what_another_job_and_another_price_would_change(bed: Bed, tmp_path: Path) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train", gpus=4)
    await bed.running("train")
    me = person(bed)
    more = tmp_path / "more.yaml"
    template = "{spec: {containers: [{name: t, image: t, resources: {limits: {nvidia.com/gpu: 4}}}]}}"
    more.write_text(
        f"{{apiVersion: charterer.dev/v1alpha1, kind: TrainingJob, "
        f"metadata: {{name: more, namespace: {bed.namespace}}}, spec: {{template: {template}}}}}"
    )
    added = await charterer(me, "plan", "-f", str(more), "--price", "a100=20/h", "-o", "json", "--detailed-exitcode")
    assert (added.code, added.err) == (2, "")
    (rent,) = added.json["whatIf"]["actionsAdded"]
    assert (rent["action"], rent["count"]) == ("rent", 1)
    assert "more waits for 4 GPUs on a100" in rent["why"]
    assert added.json["whatIf"]["asItIs"]["actions"] == []
    same = await charterer(me, "plan", "--amount", "team=2000000", "--detailed-exitcode")
    assert same.code == 0
    assert "It would do the same as without that." in same.out
    assert await bed.launched() == 1


async def test_a_template_that_the_api_server_refuses_is_no_plan_before_an_operator_has_seen_it(
    bed: Bed, tmp_path: Path
) -> None:
    await bed.pool()
    await bed.budget()
    container = {"name": "t", "image": "train:1", "imagePullPolicy": "Sometimes"}
    template = {"spec": {"containers": [container]}}
    await bed.create("TrainingJob", "typo", {"gpus": {"min": 1, "max": 4}, "template": template})
    trainer, viewer = person(bed, role="edit"), person(bed)
    explained = await charterer(trainer, "explain", "tj/typo", "-n", bed.namespace)
    assert f"TrainingJob {bed.namespace}/typo is Invalid" in explained.out
    assert "spec.template: the Job API refuses it: Job typo-r1 is invalid" in explained.out
    assert "imagePullPolicy" in explained.out
    assert (await charterer(trainer, "plan", "--detailed-exitcode")).code == 0
    file = tmp_path / "more.yaml"
    job = {"name": "more", "namespace": bed.namespace}
    spec = {"gpus": {"min": 1, "max": 4}, "template": {"spec": {"containers": [container | {"image": ""}]}}}
    whole = {"apiVersion": "charterer.dev/v1alpha1", "kind": "TrainingJob", "metadata": job, "spec": spec}
    file.write_text(json.dumps(whole))
    what_if = await charterer(trainer, "plan", "-f", str(file), "-o", "json", "--detailed-exitcode")
    assert (what_if.code, what_if.json["warnings"]) == (0, [])
    assert {job["name"]: job["state"] for job in what_if.json["jobs"]} == {"typo": "Invalid", "more": "Invalid"}
    seen = await charterer(viewer, "plan")
    assert f"Warning: you may not create Jobs in namespace {bed.namespace}, so the template of a new job" in seen.out
    assert seen.err == ""


@pytest.mark.repeats  # test_main_job.py; tests/unit/cli/plan
async def test_a_budget_that_only_observes_has_a_plan_with_a_detailed_exit_code_2(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget(mode="Observe")
    await bed.job("train")
    await bed.until(lambda: "ObserveOnly" in str(bed.tj("train").get("why")))
    planned = await charterer(person(bed), "plan", "--detailed-exitcode")
    assert planned.code == 2
    assert "if its budget were not in mode Observe" in planned.out
    assert "+ rent 1 node of a100" in planned.out
    assert await bed.launched() == 0


async def test_commands_act_as_the_user_that_a_flag_or_the_kubeconfig_says(bed: Bed) -> None:
    """As for kubectl: who administers a cluster tries a command as somebody who may do less."""
    await bed.pool()
    await bed.budget()
    admin, alice = bed.plane.kubeconfig, f"alice-{bed.namespace}"
    by_flag = await charterer(admin, "plan", "--as", alice)
    assert (by_flag.code, by_flag.out) == (1, "")
    assert f'User "{alice}" cannot list resource' in by_flag.err
    entries = yaml.safe_load(admin.read_text())
    entries["users"][0]["user"]["as"] = alice
    by_file = admin.with_name(f"{alice}.kubeconfig")
    by_file.write_text(yaml.safe_dump(entries))
    for command in (("plan",), ("stop", "-n", bed.namespace), ("doctor",)):
        refused = await charterer(by_file, *command)
        assert refused.code == 1, command
        assert any(word in refused.err + refused.out for word in (alice, "may not")), command
    viewer = f"viewers-{bed.namespace}"
    bed.plane.kubectl("create", "clusterrolebinding", viewer, "--clusterrole=charterer-view", f"--group={viewer}")
    assert (await charterer(admin, "plan", "--as", alice, "--as-group", "others", "--as-group", viewer)).code == 0
    nobody = await charterer(admin, "plan", "--as-group", viewer)
    assert (nobody.code, "set --as, too" in nobody.err) == (1, True)


async def test_what_cannot_be_read_or_found_is_one_clear_line_and_exit_code_1(bed: Bed, tmp_path: Path) -> None:
    me = person(bed)
    none = await charterer(me, "plan")
    assert (none.code, none.out) == (1, "")
    assert none.err.startswith("Error: no GPUBudget is in this cluster")
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    near = await charterer(me, "explain", "tj/trian", "-n", bed.namespace)
    assert near.err == f"Error: no TrainingJob 'trian' in namespace {bed.namespace}: did you mean train?\n"
    elsewhere = await charterer(me, "explain", "train", "-n", "default")
    assert elsewhere.err.endswith(f"there is one in {bed.namespace}: add -n {bed.namespace}\n")
    price = await charterer(me, "plan", "--price", "a10=3")
    assert price.err == "Error: --price: no GPUPool 'a10'; did you mean a100?\n"
    refused = await charterer(person(bed, role=None), "plan")
    assert "cannot list resource" in refused.err
    assert "ClusterRole charterer-view" in refused.err
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text(me.read_text().replace(bed.plane.url, "https://127.0.0.1:1"))
    away = await charterer(nowhere, "plan")
    assert away.err.startswith("Error: cannot reach the API server https://127.0.0.1:1: ")
    for ran in (none, near, elsewhere, price, refused, away):
        assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)


def _ended_job(name: str, *, gpus: int, hours_ago: float, hours: float) -> dict[str, Any]:
    """A Job that nobody runs, with a status as the Job controller leaves it."""
    now = datetime.now(UTC).replace(microsecond=0)
    began, ended = now - timedelta(hours=hours_ago), now - timedelta(hours=hours_ago - hours)
    container = {"name": "t", "image": "train:1", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": ended.isoformat(), "reason": "CompletionsReached"}
        for kind in ("SuccessCriteriaMet", "Complete")
    ]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"charterer.dev/profile": "sft"}},
        "spec": {
            "managedBy": "test.example.com/nobody",
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
        "status": {
            "startTime": began.isoformat(),
            "completionTime": ended.isoformat(),
            "succeeded": 1,
            "ready": 0,
            "terminating": 0,
            "uncountedTerminatedPods": {},
            "conditions": conditions,
        },
    }


async def test_the_past_of_charterer_and_of_others_is_simulated_saved_and_simulated_again(
    bed: Bed, tmp_path: Path
) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("own", gpus=4)
    await bed.running("own")
    await bed.finish("own")
    await bed.complete("own")
    for number in range(3):
        job = _ended_job(f"theirs-{number}", gpus=8, hours_ago=9.0 - number, hours=2.0)
        await bed.kube.post(JOBS.all(bed.namespace), {key: job[key] for key in job if key != "status"})
        status = JOBS.status(job["metadata"]["name"], bed.namespace)
        await bed.kube.merge_patch(status, {"status": job["status"]})
    me = person(bed)
    few = ("--policy", "as-asked", "--policy", "charterer", "--pays", "8", "--processes", "1", "-o", "json")
    told = await charterer(me, "simulate", "--from-cluster", "-n", bed.namespace, "--last", "1d", *few)
    assert told.code == 0
    assert "3 x Jobs whose pods are gone" in told.err
    assert {(row["jobs"], row["complete"]) for row in told.json} == {(4, 4)}
    file = tmp_path / "history.csv"
    saved = await charterer(me, "simulate", "--from-cluster", "--save", str(file))
    assert (saved.code, saved.out) == (0, "")
    assert "3 x Jobs whose pods are gone" in saved.err
    rows = list(csv.DictReader(file.open()))
    assert [(row["name"], row["gpus"]) for row in rows if row["name"].endswith("own")] == [
        (f"{bed.namespace}/own", "4")
    ]
    assert {row["node_price"] for row in rows} == {"12.00"}
    again = await charterer(me, "simulate", str(file), *few)
    assert again.json == told.json
    refused = await charterer(person(bed, role=None), "simulate", "--from-cluster")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "ClusterRole charterer-view" in refused.err


async def test_a_young_cluster_under_observe_is_told_what_is_missing(bed: Bed) -> None:
    await bed.pool()
    await bed.budget(mode="Observe")
    told = await charterer(person(bed), "report", "-o", "json")
    assert (told.code, told.err) == (0, "")
    (budget,) = told.json["budgets"]
    assert "0 jobs of the last 30 days can be simulated, and with fewer than 32" in budget["noNumberBecause"]
