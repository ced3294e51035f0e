"""A team's own batch/v1 Job, carried out in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from charterer.api.decode.core import optional_instant, sentence, since
from charterer.api.metadata import ObjectMeta, Raw, true_condition
from charterer.api.models.base import Json
from charterer.api.names import ANNOTATION_HELD, LABEL_ADOPT, LABEL_JOB_UID, LABEL_RUN
from charterer.cluster.patches import pointer
from charterer.cluster.paths import JOBS
from charterer.cluster.store import WatchedKind
from charterer.domain.job import Allocation, Job
from charterer.domain.jobs.target import Target, TargetRef
from charterer.workloads.adopted.target_kind import TargetKind, Write, patch_of

_DISRUPTED: Final = "DisruptionTarget"
_SUSPEND: Final = pointer("spec", "suspend")


def decode_target(raw: Raw) -> Target:
    """A labelled Job."""
    meta = ObjectMeta.of("Job", raw)
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    failed = true_condition(status, "Failed")
    message = "" if failed is None else sentence(failed)
    failed_pods = status.get("failed") or 0
    run = labels.get(LABEL_RUN, "")
    suspended = bool(spec.get("suspend"))
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
        held=ANNOTATION_HELD in meta.annotations,
        started=optional_instant(status, "startTime"),
        complete=since(true_condition(status, "Complete")),
        failed=since(failed),
        failed_message=message,
        failed_by_disruption=_DISRUPTED in message,
        failed_pods=failed_pods,
        retries=max(spec.get("backoffLimit", 6) - failed_pods, 0),
    )


class AdoptedJob:
    """See ``TargetKind``."""

    kind: Final[WatchedKind[Target]] = WatchedKind("AdoptedJob", JOBS, decode_target, labels=f"{LABEL_ADOPT}=true")

    def shadow(self, raw: Raw) -> Json:
        """See ``TargetKind.shadow``."""
        return {"template": raw["spec"]["template"]}

    def place(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """See ``TargetKind.place``."""
        raise NotImplementedError

    def start(self, raw: Raw) -> Sequence[Write]:
        """See ``TargetKind.start``."""
        return _patched(raw, [{"op": "add", "path": _SUSPEND, "value": False}])

    def stop(self, raw: Raw) -> Sequence[Write]:
        """See ``TargetKind.stop``."""
        suspended = raw["spec"].get("suspend", False)
        return _patched(raw, [] if suspended else [{"op": "add", "path": _SUSPEND, "value": True}])

    def resize(self, raw: Raw, pods: int, retries: int) -> Sequence[Write]:
        """See ``TargetKind.resize``. The API lets completions change only together with parallelism."""
        failed = (raw.get("status") or {}).get("failed") or 0
        values = {"parallelism": pods, "completions": pods, "backoffLimit": failed + retries}
        return _patched(
            raw, [{"op": "add", "path": pointer("spec", key), "value": value} for key, value in values.items()]
        )

    def restore(self, raw: Raw) -> Sequence[Write]:
        """See ``TargetKind.restore``."""
        raise NotImplementedError


ADOPTED_JOB: Final[TargetKind] = AdoptedJob()


def _patched(raw: Raw, operations: Sequence[Mapping[str, Any]]) -> tuple[Write, ...]:
    meta = raw["metadata"]
    return patch_of(JOBS.one(meta["name"], meta["namespace"]), raw, operations)
