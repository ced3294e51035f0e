"""A bed with a queue: Kueue's custom resources, the stand-in, and Jobs that wait in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from charterer.api.names import KUEUE_CHECK
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import AlreadyExists, ApiError, NotFound
from charterer.cluster.paths import JOBS, PODS, TRAINING_JOBS, Resource
from tests.testbed.bed import EXIT_CODE, Bed, dismantle, install_charts, parts_of_bed
from tests.testbed.controlplane import ControlPlane
from tests.testbed.kueue.definitions import (
    ADMISSION_CHECKS,
    API,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    QUEUE_NAME,
    RESOURCE_FLAVORS,
    WORKLOADS,
    holds,
    install,
    probe,
    served,
)
from tests.testbed.kueue.objects import GPU, created, owned_by
from tests.testbed.kueue.stand_in import Kueue

QUEUE = "research"
KUEUE: Sequence[Resource] = (WORKLOADS, ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS)
_READY_SECONDS = 30.0


@dataclass(slots=True)
class KueueBed(Bed):
    """Bed and queue."""

    async def queue(self, gpus: int = 64, *, labels: Mapping[str, str] | None = None) -> None:
        """The queue ``research`` with a check of Charterer's, for rented nodes only."""
        toleration = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
        flavor: RawObject = {"tolerations": [toleration], **({"nodeLabels": dict(labels)} if labels else {})}
        resources = [{"name": GPU, "nominalQuota": gpus}]
        spec = {
            "namespaceSelector": {},
            "admissionChecksStrategy": {"admissionChecks": [{"name": KUEUE_CHECK}]},
            "resourceGroups": [{"coveredResources": [GPU], "flavors": [{"name": "rented", "resources": resources}]}],
        }
        await self._make(RESOURCE_FLAVORS, "ResourceFlavor", "rented", flavor)
        await self._make(CLUSTER_QUEUES, "ClusterQueue", QUEUE, spec)
        await self._make(LOCAL_QUEUES, "LocalQueue", QUEUE, {"clusterQueue": QUEUE})

    async def _make(self, resource: Resource, kind: str, name: str, spec: RawObject) -> None:
        namespace = self.namespace if resource.namespaced else None
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        body = {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}
        with suppress(AlreadyExists):
            await self.kube.post(resource.all(namespace), body, strict=True)

    async def queued(
        self,
        name: str,
        width: int = 1,
        gpus: int = 4,
        *,
        annotations: Mapping[str, str] | None = None,
        pod_labels: Mapping[str, str] | None = None,
        pod_annotations: Mapping[str, str] | None = None,
        **pod: object,
    ) -> RawObject:
        """An Indexed Job in the queue, sent running: ``width`` pods of ``gpus`` GPUs; ``pod``: of the pods' spec."""
        limits = {"limits": {GPU: gpus}}
        container = {"name": "trainer", "image": "train:1", "resources": limits}
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container], **pod}
        metadata = {
            "name": name,
            "namespace": self.namespace,
            "labels": {QUEUE_NAME: QUEUE},
            "annotations": dict(annotations or {}),
        }
        job = {
            "completionMode": "Indexed",
            "parallelism": width,
            "completions": width,
            "backoffLimit": 0,
            "template": {
                "metadata": {"labels": dict(pod_labels or {}), "annotations": dict(pod_annotations or {})},
                "spec": spec,
            },
        }
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job}
        return await self.kube.post(JOBS.all(self.namespace), body, strict=True)

    def queued_job(self, name: str) -> RawObject:
        """The Job as it is; an empty object while it is not there."""
        return self.mirror.one(JOBS, name, self.namespace) or {}

    def _uid(self, name: str) -> str:
        return str((self.queued_job(name).get("metadata") or {}).get("uid", ""))

    def workloads(self, name: str) -> list[RawObject]:
        """All Workloads of the Job, the oldest first."""
        uid = self._uid(name)
        own = [raw for raw in self.mirror.all(WORKLOADS, self.namespace) if owned_by(raw, uid)]
        return sorted(own, key=created)

    def shadow(self, name: str) -> RawObject:
        """The TrainingJob of the Job's newest Workload."""
        uid = self.workloads(name)[-1]["metadata"]["uid"]
        return next(raw for raw in self.mirror.all(TRAINING_JOBS, self.namespace) if owned_by(raw, uid))

    def check(self, name: str) -> RawObject:
        """What Charterer's check says of the Job's newest Workload; empty while it was not asked."""
        for raw in reversed(self.workloads(name)):
            checks = (raw.get("status") or {}).get("admissionChecks") or ()
            return next((check for check in checks if check["name"] == KUEUE_CHECK), {})
        return {}

    def all_pods(self, name: str) -> list[RawObject]:
        """The pods that the Job controls and that are there."""
        uid = self._uid(name)
        return [pod for pod in self.mirror.all(PODS, self.namespace) if owned_by(pod, uid)]

    def job_pods(self, name: str) -> list[RawObject]:
        """Those of them that are not being deleted."""
        return [pod for pod in self.all_pods(name) if "deletionTimestamp" not in pod["metadata"]]

    def pods_run(self, name: str, count: int) -> bool:
        """Whether the Job has just so many pods, and they run."""
        pods = self.job_pods(name)
        return len(pods) == count and all(pod["status"].get("phase") == "Running" for pod in pods)

    async def end(self, name: str, exit_code: int = 0) -> None:
        """The processes of the Job's pods end with this code."""
        for pod in self.job_pods(name):
            patch = {"metadata": {"annotations": {EXIT_CODE: str(exit_code)}}}
            with suppress(NotFound):
                await self.kube.merge_patch(PODS.one(pod["metadata"]["name"], self.namespace), patch)

    async def delete_jobs(self) -> None:
        """Delete the queued Jobs with their pods."""
        for raw in self.mirror.all(JOBS, self.namespace):
            with suppress(NotFound):
                await self.kube.delete(JOBS.one(raw["metadata"]["name"], self.namespace), propagation="Background")


async def install_kueue(plane: ControlPlane) -> None:
    """Kueue's kinds and its hold, and Charterer's chart with its check; may be repeated."""
    async with await Client.connect(plane.kubeconfig) as kube, asyncio.timeout(_READY_SECONDS):
        await install(kube)
        while True:
            if await served(kube) and holds(await kube.post(JOBS.all("default"), probe("default"), dry_run=True)):
                break
            await asyncio.sleep(0.05)
    await asyncio.to_thread(install_charts, plane, "kueue.enabled=true")


@asynccontextmanager
async def open_kueue_bed(
    plane: ControlPlane, directory: Path, groups: Sequence[Mapping[str, object]], more: Sequence[Resource] = ()
) -> AsyncIterator[KueueBed]:
    """A bed in which the stand-in runs; the queue's objects are removed at the end. Its mirror follows ``more``, too.

    ``plane``: after ``install_kueue``. The check is nobody's at first: an operator of an earlier test, with a bed of
    any kind, may have made it active.
    """
    bed = KueueBed(*await parts_of_bed(plane, directory, groups, [*KUEUE, *more]))
    nobody: RawObject = {"status": {"conditions": []}}
    await bed.kube.merge_patch(ADMISSION_CHECKS.status(KUEUE_CHECK), nobody)
    loop = asyncio.create_task(Kueue(bed.kube, bed.mirror).run(), name="kueue")
    try:
        yield bed
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        await bed.delete_jobs()
        for resource in (WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES, RESOURCE_FLAVORS):
            for raw in (await bed.kube.list(resource.all())).items:
                with suppress(ApiError):
                    await bed.kube.delete(resource.one(raw["metadata"]["name"], raw["metadata"].get("namespace")))
        await dismantle(bed)
