"""What a Workload of Kueue says: what it is of, whether Kueue has quota for it, and what it is told to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from charterer.api.decode.core import pod_gpus, sentence, since
from charterer.api.metadata import ObjectMeta, Raw, true_condition
from charterer.api.models.base import Json
from charterer.api.names import GROUP, KUEUE_CHECK, LABEL_JOB_UID
from charterer.api.template import digest_of_content
from charterer.cluster.paths import WORKLOADS
from charterer.domain.jobs.target import Target, TargetRef
from charterer.workloads.adopted.noted import placed_run

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
