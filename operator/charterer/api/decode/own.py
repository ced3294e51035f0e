"""Decoding of Charterer's own kinds: the models read the parts of an object and make the domain value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from charterer.api.metadata import ObjectMeta, Raw
from charterer.api.models.base import BOTTLENECKS, ApiModel, ConditionStatus
from charterer.api.models.gpubudget import GPUBudgetSpec
from charterer.api.models.gpubudget_status import GPUBudgetRecord
from charterer.api.models.gpupool import GPUPoolRecord, GPUPoolSpec
from charterer.api.models.gpupoolset import GPUPoolSetSpec
from charterer.api.models.gpurental import GPURentalRecord, GPURentalSpec
from charterer.api.models.speedupprofile import SpeedupProfileRecord, SpeedupProfileSpec
from charterer.api.models.trainingjob import DecodedJob, ToldBottleneck, TrainingJobSpec
from charterer.api.models.trainingjob_status import INVALID_TEMPLATE, TrainingJobRecord
from charterer.api.names import ConditionType
from charterer.domain.budget import Budget
from charterer.domain.errors import InvalidObject
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import Pool
from charterer.domain.pool_set import PoolSet
from charterer.domain.profile import Profile
from charterer.domain.rental import Rental
from charterer.domain.target import ToldReady
from charterer.domain.time import parse_instant

_S = TypeVar("_S", bound=ApiModel)
_R = TypeVar("_R", bound=ApiModel)
_V = TypeVar("_V")


def _decoded(raw: Raw, kind: str, spec: type[_S], record: type[_R], value: Callable[[_S, ObjectMeta, _R], _V]) -> _V:
    meta = ObjectMeta.of(kind, raw)
    return value(meta.read(spec, "spec", raw), meta, meta.read(record, "status", raw))


def training_job(raw: Raw) -> DecodedJob:
    """Decode a TrainingJob."""
    decoded = _decoded(raw, "TrainingJob", TrainingJobSpec, TrainingJobRecord, TrainingJobSpec.to_domain)
    if decoded.job.target is not None:
        decoded = replace(decoded, job=replace(decoded.job, told_ready=_told_ready(raw)))
    verdict = _template_verdict(raw, decoded.job.generation)
    told, waits = _held_up(raw), _not_starting(raw)
    if verdict is None and not told and not waits:
        return decoded
    return replace(decoded, template_verdict=verdict, held_up=told, not_starting=waits)


def _told_ready(raw: Raw) -> ToldReady | None:
    """The status of the condition PodsReady and the time of its last transition, or None if there is no such
    condition.
    """
    for condition in (raw.get("status") or {}).get("conditions") or ():
        if condition.get("type") == ConditionType.PODS_READY and condition.get("lastTransitionTime"):
            since = parse_instant(condition["lastTransitionTime"])
            return ToldReady(condition.get("status") == ConditionStatus.TRUE, since)
    return None


def _not_starting(raw: Raw) -> str:
    """The message of the condition PodsReady if it gives a reason why the run does not start."""
    for condition in (raw.get("status") or {}).get("conditions") or ():
        if condition.get("type") == ConditionType.PODS_READY and condition.get("reason") == ReasonCode.NOT_STARTING:
            return str(condition.get("message", ""))
    return ""


def _held_up(raw: Raw) -> tuple[ToldBottleneck, ...]:
    """The conditions that report a bottleneck of the job's run."""
    return tuple(
        ToldBottleneck(condition["type"], str(condition.get("reason", "")), str(condition.get("message", "")))
        for condition in (raw.get("status") or {}).get("conditions") or ()
        if condition.get("type") in BOTTLENECKS
    )


def _template_verdict(raw: Raw, generation: int) -> str | None:
    """The reason why the condition Admitted refuses the template of this generation. Empty if the template is accepted.
    None if unknown.
    """
    for condition in (raw.get("status") or {}).get("conditions") or ():
        if condition.get("type") == ConditionType.ADMITTED:
            if condition.get("observedGeneration") != generation or condition.get("status") == ConditionStatus.UNKNOWN:
                return None
            return str(condition.get("message", "")) if condition.get("reason") == INVALID_TEMPLATE else ""
    return None


def budget(raw: Raw) -> Budget:
    """Decode a GPUBudget with its balance."""
    return _decoded(raw, "GPUBudget", GPUBudgetSpec, GPUBudgetRecord, GPUBudgetSpec.to_domain)


def pool(raw: Raw) -> Pool:
    """Decode a GPUPool with the recorded offering and quote, and the message of its condition Ready."""
    decoded = _decoded(raw, "GPUPool", GPUPoolSpec, GPUPoolRecord, GPUPoolSpec.to_domain)
    trouble = _trouble(raw, decoded.generation)
    return replace(decoded, trouble=trouble) if trouble else decoded


def pool_set(raw: Raw) -> PoolSet:
    """Decode a GPUPoolSet with the pools that it declares."""
    meta = ObjectMeta.of("GPUPoolSet", raw)
    return meta.read(GPUPoolSetSpec, "spec", raw).to_domain(meta)


def _trouble(raw: Raw, generation: int) -> str:
    """The reason why the object of this generation was not ready, by its condition. Empty if it was ready, or if that
    is unknown.
    """
    for condition in (raw.get("status") or {}).get("conditions") or ():
        seen = condition.get("observedGeneration") == generation
        if condition.get("type") == ConditionType.READY and condition.get("status") == ConditionStatus.FALSE and seen:
            return str(condition.get("message", ""))
    return ""


def rental(raw: Raw) -> Rental:
    """Decode a GPURental."""
    return _decoded(raw, "GPURental", GPURentalSpec, GPURentalRecord, GPURentalSpec.to_domain)


def profile(raw: Raw) -> Profile:
    """Decode a SpeedupProfile. If the learned part of its status cannot be read, the declared curves count."""
    meta = ObjectMeta.of("SpeedupProfile", raw)
    spec = meta.read(SpeedupProfileSpec, "spec", raw)
    try:
        record = meta.read(SpeedupProfileRecord, "status", raw)
        record.statistics()
    except InvalidObject as error:
        return spec.to_domain(meta, SpeedupProfileRecord(), f"{error.problem.field}: {error.problem.message}")
    except ValueError as error:
        return spec.to_domain(meta, SpeedupProfileRecord(), str(error))
    return spec.to_domain(meta, record)
