"""Writing, finalizers, money and a user's own hands on a real control plane: each test guards one rule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from charterer.cluster.client import Client, RawObject
from charterer.cluster.paths import GPU_BUDGETS, GPU_POOLS, NAMESPACES, PODS, TRAINING_JOBS
from tests.cluster.crd_cases import make
from tests.cluster.history import history
from tests.cluster.meddling import Meddler
from tests.cluster.refusals import once_refused
from tests.lanes import repeats
from tests.testbed.bed import SYSTEM, Bed, group


async def _ground(bed: Bed, **operator: Any) -> None:
    bed.operator(**operator)
    await bed.pool()
    await bed.budget()


async def _edit(bed: Bed, job: str, spec: Mapping[str, object]) -> None:
    await bed.kube.merge_patch(TRAINING_JOBS.one(job, bed.namespace), {"spec": dict(spec)})


def _finalizers(objects: list[RawObject]) -> set[str]:
    return {finalizer for raw in objects for finalizer in raw["metadata"].get("finalizers") or []}


def _departed(bed: Bed) -> set[str]:
    """Names of this test's objects that are gone: those of the test before may go late."""
    departed = (raw["metadata"] for raw in bed.mirror.departed)
    return {metadata["name"] for metadata in departed if metadata.get("namespace") == bed.namespace}


# --- what the operator may and does write -----------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["RecordRun", *repeats("Allocate")])
async def test_a_job_deleted_just_before_its_status_is_written_does_not_come_back(bed: Bed, step: str) -> None:
    path = TRAINING_JOBS.one("train", bed.namespace)
    await _ground(bed, killer=Meddler(step, bed.plane.kubeconfig, path))
    async with history(bed.kube, TRAINING_JOBS, bed.namespace) as jobs:
        await bed.job("train", annotations={"testbed.charterer.dev/complete-after": "0.1s"})
        await bed.until(lambda: "train" in _departed(bed))
        await bed.until(lambda: not bed.pods("train"))
        await bed.given_back()
    assert f"{step}: stale" in bed.operators[0].log.read_text()
    assert [kind for kind, _ in jobs.events if kind != "MODIFIED"] == ["ADDED", "DELETED"]


async def test_the_operator_may_not_create_what_it_must_never_make(bed: Bed) -> None:
    assert await _may(bed, "patch", "nodes")
    assert not await _may(bed, "create", "nodes")
    assert not await _may(bed, "create", "pods", namespace=bed.namespace)
    assert not await _may(bed, "get", "secrets", namespace=bed.namespace)


async def test_the_operator_creates_no_trainingjob_but_for_an_object_that_it_adopts(bed: Bed) -> None:
    path = TRAINING_JOBS.all("default")
    own = make("TrainingJob", "own")
    target = {"apiVersion": "batch/v1", "kind": "Job", "name": "sft", "uid": "a"}
    async with await Client.connect(bed.plane.service_account_kubeconfig(SYSTEM, "charterer")) as operator:
        refusal = await once_refused(lambda: operator.post(path, own, dry_run=True))
        assert "ValidatingAdmissionPolicy 'charterer-" in refusal  # which of two that forbid it is by chance
        await operator.post(path, {**own, "spec": {**own["spec"], "targetRef": target}}, dry_run=True)


async def _may(bed: Bed, verb: str, resource: str, group: str = "", namespace: str = "") -> bool:
    """Whether the ServiceAccount of the chart may do this, as the API server says."""
    asked = {"verb": verb, "resource": resource, "group": group, "namespace": namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": f"system:serviceaccount:{SYSTEM}:charterer", "resourceAttributes": asked},
    }
    answer = await bed.kube.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def _guarded(bed: Bed) -> dict[str, Any]:
    return {raw["metadata"]["name"]: raw["metadata"].get("finalizers") for raw in bed.mirror.all(GPU_POOLS)}


@pytest.mark.repeats  # tests/unit/lifecycle/test_budget_and_guard.py
async def test_finalizers_are_only_where_something_must_still_be_paid_or_ended(bed: Bed) -> None:
    await _ground(bed)
    await bed.pool("unused")
    await bed.job("train")
    await bed.running("train")
    await bed.until(lambda: _finalizers(bed.mirror.all(GPU_BUDGETS)) == {"charterer.dev/in-use"})
    await bed.until(lambda: _guarded(bed) == {"a100": ["charterer.dev/in-use"], "unused": None})
    assert _finalizers(bed.rentals()) == {"charterer.dev/ledger"}
    assert _finalizers(bed.mirror.all(TRAINING_JOBS)) == set()
    assert _finalizers([*bed.runs("train"), *bed.pods("train")]) == {"batch.kubernetes.io/job-tracking"}
    assert not any("ownerReferences" in raw["metadata"] for raw in bed.rentals())


@pytest.mark.repeats  # tests/unit/workloads/test_what_reaches_pods.py
async def test_labels_of_other_queues_are_not_copied_onto_runs(bed: Bed) -> None:
    await _ground(bed)
    queue = {"kueue.x-k8s.io/queue-name": "gpus", "app": "sft"}
    limits = {"limits": {"nvidia.com/gpu": 4}}
    template = {
        "metadata": {"labels": queue},
        "spec": {"containers": [{"name": "t", "image": "i:1", "resources": limits}]},
    }
    await bed.create("TrainingJob", "train", {"template": template}, labels=queue)
    await bed.running("train")
    for raw in (*bed.runs("train"), *bed.pods("train")):
        assert "kueue.x-k8s.io/queue-name" not in json.dumps(raw)
    assert bed.pods("train")[0]["metadata"]["labels"]["app"] == "sft"


async def test_a_namespace_is_deleted_with_a_running_job_in_it_and_its_nodes_go_back(bed: Bed) -> None:
    await _ground(bed)
    town = f"{bed.namespace}-town"
    await bed.kube.post(NAMESPACES.all(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": town}})
    await bed.budget("towns", namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": town}})
    container = {"name": "t", "image": "i:1", "resources": {"limits": {"nvidia.com/gpu": 4}}}
    body = {
        "apiVersion": "charterer.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "train", "namespace": town},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    await bed.kube.post(TRAINING_JOBS.all(town), body)
    await bed.until(lambda: any(pod["status"]["phase"] == "Running" for pod in bed.mirror.all(PODS, town)))
    async with history(bed.kube, NAMESPACES) as towns:
        await bed.kube.delete(NAMESPACES.one(town))
        await bed.until(lambda: not bed.mirror.all(PODS, town), 40)
        await bed.given_back()
        await bed.until(lambda: bed.mirror.all(TRAINING_JOBS, town) == [])
        await _gone(bed, town)
    assert ("DELETED", town) in [(kind, raw["metadata"]["name"]) for kind, raw in towns.events]
    assert "failed" not in bed.operators[0].log.read_text()


async def _gone(bed: Bed, town: str) -> None:
    bed.plane.kubectl("wait", f"namespace/{town}", "--for=delete", "--timeout=40s")


# --- money ------------------------------------------------------------------------------------------------------------


async def test_a_budget_cut_to_what_is_spent_gives_its_nodes_back_in_time(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train")
    await bed.running("train")
    await bed.kube.merge_patch(GPU_BUDGETS.one("team"), {"spec": {"amount": "0.5", "hardLimit": "0.5"}})
    await bed.given_back()
    await bed.until(lambda: bed.tj("train").get("why") == "HardLimit")
    raw = bed.mirror.one(TRAINING_JOBS, "train", bed.namespace)
    assert bed.condition(raw, "BudgetLimited")["status"] == "True"
    _, bill = await bed.cloud.bill()
    assert bill <= 500_000
    await bed.kube.merge_patch(GPU_BUDGETS.one("team"), {"spec": {"amount": "1000", "hardLimit": "1000"}})
    await bed.running("train")


@pytest.mark.repeats  # tests/scenarios; the weight: tests/unit/controller/snapshot/test_problems.py
@pytest.mark.groups(group("a100", maxSize=1))
async def test_of_two_waiting_jobs_the_one_whose_priority_class_weighs_more_comes_first(bed: Bed) -> None:
    bed.operator()
    await bed.pool(maxNodes=1)
    await bed.budget(weights=[{"priorityClassName": "urgent", "weight": 5}])
    await bed.job("first")
    await bed.running("first")
    await bed.job("ordinary")
    await bed.job("important", priorityClassName="urgent")
    await bed.until(lambda: {bed.tj(job).get("why") for job in ("ordinary", "important")} == {"PoolFull"})
    await bed.finish("first")
    await bed.running("important")
    assert bed.state("ordinary") == "Queued"
    assert "priorityClassName" not in bed.pods("important")[0]["spec"]


@pytest.mark.repeats  # tests/scenarios/policy
@pytest.mark.groups(group("a100", healSeconds=0.2))
async def test_a_machine_that_the_group_put_in_place_of_a_dead_one_is_used_or_ended(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train")
    await bed.running("train")
    instance = bed.rentals()[0]["status"]["instance"]
    await bed.cloud.admin("POST", f"/instances/{instance}/kill")
    await bed.until(lambda: bed.run("train") == 2 and bed.state("train") == "Running")
    await bed.until(lambda: len(bed.rentals()) == 1)
    (used,) = await bed.instances()
    assert bed.rentals("Ready")[0]["status"]["instance"] == used["id"] != instance


# --- a user's own hands -----------------------------------------------------------------------------------------------


@pytest.mark.repeats  # test_crash.py, of the job torn
async def test_a_rental_deleted_by_a_user_is_drained_and_its_job_goes_on_elsewhere(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train", annotations={"testbed.charterer.dev/stop-delay": "0.5s"})
    await bed.running("train")
    name = bed.rentals()[0]["metadata"]["name"]
    bed.plane.kubectl("delete", "gpurental", name, "--wait=false")
    await bed.until(lambda: bed.run("train") == 2 and bed.state("train") == "Running")
    await bed.until(lambda: [raw["metadata"]["name"] for raw in bed.rentals()] not in ([], [name]))
    await bed.until(lambda: len(bed.rentals()) == 1)
    assert bed.tj("train")["runs"][0]["outcome"] == "Stopped"
    assert (len(await bed.instances()), await bed.launched()) == (1, 2)


@pytest.mark.repeats  # tests/unit/controller/snapshot; test_main_job.py
async def test_a_budget_that_no_longer_selects_a_running_jobs_namespace_can_still_be_deleted(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train")
    await bed.running("train")
    nobody = {"matchLabels": {"kubernetes.io/metadata.name": "nobody"}}
    await bed.kube.merge_patch(GPU_BUDGETS.one("team"), {"spec": {"namespaceSelector": nobody}})
    await bed.until(lambda: bed.condition(_raw(bed, "train"), "Admitted").get("reason") == "NoBudget")
    assert bed.state("train") == "Running"
    await bed.delete("GPUBudget", "team")
    await bed.until(lambda: bed.mirror.one(GPU_BUDGETS, "team") is None)
    assert await bed.instances() == []


@pytest.mark.repeats  # tests/scenarios/policy; test_main_job.py
async def test_a_pool_can_be_deleted_under_a_run_whose_template_has_turned_bad(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train", resizePolicy="Restart")
    await bed.running("train")
    await _edit(bed, "train", {"template": {"spec": {"terminationGracePeriodSeconds": "soon"}}})
    await bed.until(lambda: bed.condition(_raw(bed, "train"), "Admitted").get("reason") == "InvalidTemplate")
    await bed.delete("GPUPool", "a100")
    await bed.until(lambda: bed.mirror.one(GPU_POOLS, "a100") is None)
    assert await bed.instances() == []


def _raw(bed: Bed, job: str) -> RawObject | None:
    return bed.mirror.one(TRAINING_JOBS, job, bed.namespace)
