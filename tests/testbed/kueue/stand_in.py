"""A stand-in for Kueue 0.19.2 on a real API server: what that one did with plain Jobs and an AdmissionCheck, no more.

It keeps what was seen of the real one: a queued Job is stored suspended (``definitions``), gets a Workload, waits until
its queue is active, reserves quota, asks the queue's checks, and is started with their ``podSetUpdates`` merged in. A
merge that would change a key ends the job for good. ``Retry`` evicts at once, or after its delay, and the checks are
asked again before the old pods are gone. ``Rejected`` deactivates. An elastic Job that grows gets another Workload (a
slice) and gated pods. Nothing is done for priorities, cohorts, preemption, or several flavors.
"""

from __future__ import annotations

import asyncio
import copy
import time
from contextlib import suppress
from typing import Any, Final

from charterer.api.metadata import controller_of
from charterer.api.names import COMPLETION_INDEX
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError, NotFound
from charterer.cluster.paths import JOBS, PODS
from tests.testbed.kueue.definitions import (
    ADMISSION_CHECKS,
    API,
    CLUSTER_QUEUES,
    ELASTIC,
    LOCAL_QUEUES,
    QUEUE_NAME,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from tests.testbed.kueue.objects import (
    GPU,
    REPLACES,
    Conflicting,
    annotations_of,
    created,
    holds,
    merge_update,
    owned_by,
    path_of,
    pod_set,
    reason_of,
    reset_checks,
    retry_at,
    stamp,
    template_gpus,
    width_of,
    workload_gpus,
)
from tests.testbed.mirror import Mirror

_LOOK_SECONDS: Final = 0.05
_FINISHED: Final = ("Complete", "Failed")


class Kueue:
    """One loop over what the mirror shows; each write holds only against the version that it was decided on."""

    def __init__(self, kube: Client, mirror: Mirror) -> None:
        """``mirror`` follows the kinds of ``definitions``."""
        self._kube = kube
        self._mirror = mirror
        self._to_restore: set[str] = set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            for queue in self._mirror.all(CLUSTER_QUEUES):
                await self._try(self._queue(queue), queue)
            for job in self._mirror.all(JOBS):
                if QUEUE_NAME in (job["metadata"].get("labels") or {}) and controller_of(job) is None:
                    await self._try(self._job(job), job)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _try(self, turn: Any, about: RawObject) -> None:
        with suppress(ApiError):  # a conflict, or what the API refuses for now: looked at again
            await turn

    # --- queues -----------------------------------------------------------------------------------------------------

    async def _queue(self, queue: RawObject) -> None:
        active = all(self._check_active(name) for name in self._checks(queue))
        if (queue.get("status") or {}).get("conditions") and holds(queue, "Active") == active:
            return
        reason, word = ("Ready", "True") if active else ("AdmissionCheckInactive", "False")
        message = "Can admit new workloads" if active else "Can't admit new workloads: references inactive checks"
        await self._conditions(CLUSTER_QUEUES, queue, ("Active", word, reason, message))

    def _checks(self, queue: RawObject) -> list[str]:
        strategy = queue["spec"].get("admissionChecksStrategy") or {}
        return [check["name"] for check in strategy.get("admissionChecks") or ()]

    def _check_active(self, name: str) -> bool:
        check = self._mirror.one(ADMISSION_CHECKS, name)
        return check is not None and holds(check, "Active")

    def _cluster_queue(self, workload: RawObject) -> RawObject | None:
        namespace = workload["metadata"]["namespace"]
        local = self._mirror.one(LOCAL_QUEUES, workload["spec"].get("queueName", ""), namespace)
        return None if local is None else self._mirror.one(CLUSTER_QUEUES, local["spec"]["clusterQueue"])

    # --- a job and its Workloads ------------------------------------------------------------------------------------

    def _workloads(self, job: RawObject) -> list[RawObject]:
        """The job's Workloads that are not finished, the newest last."""
        own = [
            raw
            for raw in self._mirror.all(WORKLOADS, job["metadata"]["namespace"])
            if owned_by(raw, job["metadata"]["uid"]) and not holds(raw, "Finished")
        ]
        return sorted(own, key=created)

    async def _job(self, job: RawObject) -> None:
        workloads = self._workloads(job)
        ended = next((kind for kind in _FINISHED if holds(job, kind)), None)
        if ended is not None:
            for workload in workloads:
                reason = "Succeeded" if ended == "Complete" else "Failed"
                await self._finish(workload, reason, "Job finished")
            return
        if any(
            holds(raw, "Finished") and reason_of(raw, "Finished") == "FailedToStart"
            for raw in self._mirror.all(WORKLOADS, job["metadata"]["namespace"])
            if owned_by(raw, job["metadata"]["uid"])
        ):
            return
        if not workloads:
            return await self._create(job)
        newest = workloads[-1]
        if len(workloads) > 1 and holds(newest, "QuotaReserved"):
            for old in workloads[:-1]:
                await self._finish(old, "WorkloadSliceReplaced", "Replaced to accommodate a workload slice")
            return
        if await self._checked(newest, job):
            return
        if holds(newest, "QuotaReserved"):
            return await (self._admitted(job, newest) if holds(newest, "Admitted") else self._waiting(job, newest))
        await self._waiting(job, newest)
        if self._follows(job, newest) and job["metadata"]["uid"] not in self._to_restore:
            await self._reserve(newest)

    def _elastic(self, job: RawObject) -> bool:
        return annotations_of(job).get(ELASTIC) == "true"

    async def _create(self, job: RawObject, replaces: RawObject | None = None) -> None:
        metadata = job["metadata"]
        name = f"job-{metadata['name']}-{metadata['uid'][:5]}"
        annotations = {}
        if self._elastic(job):
            name = f"{name}-{metadata['generation']}"
            annotations[ELASTIC] = "true"
        if replaces is not None:
            annotations[REPLACES] = f"{metadata['namespace']}/{replaces['metadata']['name']}"
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        template = pod_set(job) if replaces is None else replaces["spec"]["podSets"][0] | {"count": width_of(job)}
        body = {
            "apiVersion": API,
            "kind": "Workload",
            "metadata": {
                "name": name,
                "namespace": metadata["namespace"],
                "annotations": annotations,
                "ownerReferences": [owner],
            },
            "spec": {"queueName": metadata["labels"][QUEUE_NAME], "podSets": [template], "active": True},
        }
        await self._kube.post(WORKLOADS.all(metadata["namespace"]), body, strict=True)

    def _follows(self, job: RawObject, workload: RawObject) -> bool:
        """Whether the Workload asks for what the Job does; a started one differs in what was merged in."""
        asked = workload["spec"]["podSets"][0]
        if asked["count"] != width_of(job):
            return False
        started = holds(workload, "Admitted") or not job["spec"].get("suspend")
        return started or asked["template"] == pod_set(job)["template"]

    async def _waiting(self, job: RawObject, workload: RawObject) -> None:
        """Not admitted: the job stays suspended, and its Workload follows it."""
        uid = job["metadata"]["uid"]
        slice_of_running = REPLACES in annotations_of(workload) and not holds(workload, "Evicted")
        if not job["spec"].get("suspend"):
            if slice_of_running:
                if workload["spec"]["podSets"][0]["count"] != width_of(job):
                    await self._ask_for(workload, workload["spec"]["podSets"][0] | {"count": width_of(job)})
                return
            self._to_restore.add(uid)
            return await self._patch(JOBS, job, {"spec": {"suspend": True}})
        if uid in self._to_restore:
            if not holds(job, "Suspended"):
                return
            await self._restore(job, workload)
            self._to_restore.discard(uid)
            return
        if not self._follows(job, workload):
            await self._ask_for(workload, pod_set(job))

    async def _ask_for(self, workload: RawObject, asked: RawObject) -> None:
        """The same Workload with other podSets; its quota is taken anew and its checks are asked again."""
        if holds(workload, "QuotaReserved"):
            reset = [("QuotaReserved", "False", "Pending", "The job has changed")]
            checks = reset_checks(workload)
            await self._conditions(WORKLOADS, workload, *reset, admission=None, admissionChecks=checks)
            return
        await self._patch(WORKLOADS, workload, {"spec": {"podSets": [asked]}})

    async def _restore(self, job: RawObject, workload: RawObject) -> None:
        author = workload["spec"]["podSets"][0]["template"]
        operations = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": job["metadata"]["resourceVersion"]},
            {"op": "replace", "path": "/spec/template", "value": author},
        ]
        await self._kube.json_patch(path_of(JOBS, job), operations)

    # --- quota and checks -------------------------------------------------------------------------------------------

    async def _reserve(self, workload: RawObject) -> None:
        queue = self._cluster_queue(workload)
        if queue is None or not holds(queue, "Active") or not workload["spec"].get("active", True):
            return
        flavor = queue["spec"]["resourceGroups"][0]["flavors"][0]
        quota = next(int(item["nominalQuota"]) for item in flavor["resources"] if item["name"] == GPU)
        replaced = annotations_of(workload).get(REPLACES, "").rpartition("/")[2]
        used = sum(
            workload_gpus(raw)
            for raw in self._mirror.all(WORKLOADS)
            if holds(raw, "QuotaReserved") and not holds(raw, "Finished") and raw["metadata"]["name"] != replaced
        )
        if used + workload_gpus(workload) > quota:
            return
        assignments = [
            {
                "name": asked["name"],
                "count": asked["count"],
                "flavors": {GPU: flavor["name"]},
                "resourceUsage": {GPU: str(template_gpus(asked["template"]) * asked["count"])},
            }
            for asked in workload["spec"]["podSets"]
        ]
        known = {check["name"]: check for check in (workload.get("status") or {}).get("admissionChecks") or ()}
        fresh = {"state": "Pending", "message": "", "lastTransitionTime": stamp()}
        checks = [known.get(name) or {"name": name, **fresh} for name in self._checks(queue)]
        await self._conditions(
            WORKLOADS,
            workload,
            ("QuotaReserved", "True", "QuotaReserved", f"Quota reserved in ClusterQueue {queue['metadata']['name']}"),
            ("Evicted", "False", "QuotaReserved", "Quota is reserved"),
            admission={"clusterQueue": queue["metadata"]["name"], "podSetAssignments": assignments},
            admissionChecks=checks,
        )

    async def _checked(self, workload: RawObject, job: RawObject) -> bool:
        """Whether what the checks say, or somebody who deactivated it, changed the Workload."""
        states = {check["state"] for check in (workload.get("status") or {}).get("admissionChecks") or ()}
        reserved = holds(workload, "QuotaReserved")
        if "Rejected" in states and workload["spec"].get("active", True):
            await self._patch(WORKLOADS, workload, {"spec": {"active": False}})
            return True
        if not workload["spec"].get("active", True):
            if reserved:
                await self._evict(workload, "Deactivated", "The workload is deactivated")
            return reserved
        if "Retry" in states:
            if time.time() < retry_at(workload):
                return False
            await self._evict(workload, "AdmissionCheck", "At least one admission check is false")
            return True
        if reserved and not holds(workload, "Admitted") and states <= {"Ready"}:
            await self._conditions(WORKLOADS, workload, ("Admitted", "True", "Admitted", "The workload is admitted"))
            return True
        if reserved and holds(workload, "Admitted") and not states <= {"Ready"}:
            word = ("Admitted", "False", "UnsatisfiedChecks", "The workload has not all checks ready")
            await self._conditions(WORKLOADS, workload, word)
            return True
        return False

    async def _evict(self, workload: RawObject, reason: str, message: str) -> None:
        await self._conditions(
            WORKLOADS,
            workload,
            ("Evicted", "True", reason, message),
            ("QuotaReserved", "False", "Pending", message),
            ("Admitted", "False", "NoReservation", "The workload has no reservation"),
            admission=None,
            admissionChecks=reset_checks(workload),
        )

    async def _finish(self, workload: RawObject, reason: str, message: str) -> None:
        await self._conditions(WORKLOADS, workload, ("Finished", "True", reason, message))

    # --- a job that may run -----------------------------------------------------------------------------------------

    async def _admitted(self, job: RawObject, workload: RawObject) -> None:
        uid, asked = job["metadata"]["uid"], workload["spec"]["podSets"][0]
        if job["spec"].get("suspend"):
            if uid in self._to_restore:
                return await self._waiting(job, workload)
            if width_of(job) != asked["count"]:
                await self._kube.delete(path_of(WORKLOADS, workload))
                return
            return await self._start(job, workload)
        if self._elastic(job):
            await self._ungate(job, asked["count"])
            if width_of(job) < asked["count"]:
                await self._patch(WORKLOADS, workload, {"spec": {"podSets": [asked | {"count": width_of(job)}]}})
            elif width_of(job) > asked["count"]:
                await self._create(job, workload)
        elif width_of(job) != asked["count"]:
            self._to_restore.add(uid)
            await self._patch(JOBS, job, {"spec": {"suspend": True}})

    async def _start(self, job: RawObject, workload: RawObject) -> None:
        template = copy.deepcopy(job["spec"]["template"])
        metadata, spec = template.setdefault("metadata", {}), template["spec"]
        flavors = {name for a in workload["status"]["admission"]["podSetAssignments"] for name in a["flavors"].values()}
        found = [self._mirror.one(RESOURCE_FLAVORS, name) for name in flavors]
        specs = [flavor["spec"] for flavor in found if flavor is not None]
        updates = [
            update
            for check in workload["status"]["admissionChecks"]
            for update in check.get("podSetUpdates") or ()
            if update["name"] == "main"
        ]
        try:
            for update in [{"nodeSelector": s.get("nodeLabels"), "tolerations": s.get("tolerations")} for s in specs]:
                merge_update(metadata, spec, update)
            for update in updates:
                merge_update(metadata, spec, update)
        except Conflicting as conflict:
            return await self._finish(workload, "FailedToStart", str(conflict))
        operations = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": job["metadata"]["resourceVersion"]},
            {"op": "replace", "path": "/spec/template", "value": template},
            {"op": "replace", "path": "/spec/suspend", "value": False},
        ]
        await self._kube.json_patch(path_of(JOBS, job), operations)

    async def _ungate(self, job: RawObject, count: int) -> None:
        """Let the first so many pods be scheduled."""
        for pod in self._mirror.all(PODS, job["metadata"]["namespace"]):
            admitted = int(annotations_of(pod).get(COMPLETION_INDEX, 0)) < count
            if admitted and owned_by(pod, job["metadata"]["uid"]) and pod["spec"].get("schedulingGates"):
                with suppress(NotFound):
                    await self._patch(PODS, pod, {"spec": {"schedulingGates": None}})

    # --- writing ----------------------------------------------------------------------------------------------------

    async def _patch(self, resource: Any, raw: RawObject, patch: RawObject) -> None:
        version = {"metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]}}
        await self._kube.merge_patch(path_of(resource, raw), {**patch, **version})

    async def _conditions(
        self, resource: Any, raw: RawObject, *said: tuple[str, str, str, str], **status: object
    ) -> None:
        conditions = {item["type"]: item for item in (raw.get("status") or {}).get("conditions") or ()}
        for kind, word, reason, message in said:
            known = conditions.get(kind) or {}
            since = known["lastTransitionTime"] if known.get("status") == word else stamp()
            conditions[kind] = {
                "type": kind,
                "status": word,
                "reason": reason,
                "message": message,
                "lastTransitionTime": since,
            }
        body = {
            "metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]},
            "status": {"conditions": list(conditions.values()), **status},
        }
        metadata = raw["metadata"]
        await self._kube.merge_patch(resource.status(metadata["name"], metadata.get("namespace")), body)
