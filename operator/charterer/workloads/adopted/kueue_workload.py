"""Whatever waits in a queue of Kueue, carried out through its Workload: Charterer answers one AdmissionCheck of it.

Source: Kueue's API ``kueue.x-k8s.io/v1beta2``, and what Kueue 0.19.2 did with each answer (docs/kueue.md).

- Quota is reserved first. The check stays Pending while the budget has nothing for the job. The placement that is being
  prepared is kept in its ``podSetUpdates``, which Kueue reads once the check is Ready.
- Ready starts it, with ``podSetUpdates`` merged into its template. A key that the template sets otherwise would end the
  job for good, so that they hold keys of Charterer's alone.
- Retry, always without a delay, stops it: a delay would delay the stop. Kueue then makes the check Pending again,
  without what it held, and before the pods are gone.
- Rejected is never said: a person would have to make the Workload active again.
- Others evict it too: by preemption, or a person who stops the queue or deactivates it. Quota may be back at once: then
  only that it is no longer admitted tells of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypedDict

from charterer.api.decode.core import pod_gpus, sentence, since
from charterer.api.metadata import ObjectMeta, Raw, controller_of, true_condition
from charterer.api.models.base import Json
from charterer.api.names import (
    ANNOTATION_ALLOCATION,
    ANNOTATION_ORIGINAL,
    GROUP,
    KUEUE_CHECK,
    LABEL_JOB_UID,
)
from charterer.api.node_demands import placing_tolerations
from charterer.cluster.patches import pointer
from charterer.cluster.paths import WORKLOADS, Resource
from charterer.cluster.store import WatchedKind
from charterer.domain.job import Allocation, Job
from charterer.domain.jobs.target import Target, TargetRef
from charterer.domain.time import Instant, format_instant
from charterer.workloads.adopted.asks import Elasticity, shadow_spec
from charterer.workloads.adopted.job import spot_refused_by_job
from charterer.workloads.adopted.noted import original, placed_run
from charterer.workloads.adopted.target_kind import NotAdoptable, TargetKind, Write, patch_of
from charterer.workloads.pod_template import run_labels

OWNER: Final = "owner"
"""Entry of a raw Workload: the object that it is of, as it is now."""
SHADOW: Final = "shadow"
"""Entry of a raw Workload: the uid of its TrainingJob; empty where it has none."""
API_VERSION: Final = f"{WORKLOADS.group}/{WORKLOADS.version}"
_REPLACES: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
"""On a Workload by which an elastic job grows: the one before it, as namespace/name."""
_REPLACED: Final = ("WorkloadSliceReplaced", "OutOfSync")
"""Reasons of a Workload's end that are no end of its job."""
_ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
"""The annotation of an object that changes its width while it runs."""
_OWN_CONTROLLER: Final = "kubernetes.io/job-controller"
_ELSEWHERE: Final = "kueue.x-k8s.io/multikueue"
"""``managedBy`` of what runs in another cluster."""
_BY_CHECK: Final = "AdmissionCheck"
"""The reason of an eviction that a check asked for."""
_BEFORE: Final = "Previously: "
_NOTE: Final = pointer("metadata", "annotations", ANNOTATION_ORIGINAL)
_PENDING, _READY, _RETRY = "Pending", "Ready", "Retry"


def check_of(raw: Raw) -> tuple[int, Json] | None:
    """The index and the entry of Charterer's check in the Workload's status; None where its queue does not ask it."""
    for index, check in enumerate((raw.get("status") or {}).get("admissionChecks") or ()):
        if check.get("name") == KUEUE_CHECK:
            return index, check
    return None


def gpu_pod_sets(raw: Raw) -> list[Json]:
    """The podSets that ask for GPUs."""
    return [item for item in raw["spec"].get("podSets") or () if pod_gpus(item["template"].get("spec") or {})]


def decode_workload(raw: Raw) -> Target | None:
    """A Workload whose queue asks Charterer's check, and that runs in this cluster; None for any other."""
    status = raw.get("status") or {}
    elsewhere = status.get("clusterName") or status.get("nominatedClusterNames")
    return None if check_of(raw) is None or controller_of(raw) is None or elsewhere else _read(raw)


def _read(raw: Raw) -> Target:
    meta = ObjectMeta.of("Workload", raw)
    status, found, owner = raw.get("status") or {}, check_of(raw), meta.controller
    check: Json = {} if found is None else found[1]
    pod_sets = gpu_pod_sets(raw)
    labels = next((update.get("labels") or {} for update in check.get("podSetUpdates") or ()), {})
    job, run = placed_run(labels)
    finished = true_condition(status, "Finished")
    reason = "" if finished is None else str(finished.get("reason"))
    failed = finished if finished is not None and reason not in ("Succeeded", *_REPLACED) else None
    reserved = true_condition(status, "QuotaReserved") is not None and bool(raw["spec"].get("active", True))
    state = check.get("state")
    _, _, replaces = meta.annotations.get(_REPLACES, "").rpartition("/")
    return Target(
        ref=TargetRef(API_VERSION, "Workload", meta.name, meta.uid),
        namespace=meta.namespace,
        resource_version=meta.resource_version,
        created=meta.created,
        suspended=state != _READY,
        deleting=meta.deleting or reason in _REPLACED,
        job=job,
        run=run,
        pods=sum(item.get("count", 1) for item in pod_sets),
        indexed=owner is not None and owner.kind == "Job",
        controllers=frozenset([] if owner is None else [owner.name]),
        controller_prefix="" if owner is None else f"{owner.name}-",
        placeable=reserved and state == _PENDING and finished is None,
        started=since(true_condition(status, "Admitted")),
        complete=since(finished) if reason == "Succeeded" else None,
        failed=since(failed),
        failed_message="" if failed is None else sentence(failed),
        problem=_problem(pod_sets),
        begun=true_condition(status, "Admitted") is not None and not run,
        queued_for="" if owner is None else owner.name,
        has_quota=reserved,
        replaces=replaces,
        admitted=any(item.get("type") == "Admitted" for item in status.get("conditions") or ()),
        message=str(check.get("message") or ""),
        **_eviction(status),
    )


class _Eviction(TypedDict):
    evicted: Instant | None
    eviction: str


def _eviction(status: Raw) -> _Eviction:
    """When and why Kueue last stopped it, or took its quota back before it began.

    Once it has quota again, the condition is false, and has the words of before behind "Previously: ".
    """
    conditions = {item.get("type"): item for item in status.get("conditions") or ()}
    evicted, admitted = conditions.get("Evicted") or {}, conditions.get("Admitted") or {}
    holds = evicted.get("status") == "True"
    times = [since(admitted) if admitted.get("status") == "False" else None]
    if holds and evicted.get("reason") != _BY_CHECK:
        times.append(since(evicted))
    _, before, words = str(evicted.get("message") or "").rpartition(_BEFORE)
    why = sentence(evicted) if holds else words if before else ""
    return {"evicted": max([at for at in times if at is not None], default=None), "eviction": why}


def _problem(pod_sets: Sequence[Json]) -> str:
    if not pod_sets:
        return "it asks for no GPUs"
    widths = {pod_gpus(item["template"]["spec"]) for item in pod_sets}
    if len(widths) > 1:
        listed = ", ".join(f"{item['name']} {pod_gpus(item['template']['spec'])}" for item in pod_sets)
        return (
            f"its groups of pods ask for different numbers of GPUs a pod ({listed}), and Charterer gives each the same"
        )
    for item in pod_sets:
        metadata, spec = item["template"].get("metadata") or {}, item["template"]["spec"]
        for field, entries in (
            ("labels", metadata.get("labels")),
            ("annotations", metadata.get("annotations")),
            ("nodeSelector", spec.get("nodeSelector")),
        ):
            for key in entries or {}:
                if key.partition("/")[0] in (GROUP, f"run.{GROUP}"):
                    return (
                        f"the template of its pods ({item['name']}) sets {field}[{key}], which is Charterer's to set: "
                        "with another value Kueue would end the job; take it out of the template"
                    )
    return ""


def owner_path(raw: Raw) -> str:
    """The path of the object that the Workload is of."""
    owner = controller_of(raw)
    if owner is None:
        raise NotAdoptable("nothing controls it")
    version = next(item["apiVersion"] for item in raw["metadata"]["ownerReferences"] if item.get("controller"))
    resource = Resource(owner.group, version.rpartition("/")[2], f"{owner.kind.lower()}s", namespaced=True)
    return resource.one(owner.name, raw["metadata"]["namespace"])


def is_owner(owner: Raw, raw: Raw) -> bool:
    """Whether the Workload is of that object, and not of one that had its name before."""
    controller = controller_of(raw)
    return controller is not None and controller.uid == owner["metadata"]["uid"]


class KueueWorkload:
    """See ``TargetKind``. Where it is written to, ``raw`` has two more entries: ``OWNER`` and ``SHADOW``."""

    name: Final = "Workload"
    kind: Final[WatchedKind[Target]] = WatchedKind("Workload", WORKLOADS, decode_workload, optional=True)

    def read(self, raw: Raw) -> Target:
        """See ``TargetKind.read``."""
        return _read(raw)

    def shadow(self, raw: Raw) -> Json:
        """See ``TargetKind.shadow``."""
        owner = raw[OWNER]
        meta, spec = ObjectMeta.of(owner["kind"], owner), owner.get("spec") or {}
        if problem := _problem(gpu_pod_sets(raw)):
            raise NotAdoptable(problem)
        managed = spec.get("managedBy") or _OWN_CONTROLLER
        if managed == _ELSEWHERE or (owner["kind"] == "Job" and managed != _OWN_CONTROLLER):
            raise NotAdoptable(
                f"spec.managedBy is {managed!r}: another controller runs it, and Charterer leaves it alone"
            )
        width = _width_fields(owner, gpu_pod_sets(raw))
        elastic = bool(width) and meta.annotations.get(_ELASTIC) == "true"
        because = (
            f'annotate it with {_ELASTIC}: "true", which lets Kueue change it while it runs'
            if width
            else "of what waits in a queue only Indexed Jobs and RayJobs of one group change their width"
        )
        can = Elasticity(bool(width), elastic, because)
        return shadow_spec(meta, gpu_pod_sets(raw)[0]["template"], pods_of(raw), can, _spot_refused(owner))

    def selector(self, raw: Raw) -> str:
        """See ``TargetKind.selector``. Kueue starts no pod for a TrainingJob without this label."""
        return f"{LABEL_JOB_UID}={raw[SHADOW]}"

    def place(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """See ``TargetKind.place``. After a change of the width Kueue takes the quota anew, and it is placed again."""
        if pods_of(raw) != len(allocation.placements):
            return self.resize(raw, len(allocation.placements), 0)
        noted = {"annotations": {ANNOTATION_ALLOCATION: allocation.annotation}}
        return _answered(raw, {"podSetUpdates": [update | noted for update in _updates(raw, job, allocation.run)]})

    def start(self, raw: Raw) -> Sequence[Write]:
        """See ``TargetKind.start``."""
        return _answered(raw, {"state": _READY})

    def stop(self, raw: Raw) -> Sequence[Write]:
        """See ``TargetKind.stop``."""
        return _answered(raw, {"state": _RETRY}) if _state(raw) == _READY else ()

    def resize(self, raw: Raw, pods: int, retries: int, leaving: Sequence[str] = ()) -> Sequence[Write]:
        """See ``TargetKind.resize``. The width is the owner's, and its Workload follows.

        The first change notes on the owner what its author wrote.
        """
        owner, meta = raw[OWNER], raw[OWNER]["metadata"]
        fields = _width_fields(owner, gpu_pod_sets(raw))
        operations: list[Json] = [{"op": "add", "path": pointer(*field), "value": pods} for field in fields]
        if not _noted(owner):
            noted = json.dumps({"uid": meta["uid"], "pods": pods_of(raw)}, separators=(",", ":"))
            if not meta.get("annotations"):
                operations.append({"op": "add", "path": "/metadata/annotations", "value": {}})
            operations.append({"op": "add", "path": _NOTE, "value": noted})
        return _of_owner(raw, operations)

    def fail(self, raw: Raw, reason: str, message: str, now: Instant) -> Sequence[Write]:
        """See ``TargetKind.fail``."""
        return ()

    def restore(self, raw: Raw) -> Sequence[Write]:
        """See ``TargetKind.restore``. All but the width is taken out of the owner when Kueue stops it."""
        owner = raw[OWNER]
        pods = _noted(owner)
        if not pods:
            return ()
        fields = _width_fields(owner, gpu_pod_sets(raw))
        operations: list[Json] = [{"op": "add", "path": pointer(*field), "value": pods} for field in fields]
        return _of_owner(raw, [*operations, {"op": "remove", "path": _NOTE}])


KUEUE_WORKLOAD: Final[TargetKind] = KueueWorkload()


def _width_fields(owner: Raw, pod_sets: Sequence[Json]) -> list[tuple[str, ...]]:
    """The fields that hold the width of the owner; none where that is fixed."""
    spec = owner.get("spec") or {}
    if owner["kind"] == "Job" and spec.get("completionMode") == "Indexed":
        return [("spec", "parallelism"), ("spec", "completions")]
    if owner["kind"] == "RayJob" and len(pod_sets) == 1:
        groups = (spec.get("rayClusterSpec") or {}).get("workerGroupSpecs") or ()
        return [
            ("spec", "rayClusterSpec", "workerGroupSpecs", str(index), "replicas")
            for index, group in enumerate(groups)
            if str(group.get("groupName", "")).lower() == pod_sets[0]["name"]
        ]
    return []


def _noted(owner: Raw) -> int:
    """The width that the owner's author wrote, as noted on it; 0 where it was never changed."""
    pods: int = original(owner).get("pods", 0)
    return pods


def _of_owner(raw: Raw, operations: Sequence[Json]) -> list[Write]:
    return [replace(write, own=False) for write in patch_of(owner_path(raw), raw[OWNER], operations)]


def _spot_refused(owner: Raw) -> str:
    """Why a lost node would end it for good; empty where it survives that."""
    if owner["kind"] == "Job":
        return spot_refused_by_job(owner["spec"])
    if owner["kind"] == "RayJob":
        return ""
    return f"a {owner['kind']} may fail for good with a lost node"


def answer(raw: Raw, message: str, at: Instant, *, ready: bool) -> Sequence[Write]:
    """Say this of a Workload whose check is Pending; ``ready``: it may start where its queue wants."""
    found = check_of(raw)
    if found is None or found[1].get("state") != _PENDING:
        return ()
    changes: Json = {"message": message}
    if ready:
        changes |= {"state": _READY, "podSetUpdates": [], "lastTransitionTime": format_instant(at)}
    return _answered(raw, changes)


def grown(raw: Raw, job: Job, run: int) -> Sequence[Write]:
    """Let the run grow to the Workload's width. What is set is what its template has already, or Kueue would end it."""
    return _answered(raw, {"state": _READY, "podSetUpdates": _updates(raw, job, run)})


def _updates(raw: Raw, job: Job, run: int) -> list[Json]:
    """What places the run's pods, of each group with GPUs."""
    return [
        {
            "name": item["name"],
            "labels": run_labels(job, run),
            "nodeSelector": {job.run_label: f"r{run}"},
            "tolerations": placing_tolerations(),
        }
        for item in gpu_pod_sets(raw)
    ]


def pods_of(raw: Raw) -> int:
    """How many pods with GPUs the Workload asks for."""
    return sum(item.get("count", 1) for item in gpu_pod_sets(raw))


def _state(raw: Raw) -> str:
    found = check_of(raw)
    return "" if found is None else str(found[1].get("state"))


def _answered(raw: Raw, changes: Json) -> Sequence[Write]:
    """The entry of the check with these changes, and a time of its own where its state changes."""
    found = check_of(raw)
    if found is None:
        return ()
    index, check = found
    entry = {**check, **changes}
    meta = raw["metadata"]
    path = WORKLOADS.status(meta["name"], meta["namespace"])
    where = pointer("status", "admissionChecks", str(index))
    return patch_of(path, raw, [{"op": "replace", "path": where, "value": entry}])
