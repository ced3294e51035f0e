"""What is expected of each class: seconds of a step and of a checkpoint, as the operator's own learner has them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, exp, sqrt
from typing import Any

from charterer.api.metadata import ObjectMeta
from charterer.api.models.learned_record import class_state
from charterer.api.models.speedupprofile import SpeedupProfileRecord
from charterer.domain.errors import InvalidObject
from charterer.domain.ids import ClassId, PoolId
from charterer.domain.pool import Pool
from charterer.domain.profile import BatchTerms, CurveSource, Profile
from charterer.estimate.class_state import ClassState
from charterer.estimate.learned import LIKELY
from charterer.estimate.learner import DEFAULT_NODE_GPUS, Learner
from charterer.estimate.observation import Shape, split
from charterer.gpu_types import data_sheet, slice_profile
from charterer.policy.options.checkpoint_time import checkpoint_seconds

_ONE_SAMPLE = BatchTerms(1, 1, 1)
"""The batch of a class whose batch nobody declared and no job reported: seconds are those of a sample."""


class PredictionBasis(StrEnum):
    """Where the seconds of a checkpoint come from, or those of a start-up that nobody saw."""

    DECLARED = "declared"
    KNOWN = "declared or reported"
    PARAMETERS = "by model.parameters"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class StepPrediction:
    """Seconds of a step of ``batch`` samples on so many GPUs, with their 90 % interval; None: of a single sample."""

    gpu_type: str
    gpus: int
    batch: int | None
    seconds: float
    low: float
    high: float
    source: CurveSource

    @property
    def samples_per_second(self) -> float:
        """Throughput."""
        return (self.batch or 1) / self.seconds


@dataclass(frozen=True, slots=True)
class ClassPrediction:
    """What is expected of one class. ``alike``: described classes that have run, which the prior learned from.

    ``missing``: what would have to be declared for a prediction; empty where nothing is.
    """

    class_id: ClassId
    steps: tuple[StepPrediction, ...]
    checkpoint_seconds: float
    checkpoint_basis: PredictionBasis
    alike: int
    missing: str


@dataclass(frozen=True, slots=True)
class StartPrediction:
    """Seconds from a node's launch to its readiness: the mean of those ``seen`` and of those ``declared``."""

    pool: PoolId
    seconds: float
    declared: float
    seen: int

    @property
    def basis(self) -> str:
        """What the seconds are the mean of: ``declared``, or ``3 seen, and 120 declared``."""
        return f"{self.seen} seen, and {self.declared:.0f} declared" if self.seen else PredictionBasis.DECLARED.value


def recorded_states(profiles: Iterable[Mapping[str, Any]]) -> Mapping[ClassId, ClassState]:
    """What the status of SpeedupProfiles remembers, for a learner; unreadable ones are left out, as by the operator."""
    found = {}
    for raw in profiles:
        meta = ObjectMeta.of("SpeedupProfile", raw)
        class_id = ClassId(meta.namespace, meta.name)
        try:
            record = meta.read(SpeedupProfileRecord, "status", raw)
            statistics = record.statistics()
            if record.learned is not None and statistics is not None:
                found[class_id] = class_state(class_id, record.learned, statistics)
        except (InvalidObject, ValueError):
            continue
    return found


def learner_of(profiles: Collection[Profile], states: Mapping[ClassId, ClassState]) -> Learner:
    """The operator's learner, as it is once every class that has run has reported since its last restart."""
    learner = Learner({})
    for profile in profiles:
        state = states.get(profile.id)
        if state is not None:
            learner.restore(state)
        if profile.batch is not None or state is None:
            learner.declare(profile.id, profile.batch or _ONE_SAMPLE)
        learner.describe(profile.id, profile.model)
    there = {profile.id for profile in profiles}
    for class_id, state in states.items():
        for gpu_type in state.times if class_id in there else ():
            learner.step_times(class_id, gpu_type)
    return learner


def class_predictions(
    chosen: Sequence[Profile],
    profiles: Collection[Profile],
    learner: Learner,
    nodes: Mapping[str, int],
    gpus: Sequence[int] = (),
) -> list[ClassPrediction]:
    """The prediction of each chosen class, among all ``profiles`` of ``learner_of``.

    ``nodes``: GPUs of a node by GPU type; ``gpus``: widths, by default 1, a node and two.
    """
    for gpu_type, size in nodes.items():
        learner.set_node_gpus(gpu_type, size)
    return [_class_prediction(profile, profiles, learner, nodes, gpus) for profile in chosen]


def start_predictions(pools: Iterable[Pool]) -> list[StartPrediction]:
    """The prediction of each pool."""
    return [
        StartPrediction(
            pool.id,
            pool.likely_start_seconds,
            pool.start_seconds,
            ceil(pool.known_launches.starts),
        )
        for pool in sorted(pools, key=lambda pool: pool.id)
    ]


def node_sizes(pools: Iterable[Pool], named: Iterable[str]) -> Mapping[str, int]:
    """GPUs of the largest node by GPU type, of the pools and of types that are only named."""
    sizes: dict[str, int] = dict.fromkeys(named, DEFAULT_NODE_GPUS)
    offered: dict[str, int] = {}
    for pool in pools:
        if pool.offering is not None:
            gpu_type = pool.offering.gpu_type
            widest = 1 if slice_profile(gpu_type) else pool.offering.gpus_per_node
            offered[gpu_type] = max(offered.get(gpu_type, 1), widest)
    return sizes | offered


def _class_prediction(
    profile: Profile, profiles: Iterable[Profile], learner: Learner, nodes: Mapping[str, int], gpus: Sequence[int]
) -> ClassPrediction:
    ran = learner.widths_run(profile.id)
    steps = [
        _step(profile.id, learner, gpu_type, size, width)
        for gpu_type, size in sorted(nodes.items())
        if ran or (profile.model.flops_per_sample is not None and data_sheet(gpu_type) is not None)
        for width in _widths(learner, profile.id, size, gpus)
        if width == 1 or not slice_profile(gpu_type)
    ]
    missing = "" if ran or profile.model.flops_per_sample is not None else "spec.model.flopsPerSample"
    alike = sum(other.id != profile.id and _informs(other, learner) for other in profiles)
    seconds = checkpoint_seconds(profile)
    return ClassPrediction(profile.id, tuple(steps), seconds, _checkpoint_basis(profile), alike, missing)


def _informs(other: Profile, learner: Learner) -> bool:
    return other.model.flops_per_sample is not None and bool(learner.widths_run(other.id))


def _widths(learner: Learner, class_id: ClassId, node_gpus: int, asked: Sequence[int]) -> Sequence[int]:
    if learner.declared(class_id) == _ONE_SAMPLE:
        return (1,)
    return sorted(set(asked) or {1, node_gpus, 2 * node_gpus})


def _step(class_id: ClassId, learner: Learner, gpu_type: str, node_gpus: int, gpus: int) -> StepPrediction:
    terms = learner.state(class_id).terms
    where = split(terms, Shape(-(-gpus // node_gpus), gpus), terms.own)
    fit = learner.step_times(class_id, gpu_type)
    found = fit.predict(where)
    spread = LIKELY * sqrt(found.variance)
    source = CurveSource.EXTRAPOLATED if learner.widths_run(class_id) else CurveSource.PRIOR
    return StepPrediction(
        gpu_type,
        gpus,
        None if terms == _ONE_SAMPLE else where.batch,
        exp(found.mean),
        exp(found.mean - spread),
        exp(found.mean + spread),
        CurveSource.MEASURED if found.count else source,
    )


def _checkpoint_basis(profile: Profile) -> PredictionBasis:
    if profile.checkpoint_seconds is not None:
        return PredictionBasis.KNOWN
    return PredictionBasis.ASSUMED if profile.model.parameters is None else PredictionBasis.PARAMETERS
