"""The annotations by which Charterer notes facts on adopted objects of any kind, and the common reasons to refuse an
adoption.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from charterer.api.gpu_resources import gpu_names, other_resources
from charterer.api.metadata import ObjectMeta, Raw
from charterer.api.models.base import ApiModel, Json
from charterer.api.names import (
    ANNOTATION_ALLOCATION,
    ANNOTATION_GIVEN_UP,
    ANNOTATION_HELD,
    ANNOTATION_KEPT_RUNNING,
    ANNOTATION_ORIGINAL,
    ANNOTATION_RESOURCE,
    ANNOTATION_SUSPEND,
    LABEL_JOB_UID,
    LABEL_RUN,
)
from charterer.api.node_demands import placing_tolerations
from charterer.cluster.kinds import pointer
from charterer.domain.job import Allocation, Job
from charterer.domain.target import TargetRef
from charterer.domain.time import Instant, format_second
from charterer.sentences import names
from charterer.workloads.adopted.target_kind import NotAdoptable
from charterer.workloads.workload import KEEP_UNDISTURBED, run_labels

# The name of the TrainingJob of an adopted object.


_LONGEST_NAME: Final = 45
_LEGAL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_DIGITS: Final = 8


def shadow_names(ref: TargetRef) -> tuple[str, str]:
    """Two names for an object's TrainingJob. The first is the object's own name, or empty if that is no legal name. The
    second has a hash.

    The second name is used if the first is empty or taken.
    """
    legal = _LEGAL.fullmatch(ref.name) is not None and len(ref.name) <= _LONGEST_NAME
    plain = re.sub(r"[^a-z0-9]+", "-", ref.name.lower()).strip("-")
    start = plain if plain[:1].isalpha() else f"{ref.kind.lower()}-{plain}"
    room = _LONGEST_NAME - _DIGITS - 1
    return (
        ref.name if legal else "",
        f"{start[:room].rstrip('-')}-{hashlib.sha256(ref.uid.encode()).hexdigest()[:_DIGITS]}",
    )


# The pod template of an adopted object: how the placement is merged into the author's template, and how it is removed
# again.


_PARTS: Final = {
    "labels": ("metadata", "labels"),
    "annotations": ("metadata", "annotations"),
    "nodeSelector": ("spec", "nodeSelector"),
    "tolerations": ("spec", "tolerations"),
}
"""The scheduling fields. For each, its key in the annotation, and its place in a template."""


def authors_parts(template: Mapping[str, Any]) -> Json:
    """The values of the scheduling fields. A field that is absent has the value None."""
    return {name: (template.get(part) or {}).get(field) for name, (part, field) in _PARTS.items()}


def authors_template(template: Mapping[str, Any], original: Mapping[str, Any]) -> Json:
    """The template with the author's scheduling fields. ``original`` is empty if the object was never placed."""
    given: Json = deepcopy(dict(template))
    for name, (part, field) in _PARTS.items():
        if name in original:
            inside = given.setdefault(part, {})
            inside.pop(field, None)
            if original[name] is not None:
                inside[field] = original[name]
    return given


def placed_template(template: Mapping[str, Any], job: Job, allocation: Allocation) -> Json:
    """The author's template, placed on the nodes of the allocation and no others."""
    placed: Json = deepcopy(dict(template))
    metadata, spec = placed.setdefault("metadata", {}), placed["spec"]
    metadata["labels"] = (metadata.get("labels") or {}) | run_labels(job, allocation.run)
    noted = {ANNOTATION_ALLOCATION: allocation.annotation, **KEEP_UNDISTURBED}
    metadata["annotations"] = (metadata.get("annotations") or {}) | noted
    spec["nodeSelector"] = (spec.get("nodeSelector") or {}) | {job.run_label: allocation.label_value}
    tolerations = spec.get("tolerations") or []
    own = placing_tolerations(allocation.option.device)
    spec["tolerations"] = [*tolerations, *[each for each in own if each not in tolerations]]
    return placed


def template_changes(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Json]:
    """The JSON patch operations that give the template at ``path`` the scheduling fields of ``after``."""
    was, wanted = authors_parts(before), authors_parts(after)
    operations: list[Json] = []
    if "metadata" not in before and (wanted["labels"] or wanted["annotations"]):
        operations.append({"op": "add", "path": f"{path}/metadata", "value": {}})
    for name, (part, field) in _PARTS.items():
        if was[name] == wanted[name]:
            continue
        at = f"{path}/{part}/{field}"
        operations.append(
            {"op": "remove", "path": at} if wanted[name] is None else {"op": "add", "path": at, "value": wanted[name]}
        )
    return operations


def bare_again(path: str, noted: Mapping[str, Any]) -> list[Json]:
    """The operation that removes the metadata of the template at ``path`` if its author wrote none."""
    return [] if noted.get("metadata", True) else [{"op": "remove", "path": f"{path}/metadata"}]


_LONGEST: Final = 1_000
"""Characters of a message that is written onto an object."""
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
"""The label that puts an object into a queue of Kueue."""
_HELD, _HELD_BARE = "true", "omitted"
"""Values of the annotation charterer.dev/held: the author wrote ``suspend: false``, or omitted the field."""
_Width = Annotated[int, Field(ge=0, lt=2**31, strict=True)]
_Words = Mapping[str, str] | None


class _Note(ApiModel):
    """The schema of the annotation ``charterer.dev/original``.

    Other editors of the object may write the annotation too, so an invalid value is ignored.
    """

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
    """The author's values, from the annotation on the object. Only noted fields are present. None stands for a field
    that the author omitted.

    Empty if the object was never placed, is a copy of a placed object, or has an invalid annotation.
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
    """Note the author's values. ``written`` does not have ``suspend``, because the chart's admission policy may have
    changed it.
    """
    noted = {"uid": raw["metadata"]["uid"], **written, "suspend": _authors_suspend(raw)}
    return set_annotation(raw, ANNOTATION_ORIGINAL, json.dumps(noted, separators=(",", ":")))


def _authors_suspend(raw: Raw) -> bool | None:
    """``suspend`` as the author of an object that was never placed wrote it. None if the author omitted it."""
    held = (raw["metadata"].get("annotations") or {}).get(ANNOTATION_HELD)
    if held is None:
        suspend: bool | None = raw["spec"].get("suspend")
        return suspend
    return None if held == _HELD_BARE else False


def set_annotation(raw: Raw, name: str, value: str) -> list[Json]:
    """The operations that set an annotation of the object."""
    if not raw["metadata"].get("annotations"):
        return [{"op": "add", "path": "/metadata/annotations", "value": {name: value}}]
    return [{"op": "add", "path": pointer("metadata", "annotations", name), "value": value}]


def forget_notes(raw: Raw) -> list[Json]:
    """The operations that remove Charterer's own annotations, except the note about giving up."""
    return _without(raw, ANNOTATION_HELD, ANNOTATION_ORIGINAL, ANNOTATION_KEPT_RUNNING)


def _without(raw: Raw, *annotations: str) -> list[Json]:
    there = raw["metadata"].get("annotations") or {}
    return [{"op": "remove", "path": pointer("metadata", "annotations", name)} for name in annotations if name in there]


def suspend_changes(raw: Raw, suspend: bool) -> list[Json]:
    """The operations that set the object's ``suspend``."""
    if bool(raw["spec"].get("suspend")) == suspend:
        return []
    return [{"op": "add", "path": "/spec/suspend", "value": suspend}]


def stop_operations(raw: Raw) -> list[Json]:
    """The operations that suspend the object.

    An object that was never placed gets the annotation charterer.dev/held, because its author did not suspend it.
    """
    operations = suspend_changes(raw, True)
    if operations and original(raw):
        operations += _without(raw, ANNOTATION_KEPT_RUNNING)
    elif operations:
        operations += set_annotation(raw, ANNOTATION_HELD, _HELD if "suspend" in raw["spec"] else _HELD_BARE)
    return operations


def kept_running(raw: Raw) -> str:
    """A warning that a ``spec.suspend: true`` was reverted while Charterer ran the object. Empty if none was
    reverted.
    """
    who = (raw["metadata"].get("annotations") or {}).get(ANNOTATION_KEPT_RUNNING)
    if who is None or raw["spec"].get("suspend"):
        return ""
    return (
        f"spec.suspend: true of {who:.100} was not followed, because Charterer runs it: leave it out of the manifest, "
        f'or stop it by the annotation {ANNOTATION_SUSPEND}: "true"'
    )


def note_given_up(raw: Raw, reason: str, message: str) -> list[Json]:
    """Note the reason for failing the object, because Events expire."""
    return set_annotation(raw, ANNOTATION_GIVEN_UP, f"{reason}: {message}"[:_LONGEST])


def failed_condition(reason: str, message: str, now: Instant) -> Json:
    """The operation that adds the condition Failed to a JobSet. The controllers of JobSet and Trainer act on the
    condition.
    """
    condition = {
        "type": "Failed",
        "status": "True",
        "reason": reason,
        "message": f"given up by Charterer: {message}"[:_LONGEST],
        "lastTransitionTime": format_second(now),
    }
    return {"op": "add", "path": "/status/conditions/-", "value": condition}


def given_back(raw: Raw) -> list[Json]:
    """The operations that restore the author's ``suspend`` and remove the notes."""
    noted, spec = original(raw), raw["spec"]
    wanted = noted["suspend"] if "suspend" in noted else _authors_suspend(raw)
    operations: list[Json] = []
    if wanted is not None and spec.get("suspend") != wanted:
        operations.append({"op": "add", "path": "/spec/suspend", "value": wanted})
    elif wanted is None and "suspend" in spec:
        operations.append({"op": "remove", "path": "/spec/suspend"})
    return [*operations, *forget_notes(raw)]


def is_held(raw: Raw) -> bool:
    """Whether the chart's policy suspended the object, or a run of it was placed. Its author cannot start such an
    object.
    """
    return ANNOTATION_HELD in (raw["metadata"].get("annotations") or {}) or bool(original(raw))


def placed_run(labels: Mapping[str, str]) -> tuple[str, int]:
    """The uid of the TrainingJob and the run number in a pod template's labels. Before the first run, empty and 0."""
    run = labels.get(LABEL_RUN, "")
    return labels.get(LABEL_JOB_UID, ""), int(run) if run.isascii() and run.isdecimal() and len(run) <= 9 else 0


def asks_for_gpus(template: Mapping[str, Any]) -> bool:
    """Whether a container of the template requests any number of GPUs."""
    spec = template["spec"]
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    limits = [(each.get("resources") or {}).get("limits") or {} for each in containers]
    return any(name in each for each in limits for name in gpu_names(template))


def unsaid_gpus(templates: Iterable[Mapping[str, Any]]) -> str:
    """The remedy if one of the templates' extended resources is that of GPUs; empty if they have none."""
    found = [name for template in templates for name in other_resources(template.get("spec") or {})]
    if not found:
        return ""
    listed = names(sorted({*found}))
    return f"; if its GPUs are {listed}, name that in the annotation {ANNOTATION_RESOURCE} of the pods' template"


def refuse_other_owners(meta: ObjectMeta, spec: Mapping[str, Any], own_controller: str) -> None:
    """Raise NotAdoptable if something else starts and stops the object, or another controller makes its pods."""
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
    """The condition that the object was resumed, with the time. None if it was never resumed."""
    conditions = status.get("conditions") or ()
    return next((each for each in conditions if each["type"] == "Suspended" and each["status"] == "False"), None)
