"""A team's own batch/v1 Job, carried out in place."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from charterer.api.decode.core import optional_instant, sentence, since
from charterer.api.metadata import ObjectMeta, Raw, true_condition
from charterer.api.models.base import Json
from charterer.api.names import (
    ANNOTATION_HELD,
    ANNOTATION_ORIGINAL,
    LABEL_ADOPT,
    LABEL_JOB_UID,
    LABEL_RUN,
)
from charterer.cluster.patches import pointer
from charterer.cluster.paths import JOBS
from charterer.cluster.store import WatchedKind
from charterer.domain.job import Allocation, Job
from charterer.domain.jobs.target import Target, TargetRef
from charterer.workloads.adopted.asks import Elasticity, asked, shadow_spec, wants_spot
from charterer.workloads.adopted.placed_template import (
    authors_parts,
    authors_template,
    placed_template,
    template_changes,
)
from charterer.workloads.adopted.target_kind import NotAdoptable, TargetKind, Write, is_labelled, patch_of

_DISRUPTED: Final = "DisruptionTarget"
_QUEUE: Final = "kueue.x-k8s.io/queue-name"
_OWN_CONTROLLER: Final = "kubernetes.io/job-controller"
_WIDTH: Final = ("parallelism", "completions", "backoffLimit")
_RETRIES: Final = 6
"""Kubernetes' default of backoffLimit."""


def labelled_job(raw: Raw) -> Target | None:
    """A Job with the label; None for any other."""
    return ADOPTED_JOB.read(raw) if is_labelled(raw) else None


def _read(raw: Raw) -> Target:
    meta = ObjectMeta.of("Job", raw)
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    failed = true_condition(status, "Failed")
    message = "" if failed is None else sentence(failed)
    failed_pods = status.get("failed") or 0
    run = labels.get(LABEL_RUN, "")
    suspended = bool(spec.get("suspend"))
    wanted, problem = None, ""
    try:
        wanted = asked(ADOPTED_JOB.shadow(raw))
    except NotAdoptable as error:
        problem = str(error)
    allowed = _original(raw).get("backoffLimit", spec.get("backoffLimit", _RETRIES))
    return Target(
        ref=TargetRef("batch/v1", "Job", meta.name, meta.uid),
        namespace=meta.namespace,
        resource_version=meta.resource_version,
        created=meta.created,
        suspended=suspended,
        deleting=meta.deleting,
        job=labels.get(LABEL_JOB_UID, ""),
        run=int(run) if run.isascii() and run.isdecimal() and len(run) <= 9 else 0,
        pods=spec.get("parallelism", 1),
        indexed=spec.get("completionMode") == "Indexed",
        controllers=frozenset([meta.name]),
        placeable=suspended and ("startTime" not in status or true_condition(status, "Suspended") is not None),
        begun=any(status.get(kind) for kind in ("ready", "succeeded", "failed", "terminating")),
        held=ANNOTATION_HELD in meta.annotations or bool(_original(raw)),
        started=optional_instant(status, "startTime"),
        complete=since(true_condition(status, "Complete")),
        failed=since(failed),
        failed_message=message,
        failed_by_disruption=_DISRUPTED in message,
        failed_pods=failed_pods,
        retries=max(spec.get("backoffLimit", _RETRIES) - max(allowed, failed_pods), 0),
        asked=wanted,
        problem=problem,
        warning=spot_refused(spec) if not problem and wants_spot(meta) else "",
    )


class AdoptedJob:
    """See ``TargetKind``. An Indexed Job changes its width; of others ``completions`` cannot change."""

    name: Final = "Job"
    kind: Final[WatchedKind[Target]] = WatchedKind("AdoptedJob", JOBS, labelled_job, labels=f"{LABEL_ADOPT}=true")

    def read(self, raw: Raw) -> Target:
        """See ``TargetKind.read``."""
        return _read(raw)

    def shadow(self, raw: Raw) -> Json:
        """See ``TargetKind.shadow``."""
        meta, spec = ObjectMeta.of("Job", raw), {**raw["spec"], **_original(raw)}
        if meta.controller is not None:
            owner = f"{meta.controller.kind} {meta.controller.name}"
            raise NotAdoptable(f"{owner} controls this Job: label that object instead, if its kind can be adopted")
        if _QUEUE in meta.labels:
            raise NotAdoptable(
                f"the label {_QUEUE} gives it to Kueue, and two owners of suspend would undo each other: take one of "
                "the labels off, and see docs/bring-what-you-have.md for queues"
            )
        if spec.get("managedBy", _OWN_CONTROLLER) != _OWN_CONTROLLER:
            raise NotAdoptable(f"spec.managedBy is {spec['managedBy']!r}: another controller makes its pods")
        pods = spec.get("parallelism", 1)
        if pods < 1 or spec.get("completions") != pods:
            raise NotAdoptable(
                f"spec.parallelism is {pods} and spec.completions {spec.get('completions')}: only Jobs whose pods all "
                "run at the same time are adopted; make the two equal"
            )
        indexed = spec.get("completionMode") == "Indexed"
        because = "" if indexed else "set spec.completionMode to Indexed, or leave the annotation out"
        return shadow_spec(
            meta,
            authors_template(raw["spec"]["template"], _original(raw)),
            pods,
            Elasticity(indexed, indexed, because),
            spot_refused(spec),
        )

    def selector(self, raw: Raw) -> str:
        """See ``TargetKind.selector``."""
        return f"batch.kubernetes.io/controller-uid={raw['metadata']['uid']}"

    def place(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """See ``TargetKind.place``."""
        spec, pods = raw["spec"], len(allocation.placements)
        original = _original(raw)
        operations: list[Json] = []
        if not original:
            original = _as_written(raw)
            text = json.dumps({"uid": raw["metadata"]["uid"], **original}, separators=(",", ":"))
            operations += _set_annotation(raw, ANNOTATION_ORIGINAL, text)
        template = placed_template(authors_template(spec["template"], original), job, allocation)
        operations += template_changes("/spec/template", spec["template"], template)
        operations += _spec_changes(raw, {"parallelism": pods, "completions": pods})
        return _patched(raw, operations)

    def start(self, raw: Raw) -> Sequence[Write]:
        """See ``TargetKind.start``."""
        return _patched(raw, _spec_changes(raw, {"suspend": False}))

    def stop(self, raw: Raw) -> Sequence[Write]:
        """See ``TargetKind.stop``. One that nobody placed is noted as held, since its author did not suspend it."""
        operations = _spec_changes(raw, {"suspend": True})
        if operations and not _original(raw):
            operations += _set_annotation(raw, ANNOTATION_HELD, "true")
        return _patched(raw, operations)

    def resize(self, raw: Raw, pods: int, retries: int) -> Sequence[Write]:
        """See ``TargetKind.resize``. The API lets completions change only together with parallelism."""
        failed = (raw.get("status") or {}).get("failed") or 0
        allowed = _original(raw).get("backoffLimit", _RETRIES)
        limit = max(allowed, failed + retries) if retries else allowed
        return _patched(raw, _spec_changes(raw, {"parallelism": pods, "completions": pods, "backoffLimit": limit}))

    def restore(self, raw: Raw) -> Sequence[Write]:
        """See ``TargetKind.restore``."""
        meta, original = raw["metadata"], _original(raw)
        annotations = meta.get("annotations") or {}
        operations: list[Json] = []
        if original:
            wanted = authors_template(raw["spec"]["template"], original)
            operations += template_changes("/spec/template", raw["spec"]["template"], wanted)
            operations += _spec_changes(raw, {key: original[key] for key in (*_WIDTH, "suspend") if key in original})
        elif ANNOTATION_HELD in annotations:
            operations += _spec_changes(raw, {"suspend": False})
        operations += [
            {"op": "remove", "path": pointer("metadata", "annotations", name)}
            for name in (ANNOTATION_HELD, ANNOTATION_ORIGINAL)
            if name in annotations
        ]
        return _patched(raw, operations)


ADOPTED_JOB: Final[TargetKind] = AdoptedJob()


def spot_refused(spec: Mapping[str, Any]) -> str:
    """Why a pod that is lost with its node fails the Job for good; empty where the Job survives that."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        if any(pattern.get("type") == _DISRUPTED for pattern in rule.get("onPodConditions") or ()):
            if rule.get("action") == "Ignore":
                return ""
            if rule.get("action") in ("FailJob", "FailIndex"):
                return (
                    f"its podFailurePolicy says {rule['action']} for {_DISRUPTED}, so a lost node would end it for good"
                )
    limits = [spec[key] for key in ("backoffLimit", "backoffLimitPerIndex") if spec.get(key) is not None]
    least = min(limits, default=_RETRIES)
    if least > 0:
        return ""
    return (
        "its backoffLimit is 0, so a lost node would end it for good: give it a podFailurePolicy that ignores "
        f"{_DISRUPTED}, or a backoffLimit"
    )


def _original(raw: Raw) -> Mapping[str, Any]:
    """What the author wrote, as noted on the object itself; empty where it was never placed, or is a copy of one."""
    try:
        noted = json.loads((raw["metadata"].get("annotations") or {}).get(ANNOTATION_ORIGINAL, "{}"))
    except ValueError:
        return {}
    return noted if isinstance(noted, dict) and noted.get("uid") == raw["metadata"]["uid"] else {}


def _as_written(raw: Raw) -> Json:
    spec = raw["spec"]
    held = ANNOTATION_HELD in (raw["metadata"].get("annotations") or {})
    return {
        **{key: spec[key] for key in _WIDTH if key in spec},
        "suspend": not held and bool(spec.get("suspend")),
        **authors_parts(spec["template"]),
    }


def _spec_changes(raw: Raw, values: Mapping[str, Any]) -> list[Json]:
    spec = raw["spec"]
    return [
        {"op": "add", "path": pointer("spec", key), "value": value}
        for key, value in values.items()
        if spec.get(key) != value
    ]


def _set_annotation(raw: Raw, name: str, value: str) -> list[Json]:
    if not raw["metadata"].get("annotations"):
        return [{"op": "add", "path": "/metadata/annotations", "value": {name: value}}]
    return [{"op": "add", "path": pointer("metadata", "annotations", name), "value": value}]


def _patched(raw: Raw, operations: Sequence[Mapping[str, Any]]) -> tuple[Write, ...]:
    meta = raw["metadata"]
    return patch_of(JOBS.one(meta["name"], meta["namespace"]), raw, operations)
