"""What is noted on an adopted object of any kind, and what no object may be adopted with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from charterer.api.metadata import ObjectMeta, Raw
from charterer.api.models.base import Json
from charterer.api.names import ANNOTATION_HELD, ANNOTATION_ORIGINAL, GPU_RESOURCE, LABEL_JOB_UID, LABEL_RUN
from charterer.cluster.patches import pointer
from charterer.workloads.adopted.target_kind import NotAdoptable

_QUEUE: Final = "kueue.x-k8s.io/queue-name"


def original(raw: Raw) -> Mapping[str, Any]:
    """What the author wrote, as noted on the object itself; empty where it was never placed, or is a copy of one."""
    try:
        noted = json.loads((raw["metadata"].get("annotations") or {}).get(ANNOTATION_ORIGINAL, "{}"))
    except ValueError:
        return {}
    return noted if isinstance(noted, dict) and noted.get("uid") == raw["metadata"]["uid"] else {}


def note_original(raw: Raw, written: Mapping[str, Any]) -> list[Json]:
    """Note what the author wrote; ``written`` without ``suspend``, which the chart's policy may have set."""
    held = ANNOTATION_HELD in (raw["metadata"].get("annotations") or {})
    suspend = not held and bool(raw["spec"].get("suspend"))
    noted = {"uid": raw["metadata"]["uid"], **written, "suspend": suspend}
    return set_annotation(raw, ANNOTATION_ORIGINAL, json.dumps(noted, separators=(",", ":")))


def set_annotation(raw: Raw, name: str, value: str) -> list[Json]:
    """The operations that give the object an annotation."""
    if not raw["metadata"].get("annotations"):
        return [{"op": "add", "path": "/metadata/annotations", "value": {name: value}}]
    return [{"op": "add", "path": pointer("metadata", "annotations", name), "value": value}]


def forget_notes(raw: Raw) -> list[Json]:
    """The operations that take Charterer's own annotations off."""
    annotations = raw["metadata"].get("annotations") or {}
    return [
        {"op": "remove", "path": pointer("metadata", "annotations", name)}
        for name in (ANNOTATION_HELD, ANNOTATION_ORIGINAL)
        if name in annotations
    ]


def suspend_changes(raw: Raw, suspend: bool) -> list[Json]:
    """The operations that make the object's ``suspend`` so."""
    if bool(raw["spec"].get("suspend")) == suspend:
        return []
    return [{"op": "add", "path": "/spec/suspend", "value": suspend}]


def stop_operations(raw: Raw) -> list[Json]:
    """Suspend it. One that nobody placed is noted as held, since its author did not suspend it."""
    operations = suspend_changes(raw, True)
    if operations and not original(raw):
        operations += set_annotation(raw, ANNOTATION_HELD, "true")
    return operations


def given_back(raw: Raw) -> list[Json]:
    """The operations that make ``suspend`` what the author wrote, and take the notes off."""
    noted = original(raw)
    operations: list[Json] = []
    if "suspend" in noted:
        operations = suspend_changes(raw, noted["suspend"])
    elif ANNOTATION_HELD in (raw["metadata"].get("annotations") or {}):
        operations = suspend_changes(raw, False)
    return [*operations, *forget_notes(raw)]


def is_held(raw: Raw) -> bool:
    """Whether the chart's policy suspended it, or a run of it was placed, so that its author cannot run it."""
    return ANNOTATION_HELD in (raw["metadata"].get("annotations") or {}) or bool(original(raw))


def placed_run(labels: Mapping[str, str]) -> tuple[str, int]:
    """The TrainingJob and the number of the run that a pod template carries; an empty uid and 0 before the first."""
    run = labels.get(LABEL_RUN, "")
    return labels.get(LABEL_JOB_UID, ""), int(run) if run.isascii() and run.isdecimal() and len(run) <= 9 else 0


def asks_for_gpus(template: Mapping[str, Any]) -> bool:
    """Whether a container of the template asks for GPUs, in whatever number."""
    spec = template["spec"]
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return any(GPU_RESOURCE in ((each.get("resources") or {}).get("limits") or {}) for each in containers)


def refuse_other_owners(meta: ObjectMeta, spec: Mapping[str, Any], own_controller: str) -> None:
    """Raise NotAdoptable for an object that somebody else starts and stops, or whose pods another controller makes."""
    if meta.controller is not None:
        owner = f"{meta.controller.kind} {meta.controller.name}"
        raise NotAdoptable(f"{owner} controls this {meta.kind}: label that object instead, if its kind can be adopted")
    if _QUEUE in meta.labels:
        raise NotAdoptable(
            f"the label {_QUEUE} gives it to Kueue, and two owners of suspend would undo each other: take one of "
            "the labels off, and see docs/bring-what-you-have.md for queues"
        )
    if (spec.get("managedBy") or own_controller) != own_controller:
        raise NotAdoptable(f"spec.managedBy is {spec['managedBy']!r}: another controller makes its pods")


def resumed(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The condition that says since when the object is not suspended any more; None where it never was."""
    conditions = status.get("conditions") or ()
    return next((each for each in conditions if each["type"] == "Suspended" and each["status"] == "False"), None)
