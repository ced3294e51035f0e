"""Decoding Purser's own kinds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final
from zoneinfo import ZoneInfo

from purser.api import base, gpubudget, gpupool, gpurental, speedupprofile, trainingjob
from purser.api.base import ApiModel
from purser.api.decode.learned import learned_profile
from purser.api.decode.reading import Meta, Raw, gpus_of
from purser.api.names import FINALIZER_IN_USE, GPU_RESOURCE
from purser.api.view import Condition, ConditionStatus
from purser.domain.budget import Balance, Budget, Experience, MoveLimits, PastPeriod, Selector
from purser.domain.errors import InvalidObject
from purser.domain.ids import BudgetId, ClassId, InstanceId, JobId, NodeName, PoolId, RentalId
from purser.domain.job import Allocation, Finish, Job, Placement, Progress, RunRecord, Widths
from purser.domain.money import ZERO
from purser.domain.option import Option
from purser.domain.period import QuietHours
from purser.domain.pool import CapacityType, FakeGroup, Offering, Pool, PriceSegment, Quote
from purser.domain.profile import Amdahl, BatchTerms, Phase, PowerLaw, Profile, SpeedCurve, Table
from purser.domain.rental import Rental, RentalPhase

_DEFAULT_GRACE_SECONDS: Final = 30
_LONGEST_GRACE_SECONDS: Final = 86_400
"""Money is held back for the time that a job may take to stop: it must not be for ever."""


class _Conditions(ApiModel):
    conditions: tuple[base.Condition, ...] = ()


def conditions(raw: Raw) -> tuple[Condition, ...]:
    """The conditions in the status of any of Purser's kinds, with the times of their last transitions."""
    status = Meta.of(str(raw.get("kind", "")), raw).read(_Conditions, "status", raw)
    return tuple(
        Condition(one.type, ConditionStatus(one.status), one.reason, one.message, one.last_transition_time)
        for one in status.conditions
    )


# --- TrainingJob ------------------------------------------------------------------------------------------------------


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
    meta = Meta.of("TrainingJob", raw)
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
        class_id=ClassId(f"{meta.namespace}/{spec.profile_name}" if spec.profile_name else f"uid/{meta.uid}"),
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


# --- SpeedupProfile ---------------------------------------------------------------------------------------------------


def profile(raw: Raw) -> Profile:
    """A SpeedupProfile; InvalidObject when a measured throughput falls as GPUs are added.

    What is wrong with the learned part of its status makes ``Profile.unreadable``: the declared curves count then.
    """
    meta = Meta.of("SpeedupProfile", raw)
    spec = meta.read(speedupprofile.SpeedupProfileSpec, "spec", raw)
    curves = tuple(_curve(meta, f"spec.curves[{index}]", curve) for index, curve in enumerate(spec.curves))
    declared = Profile(
        id=ClassId(f"{meta.namespace}/{meta.name}"),
        generation=meta.generation,
        phases=(Phase(1.0, curves),),
        mean_work=spec.mean_work,
        arrivals_per_hour=spec.arrivals_per_hour,
        restart_seconds=spec.restart_seconds,
        resize_seconds=spec.resize_seconds,
        declared=curves,
        batch=None if spec.batch is None else _batch(spec.batch),
    )
    try:
        status = meta.read(speedupprofile.SpeedupProfileRecord, "status", raw)
    except InvalidObject as error:
        return replace(declared, unreadable=f"{error.problem.field}: {error.problem.message}")
    return declared if status.learned is None else learned_profile(declared, status.learned)


def _batch(batch: speedupprofile.Batch) -> BatchTerms:
    return BatchTerms(batch.own, batch.largest, batch.largest_per_gpu, batch.smallest_per_gpu)


def _curve(meta: Meta, path: str, curve: speedupprofile.Curve) -> SpeedCurve:
    if curve.throughput is not None:
        return SpeedCurve(curve.gpu_type, _table(meta, f"{path}.throughput", curve.throughput))
    if curve.amdahl is not None:
        return SpeedCurve(curve.gpu_type, Amdahl(curve.amdahl.parallel_fraction, curve.amdahl.value))
    if curve.power is not None:
        return SpeedCurve(curve.gpu_type, PowerLaw(curve.power.exponent, curve.power.value))
    raise meta.invalid(path, "NoCurve", "give exactly one of throughput, amdahl and power")


def _table(meta: Meta, path: str, points: tuple[speedupprofile.ThroughputPoint, ...]) -> Table:
    ascending = tuple(sorted((point.gpus, point.value) for point in points))
    for (fewer, fast), (more, slow) in pairwise(ascending):
        if more == fewer:
            raise meta.invalid(path, "DuplicatePoint", f"{more} GPUs are given twice; keep one value")
        if slow < fast:
            message = f"throughput falls from {fast:g} on {fewer} GPUs to {slow:g} on {more}; leave the slower one out"
            raise meta.invalid(path, "CurveNotIncreasing", message)
    return Table(ascending)


# --- GPUBudget --------------------------------------------------------------------------------------------------------


def budget(raw: Raw) -> Budget:
    """A GPUBudget with its balance; InvalidObject when its time zone is not known here."""
    meta = Meta.of("GPUBudget", raw)
    spec = meta.read(gpubudget.GPUBudgetSpec, "spec", raw)
    try:
        ZoneInfo(spec.time_zone)
    except (LookupError, ValueError, OSError) as error:
        message = f"{spec.time_zone!r} is no time zone that this operator knows; use an IANA name like Europe/Berlin"
        raise meta.invalid("spec.timeZone", "UnknownTimeZone", message) from error
    return Budget(
        id=BudgetId(meta.name),
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        created=meta.created,
        amount=spec.amount,
        time_zone=spec.time_zone,
        selector=_selector(spec.namespace_selector),
        mode=spec.mode,
        hard_limit=spec.hard_limit,
        max_hourly_rate=spec.max_hourly_rate,
        opening_spend=ZERO if spec.opening_spend is None else spec.opening_spend,
        weights=tuple((one.priority_class_name, one.weight) for one in spec.weights),
        balance=_balance(meta.read(gpubudget.GPUBudgetRecord, "status", raw)),
        deleting=meta.deleting,
        guarded=FINALIZER_IN_USE in meta.finalizers,
        carry_over_percent=spec.carry_over_percent,
        exploration_percent=spec.exploration_percent,
        moves=MoveLimits() if spec.moves is None else _moves(spec.moves),
    )


def _moves(moves: gpubudget.Moves) -> MoveLimits:
    quiet = (QuietHours(_minutes(one.start), _minutes(one.end), frozenset(one.days)) for one in moves.quiet_hours)
    return MoveLimits(moves.max_per_job_per_day, tuple(quiet))


def _minutes(day_time: str) -> int:
    hours, minutes = day_time.split(":")
    return int(hours) * 60 + int(minutes)


def _selector(selector: gpubudget.NamespaceSelector) -> Selector:
    return Selector(
        match_labels=tuple(sorted(selector.match_labels.items())),
        match_expressions=tuple((one.key, one.operator, one.values) for one in selector.match_expressions),
    )


def _balance(status: gpubudget.GPUBudgetRecord) -> Balance | None:
    if status.period_start is None:
        return None
    return Balance(
        period_start=status.period_start,
        settled=ZERO if status.settled is None else status.settled,
        lifetime=ZERO if status.lifetime is None else status.lifetime,
        folded=frozenset(status.folded),
        history=tuple(PastPeriod(one.start, one.spent, one.aim) for one in status.history),
        carried=ZERO if status.carried is None else status.carried,
        experience={
            ClassId(one.name): Experience(
                one.jobs, one.predicted, one.actual, one.squares, one.since, one.at, one.came, one.came_lately
            )
            for one in status.classes
        },
        jobs_cost=ZERO if status.jobs_cost is None else status.jobs_cost,
        counted={one.uid: one.finished for one in status.counted_jobs},
        counted_through=status.counted_through,
    )


# --- GPUPool ----------------------------------------------------------------------------------------------------------


class _PoolStatus(gpupool.GPUPoolRecord):
    """The record, and what was last heard from the cloud: it serves until the cloud answers again."""

    offering: gpupool.PoolOffering | None = None
    quote: gpupool.PoolQuote | None = None


def pool(raw: Raw) -> Pool:
    """A GPUPool, with the offering and the quote that its status shows."""
    meta = Meta.of("GPUPool", raw)
    spec = meta.read(gpupool.GPUPoolSpec, "spec", raw)
    status = meta.read(_PoolStatus, "status", raw)
    price = spec.price or gpupool.PoolPrice()
    return Pool(
        id=PoolId(meta.name),
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        cloud=FakeGroup(spec.fake.endpoint, spec.fake.group),
        max_nodes=spec.max_nodes,
        capacity_type=CapacityType(spec.capacity_type),
        start_seconds=float(spec.start_seconds),
        cooldown_seconds=float(spec.cooldown_seconds),
        price_override=price.hourly,
        offering=None if status.offering is None else _offering(status.offering),
        quote=None if status.quote is None else _quote(status.quote),
        cooled_until=status.cooled_until,
        cooled_because=status.cooled_because,
        deleting=meta.deleting,
        guarded=FINALIZER_IN_USE in meta.finalizers,
        price_adjustment=_basis_points(price.adjustment or "0%"),
        cooled_message=status.cooled_message,
    )


def _basis_points(percent: str) -> int:
    return int(Decimal(percent.removesuffix("%")) * 100)


def _offering(status: gpupool.PoolOffering) -> Offering:
    return Offering(status.gpu_type, status.gpus_per_node, status.instance_type, status.zone)


def _quote(status: gpupool.PoolQuote) -> Quote:
    return Quote(status.hourly, status.worst_hourly, status.billing_minimum_seconds, status.source, status.as_of)


# --- GPURental --------------------------------------------------------------------------------------------------------


def rental(raw: Raw) -> Rental:
    """A GPURental; one that was made for an instance nobody had asked for knows it before its status does."""
    meta = Meta.of("GPURental", raw)
    spec = meta.read(gpurental.GPURentalSpec, "spec", raw)
    status = meta.read(gpurental.GPURentalRecord, "status", raw)
    instance = status.instance or spec.instance
    return Rental(
        id=RentalId(meta.name),
        uid=meta.uid,
        resource_version=meta.resource_version,
        pool=PoolId(spec.pool),
        budget=BudgetId(spec.budget),
        created=meta.created,
        phase=status.phase or RentalPhase.REQUESTED,
        reserved=spec.reserved,
        worst=spec.worst_hourly,
        billing_minimum_seconds=status.billing_minimum_seconds,
        segments=tuple(PriceSegment(one.since, one.hourly) for one in status.segments),
        instance=None if instance is None else InstanceId(instance),
        provider_id=status.provider_id,
        node=None if status.node is None else NodeName(status.node),
        launched=status.launched_at,
        ready=status.ready_at,
        ended=status.ended_at,
        cost=status.cost,
        released_because=status.released_because,
        deleting=meta.deleting,
    )
