"""A plain Job with GPUs in a namespace that a budget pays for: the real scheduler, and the operator's own rights."""

from __future__ import annotations

import time

from charterer.cluster import kinds
from charterer.cluster.client import Client, RawObject
from charterer.cluster.events import Recorder
from charterer.cluster.paths import JOBS, PODS
from charterer.cluster.resync import Resync
from charterer.cluster.store import Store
from charterer.controller.unpaid_pods import UnpaidPods
from charterer.domain.time import Instant, after
from tests.testbed.bed import SYSTEM, Bed


def unschedulable(raw: RawObject) -> bool:
    conditions = raw["status"].get("conditions") or ()
    return any(each.get("reason") == "Unschedulable" for each in conditions)


async def test_a_plain_job_that_no_node_fits_is_told_to_become_a_training_job(bed: Bed) -> None:
    await bed.budget()
    container = {"name": "t", "image": "train:1", "resources": {"limits": {"nvidia.com/gpu": 4}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": "plain", "namespace": bed.namespace}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
    await bed.kube.post(JOBS.all(bed.namespace), job)
    await bed.until(lambda: any(map(unschedulable, bed.mirror.all(PODS, bed.namespace))))
    store = Store(kinds.COMMON)
    an_hour_later = after(Instant(time.time_ns() // 1_000), 3600.0)
    async with await Client.connect(bed.plane.service_account_kubeconfig(SYSTEM, "charterer")) as operator:
        await Resync(operator, store, interval=60.0).once()
        recorder = Recorder(operator, instance="charterer-0")
        await UnpaidPods(operator, store, recorder, lambda: an_hour_later).look()
        await recorder.flush()
    told = bed.plane.kubectl("describe", "job", "plain", "--namespace", bed.namespace)
    assert "NotATrainingJob" in told
    assert "asks for 4 GPUs, and there is no node for it" in told
    bed.plane.kubectl("delete", "job", "plain", "--namespace", bed.namespace)
