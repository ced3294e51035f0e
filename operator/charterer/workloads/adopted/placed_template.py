"""The pod template of an adopted object: the author's, with what places its pods put over it, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from charterer.api.models.base import Json
from charterer.api.names import ANNOTATION_ALLOCATION
from charterer.api.node_demands import placing_tolerations
from charterer.domain.job import Allocation, Job
from charterer.workloads.pod_template import KEEP_UNDISTURBED, run_labels

_PARTS: Final = {
    "labels": ("metadata", "labels"),
    "annotations": ("metadata", "annotations"),
    "nodeSelector": ("spec", "nodeSelector"),
    "tolerations": ("spec", "tolerations"),
}
"""The scheduling fields: under which names an author's values are noted, and where they are in a template."""


def authors_parts(template: Mapping[str, Any]) -> Json:
    """The scheduling fields as they are, None for those that are not there."""
    return {name: (template.get(part) or {}).get(field) for name, (part, field) in _PARTS.items()}


def authors_template(template: Mapping[str, Any], original: Mapping[str, Any]) -> Json:
    """The template with the scheduling fields that its author wrote; ``original``: empty where nothing was placed."""
    given: Json = deepcopy(dict(template))
    for name, (part, field) in _PARTS.items():
        if name in original:
            inside = given.setdefault(part, {})
            inside.pop(field, None)
            if original[name] is not None:
                inside[field] = original[name]
    return given


def placed_template(template: Mapping[str, Any], job: Job, allocation: Allocation) -> Json:
    """The author's template with what lets its pods onto the nodes of the allocation, and nowhere else."""
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
    """The operation that takes the metadata off the template at ``path`` that its author left out."""
    return [] if noted.get("metadata", True) else [{"op": "remove", "path": f"{path}/metadata"}]
