"""MIG slices and shared GPUs on a real control plane, by the device plugin's names and by DRA.

At the end of every test the ledger must equal the cloud's bill to the micro-dollar (``Bed.close``).
"""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.errors import AlreadyExists
from charterer.cluster.paths import NODES, Resource
from tests.testbed.bed import Bed, group

PROFILE = "1g.5gb"
RESOURCE = f"nvidia.com/mig-{PROFILE}"
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", namespaced=False)
ONE = {"gpusPerInstance": 1, "hourlyPrice": "3.01"}


async def _jobs(bed: Bed, *names: str) -> None:
    gpus = {"min": 1, "max": 1, "slices": [PROFILE]}
    await asyncio.gather(*[bed.job(name, gpus) for name in names])


def _limits(pod: RawObject) -> RawObject:
    limits: RawObject = pod["spec"]["containers"][0]["resources"]["limits"]
    return limits


@pytest.mark.groups(group("a100", **ONE, cut={"profile": PROFILE, "slicesPerGpu": 7}))
async def test_seven_jobs_run_on_the_slices_of_one_gpu_and_the_eighth_rents_another(bed: Bed) -> None:
    bed.operator()
    await bed.pool("a100", partition={"profile": PROFILE})
    await bed.budget()
    seven = [f"slice-{number}" for number in range(7)]
    await _jobs(bed, *seven)
    await bed.running(*seven)
    assert await bed.launched() == 1
    assert {pod["spec"]["nodeName"] for name in seven for pod in bed.pods(name)} == {bed.rentals()[0]["status"]["node"]}
    assert [_limits(pod) for pod in bed.pods("slice-0")] == [{RESOURCE: "1"}]
    assert bed.tj("slice-0")["allocation"]["option"]["slice"] == PROFILE
    await _jobs(bed, "eighth")
    await bed.running("eighth")
    assert await bed.launched() == 2


@pytest.mark.groups(group("a100", **ONE, cut={"profile": PROFILE, "slicesPerGpu": 7, "published": "dra"}))
async def test_slices_that_only_a_dra_driver_publishes_are_asked_for_by_the_same_names(bed: Bed) -> None:
    expression = f"device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].profile == '{PROFILE}'"
    spec = {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": RESOURCE}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "mig-1g"}, "spec": spec}
    with contextlib.suppress(AlreadyExists):
        await bed.kube.post(DEVICE_CLASSES.all(), body)
    bed.operator()
    await bed.pool("a100", partition={"profile": PROFILE})
    await bed.budget()
    await _jobs(bed, "first", "second")
    await bed.running("first", "second")
    assert await bed.launched() == 1
    (pod,) = bed.pods("second")
    assert pod["status"]["extendedResourceClaimStatus"]["requestMappings"][0]["resourceName"] == RESOURCE
    node = await bed.kube.get(NODES.one(pod["spec"]["nodeName"]))
    assert not [name for name in node["status"]["allocatable"] if name.startswith("nvidia.com/")]


@pytest.mark.groups(group("v100", **ONE, gpuType="Tesla-V100-SXM2-16GB", jobsPerGpu=2))
async def test_two_jobs_share_a_gpu_and_the_third_rents_another(bed: Bed) -> None:
    bed.operator()
    await bed.pool("v100", sharing={"jobsPerGpu": 2, "mechanism": "MPS"})
    await bed.budget()
    asked = {"min": 1, "max": 1, "shared": {"memory": "6Gi"}}
    await asyncio.gather(*[bed.job(name, asked) for name in ("one", "two")])
    await bed.running("one", "two")
    assert await bed.launched() == 1
    assert [_limits(pod) for name in ("one", "two") for pod in bed.pods(name)] == [{"nvidia.com/gpu.shared": "1"}] * 2
    assert bed.tj("one")["allocation"]["option"]["slice"] == "mps-2"
    await bed.job("three", asked)
    await bed.running("three")
    assert await bed.launched() == 2
    await asyncio.gather(bed.finish("one", 1), bed.finish("two", 1))  # a fault of one ends both
    await bed.until(lambda: all(bed.tj(name).get("runs") for name in ("one", "two")))
    assert {bed.tj(name)["runs"][0]["outcome"] for name in ("one", "two")} == {"Interrupted"}
    assert "with which it shares GPUs by MPS, failed in the same moment" in bed.tj("one")["runs"][0]["message"]
