"""Decoding TrainingJobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from charterer.api.metadata import ObjectMeta, Raw, conditions, gpus_of
from charterer.api.models import trainingjob
from charterer.api.names import GPU_RESOURCE
from charterer.api.view import Condition
from charterer.domain.ids import ClassId, JobId, PoolId, RentalId
from charterer.domain.job import Allocation, Finish, Job, Placement, Progress, RunRecord, Widths
from charterer.domain.money import ZERO
from charterer.domain.option import Option

_DEFAULT_GRACE_SECONDS: Final = 30
_LONGEST_GRACE_SECONDS: Final = 86_400
"""Money is held back for the time that a job may take to stop: it must not be for ever."""


@dataclass(frozen=True, slots=True)
class DecodedJob:
    """A TrainingJob and the names in it that only a join can resolve.

    In ``job``, ``budget`` is None, ``weight`` 1, ``remaining`` None, ``runs`` empty and ``has_service`` False
    until they are joined.
    """

    job: Job
    priority_class: str
    profile_name: str
    conditions: tuple[Condition, ...]


def training_job(raw: Raw) -> DecodedJob:
    """A TrainingJob. What is wrong with its template makes ``Job.invalid``, so that its runs stay in sight."""
    meta = ObjectMeta.of("TrainingJob", raw)
    spec = meta.read(trainingjob.TrainingJobSpec, "spec", raw)
    status = meta.read(trainingjob.TrainingJobRecord, "status", raw)
    pod_gpus, refusal = _template_gpus(spec)
    grace_seconds, too_long = _template_grace(spec)
    refusal = refusal or too_long
    if status.invalid is not None and status.invalid.generation == meta.generation:
        refusal = status.invalid.message
    job = Job(
        id=JobId(meta.uid),
        namespace=meta.namespace,
        name=meta.name,
        generation=meta.generation,
        resource_version=meta.resource_version,
        created=meta.created,
        budget=None,
        class_id=ClassId(meta.namespace, spec.profile_name) if spec.profile_name else ClassId.of_job(JobId(meta.uid)),
        weight=1.0,
        widths=_widths(spec.gpus, pod_gpus),
        gpu_types=spec.gpu_types,
        spot=spec.spot_policy,
        resize=spec.resize_policy,
        suspend=spec.suspend,
        deleting=meta.deleting,
        backoff_limit=spec.backoff_limit,
        max_restarts=spec.max_restarts,
        ready_timeout_seconds=float(spec.ready_timeout_seconds),
        ttl_seconds_after_finished=spec.ttl_seconds_after_finished,
        grace_seconds=grace_seconds,
        pod_gpus=pod_gpus,
        remaining=None,
        progress=None if status.progress is None else _progress(status.progress),
        allocation=None if status.allocation is None else _allocation(status.allocation),
        last_run=status.last_run,
        records=tuple(_run(one) for one in status.runs),
        failures=status.failures,
        restarts=status.restarts,
        finish=None if status.finish is None else _finish(status.finish),
        invalid=refusal,
        runs=(),
        replaced=tuple(_allocation(one) for one in status.replaced),
        max_cost=spec.max_cost,
        target_completion=spec.target_completion_time,
        predicted=status.predicted,
        moves=status.moves,
        earlier_cost=status.earlier_cost or ZERO,
    )
    return DecodedJob(job, spec.priority_class_name or "", spec.profile_name or "", conditions(raw))


def _template_gpus(spec: trainingjob.TrainingJobSpec) -> tuple[int, str]:
    """GPUs of the first container, and why the template cannot be run (empty when nothing speaks against it)."""
    path = "spec.template.spec.containers"
    containers: list[Any] = (spec.template.get("spec") or {}).get("containers") or []
    counts: list[int] = []
    for index, container in enumerate(containers):
        try:
            counts.append(gpus_of(container, GPU_RESOURCE))
        except ValueError:
            return 0, f"{path}[{index}].resources.limits: {GPU_RESOURCE} must be a whole number of GPUs"
    if not counts:
        return 0, f"{path} is empty: name the trainer's container"
    for index, count in enumerate(counts[1:], start=1):
        if count:
            return counts[0], f"{path}[{index}] asks for {count} {GPU_RESOURCE}; only the first container may have GPUs"
    if spec.gpus is None and counts[0] < 1:
        return 0, f"no GPUs: set spec.gpus, or {GPU_RESOURCE} in {path}[0].resources.limits, to at least 1"
    return counts[0], ""


def _template_grace(spec: trainingjob.TrainingJobSpec) -> tuple[int, str]:
    """Seconds that the pods may take to stop, and why they cannot be so many (empty when they can)."""
    path = "spec.template.spec.terminationGracePeriodSeconds"
    written = (spec.template.get("spec") or {}).get("terminationGracePeriodSeconds")
    if written is None:
        return _DEFAULT_GRACE_SECONDS, ""
    if type(written) is int and 0 <= written <= _LONGEST_GRACE_SECONDS:
        return written, ""
    told = f"{path} is {written!r:.40}; give whole seconds from 0 to {_LONGEST_GRACE_SECONDS} (a day)"
    return _DEFAULT_GRACE_SECONDS, told


def _widths(gpus: trainingjob.GpuRange | None, pod_gpus: int) -> Widths:
    if gpus is None:
        return Widths(pod_gpus, pod_gpus, pod_gpus)
    return Widths(gpus.min, gpus.min if gpus.preferred is None else gpus.preferred, gpus.max)


def _allocation(status: trainingjob.AllocationStatus) -> Allocation:
    return Allocation(status.run, _option(status.option), _placements(status.placements), status.since)


def _option(status: trainingjob.OptionStatus) -> Option:
    return Option(
        pool=PoolId(status.pool),
        gpus=status.gpus,
        speed=status.speed,
        price=status.hourly,
        entry_seconds=status.entry_seconds,
        entry_cost=ZERO if status.entry_cost is None else status.entry_cost,
        variant=status.variant,
        trial=status.trial,
    )


def _placements(placements: Iterable[trainingjob.PlacementStatus]) -> tuple[Placement, ...]:
    return tuple(Placement(RentalId(one.rental), one.gpus) for one in placements)


def _run(status: trainingjob.RunStatus) -> RunRecord:
    return RunRecord(
        number=status.number,
        outcome=status.outcome,
        option=_option(status.option),
        placements=_placements(status.placements),
        since=status.since,
        until=status.until,
        message=status.message,
        cost=status.cost,
    )


def _finish(status: trainingjob.FinishStatus) -> Finish:
    return Finish(status.kind, status.at, status.reason, status.message)


def _progress(status: trainingjob.ProgressStatus) -> Progress:
    return Progress(status.run, status.fraction, status.step, status.throughput, status.at)
