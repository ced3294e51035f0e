"""What the stand-in for Kueue reads of objects, and what it makes of them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from charterer.api.metadata import controller_of, true_condition
from charterer.cluster.client import RawObject

REPLACES: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
GPU: Final = "nvidia.com/gpu"


def stamp() -> str:
    """Now, as conditions say it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def holds(raw: RawObject, kind: str) -> bool:
    """Whether the object has that condition, and it is true."""
    return true_condition(raw.get("status") or {}, kind) is not None


def owned_by(raw: RawObject, uid: str) -> bool:
    """Whether that object controls this one."""
    owner = controller_of(raw)
    return owner is not None and owner.uid == uid


def created(workload: RawObject) -> tuple[str, bool]:
    """The order in which Workloads were made: a slice comes after the one that it replaces, also in one second."""
    return workload["metadata"]["creationTimestamp"], REPLACES in annotations_of(workload)


def pod_set(job: RawObject) -> RawObject:
    """The one podSet of a Job's Workload."""
    template = copy.deepcopy(job["spec"]["template"])
    (template.get("metadata") or {}).pop("creationTimestamp", None)
    return {"name": "main", "count": job["spec"].get("parallelism", 1), "template": template}


class Conflicting(Exception):
    """A check sets a key that the template sets otherwise."""


def merged(into: Mapping[str, str] | None, more: Mapping[str, str] | None, what: str) -> dict[str, str]:
    """Both; Conflicting where they differ."""
    into, more = into or {}, more or {}
    for key in into.keys() & more.keys():
        if into[key] != more[key]:
            raise Conflicting(
                f"invalid admission check PodSetUpdate: conflict for {what}: conflict for key={key}, "
                f"value1={into[key]}, value2={more[key]}"
            )
    return {**more, **into}


def path_of(resource: Any, raw: RawObject) -> str:
    return str(resource.one(raw["metadata"]["name"], raw["metadata"].get("namespace")))


def annotations_of(raw: RawObject) -> Mapping[str, str]:
    return raw["metadata"].get("annotations") or {}


def reason_of(raw: RawObject, kind: str) -> str:
    return str((true_condition(raw.get("status") or {}, kind) or {}).get("reason", ""))


def width_of(job: RawObject) -> int:
    return int(job["spec"].get("parallelism", 1))


def template_gpus(template: RawObject) -> int:
    limits = [(container.get("resources") or {}).get("limits") or {} for container in template["spec"]["containers"]]
    return sum(int(limit.get(GPU, 0)) for limit in limits)


def workload_gpus(workload: RawObject) -> int:
    return sum(template_gpus(asked["template"]) * asked["count"] for asked in workload["spec"]["podSets"])


def retry_at(workload: RawObject) -> float:
    """The second at which the last of the checks that say Retry with a delay lets the eviction go on."""
    checks: Iterable[RawObject] = (workload.get("status") or {}).get("admissionChecks") or ()
    return max(
        (
            datetime.fromisoformat(check["lastTransitionTime"]).timestamp() + check.get("requeueAfterSeconds", 0)
            for check in checks
            if check["state"] == "Retry"
        ),
        default=0.0,
    )


def reset_checks(workload: RawObject) -> list[RawObject]:
    """The checks as an eviction leaves them: Pending, without what they had proposed."""
    reset = []
    for check in (workload.get("status") or {}).get("admissionChecks") or ():
        if check["state"] == "Pending":
            reset.append(check)
            continue
        message = f"Reset to Pending after eviction. Previously: {check['state']}"
        fresh = {"name": check["name"], "state": "Pending", "message": message, "lastTransitionTime": stamp()}
        if check["state"] == "Retry":
            fresh["retryCount"] = check.get("retryCount", 0) + 1
        reset.append(fresh)
    return reset


def merge_update(metadata: RawObject, spec: RawObject, update: Mapping[str, Any]) -> None:
    for into, field in ((metadata, "labels"), (metadata, "annotations"), (spec, "nodeSelector")):
        if update.get(field):
            into[field] = merged(into.get(field), update[field], field)
    known = spec.get("tolerations") or []
    spec["tolerations"] = [*known, *[more for more in update.get("tolerations") or () if more not in known]]
