"""GPUs of another maker beside NVIDIA's: each job gets nodes with those that it asks for.

At the end of the test the ledger must equal the cloud's bill to the micro-dollar (``Bed.close``).
"""

from __future__ import annotations

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.paths import NODES, PODS, TRAINING_JOBS
from tests.cluster.adopted_jobs import create, delete_jobs, end_pods, ended, plain_job, running, told
from tests.testbed.bed import Bed, group

AMD = "amd.com/gpu"
MI300X = "AMD_Instinct_MI300X_VF"
NEURON = "aws.amazon.com/neuron"
NPU = "example.com/npu"
"""A resource that no table of Charterer has."""


def _asks(pod: RawObject) -> RawObject:
    limits: RawObject = pod["spec"]["containers"][0]["resources"]["limits"]
    return limits


@pytest.mark.groups(
    group("a100", hourlyPrice="1"),
    group("mi300x", hourlyPrice="50", gpuType=MI300X, resource=AMD, gpusPerInstance=8),
    group("trn2", hourlyPrice="40", gpuType="Trainium2", resource=NEURON, gpusPerInstance=16),
)
async def test_jobs_run_on_gpus_of_the_maker_that_they_ask_for(bed: Bed) -> None:
    bed.operator()
    await bed.pool("a100")
    await bed.pool("mi300x", resource=AMD)
    await bed.pool("trn2", resource=NEURON)
    await bed.budget()
    adopted = plain_job("adopted")
    adopted["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {AMD: 4}}
    trainer = {"name": "trainer", "image": "train:1", "resources": {"limits": {AMD: 4}}}
    template = {"spec": {"terminationGracePeriodSeconds": 5, "containers": [trainer]}}
    await bed.create("TrainingJob", "rigid", {"template": template})
    await bed.job("elastic", {"min": 1, "max": 8}, resource=AMD)
    await bed.job("cuda")
    await bed.job("neuron", resource=NEURON)
    await create(bed, adopted)
    await bed.running("rigid", "elastic", "cuda", "neuron")
    (own,) = await bed.until(lambda: running(bed, "adopted"))
    pools = {rental["status"]["node"]: rental["spec"]["pool"] for rental in bed.rentals() if "node" in rental["status"]}
    placed = {name: pod for name in ("rigid", "elastic", "cuda", "neuron") for pod in bed.pods(name)} | {"adopted": own}
    assert {name: pools[pod["spec"]["nodeName"]] for name, pod in placed.items()} == {
        "rigid": "mi300x",
        "elastic": "mi300x",
        "adopted": "mi300x",
        "cuda": "a100",
        "neuron": "trn2",
    }
    assert _asks(placed["rigid"]) == _asks(placed["adopted"]) == {AMD: "4"}
    assert set(_asks(placed["elastic"])) == {AMD}
    assert set(_asks(placed["cuda"])) == {"nvidia.com/gpu"}
    assert set(_asks(placed["neuron"])) == {NEURON}
    await end_pods(bed, "adopted")
    await bed.until(lambda: ended(bed, "adopted") == "Complete")


def _adoptable(name: str, said: bool) -> RawObject:
    """A Job for two NPUs. ``said``: whether its template says that they are its GPUs."""
    body = plain_job(name)
    template = body["spec"]["template"]
    template["spec"]["containers"][0]["resources"] = {"limits": {NPU: 2}}
    if said:
        template["metadata"] = {"annotations": {"charterer.dev/resource": NPU}}
    return body


def _waits_for(bed: Bed, name: str) -> str:
    found = bed.mirror.one(TRAINING_JOBS, name, bed.namespace)
    return str(bed.condition(found, "CapacityAvailable").get("message"))


@pytest.mark.groups(
    group("a100", hourlyPrice="1"),
    group("npu", hourlyPrice="20", gpuType="Example-NPU", resource=NPU, gpusPerInstance=4),
)
async def test_a_pool_and_its_jobs_have_gpus_of_a_name_that_no_table_knows(bed: Bed) -> None:
    """What strangers hold of them is counted on the pool's nodes; the jobs of another pool go on as without it."""
    bed.operator()
    await bed.pool("a100")
    await bed.budget()
    await bed.job("npu", 2, resource=NPU)
    await bed.job("cuda", 4)
    await create(bed, _adoptable("unsaid", said=False))
    await bed.running("cuda")
    await bed.until(lambda: f"add a GPUPool with spec.resource {NPU}" in _waits_for(bed, "npu"))
    (unsaid,) = await bed.until(lambda: told(bed, "unsaid"))
    assert f"if its GPUs are {NPU}, name that in the annotation charterer.dev/resource" in unsaid
    await bed.pool("npu", resource=NPU)
    await bed.running("npu")
    await create(bed, _adoptable("adopted", said=True))
    (own,) = await bed.until(lambda: running(bed, "adopted"))
    (first,) = bed.pods("npu")
    assert _asks(first) == _asks(own) == {NPU: "2"}
    pools = {rental["status"]["node"]: rental["spec"]["pool"] for rental in bed.rentals() if "node" in rental["status"]}
    node = first["spec"]["nodeName"]
    assert (pools[node], pools[own["spec"]["nodeName"]]) == ("npu", "npu")
    container = {"name": "main", "image": "other:1", "resources": {"limits": {NPU: 1}}}
    stranger = {"metadata": {"name": "stranger", "namespace": bed.namespace}, "apiVersion": "v1", "kind": "Pod"}
    await bed.kube.post(PODS.all(bed.namespace), {**stranger, "spec": {"nodeName": node, "containers": [container]}})
    await end_pods(bed, "adopted")
    await bed.finish("npu")
    await bed.finish("cuda")
    await bed.complete("npu", "cuda", "adopted")
    assert ended(bed, "adopted") == "Complete"
    await bed.until(lambda: [rental["status"].get("node") for rental in bed.rentals()] == [node])
    await bed.until(lambda: (bed.mirror.one(NODES, node) or {})["spec"].get("unschedulable"))
    assert [instance["id"] for instance in await bed.instances()] == [node], "a stranger's NPU keeps its node"
    await bed.kube.delete(PODS.one("stranger", bed.namespace), grace=0)
    await delete_jobs(bed)
    await bed.given_back()
