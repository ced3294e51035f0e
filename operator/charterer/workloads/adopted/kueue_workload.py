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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

from charterer.api.decode import MULTIKUEUE
from charterer.api.decode.core import pod_gpus, sentence, since
from charterer.api.metadata import ObjectMeta, Raw, true_condition
from charterer.api.models.base import Json
from charterer.api.names import (
    ANNOTATION_ALLOCATION,
    ANNOTATION_ORIGINAL,
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
from charterer.workloads.adopted.noted import QUEUE_LABEL, original, placed_run
from charterer.workloads.adopted.ray_job import INTERACTIVE, NOT_INTERACTIVE
from charterer.workloads.adopted.target_kind import NotAdoptable, TargetKind, Write, patch_of
from charterer.workloads.workload import run_labels

# What a Workload of Kueue says: what it is of, whether Kueue has quota for it, and what it is told to run.


API_VERSION: Final = f"{WORKLOADS.group}/{WORKLOADS.version}"
REPLACES: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
"""On a Workload by which an elastic job grows: the one before it, as namespace/name."""
_REPLACED: Final = ("WorkloadSliceReplaced", "OutOfSync")
"""Reasons of a Workload's end that are no end of its job."""
_BEFORE: Final = "Previously: "
OWN_GROUPS: Final = (GROUP, f"run.{GROUP}")
"""How the keys begin that are Charterer's to set."""
_UNOWNED: Final = (
    "it is a group of pods that no single object controls, as of a Deployment, a StatefulSet or a LeaderWorkerSet: "
    "Charterer can neither count nor stop it; use a Job, JobSet, TrainJob or RayJob"
)
_ONE_OF_THEM: Final = f"keep only one of MultiKueue's check and {KUEUE_CHECK} in its queue"
PENDING, READY, RETRY = "Pending", "Ready", "Retry"


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
    """A Workload whose queue asks Charterer's check; None for any other."""
    return None if check_of(raw) is None else read_workload(raw)


def read_workload(raw: Raw) -> Target:
    """The Workload as Charterer looks at it, whether its queue asks or not."""
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
        problem=_runs_elsewhere(status) or (problem_of(pod_sets) if owner is not None else _UNOWNED),
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
    """That MultiKueue runs it in another cluster; empty where it does not."""
    cluster = status.get("clusterName") or next(iter(status.get("nominatedClusterNames") or ()), "")
    return beside_multikueue("", str(cluster)) if cluster else ""


def beside_multikueue(check: str, cluster: str = "") -> str:
    """Why nothing is paid for what a check of MultiKueue, by its name, sends to another cluster."""
    by = f"AdmissionCheck {check} of MultiKueue" if check else "MultiKueue"
    where = f"cluster {cluster}" if cluster else "another cluster"
    return f"{by} runs it in {where}, and nodes that Charterer rents here would stay empty: {_ONE_OF_THEM}"


def _version_of(raw: Raw) -> str:
    """The group and version of what controls the Workload."""
    owners = raw["metadata"].get("ownerReferences") or ()
    return next((str(item["apiVersion"]) for item in owners if item.get("controller")), "")


def is_reserved(raw: Raw) -> bool:
    """Whether Kueue has quota for it and waits for what its checks say."""
    status = raw.get("status") or {}
    evicted = true_condition(status, "Evicted") is not None
    quota = true_condition(status, "QuotaReserved") is not None
    return quota and not evicted and bool(raw["spec"].get("active", True))


def _others_wait(raw: Raw) -> bool:
    """Whether another check of its queue has not let it go: nothing is paid for as long as it would not start."""
    checks = (raw.get("status") or {}).get("admissionChecks") or ()
    return any(check.get("name") != KUEUE_CHECK and check.get("state") != READY for check in checks)


def _words(status: Raw) -> dict[str, Json]:
    """Its conditions by their types."""
    return {item["type"]: item for item in status.get("conditions") or ()}


def _eviction(words: Mapping[str, Json]) -> str:
    """Why Kueue last stopped it, or took its quota back before it began.

    Once it has quota again, the condition is false, and has the words of before behind "Previously: ".
    """
    evicted = words.get("Evicted") or {}
    if evicted.get("status") == "True":
        return sentence(evicted)
    _, before, said = str(evicted.get("message") or "").rpartition(_BEFORE)
    return said if before else ""


def _is_withheld(raw: Raw, words: Mapping[str, Json]) -> bool:
    """Whether a person or Kueue itself stopped it, and it was not admitted again since."""
    evicted = words.get("Evicted") or {}
    by_others = evicted.get("status") == "True" and evicted.get("reason") != "AdmissionCheck"
    return by_others or not raw["spec"].get("active", True)


def _is_left(pod_sets: Sequence[Json]) -> bool:
    """Whether its template has what placed a run, of which Kueue made the Workload while the job grew."""
    return any(LABEL_JOB_UID in _labels_of(item) for item in pod_sets)


def _labels_of(pod_set: Json) -> Mapping[str, str]:
    return (pod_set["template"].get("metadata") or {}).get("labels") or {}


def problem_of(pod_sets: Sequence[Json]) -> str:
    """Why what has these podSets cannot be placed; empty where it can."""
    if not pod_sets:
        return "it asks for no GPUs"
    widths = {pod_gpus(item["template"]["spec"]) for item in pod_sets}
    if len(widths) > 1:
        listed = ", ".join(f"{item['name']} {pod_gpus(item['template']['spec'])}" for item in pod_sets)
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
                if key.partition("/")[0] in OWN_GROUPS:
                    return (
                        f"the template of its pods ({item['name']}) sets {field}[{key}], which is Charterer's to set: "
                        "with another value Kueue would end the job; take it out of the template"
                    )
    return ""


def pods_of(raw: Raw) -> int:
    """How many pods with GPUs the Workload asks for."""
    return sum(item.get("count", 1) for item in gpu_pod_sets(raw))


def state_of(raw: Raw) -> str:
    """The state of Charterer's check; empty where its queue does not ask."""
    found = check_of(raw)
    return "" if found is None else str(found[1].get("state"))


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
