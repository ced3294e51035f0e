"""The operator as a pod: its own image, installed by helm, on real nodes, and what becomes of jobs when it moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.paths import PODS
from tests import awaited
from tests.e2e.support import REAL_NODES, SCRIPTS, Training
from tests.testbed import operator_image
from tests.testbed.bed import SYSTEM, install_charts
from tests.testbed.build import ROOT
from tests.testbed.real_bed import RealBed
from tests.testbed.training_pods import TrainingPod

pytestmark = [*REAL_NODES, pytest.mark.needs("image")]

HOMES = ("home-1", "home-2")
"""Nodes that are not rented, for the operator."""


@pytest.fixture
def image() -> Path:
    """An archive with the operator's image."""
    awaited.present("image", operator_image.missing)
    return operator_image.archive()


def operators(bed: RealBed) -> list[RawObject]:
    """The operator's pods."""
    pods = bed.mirror.all(PODS, SYSTEM)
    return [pod for pod in pods if pod["metadata"]["labels"].get("app.kubernetes.io/component") == "operator"]


class Leader:
    """The operator's pod that leads, and commands that make another one do so."""

    def __init__(self, bed: RealBed) -> None:
        self._bed = bed
        self._former: set[str] = set()
        self.pod: RawObject = {}

    def _ready(self) -> RawObject | None:
        for pod in operators(self._bed):
            conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
            leads = pod["metadata"]["labels"].get("charterer.dev/leader") == "true"
            if leads and conditions.get("Ready") == "True" and pod["metadata"]["uid"] not in self._former:
                return pod
        return None

    async def after(self, *command: str) -> None:
        """Run kubectl, and wait until a pod leads that did not before."""
        await asyncio.to_thread(self._bed.plane.kubectl, *command)
        await self.elected()

    async def elected(self) -> None:
        """Wait until a pod leads that did not before."""
        self.pod = await self._bed.until(lambda: self._ready() or {})
        self._former.add(self.pod["metadata"]["uid"])


def install(bed: RealBed) -> None:
    """The chart, with the image that the nodes have, for users who look at a survey each second."""
    values = {
        "image.repository": operator_image.NAME.partition(":")[0],
        "image.tag": operator_image.NAME.partition(":")[2],
        "image.pullPolicy": "Never",
        "surveySeconds": 1,
        "replicas": 1,
        "fakeCloud.enabled": "false",
    }
    told = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    bed.plane.helm("upgrade", "charterer", str(ROOT / "charts" / "charterer"), "--namespace", SYSTEM, *told)


async def test_the_operators_pod_is_deleted_rolled_out_and_drained_and_no_job_notices(
    real_bed: RealBed, image: Path, tmp_path: Path
) -> None:
    real_bed.proxies = True
    cluster = real_bed.cluster

    def boot(name: str) -> None:
        cluster.boot(name, proxy=True).load(image)

    try:
        await asyncio.gather(*(asyncio.to_thread(boot, name) for name in HOMES))
        try:
            await asyncio.to_thread(install, real_bed)
            await _disturb(real_bed, Leader(real_bed), tmp_path)
        finally:
            await asyncio.to_thread(install_charts, real_bed.plane)
        await real_bed.until(lambda: not operators(real_bed))
    finally:
        for name in set(HOMES) & set(cluster.nodes):
            await asyncio.to_thread(cluster.power_off, name)


async def _disturb(bed: RealBed, leader: Leader, folder: Path) -> None:
    await leader.elected()
    await bed.pool(maxNodes=3)
    await bed.budget()
    job = await Training.submit(bed, "steady", TrainingPod(SCRIPTS / "plain.py", folder / "steady"))
    await job.noted("restored")
    await bed.until(_reported(bed, job.name, 0))
    (pod,) = bed.pods(job.name)
    name = leader.pod["metadata"]["name"]
    security = leader.pod["spec"]["containers"][0]["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert leader.pod["spec"]["securityContext"]["runAsUser"] == 65532

    await leader.after("delete", "pod", "--namespace", SYSTEM, name, "--wait=false")
    await leader.after("rollout", "restart", "--namespace", SYSTEM, "deployment/charterer")
    drained = leader.pod["spec"]["nodeName"]
    await leader.after("drain", drained, "--delete-emptydir-data", "--ignore-daemonsets", "--force", "--timeout=60s")
    assert leader.pod["spec"]["nodeName"] != drained

    await bed.until(_reported(bed, job.name, bed.tj(job.name)["progress"]["step"]))
    (same,) = bed.pods(job.name)
    assert same["metadata"]["uid"] == pod["metadata"]["uid"]
    assert same["status"]["containerStatuses"][0]["restartCount"] == 0
    assert await bed.launched() == 1
    job.enough()
    await bed.complete(job.name)


def _reported(bed: RealBed, job: str, after: int) -> Callable[[], bool]:
    """Whether the operator has written down a step of the job after that one."""
    return lambda: bed.tj(job).get("progress", {}).get("step", 0) > after
