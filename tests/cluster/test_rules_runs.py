"""Runs on a real control plane: each test guards one rule about stopping, handing over and placing them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from charterer.api.names import COMPLETION_INDEX
from charterer.cluster.client import RawObject
from charterer.cluster.paths import JOBS, NODES, PODS, TRAINING_JOBS
from tests.cluster.history import History, history
from tests.cluster.meddling import Meddler
from tests.testbed.bed import Bed
from tests.testbed.controlplane import SILENT_LABEL

STOPS_WITH_0 = {"testbed.charterer.dev/stop-exit-code": "0"}
STOPS_SLOWLY = {"testbed.charterer.dev/stop-delay": "0.6s"}
LIVE = ("Pending", "Running", "Unknown")


async def _ground(bed: Bed, **operator: Any) -> None:
    bed.operator(**operator)
    await bed.pool()
    await bed.budget()


async def _edit(bed: Bed, job: str, spec: Mapping[str, object]) -> None:
    await bed.kube.merge_patch(TRAINING_JOBS.one(job, bed.namespace), {"spec": dict(spec)})


async def _resized(bed: Bed, job: str, gpus: int) -> None:
    """Edit the job to exactly so many GPUs and wait until it runs so."""
    await _edit(bed, job, {"gpus": {"min": gpus, "preferred": gpus, "max": gpus}})
    await bed.until(lambda: bed.tj(job).get("gpus") == gpus and bed.state(job) == "Running")


async def _evict(bed: Bed, pod: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": bed.namespace}}
    await bed.kube.post(f"{PODS.one(pod, bed.namespace)}/eviction", body)


def _outcomes(bed: Bed, job: str) -> list[str]:
    return [run["outcome"] for run in bed.tj(job).get("runs") or []]


def _released(bed: Bed) -> list[tuple[str, str]]:
    """The rentals that were given back, each with the reason."""
    statuses = [(raw["metadata"]["name"], raw.get("status") or {}) for raw in bed.rentals()]
    return [(name, status["releasedBecause"]) for name, status in statuses if "releasedBecause" in status]


# --- a stop is no end -------------------------------------------------------------------------------------------------


async def test_a_trainer_that_stops_with_0_when_its_job_is_suspended_or_resized_has_not_completed(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train", resizePolicy="Restart", annotations=STOPS_WITH_0)
    await bed.running("train")
    await _resized(bed, "train", 2)
    await _edit(bed, "train", {"suspend": True})
    await bed.until(lambda: bed.state("train") == "Suspended")
    await bed.given_back()
    assert _outcomes(bed, "train") == ["Stopped", "Stopped"]
    await _edit(bed, "train", {"suspend": False})
    await bed.running("train")


async def test_a_job_whose_pods_are_all_evicted_and_exit_0_has_not_completed_though_its_run_says_so(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train", annotations=STOPS_WITH_0, backoffLimit=0)
    await bed.running("train")
    async with history(bed.kube, JOBS, bed.namespace) as jobs:
        await _evict(bed, bed.pods("train")[0]["metadata"]["name"])
        await bed.until(lambda: bed.state("train") == "Running" and bed.run("train") == 2)
    assert _ever(jobs, "train-r1", "Complete"), "the Job API did not do what this rule is about"
    assert _outcomes(bed, "train") == ["Interrupted"]
    assert "exited with 0" in bed.tj("train")["runs"][0]["message"]


@pytest.mark.repeats  # tests/unit/lifecycle/test_interruptions.py; an eviction: above
async def test_an_evicted_or_deleted_pod_is_an_interruption_and_no_failure_of_the_job(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train", gpus=8, backoffLimit=0)
    await bed.running("train")
    await _evict(bed, bed.pods("train")[1]["metadata"]["name"])
    await bed.running_again("train", after=1)
    deleted = next(raw["metadata"]["name"] for raw in bed.pods("train") if "-r2-" in raw["metadata"]["name"])
    await bed.kube.delete(PODS.one(deleted, bed.namespace))
    await bed.running_again("train", after=2)
    assert _outcomes(bed, "train") == ["Interrupted", "Interrupted"]
    assert deleted in bed.tj("train")["runs"][1]["message"]
    assert (bed.tj("train").get("failures", 0), bed.tj("train")["restarts"]) == (0, 2)


async def test_a_pod_that_its_kubelet_refuses_costs_no_try_of_the_job_which_starts_on_another_node(bed: Bed) -> None:
    """The kubelet tells of no containers then, also of a pod that it ran before it restarted. The Job has failed."""
    await _ground(bed)
    await bed.job("train", 4, backoffLimit=0)
    await bed.running("train")
    async with history(bed.kube, JOBS, bed.namespace) as jobs:
        pod, said = PODS.one(bed.pods("train")[0]["metadata"]["name"], bed.namespace), "Pod was rejected: no GPU"
        refused = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": said, "containerStatuses": None}
        await bed.kube.merge_patch(f"{pod}/status", {"status": refused})
        await bed.until(lambda: _outcomes(bed, "train") == ["NotStarted"])
        assert _ever(jobs, "train-r1", "Failed"), "the Job API did not do what this rule is about"
    message = bed.tj("train")["runs"][0]["message"]
    assert " refused pod train-r1-0" in message
    assert message.endswith(f": UnexpectedAdmissionError: {said}")
    await bed.until(lambda: ("a100-1", "PodRefused") in _released(bed))
    await _edit(bed, "train", {"backoffLimit": 1})  # its author need not wait for the end of the back-off
    await bed.running_again("train", after=1)
    assert bed.tj("train")["allocation"]["placements"][0]["rental"] != "a100-1"


@pytest.mark.repeats  # tests/unit/lifecycle/test_rental.py; tests/property/lifecycle
async def test_completion_is_recorded_before_the_pods_that_prove_it_may_go(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train", gpus=8)
    await bed.running("train")
    await bed.finish("train", index=1)
    await bed.until(lambda: any(pod["status"]["phase"] == "Succeeded" for pod in bed.pods("train")))
    async with history(bed.kube, PODS, bed.namespace) as pods, history(bed.kube, TRAINING_JOBS, bed.namespace) as told:
        await bed.finish("train", index=0)
        await bed.complete("train")
        await bed.given_back()
    recorded = next(int(raw["metadata"]["resourceVersion"]) for _, raw in told.events if raw["status"].get("finish"))
    gone = [int(raw["metadata"]["resourceVersion"]) for kind, raw in pods.events if kind == "DELETED"]
    assert all(at > recorded for at in gone)


def _ever(jobs: History, name: str, kind: str) -> bool:
    return any(
        condition["type"] == kind and condition["status"] == "True"
        for raw in jobs.versions(name)
        for condition in raw["status"].get("conditions") or []
    )


# --- handing over -----------------------------------------------------------------------------------------------------


@pytest.mark.repeats  # tests/unit/lifecycle; tests/property/lifecycle; test_kueue.py
async def test_two_runs_of_a_job_never_have_live_pods_at_once(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train", gpus=1, resizePolicy="Restart", annotations=STOPS_SLOWLY)
    await bed.running("train")
    async with history(bed.kube, PODS, bed.namespace) as pods:
        for gpus in (2, 1, 8):  # beside one another on a node there would be room for the first three runs
            await _resized(bed, "train", gpus)
        await _edit(bed, "train", {"suspend": True})
        await _edit(bed, "train", {"suspend": False})
        await bed.until(lambda: bed.run("train") >= 4 and bed.state("train") == "Running")
    live: dict[str, str] = {}
    for kind, raw in pods.events:
        if kind != "DELETED" and raw["status"].get("phase", "Pending") in LIVE:
            live[raw["metadata"]["uid"]] = raw["metadata"]["labels"]["charterer.dev/run"]
        else:
            live.pop(raw["metadata"]["uid"], None)
        assert len(set(live.values())) <= 1, f"pods of runs {sorted(set(live.values()))} at once"


async def test_a_run_is_let_go_only_as_it_was_seen(bed: Bed) -> None:
    path = JOBS.one("train-r1", bed.namespace)
    touched = {"metadata": {"annotations": {"somebody": "was here"}}}
    await _ground(bed, killer=Meddler("Unsuspend", bed.plane.kubeconfig, path, touched))
    await bed.job("train")
    await bed.running("train")
    assert "Unsuspend: stale" in bed.operators[0].log.read_text()


@pytest.mark.repeats  # tests/unit/lifecycle/test_run.py; test_crash.py
async def test_a_new_leader_deletes_a_run_that_status_does_not_name(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train")
    await bed.running("train")
    bed.operators[0].kill()
    await bed.kube.post(JOBS.all(bed.namespace), _deposed(bed.runs("train")[0], 7))
    await bed.until(lambda: len(bed.pods("train")) == 2)
    (alive,) = (pod["metadata"]["uid"] for pod in bed.pods("train") if pod["status"]["phase"] == "Running")
    bed.operators[0].restart()
    await bed.until(lambda: [run["metadata"]["name"] for run in bed.runs("train")] == ["train-r1"])
    await bed.until(lambda: [pod["metadata"]["uid"] for pod in bed.pods("train")] == [alive])
    assert (bed.run("train"), bed.state("train")) == (1, "Running")


def _deposed(run: RawObject, number: int) -> RawObject:
    """What a leader that was deposed in the meantime would have made of a run: the next one, let go at once."""
    spec = deepcopy(run["spec"])
    del spec["selector"]
    labels = {**run["metadata"]["labels"], "charterer.dev/run": str(number)}
    spec["template"]["metadata"]["labels"] = {"charterer.dev/job": labels["charterer.dev/job"], **labels}
    metadata = {key: run["metadata"][key] for key in ("namespace", "ownerReferences")}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "name": run["metadata"]["name"].removesuffix("1") + str(number), "labels": labels},
        "spec": {**spec, "suspend": False},
    }


async def test_a_job_deleted_and_made_again_under_its_name_at_once_begins_anew_and_completes(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train", annotations=STOPS_SLOWLY)
    await bed.running("train")
    (old,) = bed.pods("train")
    await bed.delete("TrainingJob", "train")
    await bed.job("train")
    await bed.until(lambda: bed.state("train") == "Running" and bed.run("train") == 1)
    await bed.until(lambda: len(bed.pods("train")) == 1)
    (new,) = bed.pods("train")
    for label in ("charterer.dev/job-uid", "batch.kubernetes.io/controller-uid"):
        assert new["metadata"]["labels"][label] != old["metadata"]["labels"][label]
    await bed.finish("train")
    await bed.complete("train")


# --- disruptions and lost nodes ---------------------------------------------------------------------------------------


async def test_pods_of_a_dead_machine_are_failed_as_disrupted_and_gone_with_their_node(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train", annotations=STOPS_SLOWLY)
    await bed.running("train")
    (pod,) = bed.pods("train")
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    assert "batch.kubernetes.io/job-tracking" in pod["metadata"]["finalizers"]
    async with history(bed.kube, PODS, bed.namespace) as pods:
        await bed.cloud.admin("POST", f"/instances/{node}/kill", {"nodeObject": "silent"})
        await bed.until(lambda: bed.state("train") == "Running" and bed.run("train") == 2, 10)
        await bed.until(lambda: bed.mirror.one(NODES, node) is None)
        await bed.until(lambda: len(bed.pods("train")) == 1)
    last = pods.versions(name)[-1]
    (disrupted,) = (condition for condition in last["status"]["conditions"] if condition["type"] == "DisruptionTarget")
    assert (last["status"]["phase"], disrupted["reason"]) == ("Failed", "InstanceTerminated")


async def test_a_run_whose_pods_hang_on_a_silent_node_is_withdrawn_and_starts_elsewhere(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("keeper", gpus=1)
    await bed.running("keeper")
    node = bed.pods("keeper")[0]["spec"]["nodeName"]
    await bed.kube.merge_patch(NODES.one(node), {"metadata": {"labels": {SILENT_LABEL: "true"}}})
    await bed.job("late", gpus=2, readyTimeoutSeconds=3)
    await bed.until(lambda: [pod["spec"].get("nodeName") for pod in bed.pods("late")] == [node])
    await bed.until(lambda: bed.run("late") != 1 and bed.runs("late")[0]["spec"]["suspend"])
    await bed.running_again("late", after=1)
    await bed.running_again("keeper", after=1)

    def on_the_silent_node() -> set[str]:
        return {
            pod["status"]["phase"] for pod in bed.pods("late") + bed.pods("keeper") if pod["spec"]["nodeName"] == node
        }

    # A job goes on once its pods there have failed, with their machine; they are deleted in a step of its own.
    assert on_the_silent_node() <= {"Failed"}
    await bed.until(lambda: not on_the_silent_node())
    assert bed.tj("late")["runs"][0]["message"]


@pytest.mark.repeats  # tests/unit/workloads/test_indexed_job.py; the silence: above
async def test_pods_leave_a_node_that_is_not_heard_of_after_30_seconds_whatever_they_tolerate(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train")
    await _edit(bed, "train", {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}})
    await bed.running("train")
    tolerations = bed.pods("train")[0]["spec"]["tolerations"]
    for gone in ("not-ready", "unreachable"):
        (ours,) = (toleration for toleration in tolerations if toleration.get("key") == f"node.kubernetes.io/{gone}")
        assert (ours["effect"], ours["tolerationSeconds"]) == ("NoExecute", 30)
    assert {"operator": "Exists"} in tolerations


async def test_a_trainer_that_has_to_be_killed_after_its_grace_period_is_told_of(bed: Bed) -> None:
    await _ground(bed)
    deaf = {"testbed.charterer.dev/stop-exit-code": "137", "testbed.charterer.dev/stop-delay": "6s"}
    await bed.job("train", annotations=deaf)  # whose grace period is 5 s
    await bed.running("train")
    await _edit(bed, "train", {"suspend": True})
    await bed.until(lambda: _outcomes(bed, "train") == ["Stopped"])
    assert "did not end within the grace period of 5 s and was killed" in bed.tj("train")["runs"][0]["message"]


# --- in place ---------------------------------------------------------------------------------------------------------


@pytest.mark.repeats  # tests/contract/test_workload.py; test_in_place.py
async def test_a_run_that_changes_in_place_keeps_its_lowest_ranks_and_changes_both_numbers_at_once(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train", gpus=8, resizePolicy="InPlace")
    await bed.running("train")
    first = _by_index(bed, "train")
    async with history(bed.kube, JOBS, bed.namespace) as jobs:
        await _resized(bed, "train", 16)
        wide = _by_index(bed, "train")
        assert {index: uid for index, uid in wide.items() if index < 2} == first
        assert set(wide) == {0, 1, 2, 3}
        await bed.until(lambda: {_allocation(pod) for pod in bed.pods("train")} == {_told(16)})
        await _resized(bed, "train", 8)
        await bed.until(lambda: _by_index(bed, "train") == first)
        await bed.until(lambda: {_allocation(pod) for pod in bed.pods("train")} == {_told(8)})
    numbers = [(raw["spec"]["parallelism"], raw["spec"]["completions"]) for raw in jobs.versions("train-r1")]
    assert set(numbers) == {(2, 2), (4, 4)}
    assert (bed.run("train"), _outcomes(bed, "train")) == (1, [])
    await bed.finish("train")
    await bed.complete("train")


@pytest.mark.repeats  # tests/unit/lifecycle
async def test_ranks_that_exit_with_0_because_a_peer_was_taken_in_place_do_not_complete_the_job(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train", gpus=12, resizePolicy="InPlace")
    await bed.running("train")
    reported = {"run": 1, "fraction": 0.07, "at": bed.pods("train")[0]["status"]["startTime"]}
    await bed.kube.merge_patch(TRAINING_JOBS.status("train", bed.namespace), {"status": {"progress": reported}})
    await bed.until(lambda: bed.tj("train").get("progressPercent") == 7)
    await _resized(bed, "train", 8)
    await bed.finish("train")
    await bed.until(lambda: _outcomes(bed, "train") == ["Stopped"])
    assert "its last report" in bed.tj("train")["runs"][0]["message"]
    await bed.until(lambda: bed.run("train") == 2)


def _by_index(bed: Bed, job: str) -> dict[int, str]:
    pods = [pod["metadata"] for pod in bed.pods(job)]
    return {int(pod["annotations"][COMPLETION_INDEX]): pod["uid"] for pod in pods}


def _allocation(pod: RawObject) -> str:
    return str(pod["metadata"]["annotations"]["charterer.dev/allocation"])


def _told(gpus: int) -> str:
    return f'{{"run":1,"gpus":{gpus},"pods":{gpus // 4},"gpusPerPod":4}}'


# --- placement --------------------------------------------------------------------------------------------------------


async def test_labels_of_nodes_are_the_placement_and_only_pods_of_that_run_land_there(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("one", gpus=4)
    await bed.job("two", gpus=8)
    await bed.running("one", "two")
    for job in ("one", "two"):
        key = _run_label(bed, job)
        placed = {placement["rental"] for placement in bed.tj(job)["allocation"]["placements"]}
        nodes = {rental["status"]["node"] for rental in bed.rentals() if rental["metadata"]["name"] in placed}
        assert {name for name, labels in _labels(bed).items() if labels.get(key) == "r1"} == nodes
        assert {pod["spec"]["nodeName"] for pod in bed.pods(job)} == nodes
        assert all(pod["spec"]["nodeSelector"][key] == "r1" for pod in bed.pods(job))
    stranger = deepcopy(bed.pods("two")[0])
    selector = {_run_label(bed, "two"): "r2"}
    await _pod(bed, "next-run", gpus=1, nodeSelector=selector, tolerations=stranger["spec"]["tolerations"])
    await bed.until(lambda: _unschedulable(bed, "next-run"))
    await bed.finish("one")
    await bed.complete("one")
    await bed.until(lambda: not any(_run_label(bed, "one") in labels for labels in _labels(bed).values()))
    await bed.kube.delete(PODS.one("next-run", bed.namespace))


@pytest.mark.repeats  # tests/scenarios/policy/test_nodes.py; a stranger's pod: test_stuck.py
async def test_gpus_that_a_stranger_holds_are_not_given_away_and_its_node_is_not_ended_under_it(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("one", gpus=1)
    await bed.running("one")
    (node,) = (pod["spec"]["nodeName"] for pod in bed.pods("one"))
    await _pod(bed, "stranger", gpus=3, nodeName=node)
    await bed.job("two", gpus=2)
    await bed.running("two")
    assert bed.pods("two")[0]["spec"]["nodeName"] != node
    for job in ("one", "two"):
        await bed.finish(job)
    await bed.complete("one", "two")
    await bed.until(lambda: [rental["status"].get("node") for rental in bed.rentals()] == [node])
    await bed.until(lambda: (bed.mirror.one(NODES, node) or {})["spec"].get("unschedulable"))
    assert [instance["id"] for instance in await bed.instances()] == [node]
    await bed.kube.delete(PODS.one("stranger", bed.namespace), grace=0)
    await bed.given_back()


def _run_label(bed: Bed, job: str) -> str:
    raw = bed.mirror.one(TRAINING_JOBS, job, bed.namespace)
    return "" if raw is None else f"run.charterer.dev/{raw['metadata']['uid'][:8]}"


def _labels(bed: Bed) -> dict[str, Mapping[str, str]]:
    return {node["metadata"]["name"]: node["metadata"]["labels"] for node in bed.mirror.all(NODES)}


async def _pod(bed: Bed, name: str, *, gpus: int, **spec: object) -> None:
    container = {"name": "main", "image": "other:1", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    metadata = {"name": name, "namespace": bed.namespace, "labels": {"app": "other"}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
    await bed.kube.post(PODS.all(bed.namespace), body)


def _unschedulable(bed: Bed, name: str) -> bool:
    return bed.condition(bed.mirror.one(PODS, name, bed.namespace), "PodScheduled").get("reason") == "Unschedulable"
