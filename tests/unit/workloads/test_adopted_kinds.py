"""JobSets, TrainJobs and RayJobs: what of them is adopted, why others are not, and what is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from charterer.api.template import gpu_resource, trainer_gpus
from charterer.domain.reports import Progress
from charterer.domain.time import parse_instant
from charterer.workloads import NotAdoptable, TargetKind
from charterer.workloads.adopted.job_set import ADOPTED_JOB_SET, ADOPTED_TRAIN_JOB
from charterer.workloads.adopted.ray_job import ADOPTED_RAY_JOB
from tests import factory as make
from tests.contract.adopted_objects import job_set, pod_template, ray_job, replicated_job, train_job
from tests.contract.runs import allocation
from tests.unit.workloads.json_patches import applied

Raw = dict[str, Any]
SPOT = {"charterer.dev/spot": "Allowed"}


def stored(body: Raw, *, annotations: Mapping[str, str] | None = None, **metadata: Any) -> Raw:
    """The object as the API server has it, with the label."""
    return {
        **body,
        "metadata": {
            **body["metadata"],
            "uid": "uid-1",
            "resourceVersion": "7",
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {"charterer.dev/adopt": "true"},
            "annotations": dict(annotations or {}),
            **metadata,
        },
    }


def train(**trainer: Any) -> Raw:
    """A TrainJob whose trainer is changed in these fields; None takes one away."""
    body = train_job("llm")
    changed = {**body["spec"]["trainer"], **trainer}
    body["spec"]["trainer"] = {key: value for key, value in changed.items() if value is not None}
    return body


def ray(change: Callable[[Raw], object] = lambda _: None, **spec: Any) -> Raw:
    """A RayJob whose cluster is changed so."""
    body = ray_job("llm", **spec)
    change(body["spec"]["rayClusterSpec"])
    return body


def two_groups(cluster: Raw) -> None:
    cluster["workerGroupSpecs"].append({**cluster["workerGroupSpecs"][0], "groupName": "more"})


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        (ADOPTED_JOB_SET, job_set("a", jobs=[replicated_job("x", 1), replicated_job("y", 1)]), "x, y ask for GPUs"),
        (ADOPTED_JOB_SET, job_set("a", jobs=[replicated_job("x", 1, gpus=0)]), "none of spec.replicatedJobs asks"),
        (ADOPTED_JOB_SET, job_set("a", jobs=[replicated_job("x", 2, completions=4)]), "completions 4"),
        (ADOPTED_JOB_SET, job_set("a", managedBy="kueue.x-k8s.io/multikueue"), "spec.managedBy is"),
        (ADOPTED_TRAIN_JOB, train(numNodes=None), "spec.trainer.numNodes is None"),
        (ADOPTED_TRAIN_JOB, train(resourcesPerNode=None), "write both into the TrainJob"),
        (ADOPTED_TRAIN_JOB, train(resourcesPerNode={"limits": {"nvidia.com/gpu": "0.5"}}), "0.5"),
        (ADOPTED_RAY_JOB, ray(shutdownAfterJobFinishes=False), "spec.shutdownAfterJobFinishes is not true"),
        (ADOPTED_RAY_JOB, ray(submissionMode="InteractiveMode"), "spec.submissionMode is InteractiveMode"),
        (ADOPTED_RAY_JOB, ray(clusterSelector={"ray.io/cluster": "x"}), "spec.clusterSelector"),
        (ADOPTED_RAY_JOB, ray(lambda cluster: cluster.update(enableInTreeAutoscaling=True)), "two owners of replicas"),
        (ADOPTED_RAY_JOB, ray(lambda c: c["headGroupSpec"].update(template=pod_template(1))), "headGroupSpec asks"),
        (ADOPTED_RAY_JOB, ray(two_groups), "worker groups gpu, more ask for GPUs"),
        (ADOPTED_RAY_JOB, ray(lambda c: c["workerGroupSpecs"][0].update(maxReplicas=1)), "0 to 1 workers of 2"),
        (ADOPTED_RAY_JOB, ray(lambda c: c["workerGroupSpecs"][0].update(numOfHosts=2)), "numOfHosts 2"),
    ],
)
def test_what_cannot_be_adopted_says_why(kind: TargetKind, body: Raw, words: str) -> None:
    with pytest.raises(NotAdoptable, match=words):
        kind.shadow(stored(body))
    assert words in kind.read(stored(body)).problem


NPU = {"charterer.dev/resource": "example.com/npu"}
NPUS = {"limits": {"example.com/npu": 2}}


def for_npus(template: Raw, said: bool) -> Raw:
    """The template with GPUs of a name that no list has."""
    container = {**template["spec"]["containers"][0], "resources": NPUS}
    metadata = {"metadata": {"annotations": NPU}} if said else {}
    return {**template, **metadata, "spec": {**template["spec"], "containers": [container]}}


def npu_job_set(said: bool) -> Raw:
    group = replicated_job("x", 2)
    group["template"]["spec"]["template"] = for_npus(group["template"]["spec"]["template"], said)
    return stored(job_set("a", jobs=[group]))


def npu_train_job(said: bool) -> Raw:
    return stored(train(resourcesPerNode=NPUS), annotations=NPU if said else {})


def npu_ray_job(said: bool) -> Raw:
    (group,) = (body := ray())["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    group["template"] = for_npus(group["template"], said)
    return stored(body)


@pytest.mark.parametrize(
    ("kind", "made"),
    [(ADOPTED_JOB_SET, npu_job_set), (ADOPTED_TRAIN_JOB, npu_train_job), (ADOPTED_RAY_JOB, npu_ray_job)],
)
def test_gpus_of_any_name_are_those_that_the_author_says(kind: TargetKind, made: Callable[[bool], Raw]) -> None:
    template = kind.shadow(made(True))["template"]
    assert (gpu_resource(template), trainer_gpus(template)) == ("example.com/npu", 2)
    assert kind.read(made(True)).problem == ""
    with pytest.raises(NotAdoptable, match=r"if its GPUs are example\.com/npu, name that in the annotation"):
        kind.shadow(made(False))


@pytest.mark.parametrize("place", ["object", "group"])
def test_exclusive_placement_of_a_job_set_is_refused(place: str) -> None:
    exclusive = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.provider.com/rack"}
    body = job_set("a")
    if place == "group":
        body["spec"]["replicatedJobs"][0]["template"]["metadata"] = {"annotations": exclusive}
    with pytest.raises(NotAdoptable, match="exclude each other"):
        ADOPTED_JOB_SET.shadow(stored(body, annotations=exclusive if place == "object" else {}))


@pytest.mark.parametrize(
    ("kind", "body"), [(ADOPTED_JOB_SET, job_set("a")), (ADOPTED_TRAIN_JOB, train()), (ADOPTED_RAY_JOB, ray())]
)
def test_what_another_controls_or_kueue_queues_is_refused(kind: TargetKind, body: Raw) -> None:
    owner = {"apiVersion": "v1", "kind": "Cron", "name": "nightly", "uid": "u", "controller": True}
    with pytest.raises(NotAdoptable, match="Cron nightly controls this"):
        kind.shadow(stored(body, ownerReferences=[owner]))
    labels = {"charterer.dev/adopt": "true", "kueue.x-k8s.io/queue-name": "gpus"}
    with pytest.raises(NotAdoptable, match="two owners of suspend"):
        kind.shadow(stored(body, labels=labels))


@pytest.mark.parametrize(
    ("kind", "body", "policy", "warned"),
    [
        (ADOPTED_JOB_SET, job_set("a"), "Never", "failurePolicy.maxRestarts"),
        (ADOPTED_JOB_SET, job_set("a", failurePolicy={"maxRestarts": 2}), "Allowed", ""),
        (ADOPTED_JOB_SET, job_set("a", failurePolicy={"maxRestarts": 2, "rules": [{}]}), "Never", "rules"),
        (ADOPTED_JOB_SET, job_set("a", jobs=[replicated_job("x", 2, backoffLimit=6)]), "Allowed", ""),
        (ADOPTED_TRAIN_JOB, train(), "Never", "its runtime"),
        (ADOPTED_RAY_JOB, ray(), "Allowed", ""),
    ],
)
def test_what_a_lost_pod_fails_for_good_never_gets_spot(kind: TargetKind, body: Raw, policy: str, warned: str) -> None:
    raw = stored(body, annotations=SPOT)
    assert kind.shadow(raw)["spotPolicy"] == policy
    warning = kind.read(raw).warning
    assert warned in warning
    assert bool(warned) == bool(warning)


def test_the_patches_of_others_stay_in_a_train_job() -> None:
    body = train()
    theirs = {"manager": "team.example/quota", "trainingRuntimeSpec": {}}
    body["spec"]["runtimePatches"] = [theirs]
    [write] = ADOPTED_TRAIN_JOB.place(stored(body, annotations=SPOT), make.job("llm"), allocation(2))
    [change] = [each for each in write.operations if each["path"] == "/spec/runtimePatches"]
    assert [patch["manager"] for patch in change["value"]] == ["team.example/quota", "charterer.dev/operator"]
    body["spec"]["runtimePatches"] = change["value"]
    [note] = [each["value"] for each in write.operations if each["path"].endswith("charterer.dev~1original")]
    [restored] = ADOPTED_TRAIN_JOB.restore(stored(body, annotations={"charterer.dev/original": note}))
    [change] = [each for each in restored.operations if each["path"] == "/spec/runtimePatches"]
    assert change["value"] == [theirs]


def told(percent: int, at: str, *, suspended: bool = False) -> Progress | None:
    """The progress of a TrainJob's second run, which began at 10:00, and whose pods told Kubeflow Trainer this."""
    body = train()
    body["spec"]["suspend"] = suspended
    patched = ADOPTED_TRAIN_JOB.place(stored(body), make.job("llm"), replace(allocation(2), run=2))[0].operations
    [patches] = [each["value"] for each in patched if each["path"] == "/spec/runtimePatches"]
    body["spec"]["runtimePatches"] = patches
    resumed = {"type": "Suspended", "status": str(suspended), "lastTransitionTime": "2026-11-02T10:00:00Z"}
    said = {"progressPercentage": percent, "lastUpdatedTime": f"2026-11-02T{at}:00Z"}
    return ADOPTED_TRAIN_JOB.read(stored(body) | {"status": {"conditions": [resumed], "trainerStatus": said}}).progress


def test_what_a_train_job_says_of_its_progress_counts_for_the_run_that_said_it() -> None:
    progress = told(40, "10:30")
    assert progress is not None
    assert (progress.run, progress.fraction) == (2, 0.4)
    assert progress.at == parse_instant("2026-11-02T10:30:00Z")
    assert told(40, "09:30") is None  # an earlier run's
    assert told(0, "10:30") is None  # also of a run that goes on from a checkpoint


def test_the_last_words_of_a_train_job_that_was_stopped_count_but_not_that_all_is_done() -> None:
    progress = told(40, "10:30", suspended=True)
    assert progress is not None
    assert progress.fraction == 0.4
    assert told(100, "10:30", suspended=True) is None


@pytest.mark.parametrize("said", [{}, {"progressPercentage": 40}, {"progressPercentage": "x", "lastUpdatedTime": "y"}])
def test_a_train_jobs_progress_that_cannot_be_read_is_none(said: Raw) -> None:
    target = ADOPTED_TRAIN_JOB.read(stored(train()) | {"status": {"trainerStatus": said}})
    assert (target.progress, target.problem) == (None, "")


def test_several_jobs_of_a_job_sets_group_are_one_run() -> None:
    group = {**replicated_job("node", 3), "replicas": 2}
    target = ADOPTED_JOB_SET.read(stored(job_set("llm", jobs=[group])))
    assert (target.pods, target.indexed) == (6, False)
    assert target.controllers == {"llm-node-0", "llm-node-1"}


def test_a_ray_job_that_kuberay_refuses_says_so() -> None:
    raw = stored(ray()) | {"status": {"jobDeploymentStatus": "ValidationFailed", "message": "no such thing"}}
    assert "no such thing" in ADOPTED_RAY_JOB.read(raw).problem


def test_pods_of_a_ray_job_are_known_after_its_cluster_is_gone() -> None:
    target = ADOPTED_RAY_JOB.read(stored(ray()))
    assert target.controls("llm-x7k2p")
    assert not target.controls("other-x7k2p")


@pytest.mark.parametrize(
    ("kind", "body"), [(ADOPTED_JOB_SET, job_set("a")), (ADOPTED_TRAIN_JOB, train()), (ADOPTED_RAY_JOB, ray())]
)
@pytest.mark.parametrize("suspend", [None, False, True])
@pytest.mark.parametrize("placed", [True, False])
def test_suspend_is_given_back_as_it_was_written_and_left_out_where_it_was(
    kind: TargetKind, body: Raw, suspend: bool | None, placed: bool
) -> None:
    spec = {key: value for key, value in body["spec"].items() if key != "suspend"}
    written = stored({**body, "spec": spec if suspend is None else {"suspend": suspend, **spec}})
    raw = applied(written, kind.stop(written))
    if placed:
        raw = applied(raw, kind.place(raw, make.job("llm"), allocation(2)))
        running = applied(raw, kind.start(raw, make.job("llm"), allocation(2)))
        raw = applied(running, kind.stop(running))
    assert raw["spec"]["suspend"] is True
    assert applied(raw, kind.restore(raw)) == written


@pytest.mark.parametrize(
    ("kind", "body"), [(ADOPTED_JOB_SET, job_set("a")), (ADOPTED_TRAIN_JOB, train()), (ADOPTED_RAY_JOB, ray())]
)
@pytest.mark.parametrize("note", ['{"uid":"uid-1","replicas":"x"}', '{"uid":"uid-1","labels":7}', '{"uid":"uid-1"}'])
def test_a_forged_note_keeps_no_object_from_being_stopped_and_given_back(
    kind: TargetKind, body: Raw, note: str
) -> None:
    raw = stored({**body, "spec": {**body["spec"], "suspend": False}}, annotations={"charterer.dev/original": note})
    assert kind.read(raw).problem == ""
    stopped = applied(raw, kind.stop(raw))
    assert stopped["spec"]["suspend"] is True
    assert "charterer.dev/original" not in applied(stopped, kind.restore(stopped))["metadata"]["annotations"]


def test_a_template_without_metadata_is_given_back_without() -> None:
    body = job_set("llm")
    template = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    del template["metadata"]
    [write] = ADOPTED_JOB_SET.place(stored(body, annotations=SPOT), make.job("llm"), allocation(2))
    [note] = [each["value"] for each in write.operations if each["path"].endswith("charterer.dev~1original")]
    template["metadata"] = {"labels": {"charterer.dev/run": "1"}}
    [restored] = ADOPTED_JOB_SET.restore(stored(body, annotations={"charterer.dev/original": note}))
    path = "/spec/replicatedJobs/0/template/spec/template/metadata"
    assert {"op": "remove", "path": path} in restored.operations


def test_the_cluster_of_a_ray_job_is_resized_before_the_ray_job_says_that_it_is() -> None:
    raw = {**stored(ray()), "status": {"rayClusterName": "llm-x7k2p"}}
    cluster, own = ADOPTED_RAY_JOB.resize(raw, 3, 0)
    assert (cluster.path.rpartition("/")[2], cluster.own) == ("llm-x7k2p", False)
    assert (own.path.rpartition("/")[2], own.own) == ("llm", True)
