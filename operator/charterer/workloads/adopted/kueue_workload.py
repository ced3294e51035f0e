"""Whatever waits in a queue of Kueue, carried out through its Workload: Charterer answers one AdmissionCheck of it.

Source: Kueue's API ``kueue.x-k8s.io/v1beta2``, and what Kueue 0.19.2 did with each answer (docs/kueue.md).

- Quota is reserved first. The check stays Pending while the budget has nothing for the job.
- Ready starts it, with ``podSetUpdates`` merged into its template. A key that the template sets otherwise would end the
  job for good, so that they hold keys of Charterer's alone.
- Retry, always without a delay, stops it: a delay would delay the stop.
- Rejected is never said: a person would have to make the Workload active again.
- Others evict it too: by preemption, or a person who stops the queue or deactivates it, or another check.
- Each eviction makes the check Pending, before the pods are gone, and leaves ``podSetUpdates`` as they were: they say
  what Kueue is told to run only as long as the check is Ready, or Retry that Kueue has not seen yet.
- Kueue acts on a check only as long as quota is reserved and the Workload is not evicted: what is said of an evicted
  one would stand in the way of its next admission, for ever.
- Another width, or another template, is another Workload. An elastic job that grows gets one beside that by which it
  runs, of the running job's template, in which Kueue has merged what placed the run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

from charterer.api.decode import MULTIKUEUE
from charterer.api.metadata import ObjectMeta, Raw
from charterer.api.models.base import Json
from charterer.api.names import (
    ANNOTATION_ALLOCATION,
    ANNOTATION_ORIGINAL,
    LABEL_ADOPT,
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
from charterer.workloads.adopted.kueue_status import (
    OWN_GROUPS,
    PENDING,
    READY,
    REPLACES,
    RETRY,
    check_of,
    decode_workload,
    gpu_pod_sets,
    is_reserved,
    pods_of,
    problem_of,
    read_workload,
    state_of,
)
from charterer.workloads.adopted.noted import QUEUE_LABEL, original
from charterer.workloads.adopted.ray_job import INTERACTIVE, NOT_INTERACTIVE
from charterer.workloads.adopted.target_kind import NotAdoptable, TargetKind, Write, patch_of
from charterer.workloads.pod_template import run_labels

OWNER: Final = "owner"
"""Entry of a raw Workload: the object that it is of, as it is now."""
SHADOW: Final = "shadow"
"""Entry of a raw Workload: the uid of its TrainingJob; empty where it has none."""
_ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
"""The annotation of an object that changes its width while it runs."""
_OWN_CONTROLLER: Final = "kubernetes.io/job-controller"
_NOTE: Final = pointer("metadata", "annotations", ANNOTATION_ORIGINAL)


def path_of(ref: TargetRef, namespace: str) -> str:
    """The path of a queued object."""
    group, _, version = ref.api_version.rpartition("/")
    return Resource(group, version, f"{ref.kind.lower()}s", namespaced=True).one(ref.name, namespace)


def is_queued(owner: Raw) -> bool:
    """Whether the object waits in a queue of Kueue, by its own word."""
    return QUEUE_LABEL in (owner["metadata"].get("labels") or {})


class KueueWorkload:
    """See ``TargetKind``. Where it is written to, ``raw`` has two more entries: ``OWNER`` and ``SHADOW``."""

    name: Final = "Workload"
    kind: Final[WatchedKind[Target]] = WatchedKind("Workload", WORKLOADS, decode_workload, optional=True)

    def read(self, raw: Raw) -> Target:
        """See ``TargetKind.read``."""
        return read_workload(raw)

    def shadow(self, raw: Raw) -> Json:
        """See ``TargetKind.shadow``."""
        owner = raw[OWNER]
        meta, spec = ObjectMeta.of(owner["kind"], owner), owner.get("spec") or {}
        if problem := problem_of(gpu_pod_sets(raw)):
            raise NotAdoptable(problem)
        managed = spec.get("managedBy") or _OWN_CONTROLLER
        if managed == MULTIKUEUE or (owner["kind"] == "Job" and managed != _OWN_CONTROLLER):
            raise NotAdoptable(
                f"spec.managedBy is {managed!r}: another controller runs it, and Charterer leaves it alone"
            )
        width = _width_fields(owner, gpu_pod_sets(raw))
        if meta.labels.get(LABEL_ADOPT) == "true":
            raise NotAdoptable(
                f"the label {LABEL_ADOPT} asks for what its queue does already, and both would start and stop it: take "
                "that label off"
            )
        if owner["kind"] == "RayJob" and spec.get("submissionMode") == INTERACTIVE:
            raise NotAdoptable(NOT_INTERACTIVE)
        # KubeRay does not look at a RayJob's own width while it runs.
        elastic = bool(width) and owner["kind"] == "Job" and meta.annotations.get(_ELASTIC) == "true"
        because = (
            f'annotate it with {_ELASTIC}: "true", which lets Kueue change it while it runs'
            if width and owner["kind"] == "Job"
            else f"Kueue does not change a {owner['kind']} while it runs: Restart can be had"
            if width
            else "of what waits in a queue only Indexed Jobs and RayJobs of one group change their width"
        )
        can = Elasticity(bool(width), elastic, because)
        return shadow_spec(meta, gpu_pod_sets(raw)[0]["template"], pods_of(raw), can, _spot_refused(owner))

    def selector(self, raw: Raw) -> str:
        """See ``TargetKind.selector``. Kueue starts no pod for a TrainingJob without this label."""
        return f"{LABEL_JOB_UID}={raw[SHADOW]}"

    def place(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """See ``TargetKind.place``. Kueue makes another Workload of what is changed; that one is started."""
        if pods_of(raw) != len(allocation.placements):
            return self.resize(raw, len(allocation.placements), 0)
        return _of_owner(raw, _cleaned(raw[OWNER]))

    def start(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """See ``TargetKind.start``."""
        if not is_reserved(raw) or state_of(raw) != PENDING:
            return ()
        noted = {"annotations": {ANNOTATION_ALLOCATION: allocation.annotation}}
        updates = [update | noted for update in _updates(raw, job, allocation.run)]
        return _answered(raw, {"state": READY, "podSetUpdates": updates})

    def stop(self, raw: Raw) -> Sequence[Write]:
        """See ``TargetKind.stop``. One that is to grow is Pending while its pods run by the Workload before it."""
        stops = state_of(raw) == READY or REPLACES in (raw["metadata"].get("annotations") or {})
        return _answered(raw, {"state": RETRY}) if stops and is_reserved(raw) else ()

    def resize(self, raw: Raw, pods: int, retries: int, leaving: Sequence[str] = ()) -> Sequence[Write]:
        """See ``TargetKind.resize``. The width is the owner's, and its Workload follows.

        The first change notes on the owner what its author wrote.
        """
        owner, meta = raw[OWNER], raw[OWNER]["metadata"]
        fields = [field for field in _width_fields(owner, gpu_pod_sets(raw)) if reduce(_within, field, owner) != pods]
        if not fields:
            return ()
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
        """See ``TargetKind.restore``. Kueue takes all but the width out of the owner when it stops it."""
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


def _within(value: Any, key: str) -> Any:
    """What is there of an object; None where nothing is."""
    if isinstance(value, list):
        return value[int(key)]
    return None if value is None else value.get(key)


def _noted(owner: Raw) -> int:
    """The width that the owner's author wrote, as noted on it; 0 where it was never changed."""
    pods: int = original(owner).get("pods", 0)
    return pods


def _of_owner(raw: Raw, operations: Sequence[Json]) -> list[Write]:
    path = path_of(read_workload(raw).ref, raw["metadata"]["namespace"])
    return [replace(write, own=False) for write in patch_of(path, raw[OWNER], operations)]


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
    if found is None or found[1].get("state") != PENDING or (ready and not is_reserved(raw)):
        return ()
    changes: Json = {"message": message}
    if ready:
        changes |= {"state": READY, "podSetUpdates": [], "lastTransitionTime": format_instant(at)}
    return _answered(raw, changes)


def grown(raw: Raw, job: Job, run: int) -> Sequence[Write]:
    """Let the run grow to the Workload's width. What is set is what its template has already, or Kueue would end it."""
    if not is_reserved(raw):
        return ()
    return _answered(raw, {"state": READY, "podSetUpdates": _updates(raw, job, run)})


def _cleaned(owner: Raw) -> list[Json]:
    """The operations that take what placed a run out of the template of a Job that grew."""
    template = (owner.get("spec") or {}).get("template") or {}
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    if owner["kind"] != "Job" or LABEL_JOB_UID not in (metadata.get("labels") or {}):
        return []
    entries = (
        ("metadata", "labels", metadata.get("labels")),
        ("metadata", "annotations", metadata.get("annotations")),
        ("spec", "nodeSelector", spec.get("nodeSelector")),
    )
    return [
        {"op": "remove", "path": pointer("spec", "template", part, field, key)}
        for part, field, values in entries
        for key in values or {}
        if key.partition("/")[0] in OWN_GROUPS
    ]


def _updates(raw: Raw, job: Job, run: int) -> list[Json]:
    """What places the run's pods, of each group with GPUs."""
    return [
        {
            "name": item["name"],
            "labels": run_labels(job, run),
            "nodeSelector": {job.run_label: f"r{run}"},
            "tolerations": placing_tolerations(job.demands.resource),
        }
        for item in gpu_pod_sets(raw)
    ]


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
