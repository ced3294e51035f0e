"""GPUs of another maker beside NVIDIA's: each job gets nodes with those that it asks for.

At the end of the test the ledger must equal the cloud's bill to the micro-dollar (``Bed.close``).
"""

from __future__ import annotations

import pytest

from charterer.cluster.client import RawObject
from tests.cluster.adopted_jobs import create, end_pods, ended, plain_job, running
from tests.testbed.bed import Bed, group

AMD = "amd.com/gpu"
MI300X = "AMD_Instinct_MI300X_VF"
NEURON = "aws.amazon.com/neuron"


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
