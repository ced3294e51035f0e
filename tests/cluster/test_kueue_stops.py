"""What Kueue stops by itself is stopped: on record, its machines given back, and its next run has the next number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from charterer.api.names import KUEUE_CHECK
from charterer.cluster.client import RawObject
from charterer.cluster.paths import GPU_POOLS, JOBS, PODS, TRAINING_JOBS, WORKLOADS
from tests import lanes, outcome
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.bed import group
from tests.testbed.controlplane import ControlPlane
from tests.testbed.kueue.bed import ELASTIC, LOCAL_QUEUES, PRIORITIES, QUEUE, QUEUE_NAME, KueueBed, open_kueue_bed

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("Kueue, stops")]


@pytest.fixture
async def kueue_bed(
    with_kueue: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[KueueBed]:
    """A bed with an operator, a budget and a pool, and no queue yet."""
    async with open_kueue_bed(with_kueue, tmp_path, [group("a100")]) as made:
        made.operator()
        await made.budget()
        await made.pool()
        yield made
        if not outcome.failed(request.node):
            await made.delete_jobs()
            await made.close()


async def _policy_of_cluster_queue(bed: KueueBed, *, stopped: bool) -> None:
    await bed.stop_policy("HoldAndDrain" if stopped else "None")


async def _policy_of_local_queue(bed: KueueBed, *, stopped: bool) -> None:
    spec = {"spec": {"stopPolicy": "HoldAndDrain" if stopped else "None"}}
    await bed.kube.merge_patch(LOCAL_QUEUES.one(QUEUE, bed.namespace), spec)


async def _active(bed: KueueBed, *, stopped: bool) -> None:
    name = bed.workloads("llm")[-1]["metadata"]["name"]
    await bed.kube.merge_patch(WORKLOADS.one(name, bed.namespace), {"spec": {"active": not stopped}})


STOPS: Mapping[str, tuple[Callable[..., Awaitable[None]], str]] = {
    "ClusterQueue": (_policy_of_cluster_queue, "ClusterQueueStopped"),
    "LocalQueue": (_policy_of_local_queue, "LocalQueueStopped"),
    "active": (_active, "Deactivated"),
}


@pytest.mark.parametrize("what", ["ClusterQueue", *lanes.repeats("LocalQueue", "active")])
async def test_a_person_stops_it_and_lets_it_go_on(kueue_bed: KueueBed, what: str) -> None:
    bed, (act, reason) = kueue_bed, STOPS[what]
    await bed.queue()
    await bed.queued("llm", 2)
    await bed.trains("llm", 2)
    await act(bed, stopped=True)
    await bed.until(lambda: bed.outcomes("llm") == ["Stopped"])
    assert reason in bed.tj("llm")["runs"][0]["message"]
    await bed.given_back()
    assert bed.check("llm")["state"] == "Pending"
    await act(bed, stopped=False)
    await bed.trains("llm", 2)
    assert {pod["metadata"]["labels"]["charterer.dev/run"] for pod in bed.job_pods("llm")} == {"2"}
    await bed.ends_well("llm")
    assert bed.outcomes("llm") == ["Stopped", "Complete"]


async def test_a_stop_of_a_moment_is_a_stop(kueue_bed: KueueBed) -> None:
    """Quota is back before the pods are gone, and its machines are there: another run begins on them."""
    bed = kueue_bed
    await bed.queue()
    await bed.queued("llm", pod_annotations={"testbed.charterer.dev/stop-delay": "2s"})
    await bed.trains("llm")
    machines = [raw["metadata"]["name"] for raw in bed.rentals()]
    await bed.stop_policy("HoldAndDrain")
    await bed.until(lambda: bed.queued_job("llm")["spec"]["suspend"])
    await bed.stop_policy("None")
    await bed.until(lambda: bed.outcomes("llm") == ["Stopped"])
    await bed.trains("llm")
    assert [raw["metadata"]["name"] for raw in bed.rentals()] == machines
    await bed.ends_well("llm")
    assert bed.outcomes("llm") == ["Stopped", "Complete"]


@pytest.mark.repeats  # tests/unit/lifecycle/test_evictions.py
async def test_it_runs_again_after_it_was_stopped_for_longer_than_it_may_take_to_start(kueue_bed: KueueBed) -> None:
    bed = kueue_bed
    await bed.queue()
    await bed.queued("llm")
    await bed.trains("llm")
    await bed.kube.merge_patch(TRAINING_JOBS.one("llm", bed.namespace), {"spec": {"readyTimeoutSeconds": 60}})
    await bed.stop_policy("HoldAndDrain")
    await bed.given_back()
    await bed.stop_policy("None")
    await bed.trains("llm")
    await bed.ends_well("llm")


async def test_a_job_of_a_higher_priority_takes_its_quota(kueue_bed: KueueBed) -> None:
    """The lower one is on record, and runs again when the higher one has ended."""
    bed = kueue_bed
    for name, value in (("low", 10), ("high", 1000)):
        await bed.put(PRIORITIES, "WorkloadPriorityClass", bed.own(name), {}, value=value)
    await bed.queue(gpus=4, preemption={"withinClusterQueue": "LowerPriority"})
    await bed.queued("low", labels={"kueue.x-k8s.io/priority-class": bed.own("low")})
    await bed.trains("low")
    await bed.queued("high", labels={"kueue.x-k8s.io/priority-class": bed.own("high")})
    await bed.until(lambda: bed.outcomes("low") == ["Stopped"])
    assert "Preempted" in bed.tj("low")["runs"][0]["message"]
    await bed.trains("high")
    await bed.until(lambda: len(bed.rentals()) == 1)
    await bed.ends_well("high")
    await bed.trains("low")
    await bed.ends_well("low")
    assert bed.outcomes("low") == ["Stopped", "Complete"]


@pytest.mark.repeats
async def test_what_borrows_in_a_cohort_gives_back_what_its_owner_wants(kueue_bed: KueueBed) -> None:
    """It is on record, and runs again once it can borrow again."""
    bed, cohort = kueue_bed, kueue_bed.own("cohort")
    await bed.queue(gpus=4, cohortName=cohort)
    await bed.queue(gpus=4, name="other", cohortName=cohort, preemption={"reclaimWithinCohort": "Any"})
    await bed.queued("borrows", 2)
    await bed.trains("borrows", 2)
    await bed.queued("owns", labels={QUEUE_NAME: "other"})
    await bed.until(lambda: bed.outcomes("borrows") == ["Stopped"])
    assert "Preempted" in bed.tj("borrows")["runs"][0]["message"]
    await bed.trains("owns")
    await bed.until(lambda: len(bed.rentals("Ready")) == len(bed.rentals()) == 1)
    await bed.ends_well("owns")
    await bed.trains("borrows", 2)
    await bed.ends_well("borrows")
    assert bed.outcomes("borrows") == ["Stopped", "Complete"]


@pytest.mark.parametrize("state", ["Retry", *lanes.repeats("Rejected")])
async def test_another_check_stops_it(kueue_bed: KueueBed, state: str) -> None:
    """Also in the second in which it was started: Kueue's times are whole seconds."""
    bed = kueue_bed
    other = await bed.check_of_others()
    await bed.queue(checks=(KUEUE_CHECK, other))
    await bed.queued("llm")
    await bed.until(lambda: bed.check("llm"))
    await bed.answers(bed.workloads("llm")[-1], other, "Ready")
    await bed.until(lambda: bed.check("llm").get("state") == "Ready")
    await bed.answers(bed.workloads("llm")[-1], other, state)
    await bed.until(lambda: bed.outcomes("llm") == ["Stopped"])
    await bed.given_back()
    if state == "Retry":
        await bed.answers(bed.workloads("llm")[-1], other, "Ready")
        await bed.trains("llm")
        await bed.ends_well("llm")
        assert bed.outcomes("llm") == ["Stopped", "Complete"]


@pytest.mark.repeats  # test_kueue.py, of a job that is stopped
async def test_a_change_of_the_width_keeps_the_record_of_what_was_spent(kueue_bed: KueueBed) -> None:
    """Kueue makes another Workload of a Job of another width: the same TrainingJob stands for it."""
    bed = kueue_bed
    await bed.queue()
    elastic = {"charterer.dev/gpus": "4..12", "charterer.dev/resize": "Restart"}
    await bed.queued("llm", 2, annotations=elastic)
    await bed.trains("llm", 2)
    before, first = bed.shadow("llm"), bed.workloads("llm")[-1]["metadata"]["uid"]
    wider = {"spec": {"gpus": {"min": 12, "preferred": 12, "max": 12}}}
    await bed.kube.merge_patch(TRAINING_JOBS.one("llm", bed.namespace), wider)
    await bed.trains("llm", 3)
    assert bed.workloads("llm")[-1]["metadata"]["uid"] != first
    assert bed.shadow("llm")["metadata"]["uid"] == before["metadata"]["uid"]
    assert bed.outcomes("llm") == ["Stopped"]
    await bed.ends_well("llm")


async def test_a_job_that_numbers_no_pods_runs_with_several(kueue_bed: KueueBed) -> None:
    """Kubernetes' default for completionMode."""
    bed = kueue_bed
    await bed.queue()
    await bed.queued("llm", 2, indexed=False)
    await bed.trains("llm", 2)
    await bed.ends_well("llm")
    assert bed.outcomes("llm") == ["Complete"]


@pytest.mark.repeats  # as the end of the other tests
async def test_its_author_suspends_or_deletes_it(kueue_bed: KueueBed) -> None:
    bed = kueue_bed
    await bed.queue()
    await bed.queued("llm")
    await bed.trains("llm")
    await bed.kube.delete(JOBS.one("llm", bed.namespace), propagation="Background")
    await bed.until(lambda: not bed.mirror.all(TRAINING_JOBS, bed.namespace))
    await bed.given_back()


async def test_nothing_is_paid_for_before_another_check_is_ready(kueue_bed: KueueBed) -> None:
    bed = kueue_bed
    other = await bed.check_of_others()
    await bed.queue(checks=(KUEUE_CHECK, other))
    await bed.queued("llm")
    await bed.until(lambda: bed.tj("llm").get("why") == "Suspended")
    assert "another AdmissionCheck" in bed.condition(bed.shadow("llm"), "CapacityAvailable")["message"]
    assert not bed.rentals()
    await bed.answers(bed.workloads("llm")[-1], other, "Ready")
    await bed.trains("llm")
    await bed.ends_well("llm")


async def _wants(bed: KueueBed, pods: int) -> None:
    """Its TrainingJob is to have just so many pods of four GPUs."""
    gpus = {"min": 4 * pods, "preferred": 4 * pods, "max": 4 * pods}
    await bed.kube.merge_patch(TRAINING_JOBS.one("llm", bed.namespace), {"spec": {"gpus": gpus}})


GROWS = {ELASTIC: "true", "charterer.dev/gpus": "4..12", "charterer.dev/resize": "InPlace"}


async def test_an_elastic_job_that_grew_starts_again_after_a_stop(kueue_bed: KueueBed) -> None:
    """Kueue takes what placed its first run for its own: that is taken out of it, and nothing else."""
    bed = kueue_bed
    await bed.queue()
    await bed.queued("llm", 2, annotations=GROWS, pod_labels={"team.example/app": "llm"})
    await bed.trains("llm", 2)
    kept = {pod["metadata"]["uid"] for pod in bed.job_pods("llm")}
    await _wants(bed, 3)
    await bed.trains("llm", 3)
    await bed.until(lambda: bed.tj("llm").get("gpus") == 12)
    assert kept < {pod["metadata"]["uid"] for pod in bed.job_pods("llm")}
    await _wants(bed, 1)
    await bed.until(lambda: bed.outcomes("llm") == ["Stopped"])
    await bed.trains("llm", 1)
    (pod,) = bed.job_pods("llm")
    labels = pod["metadata"]["labels"]
    assert (labels["charterer.dev/run"], labels["team.example/app"]) == ("2", "llm")
    await bed.ends_well("llm")


@pytest.mark.repeats  # test_kueue.py, of a veto
async def test_an_elastic_job_that_its_author_grew_in_vain_gets_what_it_is_paid_for(kueue_bed: KueueBed) -> None:
    """One pod has named no group of its own: two are a restart. Its newest Workload is Pending while the pod runs."""
    bed = kueue_bed
    await bed.queue()
    await bed.kube.merge_patch(GPU_POOLS.one("a100"), {"spec": {"maxNodes": 1}})
    await bed.queued("llm", annotations=GROWS)
    await bed.trains("llm")
    await bed.kube.merge_patch(JOBS.one("llm", bed.namespace), {"spec": {"parallelism": 2, "completions": 2}})
    await bed.until(lambda: "pays for 1 pod" in bed.check("llm").get("message", ""))
    await bed.kube.merge_patch(GPU_POOLS.one("a100"), {"spec": {"maxNodes": 3}})
    await _wants(bed, 2)
    await bed.trains("llm", 2)
    await bed.ends_well("llm")
    assert bed.outcomes("llm") == ["Stopped", "Complete"]


async def test_a_training_job_beside_a_default_local_queue_costs_nothing_and_says_why(kueue_bed: KueueBed) -> None:
    """Kueue would hold its runs. Once that LocalQueue is gone, it runs."""
    bed = kueue_bed
    await bed.queue()
    await bed.put(LOCAL_QUEUES, "LocalQueue", "default", {"clusterQueue": bed.own(QUEUE)})
    await _until_jobs_are_taken(bed)
    await bed.job("mine", 4)
    await bed.until(lambda: "LocalQueue default" in bed.condition(_mine(bed), "Admitted").get("message", ""))
    assert not bed.rentals()
    await bed.kube.delete(LOCAL_QUEUES.one("default", bed.namespace))
    await bed.running("mine")


def _mine(bed: KueueBed) -> RawObject | None:
    return bed.mirror.one(TRAINING_JOBS, "mine", bed.namespace)


async def _until_jobs_are_taken(bed: KueueBed) -> None:
    """Kueue takes a moment to know a LocalQueue."""
    probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": {"containers": [_CONTAINER]}}
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while True:
            stored = await bed.kube.post(PODS.all(bed.namespace), probe, dry_run=True)
            if QUEUE_NAME in (stored["metadata"].get("labels") or {}):
                return
            await asyncio.sleep(0.1)


_CONTAINER = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}


@pytest.mark.parametrize("gpus", [0, *lanes.repeats(1)])
async def test_a_group_of_pods_is_let_through_or_told(kueue_bed: KueueBed, gpus: int) -> None:
    bed = kueue_bed
    await bed.queue()
    limits = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {"requests": {"cpu": "1"}}
    for name in ("a", "b"):
        metadata = {
            "name": name,
            "namespace": bed.namespace,
            "labels": {QUEUE_NAME: QUEUE, "kueue.x-k8s.io/pod-group-name": "group"},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
        }
        spec = {"restartPolicy": "Never", "containers": [_CONTAINER | {"resources": limits}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        await bed.kube.post(PODS.all(bed.namespace), pod)

    def checks() -> list[RawObject]:
        found = [raw.get("status") or {} for raw in bed.mirror.all(WORKLOADS, bed.namespace)]
        return [check for status in found for check in status.get("admissionChecks") or ()]

    if gpus:
        await bed.until(lambda: any("a group of pods" in check["message"] for check in checks()))
    else:
        await bed.until(lambda: [check["state"] for check in checks()] == ["Ready"])
    for name in ("a", "b"):
        await bed.kube.merge_patch(PODS.one(name, bed.namespace), {"metadata": {"finalizers": None}})
        await bed.kube.delete(PODS.one(name, bed.namespace), grace=0)
