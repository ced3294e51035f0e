"""What templates ask of their nodes, with the operator: the pool that fits is rented in, or none is, with the words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from charterer.cluster.paths import GPU_POOLS, PERSISTENT_VOLUMES, TRAINING_JOBS
from tests.cluster.adopted_jobs import create, delete_jobs, once_held, plain_job, running, told
from tests.testbed.bed import Bed, group

PRODUCT = "nvidia.com/gpu.product"
ZONE = "topology.kubernetes.io/zone"
T4 = group("t4", gpuType="Tesla-T4", hourlyPrice="4.00", zone="fake-1b", instanceType="fake.t4-4x")
CONTAINERS = [{"name": "trainer", "image": "train:1"}]


@pytest.fixture(autouse=True)
async def _without_jobs_in_the_end(bed: Bed) -> AsyncIterator[None]:
    yield
    await delete_jobs(bed)


async def _job(bed: Bed, name: str, spec: Mapping[str, Any], gpus: int = 4) -> None:
    template = {"spec": {"terminationGracePeriodSeconds": 5, "containers": CONTAINERS, **spec}}
    await bed.create("TrainingJob", name, {"gpus": {"min": gpus, "max": gpus}, "template": template})


def _why(bed: Bed, name: str) -> str:
    return bed.condition(bed.mirror.one(TRAINING_JOBS, name, bed.namespace), "CapacityAvailable").get("message", "")


def _preflight(bed: Bed) -> str:
    (pool,) = bed.mirror.all(GPU_POOLS)
    return bed.condition(pool, "Preflight").get("message", "")


@pytest.mark.repeats  # as the volume's test, for an adopted Job
@pytest.mark.groups(group("a100"), T4)
async def test_a_plain_job_gets_the_gpu_that_its_selector_names(bed: Bed) -> None:
    await bed.budget()
    await once_held(bed)
    bed.operator()
    await bed.pool("a100")
    await bed.pool("t4")
    body = plain_job("whisper", pods=3, gpus=1)
    body["spec"]["template"]["spec"]["nodeSelector"] = {PRODUCT: "Tesla-T4"}
    await create(bed, body)
    await bed.running("whisper")
    assert len(running(bed, "whisper")) == 3
    (rental,) = bed.rentals()
    assert rental["spec"]["pool"].startswith("t4")


@pytest.mark.repeats  # as the next test, in a TrainingJob
@pytest.mark.groups(group("a100"), T4)
async def test_nothing_is_rented_for_a_label_that_no_node_has_until_a_pool_declares_it(bed: Bed) -> None:
    bed.operator()
    await bed.pool("a100")
    await bed.pool("t4")
    await bed.budget()
    await _job(bed, "picky", {"nodeSelector": {"team": "vision"}})
    await bed.until(lambda: bed.tj("picky").get("why") == "NoOption")
    assert "no node is known to have the label team" in _why(bed, "picky")
    assert "team=vision" in _why(bed, "picky")
    assert await bed.launched() == 0


async def test_an_object_that_fits_no_node_is_told_so_itself_and_nothing_is_rented(bed: Bed) -> None:
    await bed.budget()
    await once_held(bed)
    bed.operator()
    await bed.pool("a100")
    await create(bed, plain_job("wide", pods=1, gpus=16))
    await bed.until(lambda: told(bed, "wide", "NoOption"))
    assert told(bed, "wide", "NoOption") == [
        "no GPUPool has nodes for pods of 16 GPUs: a node of GPUPool a100 has 4; ask for fewer GPUs in each pod, or "
        "add a pool of larger nodes"
    ]
    assert await bed.launched() == 0


@pytest.mark.repeats  # tests/unit/controller/test_node_findings.py
async def test_a_node_that_lacks_what_its_pool_declares_is_given_back_and_both_say_so(bed: Bed) -> None:
    bed.operator()
    await bed.pool("a100", labels={"disk": "fast"})
    await bed.budget()
    await _job(bed, "picky", {"nodeSelector": {"disk": "fast"}})
    await bed.until(lambda: bed.tj("picky").get("why") == "NoOption")
    assert await bed.launched() == 1, "the second try knows what the first node had"
    (record,) = bed.tj("picky")["runs"]
    assert record["outcome"] == "NotStarted"
    await bed.until(lambda: not bed.rentals("Ready"))
    await bed.until(lambda: "disk=fast" in _preflight(bed))
    assert "nodes that came did not have it" in _preflight(bed)


@pytest.mark.groups(group("a100"), T4)
async def test_a_job_follows_its_bound_volume_into_the_zone_where_it_is(bed: Bed) -> None:
    bed.operator()
    await bed.pool("a100")
    await bed.pool("t4")
    await bed.budget()
    in_b = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["fake-1b"]}]}
    name = f"{bed.namespace}-data"
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "claimRef": {"namespace": bed.namespace, "name": "data"},
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [in_b]}},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": name,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    await bed.kube.post(PERSISTENT_VOLUMES.all(), volume)
    await bed.kube.post(f"/api/v1/namespaces/{bed.namespace}/persistentvolumeclaims", claim)
    await _job(bed, "zonal", {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]})
    await bed.running("zonal")
    (rental,) = bed.rentals()
    assert rental["spec"]["pool"].startswith("t4")
    await bed.kube.delete(PERSISTENT_VOLUMES.one(name))


async def test_pods_that_do_not_fill_their_nodes_have_them_to_themselves(bed: Bed) -> None:
    """Three pods of 3 GPUs on nodes of 4: a GPU of each stays empty, and is paid by the job."""
    await bed.budget()
    await once_held(bed)
    bed.operator()
    await bed.pool("a100")
    await create(bed, plain_job("odd", pods=3, gpus=3))
    await bed.running("odd", seconds=40)
    assert len(running(bed, "odd")) == len(bed.rentals()) == 3
    allocation = bed.tj("odd")["allocation"]
    assert [(place["gpus"], place["empty"]) for place in allocation["placements"]] == [(3, 1)] * 3
    assert allocation["option"]["hourly"] == "36.00"
