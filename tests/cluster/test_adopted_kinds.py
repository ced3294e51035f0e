"""JobSets, TrainJobs and RayJobs that teams already have, with a whole operator and their own controllers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from charterer.api.template import digest_of_content
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError
from charterer.cluster.paths import JOBS, NAMESPACES, NODES, PODS, TRAINING_JOBS, Resource
from charterer.domain.snapshot import Stop
from charterer.tools.commands.drain import annotate
from charterer.workloads.adopted.job_set import JOB_SETS, TRAIN_JOBS
from charterer.workloads.adopted.ray_job import RAY_JOBS
from tests import outcome
from tests.cluster.adopted_jobs import (
    RESTRICTED,
    once_held,
    once_users_are,
    own_annotations,
    plain_job,
    under_the_standard,
    with_kuberays_submitter,
)
from tests.cluster.commands import charterer
from tests.cluster.test_stuck import warned
from tests.contract.adopted_objects import TRAINING_RUNTIMES, job_set, ray_job, train_job, training_runtime
from tests.lanes import repeats
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.bed import SYSTEM, Bed, dismantle, group, install_charts, parts_of_bed
from tests.testbed.controlplane import EXIT_CODE, ControlPlane
from tests.testbed.job_controller_process import JobControllerProcesses
from tests.testbed.kuberay.process import KubeRayProcess
from tests.testbed.kuberay.ray_jobs import entrypoints, node_for_heads

pytestmark = pytest.mark.xdist_group("job_controllers")


@dataclass(frozen=True, slots=True)
class TeamObject:
    """A kind of object, and one of it as its author writes it."""

    resource: Resource
    body: Callable[..., RawObject]


KINDS = {
    "JobSet": TeamObject(JOB_SETS, job_set),
    "TrainJob": TeamObject(TRAIN_JOBS, train_job),
    "RayJob": TeamObject(RAY_JOBS, ray_job),
}


@pytest.fixture
async def kinds_bed(
    installed: ControlPlane,
    job_controllers: JobControllerProcesses,
    kuberay: KubeRayProcess,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Bed]:
    """A bed in which the objects' own controllers act; it has a node without GPUs for the heads of RayJobs."""
    followed = (JOB_SETS, TRAIN_JOBS, RAY_JOBS)
    bed = Bed(*await parts_of_bed(installed, tmp_path, (group("a100"),), followed))
    try:
        async with entrypoints(bed.kube, bed.namespace, kuberay.dashboard):
            await bed.kube.post(NODES.all(), node_for_heads())
            yield bed
            if not outcome.failed(request.node):
                await bed.close()
    finally:
        await dismantle(bed)


async def _create(
    bed: Bed,
    kind: TeamObject,
    name: str,
    *,
    label: bool = True,
    runtime: Callable[[], RawObject] = training_runtime,
    suspend: bool = False,
    **annotations: str,
) -> RawObject:
    """The object as a team creates it, with the label; as it is stored. ``suspend``: whether its author says so.

    Without the label nothing is created, and the answer says how it would be stored.
    """
    await bed.kube.apply(
        TRAINING_RUNTIMES.one("torch", bed.namespace),
        _in(bed, runtime()),
        "team",
        may_create=True,
    )
    body = _in(bed, kind.body(name))
    del body["spec"]["suspend"]
    if suspend:
        body["spec"]["suspend"] = True
    if label:
        body["metadata"]["labels"] = {"charterer.dev/adopt": "true"}
    if annotations:
        body["metadata"]["annotations"] = {f"charterer.dev/{key}": value for key, value in annotations.items()}
    return await bed.kube.post(kind.resource.all(bed.namespace), body, dry_run=not label)


def _in(bed: Bed, body: RawObject) -> RawObject:
    return {**body, "metadata": {**body["metadata"], "namespace": bed.namespace}}


def _raw(bed: Bed, kind: TeamObject, name: str) -> Any:
    return bed.mirror.one(kind.resource, name, bed.namespace) or {}


def _running(bed: Bed, name: str, run: int) -> list[RawObject]:
    """The pods of this run of the object that run."""
    return [
        pod
        for pod in bed.pods(name)
        if pod["metadata"]["labels"]["charterer.dev/run"] == str(run)
        and pod["status"].get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
    ]


async def _end(bed: Bed, kind: TeamObject, name: str, run: int) -> None:
    """Its training ends well."""
    patch = {"metadata": {"annotations": {EXIT_CODE: "0"}}}
    if kind.resource == RAY_JOBS:
        await bed.kube.merge_patch(kind.resource.one(name, bed.namespace), patch)
        return
    for pod in _running(bed, name, run):
        await bed.kube.merge_patch(PODS.one(pod["metadata"]["name"], bed.namespace), patch)


@pytest.mark.parametrize("word", sorted(KINDS))
async def test_it_is_held_placed_moved_and_complete_by_its_own_word(kinds_bed: Bed, word: str) -> None:
    """What it cost is on record; it never has two runs' pods at a time."""
    bed, kind = kinds_bed, KINDS[word]
    await bed.budget()
    await once_held(bed)
    held = await _create(bed, kind, "llm")
    assert held["spec"]["suspend"] is True
    bed.operator()
    await bed.pool()
    await bed.running("llm")
    first = {pod["spec"]["nodeName"] for pod in _running(bed, "llm", 1)}
    assert len(first) == 1
    bed.plane.kubectl("delete", "gpurental", bed.rentals()[0]["metadata"]["name"], "--wait=false")
    await bed.until(lambda: len(_running(bed, "llm", 2)) == 2)
    assert {pod["metadata"]["labels"]["charterer.dev/run"] for pod in bed.pods("llm")} == {"2"}
    assert not first & {pod["spec"]["nodeName"] for pod in bed.pods("llm")}
    await _end(bed, kind, "llm", 2)
    await bed.complete("llm")
    raw = _raw(bed, kind, "llm")
    assert raw["metadata"]["labels"] == {"charterer.dev/adopt": "true"}
    assert [run["outcome"] for run in bed.tj("llm")["runs"]] == ["Stopped", "Complete"]


_OPTIONS: Mapping[str, Callable[[str], Sequence[str]]] = {
    "keepOff": lambda namespace: ("keepOff.taint=nvidia.com/gpu",),
    "namespaces": lambda namespace: (f"namespaces={{{namespace}}}",),
    "costRecord.users": lambda namespace: ("costRecord.users=false",),
    "restricted": lambda namespace: (),
    "admission off": lambda namespace: (),
}
"""Options of the chart, Kubernetes' strictest standard for pods, and a cluster in which none of the chart's admission
policies acts, as values of helm."""
_ALONE = ("admission off", "restricted")
"""Those that no test of tests/chart shows."""


@pytest.mark.parametrize("option", [*_ALONE, *repeats(*sorted(_OPTIONS.keys() - _ALONE))])
async def test_every_kind_runs_and_is_complete_under_every_option_of_the_chart(kinds_bed: Bed, option: str) -> None:
    bed, kinds = (
        kinds_bed,
        {**KINDS, "Job": TeamObject(JOBS, lambda name: plain_job(name, pods=2, gpus=2, suspend=False))},
    )
    if option == "restricted":
        await bed.kube.merge_patch(NAMESPACES.one(bed.namespace), RESTRICTED)
    values, off = _OPTIONS[option](bed.namespace), option == "admission off"
    if values:
        install_charts(bed.plane, *values)
    try:
        await bed.budget()
        await (_without_policies(bed) if off else once_held(bed))
        await _until_the_policies_act(bed, option)
        bed.operator()
        await bed.pool()
        for word, kind in kinds.items():
            body = partial(under_the_standard, kind.body)
            runtime = partial(under_the_standard, lambda _: training_runtime(), "")
            await _create(bed, replace(kind, body=body), word.lower(), runtime=runtime, suspend=off)
        await bed.running(*map(str.lower, kinds))
        for word, kind in kinds.items():
            await _end(bed, kind, word.lower(), 1)
        await bed.complete(*map(str.lower, kinds))
        records = [raw["metadata"] for raw in bed.mirror.all(TRAINING_JOBS, bed.namespace)]
        creators = {(meta.get("annotations") or {}).get("charterer.dev/created-by") for meta in records}
        # who made the objects, and not the operator that made the records
        assert creators == {None if off or option == "costRecord.users" else "admin"}
        await bed.kube.delete(JOBS.one("job", bed.namespace))
    finally:
        if values or off:
            install_charts(bed.plane)


_NO_JOBS = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "no-jobs"},
    "spec": {"hard": {"count/jobs.batch": "0"}},
}


_REFUSED_SUBMITTER = TeamObject(RAY_JOBS, with_kuberays_submitter)


async def _told_of_the_submitter(bed: Bed, words: str) -> None:
    """An Event on the RayJob says so with the remedy."""
    await bed.until(lambda: len(_running(bed, "llm", 1)) == 2)
    note = await warned(bed, "NotStarting", _raw(bed, _REFUSED_SUBMITTER, "llm")["metadata"]["uid"])
    assert words in note
    assert "or set spec.submissionMode to HTTPMode" in note


async def test_a_ray_job_whose_submitter_is_refused_gives_its_machine_back_and_says_why(kinds_bed: Bed) -> None:
    """Its workers run all the time."""
    bed, words = kinds_bed, "its submitter: FailedCreate"
    await bed.kube.merge_patch(NAMESPACES.one(bed.namespace), RESTRICTED)
    await bed.budget()
    await once_held(bed)
    await _create(bed, _REFUSED_SUBMITTER, "llm")
    bed.operator()
    await bed.pool()
    await _told_of_the_submitter(bed, words)
    await bed.until(lambda: bed.tj("llm").get("startFailures") == 1)
    (record,) = bed.tj("llm")["runs"]
    assert record["outcome"] == "NotStarted"
    assert words in record["message"]
    await bed.until(lambda: not bed.rentals("Ready"))
    await bed.kube.delete(RAY_JOBS.one("llm", bed.namespace))


_REFUSED_PODS = {
    "JobSet": "FailedCreate: Error creating: pods",
    "TrainJob": "FailedCreate: Error creating: pods",
    "RayJob": "Failed to create worker Pod",
}


def _with_refused_workers(name: str) -> RawObject:
    """A RayJob that the standard "restricted" accepts, but for its workers."""
    made = under_the_standard(ray_job, name)
    made["spec"]["rayClusterSpec"]["workerGroupSpecs"] = ray_job(name)["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    return made


@pytest.mark.parametrize("word", ["JobSet", *repeats("RayJob", "TrainJob")])
async def test_what_may_not_make_its_pods_gives_its_machine_back_and_says_why(kinds_bed: Bed, word: str) -> None:
    bed, kind = kinds_bed, KINDS[word]
    await bed.kube.merge_patch(NAMESPACES.one(bed.namespace), RESTRICTED)
    await bed.budget()
    await once_held(bed)
    await _create(bed, TeamObject(RAY_JOBS, _with_refused_workers) if word == "RayJob" else kind, "llm")
    bed.operator()
    await bed.pool()
    await bed.until(lambda: bed.tj("llm").get("startFailures") == 1)
    (record,) = bed.tj("llm")["runs"]
    assert _REFUSED_PODS[word] in record["message"]
    assert "violates PodSecurity" in record["message"]
    await bed.until(lambda: not bed.rentals("Ready"))
    await bed.kube.delete(kind.resource.one("llm", bed.namespace))


@pytest.mark.repeats  # the test before it, and tests/unit/controller/test_run_warnings.py
async def test_a_ray_job_whose_submitter_a_quota_refuses_says_so_and_runs_once_there_is_room(kinds_bed: Bed) -> None:
    bed, words = kinds_bed, "FailedToCreateRayJobSubmitter"
    quotas = f"/api/v1/namespaces/{bed.namespace}/resourcequotas"
    await bed.budget()
    await once_held(bed)
    await bed.kube.post(quotas, _NO_JOBS)
    await _until_jobs_are_refused(bed)
    await _create(bed, _REFUSED_SUBMITTER, "llm")
    bed.operator()
    await bed.pool()
    await _told_of_the_submitter(bed, words)
    for command in (("doctor",), ("explain", "rayjob/llm")):
        told = await charterer(bed.plane.kubeconfig, *command, "-n", bed.namespace)
        assert words in " ".join(told.out.split()), told
    await bed.kube.delete(f"{quotas}/no-jobs")
    await bed.running("llm")
    await _end(bed, _REFUSED_SUBMITTER, "llm", 1)
    await bed.complete("llm")


async def _until_jobs_are_refused(bed: Bed) -> None:
    """The API server takes a moment to know a quota."""
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while True:
            try:
                await bed.kube.post(JOBS.all(bed.namespace), plain_job("probe"), dry_run=True)
            except ApiError:
                return
            await asyncio.sleep(0.1)


async def _without_policies(bed: Bed) -> None:
    """No admission policy of the chart acts any more: authors suspend their objects themselves."""
    bindings = "validatingadmissionpolicybindings,mutatingadmissionpolicybindings"
    bed.plane.kubectl("delete", bindings, "-l", "app.kubernetes.io/name=charterer")
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while True:
            made = await bed.kube.post(JOBS.all(bed.namespace), plain_job("stranger"), dry_run=True)
            if not made["spec"].get("suspend"):
                return
            await asyncio.sleep(0.1)


async def _until_the_policies_act(bed: Bed, option: str) -> None:
    """The API server takes a moment to know a policy."""
    limits = {"limits": {"nvidia.com/gpu": 1}}
    spec = {
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [{"name": "x", "image": "x:1", "resources": limits}],
    }
    stranger = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}, "spec": spec}
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while option == "keepOff":
            try:
                await bed.kube.post(PODS.all(bed.namespace), stranger, dry_run=True)
            except ApiError:
                return
            await asyncio.sleep(0.1)
    await once_users_are(bed, written=option not in ("admission off", "costRecord.users"))


async def test_what_kubeflow_trainer_knows_of_a_train_jobs_progress_is_its_jobs_progress(kinds_bed: Bed) -> None:
    bed, kind = kinds_bed, KINDS["TrainJob"]
    await bed.budget()
    await once_held(bed)
    await _create(bed, kind, "llm")
    bed.operator()
    await bed.pool()
    await bed.running("llm")
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = {"trainerStatus": {"progressPercentage": 40, "lastUpdatedTime": at}}
    await bed.kube.merge_patch(TRAIN_JOBS.status("llm", bed.namespace), {"status": said})
    await bed.until(lambda: bed.tj("llm").get("progressPercent") == 40)
    await _end(bed, kind, "llm", 1)
    await bed.complete("llm")


async def test_all_are_given_back_as_they_were_written_when_everything_is_drained(kinds_bed: Bed) -> None:
    """Those that run and those that wait held: also what their authors left out is left out again."""
    bed = kinds_bed
    await bed.budget()
    await once_held(bed)
    sent = {f"{word.lower()}-{state}": (word, state) for word in KINDS for state in ("runs", "waits")}
    written = {}
    for name, (word, state) in sent.items():
        body = KINDS[word].body if state == "runs" else partial(KINDS[word].body, width=8)
        written[name] = await _create(bed, replace(KINDS[word], body=body), name, label=False)
        await _create(bed, replace(KINDS[word], body=body), name)
    bed.operator()
    await bed.pool(maxNodes=3)
    await bed.running(*[name for name, (_, state) in sent.items() if state == "runs"])
    await bed.until(lambda: all(bed.tj(name) for name in sent))
    await annotate(bed.kube, "", Stop.DRAIN)
    await bed.until(lambda: not bed.mirror.all(TRAINING_JOBS, bed.namespace))
    await bed.given_back()
    for name, (word, _) in sent.items():
        given, before = _raw(bed, KINDS[word], name), written[name]
        # KubeRay writes empty structs into what it has started.
        assert digest_of_content(given["spec"]) == digest_of_content(before["spec"]), name
        assert own_annotations(given) == own_annotations(before), name
        await bed.kube.delete(KINDS[word].resource.one(name, bed.namespace))
    assert ["suspend" in written[f"{word.lower()}-runs"]["spec"] for word in KINDS] == [False, True, False]
    await annotate(bed.kube, "", None)


async def test_a_ray_job_is_widened_and_narrowed_while_it_runs(kinds_bed: Bed) -> None:
    """Its author asks for another width; the workers that stay never stop."""
    bed, kind = kinds_bed, TeamObject(RAY_JOBS, lambda name: ray_job(name, gpus=4))
    await bed.budget()
    await once_held(bed)
    await _create(bed, kind, "llm", gpus="8", resize="InPlace")
    bed.operator()
    await bed.pool(maxNodes=4)
    await bed.until(lambda: len(_running(bed, "llm", 1)) == 2)
    await bed.running("llm")
    first = {pod["metadata"]["uid"] for pod in _running(bed, "llm", 1)}
    await _asks(bed, kind, "12")
    await bed.until(lambda: len(_running(bed, "llm", 1)) == 3, 40)
    wide = {pod["metadata"]["uid"] for pod in _running(bed, "llm", 1)}
    assert first < wide
    await bed.until(lambda: bed.tj("llm").get("gpus") == 12 and bed.state("llm") == "Running", 40)
    await _asks(bed, kind, "8")
    await bed.until(lambda: len(bed.pods("llm")) == 2 and len(bed.rentals()) == 2, 40)
    left = _running(bed, "llm", 1)
    assert {pod["metadata"]["uid"] for pod in left} < wide
    assert {pod["spec"]["nodeName"] for pod in left} == {raw["status"]["node"] for raw in bed.rentals()}
    await _end(bed, kind, "llm", 1)
    await bed.complete("llm")
    assert [run["outcome"] for run in bed.tj("llm")["runs"]] == ["Complete"]


async def _asks(bed: Bed, kind: TeamObject, gpus: str) -> None:
    change = {"metadata": {"annotations": {"charterer.dev/gpus": gpus}}}
    await bed.kube.merge_patch(kind.resource.one("llm", bed.namespace), change)


@pytest.mark.parametrize("word", sorted(KINDS))
async def test_the_operators_account_cannot_change_what_it_runs(kinds_bed: Bed, word: str) -> None:
    bed, kind = kinds_bed, KINDS[word]
    await bed.budget()
    await once_held(bed)
    await _create(bed, kind, "llm")
    path = kind.resource.one("llm", bed.namespace)
    operator = await Client.connect(bed.plane.service_account_kubeconfig(SYSTEM, "charterer"))
    async with operator:
        with pytest.raises(ApiError, match="and nothing else"):
            await operator.json_patch(path, [_another_program(word)])
        with pytest.raises(ApiError, match="no labels"):
            await operator.merge_patch(path, {"metadata": {"labels": {"team": "other"}}})
        await operator.merge_patch(path, {"spec": {"suspend": False}})
        await bed.kube.merge_patch(path, {"metadata": {"labels": None, "annotations": None}})
        with pytest.raises(ApiError, match="but those that are adopted"):
            await operator.merge_patch(path, {"spec": {"suspend": True}})
    await bed.kube.delete(path)


def _another_program(word: str) -> RawObject:
    """A patch with which it would run something else. A TrainJob's own fields are guarded by its CRD."""
    program = ["/bin/sh", "-c", "true"]
    if word == "JobSet":
        path = "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/command"
        return {"op": "add", "path": path, "value": program}
    if word == "RayJob":
        path = "/spec/rayClusterSpec/workerGroupSpecs/0/template/spec/containers/0/command"
        return {"op": "add", "path": path, "value": program}
    pods = {"spec": {"volumes": [{"name": "secrets", "emptyDir": {}}]}}
    job = {"name": "node", "template": {"spec": {"template": pods}}}
    runtime = {"template": {"spec": {"replicatedJobs": [job]}}}
    value = [{"manager": "charterer.dev/operator", "trainingRuntimeSpec": runtime}]
    return {"op": "add", "path": "/spec/runtimePatches", "value": value}
