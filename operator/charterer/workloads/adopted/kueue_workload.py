"""Jobs in a Kueue queue are started and stopped through their Workload: Charterer answers one of its AdmissionChecks.

Source: Kueue's API ``kueue.x-k8s.io/v1beta2``, and the observed behaviour of Kueue 0.19.2 (docs/kueue.md).

- Kueue reserves quota first. The check stays Pending while the budget has nothing for the job.
- Ready starts the job: Kueue merges ``podSetUpdates`` into the job's template. If the template already set a key to
  another value, the job would fail for good. So ``podSetUpdates`` have only Charterer's own keys.
- Retry stops the job. The answer never has a delay, because the delay would apply to the stop.
- Rejected is never used, because a person would have to reactivate the Workload.
- Others may evict the job too: a preemption, another check, or a person who stops the queue or the Workload.
- Each eviction sets the check to Pending before the pods are gone, and leaves ``podSetUpdates`` unchanged. So
  ``podSetUpdates`` show the started run only while the check is Ready, or has a Retry that Kueue has not processed yet.
- Kueue reads a check only while quota is reserved and the Workload is not evicted. An answer to an evicted Workload
  would block its next admission for ever.
- Another width, or another template, makes another Workload. An elastic job that grows gets a second Workload beside
  the one by which it runs. Kueue makes the second Workload of the running job's template, which has the run's placement
  merged in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

from charterer.api.decode import MULTIKUEUE
from charterer.api.decode.core import sentence, since
from charterer.api.gpu_resources import gpu_names, pod_gpus
from charterer.api.metadata import ObjectMeta, Raw, true_condition
from charterer.api.models.base import Json
from charterer.api.names import (
    ANNOTATION_ALLOCATION,
    ANNOTATION_ORIGINAL,
    ANNOTATION_RESOURCE,
    GROUP,
    KUEUE_CHECK,
    LABEL_ADOPT,
    LABEL_JOB_UID,
)
from charterer.api.node_demands import placing_tolerations
from charterer.api.template import digest_of_content
from charterer.cluster.kinds import pointer
from charterer.cluster.paths import WORKLOADS, Resource
from charterer.cluster.store import WatchedKind
from charterer.domain.job import Allocation, Job
from charterer.domain.target import Target, TargetRef
from charterer.domain.time import Instant, format_instant
from charterer.workloads.adopted.asks import Elasticity, shadow_spec
from charterer.workloads.adopted.job import spot_refused_by_job
from charterer.workloads.adopted.noted import QUEUE_LABEL, original, placed_run, unsaid_gpus
from charterer.workloads.adopted.ray_job import INTERACTIVE, NOT_INTERACTIVE
from charterer.workloads.adopted.target_kind import NotAdoptable, TargetKind, Write, patch_of
from charterer.workloads.workload import run_labels

# Reading of a Workload: its owner, whether Kueue reserved quota, and the run that Charterer's check starts.


API_VERSION: Final = f"{WORKLOADS.group}/{WORKLOADS.version}"
REPLACES: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
"""The annotation on a Workload by which an elastic job grows. Its value is the former Workload, as namespace/name."""
_REPLACED: Final = ("WorkloadSliceReplaced", "OutOfSync")
"""Reasons with which a Workload finishes although its job continues."""
_BEFORE: Final = "Previously: "
OWN_GROUPS: Final = (GROUP, f"run.{GROUP}")
"""Key prefixes that are reserved for Charterer."""
_UNOWNED: Final = (
    "it is a group of pods that no single object controls, as of a Deployment, a StatefulSet or a LeaderWorkerSet: "
    "Charterer can neither count nor stop it; use a Job, JobSet, TrainJob or RayJob"
)
_ONE_OF_THEM: Final = f"keep only one of MultiKueue's check and {KUEUE_CHECK} in its queue"
PENDING, READY, RETRY = "Pending", "Ready", "Retry"


def check_of(raw: Raw) -> tuple[int, Json] | None:
    """The index and entry of Charterer's check in the Workload's status. None if the Workload's queue does not have the
    check.
    """
    for index, check in enumerate((raw.get("status") or {}).get("admissionChecks") or ()):
        if check.get("name") == KUEUE_CHECK:
            return index, check
    return None


def gpu_pod_sets(raw: Raw) -> list[Json]:
    """The podSets that request GPUs."""
    return [item for item in raw["spec"].get("podSets") or () if _gpus_of_pod(item)]


def _gpus_of_pod(pod_set: Json) -> int:
    """The GPUs of each pod of a podSet."""
    template = pod_set["template"]
    return pod_gpus(template.get("spec") or {}, gpu_names(template))


def decode_workload(raw: Raw) -> Target | None:
    """Decode a Workload whose queue has Charterer's check. None for any other Workload.

    A Workload by which a job grows is decoded even before Kueue lists its checks, because Kueue may finish the former
    Workload first.
    """
    unlisted = not (raw.get("status") or {}).get("admissionChecks")
    return read_workload(raw) if check_of(raw) is not None or (unlisted and _replaces_another(raw)) else None


def _replaces_another(raw: Raw) -> bool:
    """Whether an elastic job grows by this Workload."""
    return REPLACES in (raw["metadata"].get("annotations") or {})


def read_workload(raw: Raw) -> Target:
    """The Workload as a Target, whether or not its queue has Charterer's check."""
    meta = ObjectMeta.of("Workload", raw)
    status, found, owner = raw.get("status") or {}, check_of(raw), meta.controller
    check: Json = {} if found is None else found[1]
    pod_sets, state = gpu_pod_sets(raw), check.get("state")
    told = check.get("podSetUpdates") or () if state in (READY, RETRY) else ()
    job, run = placed_run(next((update.get("labels") or {} for update in told), {}))
    finished = true_condition(status, "Finished")
    reason = "" if finished is None else str(finished.get("reason"))
    failed = finished if finished is not None and reason not in ("Succeeded", *_REPLACED) else None
    reserved, words = is_reserved(raw), _words(status)
    asked = reserved and not _others_wait(raw)
    _, _, replaces = meta.annotations.get(REPLACES, "").rpartition("/")
    ref = TargetRef(API_VERSION, "Workload", meta.name, meta.uid, queued=True)
    if owner is not None:
        ref = TargetRef(_version_of(raw), owner.kind, owner.name, owner.uid, queued=True)
    return Target(
        ref=ref,
        namespace=meta.namespace,
        resource_version=meta.resource_version,
        created=meta.created,
        suspended=state != READY,
        deleting=meta.deleting or reason in _REPLACED,
        job=job,
        run=run,
        pods=sum(item.get("count", 1) for item in pod_sets),
        indexed=owner is not None and owner.kind == "Job",
        controllers=frozenset([] if owner is None else [ref.name]),
        controller_prefix="" if owner is None else f"{ref.name}-",
        placeable=asked and state == PENDING and finished is None,
        started=since(true_condition(status, "Admitted")),
        complete=since(finished) if reason == "Succeeded" else None,
        failed=since(failed),
        failed_message="" if failed is None else sentence(failed),
        problem=_runs_elsewhere(status) or (problem_of(raw) if owner is not None else _UNOWNED),
        begun=true_condition(status, "Admitted") is not None and not run,
        workload=meta.name,
        has_quota=asked or (reserved and state != PENDING),
        reserved=reserved,
        checks=tuple([str(item.get("name")) for item in status.get("admissionChecks") or ()]),
        replaces=replaces,
        admitted=true_condition(status, "Admitted") is not None,
        message=str(check.get("message") or ""),
        evicted="Evicted" in words,
        eviction=_eviction(words),
        withheld=_is_withheld(raw, words),
        left=_is_left(pod_sets),
        template=digest_of_content(pod_sets[0]["template"]) if pod_sets else "",
    )


def _runs_elsewhere(status: Raw) -> str:
    """The sentence that MultiKueue runs the job in another cluster, or an empty text if it does not."""
    cluster = status.get("clusterName") or next(iter(status.get("nominatedClusterNames") or ()), "")
    return beside_multikueue("", str(cluster)) if cluster else ""


def beside_multikueue(check: str, cluster: str = "") -> str:
    """The reason why Charterer pays nothing for a job that MultiKueue's check of this name sends to another cluster."""
    by = f"AdmissionCheck {check} of MultiKueue" if check else "MultiKueue"
    where = f"cluster {cluster}" if cluster else "another cluster"
    return f"{by} runs it in {where}, and nodes that Charterer rents here would stay empty: {_ONE_OF_THEM}"


def _version_of(raw: Raw) -> str:
    """The group and version of the Workload's controlling owner."""
    owners = raw["metadata"].get("ownerReferences") or ()
    return next((str(item["apiVersion"]) for item in owners if item.get("controller")), "")


def is_reserved(raw: Raw) -> bool:
    """Whether Kueue has reserved quota for the Workload and waits for its checks."""
    status = raw.get("status") or {}
    evicted = true_condition(status, "Evicted") is not None
    quota = true_condition(status, "QuotaReserved") is not None
    return quota and not evicted and bool(raw["spec"].get("active", True))


def _others_wait(raw: Raw) -> bool:
    """Whether another check of the queue is not Ready. The job could then not start, so Charterer pays nothing for
    it.
    """
    checks = (raw.get("status") or {}).get("admissionChecks") or ()
    return any(check.get("name") != KUEUE_CHECK and check.get("state") != READY for check in checks)


def _words(status: Raw) -> dict[str, Json]:
    """The conditions by their types."""
    return {item["type"]: item for item in status.get("conditions") or ()}


def _eviction(words: Mapping[str, Json]) -> str:
    """The reason why Kueue last stopped the job, or took its quota back before the job began.

    Once the job has quota again, the condition is False. Its message then has the former message after "Previously: ".
    """
    evicted = words.get("Evicted") or {}
    if evicted.get("status") == "True":
        return sentence(evicted)
    _, before, said = str(evicted.get("message") or "").rpartition(_BEFORE)
    return said if before else ""


def _is_withheld(raw: Raw, words: Mapping[str, Json]) -> bool:
    """Whether a person or Kueue itself stopped the job, and the job was not admitted again since."""
    evicted = words.get("Evicted") or {}
    by_others = evicted.get("status") == "True" and evicted.get("reason") != "AdmissionCheck"
    return by_others or not raw["spec"].get("active", True)


def _is_left(pod_sets: Sequence[Json]) -> bool:
    """Whether the template has the placement of a run. It has if Kueue made the Workload from it while the job grew."""
    return any(LABEL_JOB_UID in _labels_of(item) for item in pod_sets)


def _labels_of(pod_set: Json) -> Mapping[str, str]:
    return (pod_set["template"].get("metadata") or {}).get("labels") or {}


def _is_own(key: str) -> bool:
    """Whether the author of a template must not write this key, because Charterer writes its own there."""
    return key.partition("/")[0] in OWN_GROUPS and key != ANNOTATION_RESOURCE


def problem_of(raw: Raw) -> str:
    """The reason why the Workload's job cannot be placed; empty if it can."""
    pod_sets = gpu_pod_sets(raw)
    if not pod_sets:
        templates = (item["template"] for item in raw["spec"].get("podSets") or ())
        return f"it asks for no GPUs{unsaid_gpus(templates)}"
    widths = {_gpus_of_pod(item) for item in pod_sets}
    if len(widths) > 1:
        listed = ", ".join(f"{item['name']} {_gpus_of_pod(item)}" for item in pod_sets)
        return (
            f"its groups of pods ask for different numbers of GPUs a pod ({listed}), and Charterer gives each the same"
        )
    for item in () if _is_left(pod_sets) else pod_sets:
        metadata, spec = item["template"].get("metadata") or {}, item["template"]["spec"]
        for field, entries in (
            ("labels", metadata.get("labels")),
            ("annotations", metadata.get("annotations")),
            ("nodeSelector", spec.get("nodeSelector")),
        ):
            for key in entries or {}:
                if _is_own(key):
                    return (
                        f"the template of its pods ({item['name']}) sets {field}[{key}], which is Charterer's to set: "
                        "with another value Kueue would end the job; take it out of the template"
                    )
    return ""


def pods_of(raw: Raw) -> int:
    """Number of pods with GPUs that the Workload requests."""
    return sum(item.get("count", 1) for item in gpu_pod_sets(raw))


def state_of(raw: Raw) -> str:
    """The state of Charterer's check. Empty if the queue does not have the check."""
    found = check_of(raw)
    return "" if found is None else str(found[1].get("state"))


OWNER: Final = "owner"
"""Key of an entry that Charterer adds to a raw Workload: the Workload's owner as it is now."""
SHADOW: Final = "shadow"
"""Key of an entry that Charterer adds to a raw Workload: the uid of its TrainingJob, or empty if it has none."""
_ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
"""The annotation by which an owner says that its width may change while it runs."""
_OWN_CONTROLLER: Final = "kubernetes.io/job-controller"
_NOTE: Final = pointer("metadata", "annotations", ANNOTATION_ORIGINAL)


def path_of(ref: TargetRef, namespace: str) -> str:
    """The path of a queued object."""
    group, _, version = ref.api_version.rpartition("/")
    return Resource(group, version, f"{ref.kind.lower()}s", namespaced=True).one(ref.name, namespace)


def is_queued(owner: Raw) -> bool:
    """Whether the object has the label of a Kueue queue."""
    return QUEUE_LABEL in (owner["metadata"].get("labels") or {})


class KueueWorkload:
    """See ``TargetKind``. Methods that return writes need two more entries in ``raw``: ``OWNER`` and ``SHADOW``."""

    name: Final = "Workload"
    kind: Final[WatchedKind[Target]] = WatchedKind("Workload", WORKLOADS, decode_workload, optional=True)

    def read(self, raw: Raw) -> Target:
        """See ``TargetKind.read``."""
        return read_workload(raw)

    def shadow(self, raw: Raw) -> Json:
        """See ``TargetKind.shadow``."""
        owner = raw[OWNER]
        meta, spec = ObjectMeta.of(owner["kind"], owner), owner.get("spec") or {}
        if problem := problem_of(raw):
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
        # KubeRay ignores changes of a RayJob's own width while it runs.
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
        """See ``TargetKind.selector``. Kueue starts no pod of a TrainingJob without this label."""
        return f"{LABEL_JOB_UID}={raw[SHADOW]}"

    def place(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """See ``TargetKind.place``. Kueue makes another Workload of the changed owner. That Workload is then
        started.
        """
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
        """See ``TargetKind.stop``. The Workload of a growing job is Pending while the former Workload runs its pods."""
        stops = state_of(raw) == READY or _replaces_another(raw)
        return _answered(raw, {"state": RETRY}) if stops and is_reserved(raw) else ()

    def resize(self, raw: Raw, pods: int, retries: int, leaving: Sequence[str] = ()) -> Sequence[Write]:
        """See ``TargetKind.resize``. The owner has the width, and the Workload follows it.

        The first change writes an annotation on the owner, with the width that its author wrote.
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
        """See ``TargetKind.restore``. Kueue itself restores everything but the width when it stops the owner."""
        owner = raw[OWNER]
        pods = _noted(owner)
        if not pods:
            return ()
        fields = _width_fields(owner, gpu_pod_sets(raw))
        operations: list[Json] = [{"op": "add", "path": pointer(*field), "value": pods} for field in fields]
        return _of_owner(raw, [*operations, {"op": "remove", "path": _NOTE}])


KUEUE_WORKLOAD: Final[TargetKind] = KueueWorkload()


def _width_fields(owner: Raw, pod_sets: Sequence[Json]) -> list[tuple[str, ...]]:
    """The fields that hold the owner's width. If the width is fixed, there are none."""
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
    """The entry of a list or object under this key, or None if it is absent."""
    if isinstance(value, list):
        return value[int(key)]
    return None if value is None else value.get(key)


def _noted(owner: Raw) -> int:
    """The width that the owner's author wrote, from the annotation. 0 if the width was never changed."""
    pods: int = original(owner).get("pods", 0)
    return pods


def _of_owner(raw: Raw, operations: Sequence[Json]) -> list[Write]:
    path = path_of(read_workload(raw).ref, raw["metadata"]["namespace"])
    return [replace(write, own=False) for write in patch_of(path, raw[OWNER], operations)]


def _spot_refused(owner: Raw) -> str:
    """The reason why a lost node would end the owner for good, or an empty text if it survives that."""
    if owner["kind"] == "Job":
        return spot_refused_by_job(owner["spec"])
    if owner["kind"] == "RayJob":
        return ""
    return f"a {owner['kind']} may fail for good with a lost node"


def answer(raw: Raw, message: str, at: Instant, *, ready: bool) -> Sequence[Write]:
    """Answer a Workload whose check is Pending. ``ready``: the job may start wherever its queue places it."""
    found = check_of(raw)
    if found is None or found[1].get("state") != PENDING or (ready and not is_reserved(raw)):
        return ()
    changes: Json = {"message": message}
    if ready:
        changes |= {"state": READY, "podSetUpdates": [], "lastTransitionTime": format_instant(at)}
    return _answered(raw, changes)


def grown(raw: Raw, job: Job, run: int) -> Sequence[Write]:
    """Let the run grow to the Workload's width.

    ``podSetUpdates`` must equal the values that are already in the Workload's template. Otherwise Kueue would fail the
    job.
    """
    if not is_reserved(raw):
        return ()
    return _answered(raw, {"state": READY, "podSetUpdates": _updates(raw, job, run)})


def _cleaned(owner: Raw) -> list[Json]:
    """The operations that remove a run's placement from the template of a Job that grew."""
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
        if _is_own(key)
    ]


def _updates(raw: Raw, job: Job, run: int) -> list[Json]:
    """The updates of each podSet with GPUs, which place the run's pods."""
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
    """Write these changes into the entry of the check. If the Workload does not have the check, nothing is written."""
    found = check_of(raw)
    if found is None:
        return ()
    index, check = found
    entry = {**check, **changes}
    meta = raw["metadata"]
    path = WORKLOADS.status(meta["name"], meta["namespace"])
    where = pointer("status", "admissionChecks", str(index))
    return patch_of(path, raw, [{"op": "replace", "path": where, "value": entry}])
