"""How fast a model trains, from what its owner says of it, before the first job of its class has run.

The log of the seconds that one GPU needs for a sample, in passes as large as fit, is (CM-DARE: Li, Walls and Guo,
ICDCS 2020, who regress step times on the model's FLOPs and the GPU's peak throughput)

    log t = LEVEL + SLOPE·x + (1 - SLOPE)·max(x - LARGEST, 0) - SHEET_POWER·log(peak throughput · bandwidth)/2
            + type + family + family on the type + slope of the family·x + model + model on the type

with x = log(FLOPs a sample / CENTRE). Larger models use a GPU better, until they use it as far as any does: beyond the
largest measured one, seconds grow with FLOPs. The effects are normal with mean 0: of the GPU type beside its data
sheet, of the family (classes that run one program) and of the model, the last two also on that type alone. Classes that
ran here are data: their effects are partly those of the class in question, so the prediction is the mean and the
variance of a normal variable given others (kriging, as in ``batch_cell``).

``tests.bench.predict`` derives the constants again from measured tables, and says how well models that are left out are
predicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, log, log1p, sqrt

import numpy as np

from charterer.domain.ids import ClassId
from charterer.domain.profile import ModelFacts
from charterer.estimate.batch_cell import Array
from charterer.estimate.priors.prior import SHEET_POWER, SHEET_SPREAD
from charterer.estimate.priors.votes import vote
from charterer.estimate.throughput import Normal, StepTimeFit, Unknown
from charterer.gpu_types import data_sheet, slice_speed

CENTRE = 3e9
"""FLOPs a sample in the middle (of the logarithms) of CM-DARE's models."""
LARGEST = log(22.9e9 / CENTRE)
"""x of the largest of them, and SMALLEST of the smallest."""
SMALLEST = log(0.63e9 / CENTRE)
LEVEL = -3.811
"""The mean of log t at ``CENTRE``, on a GPU of one teraflops and one gigabyte a second."""
SLOPE = 0.654
TYPE_SPREAD = 0.26
"""Standard deviations. This one and the family's: maximum likelihood for four models of Gavel's on three types."""
FAMILY_SPREAD = 0.47
FAMILY_TYPE_SPREAD = sqrt(SHEET_SPREAD**2 / 2.0 - TYPE_SPREAD**2)
"""The rest of ``SHEET_SPREAD``, to which two types contribute."""
FAMILY_SLOPE_SPREAD = 0.18
"""Half of what the slopes of CM-DARE's two families differ by."""
MODEL_SPREAD = 0.15
"""How far a model of CM-DARE's lies off the line through the others of its family."""
MODEL_TYPE_SPREAD = 0.08
"""The part of a model on one type, from the ratios of its seconds on CM-DARE's two."""
MOST_MEASURED = 64
"""Classes that a prediction takes as data, those of the same family first: its time grows with the cube."""


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """A class on a GPU type: log of the seconds a sample takes on one GPU in full passes, and its variance."""

    class_id: ClassId
    facts: ModelFacts
    gpu_type: str
    log_seconds: float
    variance: float


def measured_model(class_id: ClassId, facts: ModelFacts, gpu_type: str, fit: StepTimeFit) -> MeasuredModel:
    """What a fit to a class's reports says of its speed."""
    full_pass = fit.unknowns[Unknown.COMPUTE] + log1p(exp(fit.unknowns[Unknown.FIXED]))
    variance = float(fit.covariance[Unknown.COMPUTE, Unknown.COMPUTE])
    return MeasuredModel(class_id, facts, gpu_type, full_pass - log(fit.largest_local), variance)


def with_model(prior: Sequence[Normal], seconds: Normal | None, largest_local: int) -> tuple[Normal, ...]:
    """The prior of a class's unknowns whose seconds a sample were predicted; ``prior`` itself where they were not.

    ``largest_local``: samples of its full passes.
    """
    if seconds is None:
        return tuple(prior)
    mean, variance = seconds
    fixed, _ = prior[Unknown.FIXED]
    compute = mean + log(largest_local) - log1p(exp(fixed)), variance
    return compute, *prior[1:]


def predicted_seconds(
    class_id: ClassId, facts: ModelFacts, gpu_type: str, measured: Iterable[MeasuredModel]
) -> Normal | None:
    """Log of the seconds a sample takes on one GPU in full passes: mean and variance.

    None where the FLOPs are not declared or the GPU type's data sheet is not known.
    """
    here = _Point.of(class_id, facts, gpu_type)
    if here is None:
        return None
    known = [
        (point, one)
        for one in _believed(class_id, measured)
        if (point := _Point.of(one.class_id, one.facts, one.gpu_type))
    ]
    known.sort(key=lambda pair: (pair[0].family != here.family, pair[0].class_id, pair[0].gpu_type))
    known = known[:MOST_MEASURED]
    variance = _covariance([here], [here])[0, 0]
    if not known:
        return here.expected, float(variance)
    points = [point for point, _ in known]
    among = _covariance(points, points) + np.diag([one.variance for _, one in known])
    covariance = _covariance([here], points)[0]
    weights = np.linalg.solve(among, covariance)
    off = np.array([one.log_seconds - point.expected for point, one in known])
    return here.expected + float(weights @ off), float(variance - weights @ covariance)


def _believed(listener: ClassId, measured: Iterable[MeasuredModel]) -> Iterable[MeasuredModel]:
    """What ran in the own namespace, and of each other one the median class of each family on each GPU type."""
    foreign: dict[tuple[str, str, str], list[tuple[float, MeasuredModel]]] = {}
    for one in measured:
        if one.class_id.namespace == listener.namespace:
            yield one
        elif (point := _Point.of(one.class_id, one.facts, one.gpu_type)) is not None:
            key = one.class_id.namespace, one.facts.family or "", one.gpu_type
            foreign.setdefault(key, []).append((one.log_seconds - point.expected, one))
    for several in foreign.values():
        off, one = sorted(several, key=lambda item: (item[0], item[1].class_id))[(len(several) - 1) // 2]
        believed = vote([off], (0.0, _SPREAD**2))
        yield replace(one, log_seconds=one.log_seconds - off + believed)


_SPREAD = sqrt(TYPE_SPREAD**2 + FAMILY_SPREAD**2 + FAMILY_TYPE_SPREAD**2 + MODEL_SPREAD**2 + MODEL_TYPE_SPREAD**2)
"""How far log seconds lie off what the FLOPs and the data sheet say."""


@dataclass(frozen=True, slots=True)
class _Point:
    """``x``: as above, within what was measured; ``expected``: log seconds a sample without any effect."""

    class_id: ClassId
    family: str
    gpu_type: str
    x: float
    expected: float

    @classmethod
    def of(cls, class_id: ClassId, facts: ModelFacts, gpu_type: str) -> _Point | None:
        sheet = data_sheet(gpu_type)
        if facts.flops_per_sample is None or sheet is None:
            return None
        x = log(facts.flops_per_sample / CENTRE)
        expected = LEVEL + SLOPE * x + (1.0 - SLOPE) * max(x - LARGEST, 0.0)
        expected -= SHEET_POWER * log(sheet.teraflops * sheet.bandwidth) / 2.0 + log(slice_speed(gpu_type))
        return cls(class_id, facts.family or str(class_id), gpu_type, min(max(x, SMALLEST), LARGEST), expected)


def _covariance(rows: Sequence[_Point], columns: Sequence[_Point]) -> Array:
    return np.array([[_pair_covariance(row, column) for column in columns] for row in rows])


def _pair_covariance(one: _Point, other: _Point) -> float:
    """The covariance of two classes' log seconds a sample."""
    same_type, same_family = one.gpu_type == other.gpu_type, one.family == other.family
    covariance = TYPE_SPREAD**2 if same_type else 0.0
    if same_family:
        covariance += FAMILY_SPREAD**2 + FAMILY_SLOPE_SPREAD**2 * one.x * other.x
        covariance += FAMILY_TYPE_SPREAD**2 if same_type else 0.0
    if one.class_id == other.class_id:
        covariance += MODEL_SPREAD**2 + (MODEL_TYPE_SPREAD**2 if same_type else 0.0)
    return covariance
