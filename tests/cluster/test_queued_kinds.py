"""Every kind of object in a queue of the real Kueue, with its own controller: it runs, is stopped, and ends well."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.paths import NAMESPACES, NODES, PODS, TRAINING_JOBS, WORKLOADS, Resource
from charterer.domain.job import CANNOT_START, START_ATTEMPTS
from charterer.policy.jobs.job_facts import start_back_off_seconds
from charterer.workloads.adopted.job_set import JOB_SETS, TRAIN_JOBS
from charterer.workloads.adopted.ray_job import RAY_JOBS
from tests import lanes, outcome
from tests.cluster.adopted_jobs import RESTRICTED, with_a_refused_head, with_kuberays_submitter
from tests.cluster.test_stuck import warned
from tests.contract.adopted_objects import TRAINING_RUNTIMES, job_set, ray_job, train_job, training_runtime
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.bed import group
from tests.testbed.controlplane import EXIT_CODE, ControlPlane
from tests.testbed.job_controller_process import JobControllerProcesses
from tests.testbed.kuberay.process import KubeRayProcess
from tests.testbed.kuberay.ray_jobs import entrypoints, node_for_heads
from tests.testbed.kueue.bed import QUEUE, QUEUE_NAME, KueueBed, open_kueue_bed

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("Kueue, kinds")]
KINDS: dict[str, tuple[Resource, Callable[[str], RawObject]]] = {
    "JobSet": (JOB_SETS, job_set),
    "TrainJob": (TRAIN_JOBS, train_job),
    "RayJob": (RAY_JOBS, ray_job),
}


@pytest.fixture
async def queue_of_kinds(
    job_controllers: JobControllerProcesses,
    kuberay: KubeRayProcess,
    with_kueue: ControlPlane,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> AsyncIterator[KueueBed]:
    """A bed with a queue, an operator, a budget and a pool, in which the objects' own controllers act."""
    followed = [resource for resource, _ in KINDS.values()]
    async with open_kueue_bed(with_kueue, tmp_path, [group("a100")], followed) as bed:
        await bed.kube.post(NODES.all(), node_for_heads())
        runtime = training_runtime()
        runtime["metadata"]["namespace"] = bed.namespace
        await bed.kube.post(TRAINING_RUNTIMES.all(bed.namespace), runtime)
        bed.operator()
        await bed.budget()
        await bed.pool()
        await bed.queue()
        async with entrypoints(bed.kube, bed.namespace, kuberay.dashboard):
            yield bed
            if not outcome.failed(request.node):
                await bed.close()


@pytest.mark.parametrize("word", sorted(KINDS))
async def test_it_runs_is_stopped_by_its_queue_and_runs_again_to_its_own_end(
    queue_of_kinds: KueueBed, word: str
) -> None:
    bed, (resource, made) = queue_of_kinds, KINDS[word]
    body = made("llm")
    body["metadata"] |= {"namespace": bed.namespace, "labels": {QUEUE_NAME: QUEUE}}
    await bed.kube.post(resource.all(bed.namespace), body, strict=True)
    await bed.until(lambda: len(bed.of_run("llm", 1)) == 2 and bed.state("llm") == "Running")
    await bed.stop_policy("HoldAndDrain")
    await bed.until(lambda: bed.outcomes("llm") == ["Stopped"])
    await bed.given_back()
    await bed.stop_policy("None")
    await bed.until(lambda: len(bed.of_run("llm", 2)) == 2 and bed.state("llm") == "Running")
    ends = {"metadata": {"annotations": {EXIT_CODE: "0"}}}
    if word == "RayJob":
        await bed.kube.merge_patch(resource.one("llm", bed.namespace), ends)
    else:
        for pod in bed.of_run("llm", 2):
            await bed.kube.merge_patch(PODS.one(pod["metadata"]["name"], bed.namespace), ends)
    await bed.complete("llm")
    assert bed.outcomes("llm") == ["Stopped", "Complete"]
    await bed.kube.delete(resource.one("llm", bed.namespace), propagation="Background")
    await bed.until(lambda: not bed.mirror.all(resource, bed.namespace))


_BACK_OFF_SECONDS = start_back_off_seconds(1)


_REFUSED: dict[str, tuple[Callable[[str], RawObject], str]] = {
    "submitter": (with_kuberays_submitter, "its submitter: FailedCreate"),
    "head": (with_a_refused_head, "its head: FailedToCreateHeadPod"),
}


@pytest.mark.parametrize("part", ["submitter", *lanes.repeats("head")])
async def test_a_ray_job_that_the_cluster_refuses_in_part_pays_for_few_starts_and_says_why(
    queue_of_kinds: KueueBed, part: str
) -> None:
    """Kueue keeps its Workload, which is started no more."""
    bed, (body, words) = queue_of_kinds, _REFUSED[part]
    await bed.kube.merge_patch(NAMESPACES.one(bed.namespace), RESTRICTED)
    made = body("llm")
    made["metadata"] |= {"namespace": bed.namespace, "labels": {QUEUE_NAME: QUEUE}}
    await bed.kube.post(RAY_JOBS.all(bed.namespace), made, strict=True)
    await bed.until(lambda: bed.outcomes("llm") == ["NotStarted"])
    assert words in bed.tj("llm")["runs"][0]["message"]
    note = await warned(bed, "RunNotStarted", bed.mirror.all(RAY_JOBS, bed.namespace)[0]["metadata"]["uid"])
    assert words in note
    await bed.until(lambda: not bed.rentals())
    await bed.until(lambda: bed.run("llm") == 2, _BACK_OFF_SECONDS + OPERATORS_PATIENCE)
    before = {"status": {"startFailures": START_ATTEMPTS - 1}}  # so that the test need not wait for one more
    await bed.kube.merge_patch(TRAINING_JOBS.status("llm", bed.namespace), before)
    await bed.until(lambda: bed.state("llm") == CANNOT_START)
    await bed.until(lambda: not bed.rentals())
    assert bed.outcomes("llm") == ["NotStarted", "NotStarted"]
    await bed.until(lambda: words in _of_the_check(bed)["message"])
    check = _of_the_check(bed)
    assert check["state"] == "Pending"
    assert "in a row never started" in check["message"]
    await bed.kube.delete(RAY_JOBS.one("llm", bed.namespace), propagation="Background")
    await bed.until(lambda: not bed.mirror.all(RAY_JOBS, bed.namespace))


def _of_the_check(bed: KueueBed) -> RawObject:
    (workload,) = bed.mirror.all(WORKLOADS, bed.namespace)
    (check,) = workload["status"]["admissionChecks"]
    return dict(check)
