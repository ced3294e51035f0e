"""What the real Kueue does with each answer of an AdmissionCheck, and with the widths of what waits."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from charterer.api.names import KUEUE_CHECK
from charterer.cluster.client import RawObject
from charterer.cluster.paths import ADMISSION_CHECKS, CLUSTER_QUEUES, JOBS, WORKLOADS
from tests.testbed.bed import install_charts
from tests.testbed.controlplane import ControlPlane
from tests.testbed.kueue.bed import API, ELASTIC, REPLACES, KueueBed, holds, open_kueue_bed, stamp
from tests.testbed.kueue.process import KueueProcess

pytestmark = [
    pytest.mark.xdist_group("kueue"),
    pytest.mark.repeats,  # what Kueue does by itself, on which tests/cluster/test_kueue.py relies
]
POOL = "charterer.dev/pool"


@pytest.fixture(scope="module")
def with_kueue(control_plane: ControlPlane, kueue: KueueProcess) -> ControlPlane:
    """The control plane with Kueue and Charterer's check."""
    install_charts(control_plane, "kueue.enabled=true")
    return control_plane


@pytest.fixture
async def queue(with_kueue: ControlPlane, tmp_path: Path) -> AsyncIterator[KueueBed]:
    """A queue whose check nobody answers but the test."""
    async with open_kueue_bed(with_kueue, tmp_path, ()) as bed:
        await bed.queue()
        yield bed


async def activate(bed: KueueBed) -> None:
    words = {"status": "True", "reason": "Active", "message": "", "lastTransitionTime": stamp()}
    body = {"status": {"conditions": [{"type": "Active", **words}]}}
    await bed.kube.merge_patch(ADMISSION_CHECKS.status(KUEUE_CHECK), body)


async def answer(bed: KueueBed, workload: RawObject, state: str, pool: str = "", **more: object) -> None:
    entry: dict[str, Any] = {
        "name": KUEUE_CHECK,
        "state": state,
        "message": "so",
        "lastTransitionTime": stamp(),
        **more,
    }
    if pool:
        entry["podSetUpdates"] = [{"name": "main", "labels": {"run": "1"}, "nodeSelector": {POOL: pool}}]
    metadata = {"name": workload["metadata"]["name"], "namespace": bed.namespace}
    body = {"apiVersion": API, "kind": "Workload", "metadata": metadata, "status": {"admissionChecks": [entry]}}
    await bed.kube.apply(WORKLOADS.status(metadata["name"], bed.namespace), body, "test", may_create=True)


def asked(bed: KueueBed, name: str, width: int) -> RawObject | None:
    """The newest Workload of the Job, if it has quota for so many pods and its check is Pending.

    A Workload that is being stopped has both too: its check is Pending again before its quota is taken, and with the
    quota goes whatever was answered in between.
    """
    found = [raw for raw in bed.workloads(name) if not holds(raw, "Finished")]
    if not found or holds(found[-1], "Evicted") or not holds(found[-1], "QuotaReserved"):
        return None
    if bed.check(name).get("state") != "Pending":
        return None
    counts = [item["count"] for item in found[-1]["status"]["admission"]["podSetAssignments"]]
    return found[-1] if counts == [width] == [item["count"] for item in found[-1]["spec"]["podSets"]] else None


async def once_asked(bed: KueueBed, name: str, width: int) -> RawObject:
    found = await bed.until(lambda: asked(bed, name, width))
    assert found is not None
    return found


def selector(job: RawObject) -> object:
    return job["spec"]["template"]["spec"].get("nodeSelector")


def waits_as_written(bed: KueueBed, name: str, width: int) -> bool:
    """Whether the Job is suspended, as its author wrote it, and its check is asked again."""
    job = bed.queued_job(name)
    return bool(job["spec"]["suspend"]) and selector(job) is None and bool(asked(bed, name, width))


async def resize(bed: KueueBed, name: str, width: int) -> None:
    await bed.kube.merge_patch(JOBS.one(name, bed.namespace), {"spec": {"parallelism": width, "completions": width}})


async def test_nothing_is_asked_before_the_check_is_active(queue: KueueBed) -> None:
    """The queue says so, the Job is stored suspended, and no pod was made; then the check is asked."""
    await queue.queued("early", 2)
    await queue.until(lambda: queue.workloads("early"))
    own = queue.own("research")
    await queue.until(lambda: queue.condition(queue.mirror.one(CLUSTER_QUEUES, own), "Active").get("status") == "False")
    assert queue.queued_job("early")["spec"]["suspend"] is True
    assert not holds(queue.workloads("early")[0], "QuotaReserved")
    await activate(queue)
    await once_asked(queue, "early", 2)
    assert queue.job_pods("early") == []


async def test_another_width_is_another_workload_and_a_job_that_somebody_unsuspends_is_suspended_again(
    queue: KueueBed,
) -> None:
    await activate(queue)
    await queue.queued("wide", 2)
    first = await once_asked(queue, "wide", 2)
    await resize(queue, "wide", 3)
    second = await once_asked(queue, "wide", 3)
    assert second["metadata"]["name"] == first["metadata"]["name"]
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    await queue.kube.merge_patch(JOBS.one("wide", queue.namespace), {"spec": {"suspend": False}})
    await queue.until(lambda: queue.queued_job("wide")["spec"]["suspend"] is False)
    await queue.until(lambda: queue.queued_job("wide")["spec"]["suspend"] is True and bool(asked(queue, "wide", 3)))
    await answer(queue, second, "Ready", "b")
    await queue.until(lambda: [pod["spec"].get("nodeSelector") for pod in queue.job_pods("wide")] == [{POOL: "b"}] * 3)
    pod = queue.job_pods("wide")[0]
    assert pod["metadata"]["labels"]["run"] == "1"
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod["spec"]["tolerations"]
    await resize(queue, "wide", 1)  # not elastic: a restart at another width
    await queue.until(lambda: waits_as_written(queue, "wide", 1))


async def test_retry_stops_at_once_or_after_its_delay_and_asks_again(queue: KueueBed) -> None:
    await activate(queue)
    await queue.queued("again", 1)
    await answer(queue, await once_asked(queue, "again", 1), "Ready", "a")
    await queue.until(lambda: queue.job_pods("again"))
    running = queue.workloads("again")[-1]
    await answer(queue, running, "Retry", "a")
    await queue.until(lambda: waits_as_written(queue, "again", 1))
    check = queue.check("again")
    assert (check["state"], check["retryCount"]) == ("Pending", 1)
    assert check["podSetUpdates"][0]["labels"] == {"run": "1"}  # what it was told stays there
    await answer(queue, running, "Ready", "b")
    await queue.until(lambda: queue.job_pods("again"))
    assert selector(queue.queued_job("again")) == {POOL: "b"}
    began = time.monotonic()
    await answer(queue, running, "Retry", requeueAfterSeconds=3)
    await queue.until(lambda: queue.queued_job("again")["spec"]["suspend"])
    assert time.monotonic() - began > 1.5  # stamps are whole seconds


async def test_a_conflicting_selector_ends_the_job_and_rejected_deactivates_it(queue: KueueBed) -> None:
    await activate(queue)
    await queue.queued("lost", 1, nodeSelector={POOL: "a"})
    await queue.queued("never", 1)
    await answer(queue, await once_asked(queue, "lost", 1), "Ready", "b")
    await answer(queue, await once_asked(queue, "never", 1), "Rejected")
    await queue.until(lambda: holds(queue.workloads("lost")[0], "Finished"))
    finished = queue.condition(queue.workloads("lost")[0], "Finished")
    assert finished["reason"] == "FailedToStart"
    assert "conflict for nodeSelector" in finished["message"]
    await queue.until(lambda: queue.workloads("never")[0]["spec"]["active"] is False)
    assert queue.job_pods("lost") == queue.job_pods("never") == []


async def test_an_elastic_job_that_grows_gets_a_slice_whose_pods_wait(queue: KueueBed) -> None:
    await activate(queue)
    await queue.queued("grow", 1, annotations={ELASTIC: "true"})
    await answer(queue, await once_asked(queue, "grow", 1), "Ready", "a")
    await queue.until(lambda: any(not pod["spec"].get("schedulingGates") for pod in queue.job_pods("grow")))
    await resize(queue, "grow", 3)
    second = await once_asked(queue, "grow", 3)
    assert REPLACES in second["metadata"]["annotations"]
    await queue.until(lambda: len(queue.job_pods("grow")) == 3)
    assert sum(bool(pod["spec"].get("schedulingGates")) for pod in queue.job_pods("grow")) == 2
    assert queue.queued_job("grow")["spec"]["suspend"] is False
    await answer(queue, second, "Ready", "a")
    await queue.until(lambda: not any(pod["spec"].get("schedulingGates") for pod in queue.job_pods("grow")))
    await resize(queue, "grow", 1)
    await queue.until(lambda: [item["count"] for item in queue.workloads("grow")[-1]["spec"]["podSets"]] == [1])
    await queue.until(lambda: len(queue.job_pods("grow")) == 1)
