"""Where a workload proves itself: a real API server, Job controller and scheduler, and nodes that are played."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from charterer.api import decode
from charterer.cluster.client import Client, RawObject
from charterer.cluster.paths import NODES, PODS, SERVICES, TRAINING_JOBS
from charterer.domain.ids import PoolId, RentalId
from charterer.domain.job import Allocation, Job, Placement, Run
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.pod import Pod
from charterer.domain.time import Instant
from charterer.workloads import RunEnvironment, Workload
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.controlplane import EXIT_CODE, NODE_ANNOTATION

ENVIRONMENT = RunEnvironment("https://charterer-progress.charterer.svc", "-----BEGIN CERTIFICATE-----\n")
NAMESPACE = "default"
_GPUS = {"cpu": "64", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
_POLL_SECONDS = 0.05


def node(name: str) -> RawObject:
    """A played Node with eight GPUs."""
    metadata = {
        "name": name,
        "labels": {"kubernetes.io/hostname": name},
        "annotations": {NODE_ANNOTATION: "fake"},
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "status": {"capacity": _GPUS, "allocatable": _GPUS},
    }


def training_job(name: str, template: RawObject | None = None, **spec: Any) -> RawObject:
    """A TrainingJob that asks for 1 to 8 GPUs."""
    template = template or {"spec": {"containers": [{"name": "trainer", "image": "acme/sft:1"}]}}
    return {
        "apiVersion": "charterer.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"gpus": {"min": 1, "max": 8}, "template": template, **spec},
    }


def allocation(pods: int, run: int = 1) -> Allocation:
    """Two GPUs for each pod."""
    option = Option(PoolId("a100"), 2 * pods, 1.0, Price(0))
    placements = tuple(Placement(RentalId(f"a100-{index}"), 2) for index in range(pods))
    return Allocation(run, option, placements, Instant(0))


@dataclass(frozen=True, slots=True)
class RunWorld:
    """One TrainingJob in a cluster, and the one node that the placements of its first run name."""

    client: Client
    workload: Workload
    raw: RawObject
    job: Job
    node: str

    @classmethod
    async def make(cls, client: Client, workload: Workload, body: RawObject, node: str) -> RunWorld:
        """Create the TrainingJob and let the node admit the pods of its first run."""
        raw = await client.post(TRAINING_JOBS.all(NAMESPACE), body)
        job = decode.training_job(raw).job
        await client.merge_patch(NODES.one(node), {"metadata": {"labels": {job.run_label: "r1"}}})
        return cls(client, workload, raw, job, node)

    def manifest(self, of: Allocation) -> RawObject:
        """The object of the allocation's run."""
        return self.workload.manifest(self.job, self.raw, of, ENVIRONMENT)

    async def create(self, of: Allocation) -> Run:
        """Create the Service and the allocation's run."""
        await self.client.post(SERVICES.all(NAMESPACE), self.workload.service(self.job), strict=True)
        answer = await self.client.post(self._runs, self.manifest(of), strict=True)
        return self._decoded(answer)

    async def patch(self, run: Run, body: RawObject) -> Run:
        """Apply one of the workload's patches."""
        return self._decoded(await self.client.merge_patch(f"{self._runs}/{run.name}", body))

    async def started(self, pods: int) -> Run:
        """Create a run of that many pods and let them start."""
        run = await self.patch(await self.create(allocation(pods)), self.workload.resume())
        return await self.until(run, lambda seen: sum(pod.ready for pod in seen.pods) == pods)

    async def until(self, run: Run, holds: Callable[[Run], bool]) -> Run:
        """The run with its pods, once that holds."""
        async with asyncio.timeout(OPERATORS_PATIENCE):
            while True:
                object_now = self._decoded(await self.client.get(f"{self._runs}/{run.name}"))
                seen = replace(object_now, pods=tuple(await self._pods()))
                if holds(seen):
                    return seen
                await asyncio.sleep(_POLL_SECONDS)

    async def exit(self, run: Run, indices: Sequence[int], code: int) -> None:
        """The training processes of these pods end with this code."""
        for pod in run.pods:
            if pod.index in indices:
                change = {"metadata": {"annotations": {EXIT_CODE: str(code)}}}
                await self.client.merge_patch(PODS.one(pod.name, NAMESPACE), change)

    async def evict(self, pod: str) -> None:
        """Evict a pod, as a drain of its node does."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
        await self.client.post(f"{PODS.one(pod, NAMESPACE)}/eviction", body)

    async def raw_pods(self) -> Sequence[RawObject]:
        """The job's pods as the API server has them."""
        return (await self.client.list(PODS.all(NAMESPACE), labels=f"charterer.dev/job-uid={self.job.id}")).items

    async def dismantle(self) -> None:
        """Delete everything, without waiting for the garbage collector, and wait until the pods are gone."""
        labels = f"charterer.dev/job-uid={self.job.id}"
        for resource in (self.workload.kind.resource, SERVICES):
            for raw in (await self.client.list(resource.all(NAMESPACE), labels=labels)).items:
                await self.client.delete(resource.one(raw["metadata"]["name"], NAMESPACE))
        await self.client.delete(TRAINING_JOBS.one(self.job.name, NAMESPACE))
        async with asyncio.timeout(OPERATORS_PATIENCE):
            while True:
                if not await self.raw_pods():
                    return
                await asyncio.sleep(_POLL_SECONDS)

    @property
    def _runs(self) -> str:
        return self.workload.kind.resource.all(NAMESPACE)

    def _decoded(self, raw: RawObject) -> Run:
        decoded = self.workload.kind.decode(raw)
        assert decoded is not None
        job, run = decoded
        assert job == self.job.id
        return run

    async def _pods(self) -> list[Pod]:
        decoded = (decode.pod(raw) for raw in await self.raw_pods())
        return sorted((own.pod for own in decoded if isinstance(own, decode.JobPod)), key=lambda pod: pod.index)
