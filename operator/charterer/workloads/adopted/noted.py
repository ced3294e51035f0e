"""What is noted on an adopted object of any kind, and what no object may be adopted with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from charterer.api.metadata import ObjectMeta, Raw
from charterer.api.models.base import ApiModel, Json
from charterer.api.names import (
    ANNOTATION_GIVEN_UP,
    ANNOTATION_HELD,
    ANNOTATION_KEPT_RUNNING,
    ANNOTATION_ORIGINAL,
    ANNOTATION_SUSPEND,
    GPU_RESOURCES,
    LABEL_JOB_UID,
    LABEL_RUN,
)
from charterer.cluster.patches import pointer
from charterer.domain.time import Instant, format_second
from charterer.workloads.adopted.target_kind import NotAdoptable

_LONGEST: Final = 1_000
"""Characters of a message that is written onto an object."""
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
"""The label by which an object waits in a queue of Kueue."""
_HELD, _HELD_BARE = "true", "omitted"
"""Values of the annotation charterer.dev/held: the author wrote ``suspend: false``, or left the field out."""
_Width = Annotated[int, Field(ge=0, lt=2**31, strict=True)]
_Words = Mapping[str, str] | None


class _Note(ApiModel):
    """What may be noted. Whoever may edit the object may write something else there, which is not believed."""

    uid: str
    suspend: Annotated[bool, Field(strict=True)] | None = None
    parallelism: _Width = 0
    completions: _Width = 0
    backoff_limit: _Width = 0
    replicas: _Width = 0
    pods: _Width = 0
    metadata: bool = True
    runtime_patches: bool = True
    labels: _Words = None
    annotations: _Words = None
    node_selector: _Words = None
    tolerations: list[Json] | None = None


def original(raw: Raw) -> Mapping[str, Any]:
    """What the author wrote, as noted on the object itself: only what is noted, None for a field that was left out.

    Empty where it was never placed, is a copy of one that was, or where somebody else wrote the note.
    """
    text = (raw["metadata"].get("annotations") or {}).get(ANNOTATION_ORIGINAL)
    if text is None:
        return {}
    try:
        note = _Note.model_validate_json(text)
    except ValidationError:
        return {}
    return note.model_dump(exclude_unset=True, by_alias=True) if note.uid == raw["metadata"]["uid"] else {}


def note_original(raw: Raw, written: Mapping[str, Any]) -> list[Json]:
    """Note what the author wrote; ``written`` without ``suspend``, which the chart's policy may have set."""
    noted = {"uid": raw["metadata"]["uid"], **written, "suspend": _authors_suspend(raw)}
    return set_annotation(raw, ANNOTATION_ORIGINAL, json.dumps(noted, separators=(",", ":")))


def _authors_suspend(raw: Raw) -> bool | None:
    """``suspend`` as the author of an object that was never placed wrote it; None where the author left it out."""
    held = (raw["metadata"].get("annotations") or {}).get(ANNOTATION_HELD)
    if held is None:
        suspend: bool | None = raw["spec"].get("suspend")
        return suspend
    return None if held == _HELD_BARE else False


def set_annotation(raw: Raw, name: str, value: str) -> list[Json]:
    """The operations that give the object an annotation."""
    if not raw["metadata"].get("annotations"):
        return [{"op": "add", "path": "/metadata/annotations", "value": {name: value}}]
    return [{"op": "add", "path": pointer("metadata", "annotations", name), "value": value}]


def forget_notes(raw: Raw) -> list[Json]:
    """The operations that take Charterer's own annotations off."""
    return _without(raw, ANNOTATION_HELD, ANNOTATION_ORIGINAL, ANNOTATION_KEPT_RUNNING)


def _without(raw: Raw, *annotations: str) -> list[Json]:
    there = raw["metadata"].get("annotations") or {}
    return [{"op": "remove", "path": pointer("metadata", "annotations", name)} for name in annotations if name in there]


def suspend_changes(raw: Raw, suspend: bool) -> list[Json]:
    """The operations that make the object's ``suspend`` so."""
    if bool(raw["spec"].get("suspend")) == suspend:
        return []
    return [{"op": "add", "path": "/spec/suspend", "value": suspend}]


def stop_operations(raw: Raw) -> list[Json]:
    """Suspend it. One that nobody placed is noted as held, since its author did not suspend it."""
    operations = suspend_changes(raw, True)
    if operations and original(raw):
        operations += _without(raw, ANNOTATION_KEPT_RUNNING)
    elif operations:
        operations += set_annotation(raw, ANNOTATION_HELD, _HELD if "suspend" in raw["spec"] else _HELD_BARE)
    return operations


def kept_running(raw: Raw) -> str:
    """What became of a ``spec.suspend: true`` that somebody wrote while Charterer ran the object; empty without one."""
    who = (raw["metadata"].get("annotations") or {}).get(ANNOTATION_KEPT_RUNNING)
    if who is None or raw["spec"].get("suspend"):
        return ""
    return (
        f"spec.suspend: true of {who:.100} was not followed, because Charterer runs it: leave it out of the manifest, "
        f'or stop it by the annotation {ANNOTATION_SUSPEND}: "true"'
    )


def note_given_up(raw: Raw, reason: str, message: str) -> list[Json]:
    """Note why the object is ended as failed: Events expire."""
    return set_annotation(raw, ANNOTATION_GIVEN_UP, f"{reason}: {message}"[:_LONGEST])


def failed_condition(reason: str, message: str, now: Instant) -> Json:
    """The operation that gives a JobSet the condition by which its controller, and Trainer's, take it for failed."""
    condition = {
        "type": "Failed",
        "status": "True",
        "reason": reason,
        "message": f"given up by Charterer: {message}"[:_LONGEST],
        "lastTransitionTime": format_second(now),
    }
    return {"op": "add", "path": "/status/conditions/-", "value": condition}


def given_back(raw: Raw) -> list[Json]:
    """The operations that make ``suspend`` what the author wrote, and take the notes off."""
    noted, spec = original(raw), raw["spec"]
    wanted = noted["suspend"] if "suspend" in noted else _authors_suspend(raw)
    operations: list[Json] = []
    if wanted is not None and spec.get("suspend") != wanted:
        operations.append({"op": "add", "path": "/spec/suspend", "value": wanted})
    elif wanted is None and "suspend" in spec:
        operations.append({"op": "remove", "path": "/spec/suspend"})
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
    limits = [(each.get("resources") or {}).get("limits") or {} for each in containers]
    return any(name in each for each in limits for name in GPU_RESOURCES)


def refuse_other_owners(meta: ObjectMeta, spec: Mapping[str, Any], own_controller: str) -> None:
    """Raise NotAdoptable for an object that somebody else starts and stops, or whose pods another controller makes."""
    if meta.controller is not None:
        owner = f"{meta.controller.kind} {meta.controller.name}"
        raise NotAdoptable(f"{owner} controls this {meta.kind}: label that object instead, if its kind can be adopted")
    if QUEUE_LABEL in meta.labels:
        raise NotAdoptable(
            f"the label {QUEUE_LABEL} gives it to Kueue, and two owners of suspend would undo each other: take one of "
            "the labels off, and see docs/bring-what-you-have.md for queues"
        )
    if (spec.get("managedBy") or own_controller) != own_controller:
        raise NotAdoptable(f"spec.managedBy is {spec['managedBy']!r}: another controller makes its pods")


def resumed(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The condition that says since when the object is not suspended any more; None where it never was."""
    conditions = status.get("conditions") or ()
    return next((each for each in conditions if each["type"] == "Suspended" and each["status"] == "False"), None)
