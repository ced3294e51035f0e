"""MIG slices on a real control plane: jobs beside each other on one GPU, by the device plugin's names and by DRA.

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
