"""A stand-in for KubeRay, which cannot be built here: RayJobs, their RayClusters, and pods of a head and of workers.

Its CRDs have the names of KubeRay 1.7's fields, as far as Charterer or a test uses them, and the API server refuses or
drops others. What it does at each moment is what KubeRay 1.7 was seen to do:

- A RayJob that is suspended must have ``shutdownAfterJobFinishes``, and no ``clusterSelector``: else ValidationFailed.
- Started, it makes a RayCluster of ``rayClusterSpec`` as it is then. Changes of that field while the RayCluster is
  there are accepted and ignored; changes of the RayCluster itself are followed: its template holds for new pods only.
- Suspended, its RayCluster is deleted, and it says so while the pods still run. It begins again with a new one.
- Fewer ``replicas`` than workers: those of ``scaleStrategy.workersToDelete`` end, then any.
- A lost worker is replaced, and the others run on.
- Past its ``activeDeadlineSeconds`` it is Failed, and its RayCluster is deleted (read in KubeRay 1.7, not seen).

There is no Ray: the annotation ``testbed.charterer.dev/exit-code`` of a RayJob says how its entrypoint ended. Nor is
there a submitter: its pod needs no GPU and decides nothing.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import AlreadyExists, ApiError, NotFound, TooManyRequests
from charterer.cluster.paths import CUSTOM_RESOURCE_DEFINITIONS, PODS, Resource
from tests.testbed.controlplane import NODE_ANNOTATION

log = logging.getLogger(__name__)

RAY_JOBS = Resource("ray.io", "v1", "rayjobs", namespaced=True)
RAY_CLUSTERS = Resource("ray.io", "v1", "rayclusters", namespaced=True)
EXIT_CODE = "testbed.charterer.dev/exit-code"
_POLL_SECONDS = 0.1
_CLUSTER, _TYPE, _GROUP = "ray.io/cluster", "ray.io/node-type", "ray.io/group"
_ANY: Mapping[str, object] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_STRINGS: Mapping[str, object] = {"type": "object", "additionalProperties": {"type": "string"}}
_TEXT: Mapping[str, object] = {"type": "string"}
_NUMBER: Mapping[str, object] = {"type": "integer", "format": "int32"}
_FLAG: Mapping[str, object] = {"type": "boolean"}


def _object(**properties: object) -> Mapping[str, object]:
    return {"type": "object", "properties": properties}


_WORKER_GROUP = {
    **_object(
        groupName=_TEXT,
        replicas={**_NUMBER, "default": 0},
        minReplicas={**_NUMBER, "default": 0},
        maxReplicas={**_NUMBER, "default": 2147483647},
        numOfHosts={**_NUMBER, "default": 1},
        rayStartParams=_STRINGS,
        scaleStrategy=_object(workersToDelete={"type": "array", "items": _TEXT}),
        suspend=_FLAG,
        template=_ANY,
    ),
    "required": ["groupName", "maxReplicas", "minReplicas", "template"],
}
_CLUSTER_SPEC = {
    **_object(
        rayVersion=_TEXT,
        enableInTreeAutoscaling=_FLAG,
        headGroupSpec={**_object(rayStartParams=_STRINGS, serviceType=_TEXT, template=_ANY), "required": ["template"]},
        workerGroupSpecs={"type": "array", "items": _WORKER_GROUP},
    ),
    "required": ["headGroupSpec"],
}
_JOB_SPEC = _object(
    suspend=_FLAG,
    shutdownAfterJobFinishes=_FLAG,
    entrypoint=_TEXT,
    backoffLimit={**_NUMBER, "default": 0},
    activeDeadlineSeconds=_NUMBER,
    ttlSecondsAfterFinished={**_NUMBER, "default": 0},
    clusterSelector=_STRINGS,
    managedBy=_TEXT,
    submissionMode={**_TEXT, "default": "K8sJobMode"},
    rayClusterSpec=_CLUSTER_SPEC,
)
_TIME: Mapping[str, object] = {"type": "string", "format": "date-time"}
_JOB_STATUS = _object(
    jobDeploymentStatus=_TEXT,
    jobStatus=_TEXT,
    rayClusterName=_TEXT,
    reason=_TEXT,
    message=_TEXT,
    startTime=_TIME,
    endTime=_TIME,
)


def _definition(kind: str, resource: Resource, spec: Mapping[str, object], status: Mapping[str, object]) -> RawObject:
    names = {"kind": kind, "listKind": f"{kind}List", "plural": resource.plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": names,
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": _object(spec=spec, status=status)},
                }
            ],
        },
    }


DEFINITIONS: Sequence[RawObject] = (
    _definition("RayJob", RAY_JOBS, _JOB_SPEC, _JOB_STATUS),
    _definition("RayCluster", RAY_CLUSTERS, _CLUSTER_SPEC, _object(state=_TEXT)),
)


def node_for_heads() -> RawObject:
    """A node without GPUs, where the heads of RayClusters run."""
    size = {"cpu": "64", "memory": "1Ti", "pods": "110"}
    metadata = {
        "name": "heads",
        "labels": {"kubernetes.io/hostname": "heads"},
        "annotations": {NODE_ANNOTATION: "fake"},
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": size, "allocatable": size}}


async def install(client: Client) -> None:
    """Create the CRDs where they are not there yet, and wait until the API server serves them."""
    for definition in DEFINITIONS:
        with suppress(AlreadyExists):
            await client.post(CUSTOM_RESOURCE_DEFINITIONS.all(), definition)
    async with asyncio.timeout(30):
        while True:
            try:
                for resource in (RAY_JOBS, RAY_CLUSTERS):
                    await client.get(resource.all())
            except (NotFound, TooManyRequests):  # 429 while its storage begins
                await asyncio.sleep(_POLL_SECONDS)
            else:
                return


class RayStandIn:
    """Acts on the RayJobs and RayClusters of one namespace while it runs."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    @classmethod
    @asynccontextmanager
    async def acting(cls, client: Client, namespace: str) -> AsyncIterator[RayStandIn]:
        """It acts until the end of the block. The CRDs are there, also after it."""
        await install(client)
        stand_in = cls(client, namespace)
        task = asyncio.create_task(stand_in._run())
        try:
            yield stand_in
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            try:
                await self._turn()
            except ApiError as error:  # what it saw has changed: the next turn looks again
                log.info("RayJobs: %s", error)
            await asyncio.sleep(_POLL_SECONDS)

    async def _turn(self) -> None:
        jobs = (await self._client.list(RAY_JOBS.all(self._namespace))).items
        for job in jobs:
            await self._act_on_job(job)
        clusters = (await self._client.list(RAY_CLUSTERS.all(self._namespace))).items
        for cluster in clusters:  # the garbage collector learns of a new kind half a minute late
            if _owner(cluster) not in [job["metadata"]["uid"] for job in jobs]:
                await self._delete_cluster({"rayClusterName": cluster["metadata"]["name"]})
        pods = (await self._client.list(PODS.all(self._namespace), labels=_CLUSTER)).items
        for cluster in clusters:
            await self._act_on_cluster(cluster, [pod for pod in pods if _owner(pod) == cluster["metadata"]["uid"]])
        owners = {cluster["metadata"]["uid"] for cluster in clusters}
        await self._end([pod for pod in pods if _owner(pod) not in owners])

    async def _act_on_job(self, job: RawObject) -> None:
        spec, status = job["spec"], job.get("status") or {}
        now = status.get("jobDeploymentStatus", "")
        if "deletionTimestamp" in job["metadata"] or now in ("Complete", "Failed", "ValidationFailed"):
            return
        if message := _invalid(spec):
            await self._says(job, jobDeploymentStatus="ValidationFailed", reason="ValidationFailed", message=message)
        elif spec.get("suspend") and now not in ("", "Suspended"):
            await self._delete_cluster(status)
            await self._says(job, jobDeploymentStatus="Suspended", jobStatus="", rayClusterName="")
        elif spec.get("suspend"):
            for name in await self._clusters_of(job):  # made for what it was before somebody suspended it
                await self._delete_cluster({"rayClusterName": name})
            if now == "":
                await self._says(job, jobDeploymentStatus="Suspended")
        elif now in ("", "Suspended"):
            name = await self._make_cluster(job)
            await self._says(job, jobDeploymentStatus="Initializing", rayClusterName=name, startTime=_now())
        elif (code := job["metadata"].get("annotations", {}).get(EXIT_CODE)) is not None:
            await self._delete_cluster(status)
            done = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}
            failed = {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "AppFailed"}
            said = done if code == "0" else {**failed, "message": f"exit code {code}"}
            await self._says(job, **said, endTime=_now())
        elif _overdue(spec, status):
            await self._delete_cluster(status)
            failed = {"jobDeploymentStatus": "Failed", "reason": "DeadlineExceeded"}
            await self._says(job, **failed, message="activeDeadlineSeconds have passed", endTime=_now())
        elif now == "Initializing":
            cluster = await self._client.get(RAY_CLUSTERS.one(status["rayClusterName"], self._namespace))
            if (cluster.get("status") or {}).get("state") == "ready":
                await self._says(job, jobDeploymentStatus="Running", jobStatus="RUNNING")

    async def _says(self, job: RawObject, **status: str) -> None:
        await self._client.merge_patch(
            RAY_JOBS.status(job["metadata"]["name"], self._namespace),
            {"metadata": {"resourceVersion": job["metadata"]["resourceVersion"]}, "status": status},
        )

    async def _make_cluster(self, job: RawObject) -> str:
        """The name of the RayJob's RayCluster, which has its spec as it is now."""
        if owned := await self._clusters_of(job):
            return owned[0]
        name = f"{job['metadata']['name']}-{secrets.token_hex(3)}"
        body = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": name, "ownerReferences": [_reference(job)]},
            "spec": job["spec"]["rayClusterSpec"],
        }
        await self._client.post(RAY_CLUSTERS.all(self._namespace), body)
        return name

    async def _clusters_of(self, job: RawObject) -> list[str]:
        """The names of the RayJob's RayClusters that nobody has deleted."""
        return [
            str(each["metadata"]["name"])
            for each in (await self._client.list(RAY_CLUSTERS.all(self._namespace))).items
            if _owner(each) == job["metadata"]["uid"] and "deletionTimestamp" not in each["metadata"]
        ]

    async def _delete_cluster(self, status: Mapping[str, Any]) -> None:
        with suppress(NotFound):
            await self._client.delete(RAY_CLUSTERS.one(status.get("rayClusterName") or "none", self._namespace))

    async def _act_on_cluster(self, cluster: RawObject, pods: Sequence[RawObject]) -> None:
        if "deletionTimestamp" in cluster["metadata"]:
            return
        alive = [pod for pod in pods if _alive(pod)]
        await self._end([pod for pod in pods if not _alive(pod)])
        heads = [pod for pod in alive if pod["metadata"]["labels"][_TYPE] == "head"]
        if not heads:
            await self._make_pod(cluster, "head", "headgroup", cluster["spec"]["headGroupSpec"]["template"])
        wanted = 1
        for group in cluster["spec"].get("workerGroupSpecs") or ():
            replicas = group["replicas"]
            wanted += replicas
            workers = [pod for pod in alive if pod["metadata"]["labels"][_GROUP] == group["groupName"]]
            named = (group.get("scaleStrategy") or {}).get("workersToDelete") or ()
            ends = [pod for pod in workers if pod["metadata"]["name"] in named]
            stay = [pod for pod in workers if pod not in ends]
            await self._end([*ends, *stay[replicas:]])
            for _ in range(replicas - len(stay)):
                await self._make_pod(cluster, "worker", group["groupName"], group["template"])
        running = sum(pod["status"].get("phase") == "Running" for pod in alive)
        if running == len(alive) == wanted and (cluster.get("status") or {}).get("state") != "ready":
            path = RAY_CLUSTERS.status(cluster["metadata"]["name"], self._namespace)
            await self._client.merge_patch(path, {"status": {"state": "ready"}})

    async def _make_pod(self, cluster: RawObject, kind: str, group: str, template: Mapping[str, Any]) -> None:
        metadata = template.get("metadata") or {}
        name = cluster["metadata"]["name"]
        labels = {**(metadata.get("labels") or {}), _CLUSTER: name, _TYPE: kind, _GROUP: group}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{group}-{kind}-{secrets.token_hex(3)}",
                "labels": labels,
                "annotations": metadata.get("annotations") or {},
                "ownerReferences": [_reference(cluster)],
            },
            "spec": template["spec"],
        }
        await self._client.post(PODS.all(self._namespace), body)

    async def _end(self, pods: Sequence[RawObject]) -> None:
        for pod in pods:
            if "deletionTimestamp" not in pod["metadata"]:
                with suppress(NotFound):
                    await self._client.delete(PODS.one(pod["metadata"]["name"], self._namespace))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _overdue(spec: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether the RayJob has had its time, since it began or began again."""
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is None:
        return False
    began = datetime.fromisoformat(status["startTime"])
    return (datetime.now(UTC) - began).total_seconds() >= float(deadline)


def _invalid(spec: Mapping[str, Any]) -> str:
    """Why KubeRay would not act on a RayJob; empty where it does."""
    if spec.get("suspend") and not spec.get("shutdownAfterJobFinishes"):
        return "a RayJob with shutdownAfterJobFinishes set to false is not allowed to be suspended"
    if spec.get("suspend") and spec.get("clusterSelector"):
        return "the ClusterSelector mode doesn't support the suspend operation"
    return ""


def _alive(pod: RawObject) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") in ("Pending", "Running")


def _owner(raw: RawObject) -> str:
    owners = raw["metadata"].get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")


def _reference(raw: RawObject) -> RawObject:
    return {
        "apiVersion": raw["apiVersion"],
        "kind": raw["kind"],
        "name": raw["metadata"]["name"],
        "uid": raw["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
