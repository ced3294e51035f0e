"""What others write into the cluster does not decide what becomes of a job: labels and owners are claims."""

from __future__ import annotations

from typing import Any

from charterer.cluster.client import RawObject
from charterer.cluster.paths import JOBS, NAMESPACES, PODS, TRAINING_JOBS
from tests.testbed.bed import Bed


def _claims(owner: RawObject, namespace: str, name: str) -> RawObject:
    """Metadata as a run of that job has it."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {"namespace": namespace, "name": name, "ownerReferences": [reference]}


async def _forged_pod(bed: Bed, namespace: str, name: str, labels: RawObject, owner: RawObject | None) -> None:
    """A pod that no scheduler takes, so that it stays Pending."""
    metadata: dict[str, Any] = {"namespace": namespace, "name": name}
    if owner is not None:
        metadata = _claims(owner, namespace, name)
    spec = {"schedulerName": "nobody", "containers": [{"name": "trainer", "image": "train:1"}]}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "labels": labels, "annotations": {"forged": "yes"}},
        "spec": spec,
    }
    await bed.kube.post(PODS.all(namespace), body)


async def test_jobs_and_pods_of_others_that_claim_to_be_a_jobs_hold_up_neither_the_job_nor_its_end(bed: Bed) -> None:
    operator = bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    job = await bed.kube.get(TRAINING_JOBS.one("train", bed.namespace))
    (run,) = bed.runs("train")
    evil = f"{bed.namespace}-evil"
    await bed.kube.post(NAMESPACES.all(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": evil}})
    bed.plane.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=20s", "-n", evil)
    labels = {"charterer.dev/job-uid": job["metadata"]["uid"], "charterer.dev/job": "train", "charterer.dev/run": "1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "trainer", "image": "train:1"}]}}
    metadata = {**_claims(job, evil, "train-r9"), "labels": {**labels, "charterer.dev/run": "9"}}
    spec = {"suspend": True, "template": template}
    await bed.kube.post(JOBS.all(evil), {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    await _forged_pod(bed, evil, "owned", labels, run)
    await _forged_pod(bed, evil, "labelled", labels, None)
    await _forged_pod(bed, bed.namespace, "beside", labels, None)
    await bed.finish("train", index=0)  # the forged pods have none, and never run
    await bed.complete("train")
    await bed.given_back()
    assert "DeleteRun" not in operator.log.read_text()
    bed.plane.kubectl("delete", "namespace", evil, "--wait=false")
    await bed.kube.delete(PODS.one("beside", bed.namespace))
