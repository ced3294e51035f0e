"""A bed with a queue of a real Kueue, and team objects that wait in the queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from charterer.api.metadata import controller_of, true_condition
from charterer.api.names import KUEUE_CHECK
from charterer.cluster.client import RawObject
from charterer.cluster.errors import ApiError, NotFound
from charterer.cluster.paths import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    PODS,
    RESOURCE_FLAVORS,
    TRAINING_JOBS,
    WORKLOADS,
    Resource,
)
from tests.testbed.bed import Bed, dismantle, parts_of_bed
from tests.testbed.controlplane import EXIT_CODE, ControlPlane

API: Final = f"{WORKLOADS.group}/{WORKLOADS.version}"
GPU: Final = "nvidia.com/gpu"
QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
REPLACES: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
QUEUE: Final = "research"
LOCAL_QUEUES = Resource(WORKLOADS.group, WORKLOADS.version, "localqueues", namespaced=True)
PRIORITIES = Resource(WORKLOADS.group, WORKLOADS.version, "workloadpriorityclasses", namespaced=False)
KUEUE: Sequence[Resource] = (WORKLOADS, ADMISSION_CHECKS, CLUSTER_QUEUES)


@dataclass(slots=True)
class KueueBed(Bed):
    """A bed and its queue."""

    made: list[str] = field(default_factory=list)
    """API paths of the queue's cluster-scoped objects."""

    @property
    def cluster_queue(self) -> str:
        """The API path of the ClusterQueue."""
        return CLUSTER_QUEUES.one(self.own(QUEUE))

    def own(self, name: str) -> str:
        """Return a name that is unique to this test, for cluster-scoped objects."""
        return f"{name}-{self.namespace}"

    async def queue(
        self,
        gpus: int = 64,
        *,
        name: str = QUEUE,
        checks: Sequence[str] = (KUEUE_CHECK,),
        tolerates: bool = True,
        **spec: object,
    ) -> None:
        """Create a queue for rented nodes only. ``spec`` has more fields of its ClusterQueue.

        ``tolerates``: the flavor adds a toleration for GPU nodes, so pods can run there without Charterer's toleration.
        """
        quotas = {GPU: gpus, "cpu": 1000, "memory": "10Ti"}
        resources = [{"name": name, "nominalQuota": quota} for name, quota in quotas.items()]
        flavors = [{"name": self.own("rented"), "resources": resources}]
        toleration = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
        if RESOURCE_FLAVORS.one(self.own("rented")) not in self.made:
            flavor: RawObject = {"tolerations": [toleration]} if tolerates else {}
            await self.put(RESOURCE_FLAVORS, "ResourceFlavor", self.own("rented"), flavor)
        queue = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
            "admissionChecksStrategy": {"admissionChecks": [{"name": name} for name in checks]},
            "resourceGroups": [{"coveredResources": list(quotas), "flavors": flavors}],
            **spec,
        }
        await self.put(CLUSTER_QUEUES, "ClusterQueue", self.own(name), queue)
        await self.put(LOCAL_QUEUES, "LocalQueue", name, {"clusterQueue": self.own(name)})

    async def put(self, resource: Resource, kind: str, name: str, spec: RawObject, **more: object) -> None:
        """Create a Kueue object, in the test's namespace if it is namespaced. ``more`` are fields beside its spec."""
        namespace = self.namespace if resource.namespaced else None
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        body = {"apiVersion": API, "kind": kind, "metadata": metadata, **({"spec": spec} if spec else {}), **more}
        await self.kube.post(resource.all(namespace), body, strict=True)
        if namespace is None:
            self.made.append(resource.one(name))

    async def check_of_others(self) -> str:
        """Create an AdmissionCheck that only the test answers. Return its name."""
        name = self.own("other")
        await self.put(ADMISSION_CHECKS, "AdmissionCheck", name, {"controllerName": "example.com/other"})
        await self.kube.merge_patch(ADMISSION_CHECKS.status(name), {"status": {"conditions": [_active()]}})
        return name

    async def answers(self, workload: RawObject, check: str, state: str) -> None:
        """Set a check's state of a Workload, as the check's controller would."""
        entry = {"name": check, "state": state, "message": "so", "lastTransitionTime": stamp()}
        metadata = {"name": workload["metadata"]["name"], "namespace": self.namespace}
        body = {"apiVersion": API, "kind": "Workload", "metadata": metadata, "status": {"admissionChecks": [entry]}}
        await self.kube.apply(WORKLOADS.status(metadata["name"], self.namespace), body, check, may_create=True)

    async def stop_policy(self, policy: str) -> None:
        """Set the ClusterQueue's stopPolicy for waiting and running Workloads: None, Hold or HoldAndDrain."""
        await self.kube.merge_patch(self.cluster_queue, {"spec": {"stopPolicy": policy}})

    async def queued(
        self,
        name: str,
        width: int = 1,
        gpus: int = 4,
        *,
        indexed: bool = True,
        retries: int = 0,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        pod_labels: Mapping[str, str] | None = None,
        pod_annotations: Mapping[str, str] | None = None,
        **pod: object,
    ) -> RawObject:
        """Create a Job in the queue that is not suspended: ``width`` pods of ``gpus`` GPUs.

        ``pod`` has fields of the pod spec.
        """
        limits = {"limits": {GPU: gpus}} if gpus else {}
        container = {"name": "trainer", "image": "train:1", "resources": limits}
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container], **pod}
        metadata = {
            "name": name,
            "namespace": self.namespace,
            "labels": {QUEUE_NAME: QUEUE, **(labels or {})},
            "annotations": dict(annotations or {}),
        }
        job = {
            **({"completionMode": "Indexed"} if indexed else {}),
            "parallelism": width,
            "completions": width,
            "backoffLimit": retries,
            "template": {
                "metadata": {"labels": dict(pod_labels or {}), "annotations": dict(pod_annotations or {})},
                "spec": spec,
            },
        }
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job}
        return await self.kube.post(JOBS.all(self.namespace), body, strict=True)

    def queued_job(self, name: str) -> RawObject:
        """Return the Job, empty if it does not exist."""
        return self.mirror.one(JOBS, name, self.namespace) or {}

    def _uid(self, name: str) -> str:
        return str((self.queued_job(name).get("metadata") or {}).get("uid", ""))

    def workloads(self, name: str) -> list[RawObject]:
        """Return all Workloads of the Job, the oldest first."""
        uid = self._uid(name)
        return sorted([raw for raw in self.mirror.all(WORKLOADS, self.namespace) if owned_by(raw, uid)], key=_created)

    def shadow(self, name: str) -> RawObject:
        """Return the TrainingJob of the Job."""
        uid = self._uid(name)
        return next(raw for raw in self.mirror.all(TRAINING_JOBS, self.namespace) if owned_by(raw, uid))

    def outcomes(self, name: str) -> list[str]:
        """Return the outcomes of the Job's recorded runs, empty before its TrainingJob exists."""
        return [run["outcome"] for run in self.tj(name).get("runs") or ()]

    def check(self, name: str) -> RawObject:
        """Return the state of Charterer's check in the Job's newest Workload, empty before Kueue requests the check."""
        for raw in reversed(self.workloads(name)):
            checks = (raw.get("status") or {}).get("admissionChecks") or ()
            return next((check for check in checks if check["name"] == KUEUE_CHECK), {})
        return {}

    def all_pods(self, name: str) -> list[RawObject]:
        """Return the existing pods that the Job controls."""
        uid = self._uid(name)
        return [pod for pod in self.mirror.all(PODS, self.namespace) if owned_by(pod, uid)]

    def job_pods(self, name: str) -> list[RawObject]:
        """Return the pods that the Job controls and that are not being deleted."""
        return [pod for pod in self.all_pods(name) if "deletionTimestamp" not in pod["metadata"]]

    def pods_run(self, name: str, count: int) -> bool:
        """Return whether the Job has exactly ``count`` pods, and all run."""
        pods = self.job_pods(name)
        return len(pods) == count and all(pod["status"].get("phase") == "Running" for pod in pods)

    def of_run(self, name: str, run: int) -> list[RawObject]:
        """Return the running GPU pods of this run, for an object of any kind."""
        return [
            pod
            for pod in self.pods(name)
            if pod["metadata"]["labels"]["charterer.dev/run"] == str(run)
            and pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ]

    async def trains(self, name: str, pods: int = 1) -> None:
        """Wait until exactly ``pods`` pods of the Job run, and its TrainingJob is Running."""
        await self.until(lambda: self.pods_run(name, pods) and self.state(name) == "Running")

    async def end(self, name: str, exit_code: int = 0) -> None:
        """End the processes of the Job's pods with this exit code."""
        for pod in self.job_pods(name):
            patch = {"metadata": {"annotations": {EXIT_CODE: str(exit_code)}}}
            with suppress(NotFound):
                await self.kube.merge_patch(PODS.one(pod["metadata"]["name"], self.namespace), patch)

    async def ends_well(self, name: str) -> None:
        """End the Job's pods successfully, and wait until the Job and its TrainingJob are complete."""
        await self.end(name)
        await self.until(lambda: holds(self.queued_job(name), "Complete"))
        await self.complete(name)

    async def delete_jobs(self) -> None:
        """Delete the queued Jobs with their pods."""
        for raw in self.mirror.all(JOBS, self.namespace):
            with suppress(NotFound):
                await self.kube.delete(JOBS.one(raw["metadata"]["name"], self.namespace), propagation="Background")


def stamp() -> str:
    """Return the present time in the format of conditions."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _active() -> RawObject:
    return {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": stamp()}


def holds(raw: RawObject, kind: str) -> bool:
    """Return whether the object has a true condition of this type."""
    return true_condition(raw.get("status") or {}, kind) is not None


def owned_by(raw: RawObject, uid: str) -> bool:
    """Return whether the object with this uid controls this one."""
    owner = controller_of(raw)
    return owner is not None and owner.uid == uid


def _created(workload: RawObject) -> tuple[str, bool]:
    """Return a sort key by which a workload slice follows the one that it replaces, even in the same second."""
    return workload["metadata"]["creationTimestamp"], REPLACES in (workload["metadata"].get("annotations") or {})


@asynccontextmanager
async def open_kueue_bed(
    plane: ControlPlane, directory: Path, groups: Sequence[Mapping[str, object]], more: Sequence[Resource] = ()
) -> AsyncIterator[KueueBed]:
    """Open a bed beside a running Kueue, and remove the queue's objects at the end. The mirror also follows ``more``.

    ``plane`` must have Charterer's chart with its AdmissionCheck. The check starts without conditions, because an
    operator of an earlier test may have made it active.
    """
    bed = KueueBed(*await parts_of_bed(plane, directory, groups, [*KUEUE, *more]))
    nobody: RawObject = {"status": {"conditions": []}}
    await bed.kube.merge_patch(ADMISSION_CHECKS.status(KUEUE_CHECK), nobody)
    try:
        yield bed
    finally:
        await bed.delete_jobs()
        for path in reversed(bed.made):
            with suppress(ApiError):
                await bed.kube.delete(path)
        await dismantle(bed)
