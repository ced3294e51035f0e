"""Decoding SpeedupProfiles."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from charterer.api.decode.learned import learned_profile
from charterer.api.metadata import ObjectMeta, Raw
from charterer.api.models import speedupprofile
from charterer.domain.errors import InvalidObject
from charterer.domain.ids import ClassId
from charterer.domain.profile import Amdahl, BatchTerms, Phase, PowerLaw, Profile, SpeedCurve, ThroughputTable


def profile(raw: Raw) -> Profile:
    """A SpeedupProfile; InvalidObject when a measured throughput falls as GPUs are added.

    What is wrong with the learned part of its status makes ``Profile.unreadable``: the declared curves count then.
    """
    meta = ObjectMeta.of("SpeedupProfile", raw)
    spec = meta.read(speedupprofile.SpeedupProfileSpec, "spec", raw)
    curves = tuple(_curve(meta, f"spec.curves[{index}]", curve) for index, curve in enumerate(spec.curves))
    declared = Profile(
        id=ClassId(meta.namespace, meta.name),
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


def _curve(meta: ObjectMeta, path: str, curve: speedupprofile.CurveSpec) -> SpeedCurve:
    if curve.throughput is not None:
        return SpeedCurve(curve.gpu_type, _table(meta, f"{path}.throughput", curve.throughput))
    if curve.amdahl is not None:
        return SpeedCurve(curve.gpu_type, Amdahl(curve.amdahl.parallel_fraction, curve.amdahl.value))
    if curve.power is not None:
        return SpeedCurve(curve.gpu_type, PowerLaw(curve.power.exponent, curve.power.value))
    raise meta.invalid(path, "NoCurve", "give exactly one of throughput, amdahl and power")


def _table(meta: ObjectMeta, path: str, points: tuple[speedupprofile.ThroughputPoint, ...]) -> ThroughputTable:
    ascending = tuple(sorted((point.gpus, point.value) for point in points))
    for (fewer, fast), (more, slow) in pairwise(ascending):
        if more == fewer:
            raise meta.invalid(path, "DuplicatePoint", f"{more} GPUs are given twice; keep one value")
        if slow < fast:
            message = f"throughput falls from {fast:g} on {fewer} GPUs to {slow:g} on {more}; leave the slower one out"
            raise meta.invalid(path, "CurveNotIncreasing", message)
    return ThroughputTable(ascending)
