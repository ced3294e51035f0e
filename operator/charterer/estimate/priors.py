"""What is expected of a class before it is measured, from other classes and from its owner's description."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, log1p, sqrt
from statistics import median
from typing import Final, Generic, TypeVar

import numpy as np

from charterer.domain.ids import ClassId
from charterer.domain.profile import ModelFacts
from charterer.estimate.cells import Array
from charterer.estimate.noise import BINS, LEVEL_START, Noise, NoisePrior
from charterer.estimate.observation import Shape
from charterer.estimate.throughput import (
    CELL_MISFIT,
    SIZE,
    SYNC_MISFIT,
    WIDTH_MISFIT,
    Effect,
    LinearPrior,
    Misfit,
    Normal,
    StepTimeFit,
    Unknown,
)
from charterer.gpu_types import data_sheet, relative_speeds, slice_speed, whole_type

# What classes of other namespaces may say about a class. Each namespace has one vote, which is limited to likely
# values.
#
# Teams of one cluster need not trust each other, and everybody who may create TrainingJobs can report anything.
# Classes of the own namespace are believed without a limit. All classes of another namespace together count as their
# median, which is limited to one standard deviation around the value that is expected before anything was seen.


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Told(Generic[T]):
    """Values that other classes report to a listening class: ``own`` has those of its own namespace, and ``others``
    those of each other namespace."""

    own: Sequence[T]
    others: Sequence[Sequence[T]]

    @classmethod
    def to(cls, listener: ClassId, told: Iterable[tuple[ClassId, T]]) -> Told[T]:
        """The values as they are told to the class ``listener``."""
        own: list[T] = []
        others: Mapping[str, list[T]] = defaultdict(list)
        for teller, value in told:
            (own if teller.namespace == listener.namespace else others[teller.namespace]).append(value)
        return cls(own, list(others.values()))


def vote(values: Sequence[float], expected: Normal) -> float:
    """The vote of one namespace: the median of its values, limited to one standard deviation around the expected
    value."""
    mean, variance = expected
    spread = sqrt(variance)
    return min(max(median(values), mean - spread), mean + spread)


# The time for synchronising is predicted from the number of a model's parameters and from other classes on the same
# GPU type.
#
# Gradients are as large as the model, which explains most of the difference between classes. So the seconds α_l
# (within a node) and α_n (between nodes) are the number of parameters times a number of the GPU type's link, within a
# factor of e^``MODEL_SPREAD``. A class may be faster on one link than its size suggests, because it sends its
# gradients in fewer bytes or while it computes. Such a class is faster on the other link too. Before anything ran
# over a link, nothing is known about the link beyond ``BASE``.


MODEL_SPREAD: Final = 0.45
"""Standard deviation between classes of log seconds per parameter on one link: Gavel's jobs on P100
(``tests.bench.search``)."""
ALIKE: Final = 0.91
"""Correlation of a class's deviations on the two links, from the same jobs."""
SYNCS: Final = (Unknown.LOCAL_SYNC, Unknown.NODE_SYNC)


@dataclass(frozen=True, slots=True)
class MeasuredLink:
    """What a class's reports say about the links of a GPU type: log seconds per parameter, for each of α_l and
    α_n."""

    per_parameter: Mapping[Unknown, Normal]

    @classmethod
    def of(cls, parameters: float, fit: StepTimeFit) -> MeasuredLink:
        """The links according to the fit to a class's reports."""
        compute = Unknown.COMPUTE
        return cls(
            {
                sync: (
                    fit.unknowns[sync] + fit.unknowns[compute] - log(parameters),
                    float(
                        fit.covariance[sync, sync]
                        + fit.covariance[compute, compute]
                        + 2.0 * fit.covariance[sync, compute]
                    ),
                )
                for sync in SYNCS
            }
        )


def sync_priors(
    parameters: float | None, prior: Sequence[Normal], measured: Told[MeasuredLink]
) -> Mapping[Unknown, LinearPrior]:
    """Priors of the log seconds of α_l and α_n, where their variance is less than that of ``prior``, the prior of
    their ratios to computing.

    A link's number is the mean of the numbers that classes have shown, each weighted by its precision.
    """
    if parameters is None:
        return {}
    found: dict[Unknown, Normal] = {}
    for sync in SYNCS:
        values = [link.per_parameter[sync] for link in measured.own]
        (ratio, variance), (compute, _) = prior[sync], prior[Unknown.COMPUTE]
        expected = ratio + compute - log(parameters), variance
        for links in measured.others:
            told = [link.per_parameter[sync] for link in links]
            values.append((vote([value for value, _ in told], expected), median([known for _, known in told])))
        weights = [1.0 / (MODEL_SPREAD**2 + variance) for _, variance in values]
        if not weights:
            continue
        mean = sum(weight * value for weight, (value, _) in zip(weights, values, strict=True)) / sum(weights)
        variance = 1.0 / sum(weights) + MODEL_SPREAD**2
        if variance < prior[sync][1]:
            found[sync] = mean + log(parameters), variance
    sums = {sync: LinearPrior({sync: 1.0, Unknown.COMPUTE: 1.0}, normal) for sync, normal in found.items()}
    if len(found) == len(SYNCS):
        sums[Unknown.NODE_SYNC] = _given_local(found[Unknown.LOCAL_SYNC], found[Unknown.NODE_SYNC])
    return sums


def _given_local(local: Normal, node: Normal) -> LinearPrior:
    """The prior of α_n given α_l: a class that is faster than its size suggests on one link is so on the other link
    too."""
    common = ALIKE * MODEL_SPREAD**2
    slope = common / local[1]
    slopes = {Unknown.NODE_SYNC: 1.0, Unknown.LOCAL_SYNC: -slope, Unknown.COMPUTE: 1.0 - slope}
    return LinearPrior(slopes, (node[0] - slope * local[0], node[1] - slope * common))


# The distribution of unknowns across classes. A class that was never seen starts from this distribution, and the
# estimates of other classes are drawn towards it.
#
# Each unknown of the step-time model is normal across classes. Its mean and spread start from weakly informative
# values and follow the classes' fits. The weight of a fit is the fraction of it that came from that class's own
# reports. For a new GPU type, the fits of the same class on its other GPU types say most.


BASE: tuple[Normal, ...] = (
    (log(0.5), 4.0),  # a full pass takes from 10 ms to half a minute
    (log(0.1), 1.0),  # launching kernels and reading data: a tenth of a full pass
    (log(0.1), 1.0),  # gradients over NVLink or PCIe
    (log(0.05), 1.0),  # a ring moves 2(K - 1)/K of the gradients, hardly more for more GPUs
    (log(0.5), 1.5),  # gradients over the network of a cloud
    (log(0.02), 1.0),
    (log(1.0), 0.5),  # half hidden: γ = 2, and within Pollux's bounds of 1 and 10
    (log(1.0), 0.04),  # a fifth more or less than the time that computing seems to take in single passes
)
"""Mean and variance of each unknown (``throughput.Unknown``) before any class was seen."""
BASE_CLASSES = 1.0
"""Weight of the base means, in classes. The base spreads weigh twice as much. Three classes outweigh the base."""
SIBLING_SPREAD = 0.5
"""Standard deviation of the log ratios of unknowns between GPU types of one class. The standard deviation of speeds
is twice as large."""
SHEET_POWER = 0.6
"""Speeds of two GPU types differ by the ratio of their data sheets to this power. In Gavel's and Sia's measurements
(K80, P100, V100; T4, A100; 27 pairs of two types for a model) the slope of the logarithms is 0.57. Part of a step is
neither arithmetic nor memory traffic of the GPU."""
SHEET_SPREAD = 0.65
"""Standard deviation of log speed ratios around the ratio that follows from the data sheets."""
MISFIT_WIDTHS = 4.0
"""Weight of ``WIDTH_MISFIT`` in widths, and of ``CELL_MISFIT`` in cells."""
USUAL_CLASSES = 1.0
"""Weight, in classes, of the assumption that the mean effect of a width is zero."""
START_CLASSES = 1.0
MOST_MISFIT = 9.0
"""Largest factor by which another namespace may increase the squares of misfits: three standard deviations,
squared."""
GROWTH: Normal = (0.0, 0.25)
"""Range of what other namespaces may say of the growth of noise from one bin to the next."""


@dataclass(slots=True)
class _Moments:
    """Weighted mean and variance across classes, with prior pseudo-classes."""

    weight: float = 0.0
    total: float = 0.0
    squares: float = 0.0

    def add(self, value: float, weight: float) -> None:
        self.weight += weight
        self.total += weight * value
        self.squares += weight * value * value

    def normal(self, base: Normal, classes: float) -> Normal:
        """Mean and variance of the prediction for one more class."""
        mean0, variance0 = base
        weight = classes + self.weight
        mean = (classes * mean0 + self.total) / weight
        squares = self.squares - 2.0 * mean * self.total + mean * mean * self.weight
        squares += classes * (mean - mean0) ** 2 + 2.0 * classes * variance0
        spread = squares / (2.0 * classes + self.weight)
        return mean, spread * (1.0 + 1.0 / (weight + 1.0))


def unknowns_prior(told: Told[StepTimeFit]) -> tuple[Normal, ...]:
    """The prior of the unknowns, from the best fit of each other class."""
    moments = [_Moments() for _ in range(SIZE)]
    for fit in told.own:
        for moment, value, informed in zip(moments, fit.unknowns, fit.informed, strict=True):
            moment.add(value, informed)
    for fits in told.others:
        for at, (moment, base) in enumerate(zip(moments, BASE, strict=True)):
            moment.add(vote([fit.unknowns[at] for fit in fits], base), median([fit.informed[at] for fit in fits]))
    return tuple(moment.normal(base, BASE_CLASSES) for moment, base in zip(moments, BASE, strict=True))


def usual_ratio(gpu_type: str, sibling: str) -> Normal:
    """log(seconds on the type / seconds on the sibling) before any class ran on both types, from the data sheets if
    both are known."""
    slices = log(slice_speed(sibling) / slice_speed(gpu_type))
    if not in_data_sheets(gpu_type, sibling):
        return slices, (2.0 * SIBLING_SPREAD) ** 2
    whole, other = whole_type(gpu_type), whole_type(sibling)
    relative = relative_speeds((whole, other))
    ratio = relative[other].estimate / relative[whole].estimate
    return SHEET_POWER * log(ratio) + slices, SHEET_SPREAD**2


def in_data_sheets(*gpu_types: str) -> bool:
    """Whether all these types have data sheets by which they can be compared."""
    return all(data_sheet(each) is not None for each in gpu_types)


def on_type(prior: Sequence[Normal], gpu_type: str) -> tuple[Normal, ...]:
    """The prior if only the GPU type is known. A slice counts as slower than the GPUs on which other classes ran."""
    slower = -log(slice_speed(gpu_type))
    return tuple((mean + slower * (at == Unknown.COMPUTE), variance) for at, (mean, variance) in enumerate(prior))


def sibling_prior(
    prior: Sequence[Normal], sibling: StepTimeFit, usual: Normal, speed_ratios: Iterable[float]
) -> tuple[Normal, ...]:
    """The prior of a class on one GPU type, from its fit on another GPU type, the sibling.

    ``usual``: the expected log ratio of their seconds (``usual_ratio``). ``speed_ratios``: the log ratios of classes
    that ran on both.
    """
    ratio = _Moments()
    for value in speed_ratios:
        ratio.add(value, 1.0)
    shift, spread = ratio.normal(usual, BASE_CLASSES)
    combined = []
    for at, (mean, variance) in enumerate(prior):
        other, extra = sibling.unknowns[at], float(sibling.covariance[at, at])
        if at == Unknown.COMPUTE:
            combined.append((other + shift, spread + extra))
            continue
        precision, known = 1.0 / variance, 1.0 / (extra + SIBLING_SPREAD**2)
        combined.append(((precision * mean + known * other) / (precision + known), 1.0 / (precision + known)))
    return tuple(combined)


def estimate_misfit(fits: Told[StepTimeFit], others: Told[StepTimeFit]) -> Misfit:
    """How far the truth differs from the model, as spreads over all ``fits``, by one step of
    expectation-maximisation.

    ``others``: the fits of other classes on the GPU type, from which the usual effect of each width is taken.
    """
    spreads = WIDTH_MISFIT, SYNC_MISFIT, CELL_MISFIT
    sums = [MISFIT_WIDTHS * spread**2 for spread in spreads]
    counts = [MISFIT_WIDTHS for _ in spreads]
    for at, squares in _misfits(fits.own):
        sums[at] += squares
        counts[at] += 1.0
    for namespace in fits.others:
        votes: list[list[float]] = [[] for _ in spreads]
        for at, squares in _misfits(namespace):
            votes[at].append(squares)
        for at, values in enumerate(votes):
            if values:
                sums[at] += min(median(values), MOST_MISFIT * spreads[at] ** 2)
                counts[at] += 1.0
    width, sync, cell = [total / count for total, count in zip(sums, counts, strict=True)]
    return Misfit(width, sync, cell, _usual(others))


def _misfits(fits: Iterable[StepTimeFit]) -> Iterator[tuple[int, float]]:
    """Squares of deviations from the model, each with its kind: 0 for a width, 1 for the synchronising of a width, 2
    for a cell."""
    for fit in fits:
        for shape, known in fit.effects.items():
            usual = fit.misfit.mean_effect(shape)
            yield 0, (known.effect[0] - usual[0]) ** 2 + known.variance[0]
            if shape.gpus > 1:
                yield 1, (known.effect[1] - usual[1]) ** 2 + known.variance[1]
            of_width = fit.of_width(shape)
            for own in of_width.of(of_width.observed):
                yield 2, own.mean**2 + own.deviation**2


def _usual(told: Told[StepTimeFit]) -> Mapping[Shape, Effect]:
    by_shape: dict[Shape, list[Effect]] = {}
    for fit in told.own:
        for shape, known in fit.effects.items():
            by_shape.setdefault(shape, []).append(known.effect)
    for fits in told.others:
        effects: dict[Shape, list[Effect]] = {}
        for fit in fits:
            for shape, known in fit.effects.items():
                effects.setdefault(shape, []).append(known.effect)
        for shape, several in effects.items():
            total = vote([effect[0] for effect in several], (0.0, WIDTH_MISFIT**2))
            sync = vote([effect[1] for effect in several], (0.0, SYNC_MISFIT**2))
            by_shape.setdefault(shape, []).append((total, sync))
    return {
        shape: (
            sum(total for total, _ in effects) / (len(effects) + USUAL_CLASSES),
            sum(sync for _, sync in effects) / (len(effects) + USUAL_CLASSES),
        )
        for shape, effects in by_shape.items()
    }


def noise_prior(told: Told[Sequence[Noise]]) -> NoisePrior:
    """The prior from the other classes' curves. The weight of a bin is its number of reports, up to the weight of one
    class."""
    start = _Moments()
    sums, weights = [0.0] * (BINS - 1), [START_CLASSES] * (BINS - 1)
    for curve in told.own:
        start.add(curve[0].level, _known(curve[0]))
        for at in range(BINS - 1):
            weight = min(_known(curve[at]), _known(curve[at + 1]))
            sums[at] += weight * (curve[at + 1].level - curve[at].level)
            weights[at] += weight
    for curves in told.others:
        start.add(vote([curve[0].level for curve in curves], LEVEL_START), median([_known(each[0]) for each in curves]))
        for at in range(BINS - 1):
            weight = median([min(_known(curve[at]), _known(curve[at + 1])) for curve in curves])
            sums[at] += weight * vote([curve[at + 1].level - curve[at].level for curve in curves], GROWTH)
            weights[at] += weight
    growth = tuple(total / weight for total, weight in zip(sums, weights, strict=True))
    return NoisePrior(start.normal(LEVEL_START, START_CLASSES), growth)


def _known(noise: Noise) -> float:
    return noise.count / (noise.count + 1.0)


# The speed of a model is predicted from its owner's description before the first job of its class has run.
#
# The log of the seconds that one GPU needs for a sample, in passes as large as fit, is (CM-DARE: Li, Walls and Guo,
# ICDCS 2020, who regress step times on the model's FLOPs and the GPU's peak throughput)
#
#   log t = LEVEL + SLOPE·x + (1 - SLOPE)·max(x - LARGEST, 0) - SHEET_POWER·log(peak throughput · bandwidth)/2
#           + type + family + family on the type + slope of the family·x + model + model on the type
#
# with x = log(FLOPs a sample / CENTRE). Larger models use a GPU better, up to a limit: beyond the largest measured
# model, seconds grow with FLOPs. The effects are normal with mean 0. There is an effect of the GPU type (beside its
# data sheet), an effect of the family (classes that run one program) and an effect of the model. The family and the
# model also have an effect on that type alone. Classes that ran in this cluster are data, because they share some
# effects with the class in question. So the prediction is the mean and variance of a normal variable given other
# normal variables (kriging, as in ``cells``).
#
# ``tests.bench.predict`` derives the constants again from measured tables, and shows how well models that are left out
# are predicted.


CENTRE = 3e9
"""FLOPs per sample at the middle, on a logarithmic scale, of CM-DARE's models."""
LARGEST = log(22.9e9 / CENTRE)
"""x of the largest of CM-DARE's models; SMALLEST is x of the smallest."""
SMALLEST = log(0.63e9 / CENTRE)
LEVEL = -3.811
"""The mean of log t at ``CENTRE``, on a GPU of one teraflops and one gigabyte a second."""
SLOPE = 0.654
TYPE_SPREAD = 0.26
"""Standard deviation of the effect of a GPU type. The standard deviations for GPU types and for families are maximum
likelihood estimates from four of Gavel's models on three types."""
FAMILY_SPREAD = 0.47
FAMILY_TYPE_SPREAD = sqrt(SHEET_SPREAD**2 / 2.0 - TYPE_SPREAD**2)
"""The part of ``SHEET_SPREAD`` that the other effects do not explain; two types contribute to it."""
FAMILY_SLOPE_SPREAD = 0.18
"""Half of the difference between the slopes of CM-DARE's two families."""
IN_FAMILY_SPREAD = 0.15
"""Standard deviation of a CM-DARE model around the line through the other models of its family."""
MODEL_TYPE_SPREAD = 0.08
"""Standard deviation of a model's effect on one type, from the ratios of its seconds on CM-DARE's two types."""
MOST_MEASURED = 64
"""Most classes that a prediction takes as data, classes of the same family first. Its computing time grows with the
cube of this number."""


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """The measured speed of a class on a GPU type: log seconds of a sample on one GPU in full passes, and their
    variance."""

    class_id: ClassId
    facts: ModelFacts
    gpu_type: str
    log_seconds: float
    variance: float


def measured_model(class_id: ClassId, facts: ModelFacts, gpu_type: str, fit: StepTimeFit) -> MeasuredModel:
    """The class's speed according to the fit to its reports."""
    full_pass = fit.unknowns[Unknown.COMPUTE] + log1p(exp(fit.unknowns[Unknown.FIXED]))
    variance = float(fit.covariance[Unknown.COMPUTE, Unknown.COMPUTE])
    return MeasuredModel(class_id, facts, gpu_type, full_pass - log(fit.largest_local), variance)


def with_model(prior: Sequence[Normal], seconds: Normal | None, largest_local: int) -> tuple[Normal, ...]:
    """The prior of a class's unknowns with its predicted log seconds per sample; ``prior`` itself without a prediction.

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
    """Mean and variance of the log seconds of a sample on one GPU in full passes.

    The result is None if the FLOPs are not declared or the GPU type has no data sheet.
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
    """The measured models that are believed: all models of the own namespace, and from each other namespace the
    median class of each GPU type and family.
    """
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


_SPREAD = sqrt(TYPE_SPREAD**2 + FAMILY_SPREAD**2 + FAMILY_TYPE_SPREAD**2 + IN_FAMILY_SPREAD**2 + MODEL_TYPE_SPREAD**2)
"""Standard deviation of log seconds around the value that follows from the FLOPs and the data sheet."""


@dataclass(frozen=True, slots=True)
class _Point:
    """``x``: as in the formula above, limited to the measured range.

    ``expected``: log seconds per sample without effects.
    """

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
    """The covariance of two classes' log seconds per sample."""
    same_type, same_family = one.gpu_type == other.gpu_type, one.family == other.family
    covariance = TYPE_SPREAD**2 if same_type else 0.0
    if same_family:
        covariance += FAMILY_SPREAD**2 + FAMILY_SLOPE_SPREAD**2 * one.x * other.x
        covariance += FAMILY_TYPE_SPREAD**2 if same_type else 0.0
    if one.class_id == other.class_id:
        covariance += IN_FAMILY_SPREAD**2 + (MODEL_TYPE_SPREAD**2 if same_type else 0.0)
    return covariance
