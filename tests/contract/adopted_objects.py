"""Objects as teams write them, and their pods in a cluster: JobSets, TrainJobs and RayJobs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError, NotFound
from charterer.cluster.paths import PODS, Resource
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.controlplane import EXIT_CODE

T = TypeVar("T")

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", namespaced=True)
TRAIN_JOBS = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", namespaced=True)
TRAINING_RUNTIMES = Resource("trainer.kubeflow.org", "v1alpha1", "trainingruntimes", namespaced=True)
NAMESPACE = "default"
RUNTIME = "torch"
STOP_SECONDS = 1
"""So long does a pod of these objects take to stop."""
_POLL_SECONDS = 0.05
_GPU = "nvidia.com/gpu"


def pod_template(gpus: int = 2, **spec: object) -> RawObject:
    """A pod template of a trainer with so many GPUs."""
    return {
        "metadata": {
            "annotations": {"testbed.charterer.dev/stop-delay": f"{STOP_SECONDS}s", "team.example/owner": "ml"},
            "labels": {"team.example/app": "llm"},
        },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "containers": [
                {
                    "name": "node",
                    "image": "example.com/train:1",
                    "command": ["torchrun", "train.py"],
                    **({"resources": {"limits": {_GPU: str(gpus)}}} if gpus else {}),
                }
            ],
            **spec,
        },
    }


def replicated_job(name: str, width: int, gpus: int = 2, **template: object) -> RawObject:
    """One group of a JobSet: one Job of so many pods."""
    job = {
        "completionMode": "Indexed",
        "parallelism": width,
        "completions": width,
        "backoffLimit": 0,
        "template": pod_template(gpus),
    }
    return {"name": name, "replicas": 1, "template": {"spec": {**job, **template}}}


def job_set(name: str, width: int = 2, *, jobs: Sequence[RawObject] = (), **spec: object) -> RawObject:
    """A suspended JobSet of one group with GPUs."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"suspend": True, "replicatedJobs": list(jobs) or [replicated_job("node", width)], **spec},
    }


def training_runtime(name: str = RUNTIME, backoff_limit: int = 0) -> RawObject:
    """A runtime that runs torch on every node of a TrainJob."""
    template = pod_template(0)
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    job = {
        "name": "node",
        "template": {"metadata": {"labels": labels}, "spec": {"backoffLimit": backoff_limit, "template": template}},
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [job]}}},
    }


def train_job(name: str, width: int = 2, runtime: str = RUNTIME, **spec: object) -> RawObject:
    """A suspended TrainJob of nodes with two GPUs."""
    trainer = {"numNodes": width, "resourcesPerNode": {"limits": {_GPU: "2"}}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "suspend": True,
            "runtimeRef": {"kind": "TrainingRuntime", "name": runtime},
            "trainer": trainer,
            **spec,
        },
    }


def ray_job(name: str, width: int = 2, *, gpus: int = 2, **spec: object) -> RawObject:
    """A suspended RayJob of workers with so many GPUs each; its head has none."""
    worker = {
        "groupName": "gpu",
        "replicas": width,
        "minReplicas": 0,
        "maxReplicas": 8,
        "rayStartParams": {},
        "template": pod_template(gpus),
    }
    cluster = {
        "rayVersion": "2.50.0",
        "headGroupSpec": {"rayStartParams": {}, "template": pod_template(0)},
        "workerGroupSpecs": [worker],
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "suspend": True,
            "shutdownAfterJobFinishes": True,
            "entrypoint": "python train.py",
            "rayClusterSpec": cluster,
            **spec,
        },
    }


def condition(raw: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """The condition of that type where it is True; empty otherwise."""
    conditions = (raw.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind and each["status"] == "True"), {})


@dataclass(frozen=True, slots=True)
class AdoptedWorld:
    """One object of a team in a cluster, and its pods."""

    client: Client
    resource: Resource
    name: str
    pod_labels: str
    """The selector of its pods."""

    @property
    def path(self) -> str:
        """Where it is."""
        return self.resource.one(self.name, NAMESPACE)

    async def get(self) -> RawObject:
        """The object as it is."""
        return await self.client.get(self.path)

    async def json_patch(self, *operations: Mapping[str, Any]) -> RawObject:
        """Change it."""
        return await self.client.json_patch(self.path, operations)

    async def suspend(self, suspend: bool = True) -> RawObject:
        """Write its ``suspend``."""
        return await self.json_patch({"op": "replace", "path": "/spec/suspend", "value": suspend})

    async def pods(self) -> list[RawObject]:
        """Its pods, also those that are ending, by name."""
        found = await self.client.list(PODS.all(NAMESPACE), labels=self.pod_labels)
        return sorted(found.items, key=lambda pod: str(pod["metadata"]["name"]))

    async def running(self, width: int) -> list[RawObject]:
        """Its pods, once exactly so many of them run and none is ending."""

        async def look() -> list[RawObject]:
            pods = [pod for pod in await self.pods() if "deletionTimestamp" not in pod["metadata"]]
            phases = [pod["status"].get("phase") for pod in pods]
            return pods if phases == ["Running"] * width else []

        return await self.until(look)

    async def counted_active(self) -> None:
        """Once the JobSet of its name counts each of its groups as active."""

        async def look() -> bool:
            raw = await self.client.get(JOB_SETS.one(self.name, NAMESPACE))
            groups = (raw.get("status") or {}).get("replicatedJobsStatus") or []
            return bool(groups) and all(group["active"] for group in groups)

        await self.until(look)

    async def without_pods(self) -> None:
        """Once it has no pod at all."""

        async def look() -> bool:
            return not await self.pods()

        await self.until(look)

    async def says(self, kind: str) -> RawObject:
        """The object, once its condition of that type is True."""

        async def look() -> RawObject:
            raw = await self.get()
            return raw if condition(raw, kind) else {}

        return await self.until(look)

    async def exit(self, code: int, pods: Sequence[RawObject]) -> None:
        """The training processes of these pods end with this code."""
        for pod in pods:
            change = {"metadata": {"annotations": {EXIT_CODE: str(code)}}}
            await self.client.merge_patch(PODS.one(pod["metadata"]["name"], NAMESPACE), change)

    async def evict(self, pod: RawObject) -> None:
        """Evict a pod, as a drain of its node does."""
        name = pod["metadata"]["name"]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}
        await self.client.post(f"{PODS.one(name, NAMESPACE)}/eviction", body)

    async def until(self, look: Callable[[], Awaitable[T]]) -> T:
        """What ``look`` returns, once that is true."""
        async with asyncio.timeout(OPERATORS_PATIENCE):
            while True:
                if seen := await look():
                    return seen
                await asyncio.sleep(_POLL_SECONDS)

    async def accepted(self, *operations: Mapping[str, Any]) -> RawObject:
        """The object, once the change is accepted: what refuses it for now is asked again."""

        async def look() -> RawObject:
            try:
                return await self.json_patch(*operations)
            except ApiError:
                return {}

        return await self.until(look)

    async def dismantle(self) -> None:
        """Delete it, and wait until its pods are gone too."""
        try:
            await self.client.delete(self.path)
        except NotFound:
            return
        await self.without_pods()
