"""Machines that train nothing end, and what kept them is told in the pods' own words."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.paths import EVENTS, JOBS, NAMESPACES, PODS, TRAINING_JOBS
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.bed import Bed

BESIDE_NOBODY = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "nobody"}}}
        ]
    }
}
"""Where no pod can go; only the scheduler judges it."""
IMPOSSIBLE = {"spec": {"affinity": BESIDE_NOBODY, "containers": [{"name": "trainer", "image": "t"}]}}
HOST_PATH = {
    "spec": {
        "containers": [{"name": "trainer", "image": "t"}],
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
    }
}


async def warned(bed: Bed, reason: str, about: str) -> str:
    """The note of the first Warning Event with this reason about the object with this uid."""
    namespaces = (bed.namespace, "default")  # Events of cluster-scoped objects are in the latter, with other tests'
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while True:
            for namespace in namespaces:
                listing = await bed.kube.list(EVENTS.all(namespace), fields=f"reason={reason},type=Warning")
                for raw in listing.items:
                    if raw["regarding"]["uid"] == about:
                        return str(raw["note"])
            await asyncio.sleep(0.2)


def stuck(bed: Bed) -> RawObject | None:
    return bed.mirror.one(TRAINING_JOBS, "stuck", bed.namespace)


async def test_a_strangers_pod_keeps_a_machine_only_until_it_may_be_asked_to_leave(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    node = bed.pods("train")[0]["spec"]["nodeName"]
    pods = PODS.all(bed.namespace)
    metadata = {"name": "squatter", "namespace": bed.namespace, "labels": {"app": "squatter"}}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "c"}]}
    await bed.kube.post(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    budgets = f"/apis/policy/v1/namespaces/{bed.namespace}/poddisruptionbudgets"
    guard = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "squatter", "namespace": bed.namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "squatter"}}},
    }
    await bed.kube.post(budgets, guard)
    await bed.finish("train")
    squatter = f"{bed.namespace}/squatter"
    await bed.until(lambda: [raw["status"].get("heldBy") for raw in bed.rentals("Draining")] == [squatter])
    (held,) = bed.rentals("Draining")
    note = await warned(bed, "Held", held["metadata"]["uid"])
    assert f"{squatter} lives on Node {node}" in note
    assert "disruption budget" in note
    await bed.kube.delete(f"{budgets}/squatter")
    await bed.until(lambda: not bed.rentals("Draining"))
    await bed.complete("train")


@pytest.mark.parametrize(("template", "words"), [(IMPOSSIBLE, "Unschedulable"), (HOST_PATH, "violates PodSecurity")])
async def test_a_job_whose_pods_do_not_start_gives_its_machine_back_and_says_why(
    bed: Bed, template: Mapping[str, Any], words: str
) -> None:
    enforced = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    await bed.kube.merge_patch(NAMESPACES.one(bed.namespace), enforced)
    bed.operator()
    await bed.pool()
    await bed.budget()
    spec = {"gpus": {"min": 1, "max": 1}, "template": template}
    await bed.create("TrainingJob", "stuck", spec)
    await bed.until(lambda: words in bed.condition(stuck(bed), "PodsReady").get("message", ""))
    await bed.until(lambda: bed.tj("stuck").get("startFailures") == 1)
    (record,) = bed.tj("stuck")["runs"]
    assert record["outcome"] == "NotStarted"
    assert words in record["message"]
    about = stuck(bed)
    assert about is not None
    assert words in await warned(bed, "NotStarting", about["metadata"]["uid"])
    await bed.until(lambda: bed.tj("stuck").get("why") == "BackOff")
    await bed.until(lambda: not bed.rentals("Ready"))


async def test_nothing_is_rented_for_a_job_that_lacks_a_volume_or_a_name_until_it_has_them(bed: Bed) -> None:
    services, claims = (f"/api/v1/namespaces/{bed.namespace}/{kind}" for kind in ("services", "persistentvolumeclaims"))
    strange = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "stuck"}, "spec": {"ports": [{"port": 80}]}}
    await bed.kube.post(services, strange)
    bed.operator()
    await bed.pool()
    await bed.budget()
    data = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    template = {"spec": {"containers": [{"name": "trainer", "image": "t"}], "volumes": [data]}}
    await bed.create("TrainingJob", "stuck", {"gpus": {"min": 1, "max": 1}, "template": template})

    def said() -> str:
        return bed.condition(stuck(bed), "Admitted").get("message", "")

    await bed.until(lambda: f"Service {bed.namespace}/stuck is somebody else's" in said())
    await bed.kube.delete(f"{services}/stuck")
    await bed.until(lambda: f"PersistentVolumeClaim {bed.namespace}/data does not exist" in said())
    assert not bed.rentals()
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    await bed.kube.post(claims, claim)
    await bed.until(lambda: said().startswith("paid by"))


@pytest.mark.repeats  # tests/unit/lifecycle/test_deletion.py
async def test_finalizers_of_others_on_a_job_and_its_run_keep_no_pod_and_no_machine(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    kept = {"metadata": {"finalizers": ["example.com/kept"]}}
    runs = {}
    for name in ("deleted", "suspended"):
        await bed.job(name)
    await bed.running("deleted", "suspended")
    for name in ("deleted", "suspended"):
        runs[name] = JOBS.one(bed.runs(name)[0]["metadata"]["name"], bed.namespace)
        await bed.kube.merge_patch(TRAINING_JOBS.one(name, bed.namespace), kept)
        await bed.kube.merge_patch(runs[name], kept)
        await bed.kube.delete(runs[name])
    await bed.until(lambda: all("deletionTimestamp" in bed.runs(name)[0]["metadata"] for name in runs))
    await bed.delete("TrainingJob", "deleted")
    await bed.kube.merge_patch(TRAINING_JOBS.one("suspended", bed.namespace), {"spec": {"suspend": True}})
    await bed.until(lambda: not bed.rentals("Ready") and not bed.rentals("Draining"))
    assert [record["outcome"] for name in runs for record in bed.tj(name)["runs"]] == ["Stopped", "Stopped"]
    free = {"metadata": {"finalizers": None}}
    for name, path in runs.items():
        await bed.kube.merge_patch(path, free)
        await bed.kube.merge_patch(TRAINING_JOBS.one(name, bed.namespace), free)
    await bed.delete("TrainingJob", "suspended")
