"""A team's own batch/v1 Job, adopted in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from charterer.api.decode.core import optional_instant, sentence, since
from charterer.api.metadata import ObjectMeta, Raw, true_condition
from charterer.api.models.base import Json
from charterer.cluster.kinds import pointer
from charterer.cluster.paths import JOBS
from charterer.domain.job import Allocation, Job
from charterer.domain.target import Target
from charterer.domain.time import Instant
from charterer.workloads.adopted.asks import Elasticity, LabelledKind, asked, shadow_spec, wants_spot, when_given_up
from charterer.workloads.adopted.noted import (
    authors_parts,
    authors_template,
    given_back,
    is_held,
    kept_running,
    note_given_up,
    note_original,
    original,
    placed_run,
    placed_template,
    refuse_other_owners,
    template_changes,
)
from charterer.workloads.adopted.target_kind import NotAdoptable, TargetKind, Write

_DISRUPTED: Final = "DisruptionTarget"
_OWN_CONTROLLER: Final = "kubernetes.io/job-controller"
_WIDTH: Final = ("parallelism", "completions", "backoffLimit")
_RETRIES: Final = 6
"""Kubernetes' default of backoffLimit."""


class AdoptedJob(LabelledKind):
    """See ``TargetKind``. The width of an Indexed Job can change. In other Jobs ``completions`` cannot change."""

    def __init__(self) -> None:
        super().__init__("Job", JOBS, watched="AdoptedJob", optional=False)

    def read(self, raw: Raw) -> Target:
        """See ``TargetKind.read``."""
        meta = ObjectMeta.of(self.name, raw)
        spec, status = raw.get("spec") or {}, raw.get("status") or {}
        labels = (spec["template"].get("metadata") or {}).get("labels") or {}
        failed = true_condition(status, "Failed")
        message = "" if failed is None else sentence(failed)
        failed_pods = status.get("failed") or 0
        job, run = placed_run(labels)
        suspended = bool(spec.get("suspend"))
        wanted, problem = None, ""
        try:
            wanted = asked(self.shadow(raw))
        except NotAdoptable as error:
            problem = str(error)
        allowed = original(raw).get("backoffLimit", spec.get("backoffLimit", _RETRIES))
        return Target(
            ref=self._ref(meta),
            namespace=meta.namespace,
            resource_version=meta.resource_version,
            created=meta.created,
            suspended=suspended,
            deleting=meta.deleting,
            job=job,
            run=run,
            pods=spec.get("parallelism", 1),
            indexed=spec.get("completionMode") == "Indexed",
            controllers=frozenset([meta.name]),
            placeable=suspended and ("startTime" not in status or true_condition(status, "Suspended") is not None),
            begun=any(status.get(kind) for kind in ("ready", "succeeded", "failed", "terminating")),
            held=is_held(raw),
            started=optional_instant(status, "startTime"),
            complete=since(true_condition(status, "Complete")),
            failed=since(failed),
            failed_message=message,
            failed_by_disruption=_DISRUPTED in message,
            failed_pods=failed_pods,
            retries=max(spec.get("backoffLimit", _RETRIES) - max(allowed, failed_pods), 0),
            asked=wanted,
            problem=problem,
            warning=(spot_refused_by_job(spec) if not problem and wants_spot(meta) else "") or kept_running(raw),
            when_given_up=when_given_up(meta),
            ending=spec.get("activeDeadlineSeconds") == 0 and not suspended,
        )

    def shadow(self, raw: Raw) -> Json:
        """See ``TargetKind.shadow``."""
        meta, spec = ObjectMeta.of(self.name, raw), {**raw["spec"], **original(raw)}
        refuse_other_owners(meta, spec, _OWN_CONTROLLER)
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
            authors_template(raw["spec"]["template"], original(raw)),
            pods,
            Elasticity(indexed, indexed, because),
            spot_refused_by_job(spec),
        )

    def selector(self, raw: Raw) -> str:
        """See ``TargetKind.selector``."""
        return f"batch.kubernetes.io/controller-uid={raw['metadata']['uid']}"

    def place(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """See ``TargetKind.place``."""
        spec, pods = raw["spec"], len(allocation.placements)
        noted = original(raw)
        operations: list[Json] = []
        if not noted:
            noted = {**{key: spec[key] for key in _WIDTH if key in spec}, **authors_parts(spec["template"])}
            operations += note_original(raw, noted)
        template = placed_template(authors_template(spec["template"], noted), job, allocation)
        operations += template_changes("/spec/template", spec["template"], template)
        operations += _spec_changes(raw, {"parallelism": pods, "completions": pods})
        return self._patched(raw, operations)

    def resize(self, raw: Raw, pods: int, retries: int, leaving: Sequence[str] = ()) -> Sequence[Write]:
        """See ``TargetKind.resize``. The API lets completions change only together with parallelism."""
        failed = (raw.get("status") or {}).get("failed") or 0
        allowed = original(raw).get("backoffLimit", _RETRIES)
        limit = max(allowed, failed + retries) if retries else allowed
        return self._patched(raw, _spec_changes(raw, {"parallelism": pods, "completions": pods, "backoffLimit": limit}))

    def fail(self, raw: Raw, reason: str, message: str, now: Instant) -> Sequence[Write]:
        """See ``TargetKind.fail``.

        The resumed Job has a deadline of 0 seconds, so it fails before its controller makes a pod.
        """
        ended = _spec_changes(raw, {"activeDeadlineSeconds": 0, "suspend": False})
        return self._patched(raw, [*note_given_up(raw, reason, message), *ended])

    def restore(self, raw: Raw) -> Sequence[Write]:
        """See ``TargetKind.restore``."""
        noted = original(raw)
        operations: list[Json] = []
        if noted:
            wanted = authors_template(raw["spec"]["template"], noted)
            operations += template_changes("/spec/template", raw["spec"]["template"], wanted)
            operations += _spec_changes(raw, {key: noted[key] for key in _WIDTH if key in noted})
        return self._patched(raw, [*operations, *given_back(raw)])


ADOPTED_JOB: Final[TargetKind] = AdoptedJob()


def spot_refused_by_job(spec: Mapping[str, Any]) -> str:
    """The reason why losing a pod with its node fails the Job for good, or an empty text if the Job survives that."""
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


def _spec_changes(raw: Raw, values: Mapping[str, Any]) -> list[Json]:
    spec = raw["spec"]
    return [
        {"op": "add", "path": pointer("spec", key), "value": value}
        for key, value in values.items()
        if spec.get(key) != value
    ]
