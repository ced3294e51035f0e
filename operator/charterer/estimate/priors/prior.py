"""The distribution across classes: a class never seen starts from it, and it steadies the others.

Each unknown of the step-time model is normal across classes; mean and spread start from weakly informative values and
follow the classes' fits, each counted by how much of it came from that class's own reports. A class's other GPU types
say most about a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import median

from charterer.estimate.noise import BINS, LEVEL_START, Noise, NoisePrior
from charterer.estimate.observation import Shape
from charterer.estimate.priors.votes import Told, vote
from charterer.estimate.throughput import (
    CELL_MISFIT,
    SIZE,
    SYNC_MISFIT,
    WIDTH_MISFIT,
    Effect,
    Misfit,
    Normal,
    StepTimeFit,
    Unknown,
)
from charterer.gpu_types import data_sheet, relative_speeds, slice_speed, whole_type

BASE: tuple[Normal, ...] = (
    (log(0.5), 4.0),  # a full pass takes from 10 ms to half a minute
    (log(0.1), 1.0),  # launching kernels and reading data: a tenth of a full pass
    (log(0.1), 1.0),  # gradients over NVLink or PCIe
    (log(0.05), 1.0),  # a ring moves 2(K - 1)/K of the gradients: hardly more for more GPUs
    (log(0.5), 1.5),  # gradients over the network of a cloud
    (log(0.02), 1.0),
    (log(1.0), 0.5),  # half hidden: γ = 2, and within Pollux's bounds of 1 and 10
    (log(1.0), 0.04),  # a fifth more or less than computing seems to take in single passes
)
"""Mean and variance of each unknown (``throughput.Unknown``) before any class was seen."""
BASE_CLASSES = 1.0
"""Number of classes that the base means count as, and (twice) the base spreads: three classes outweigh them."""
SIBLING_SPREAD = 0.5
"""How far ratios differ (standard deviation of logs) between GPU types of one class; speeds differ by twice that."""
SHEET_POWER = 0.6
"""Speeds differ by this power of what the data sheets say: in Gavel's and Sia's measurements (K80, P100, V100; T4,
A100; 27 pairs of two types for a model) the slope of the logarithms is 0.57. Part of a step is neither arithmetic nor
memory traffic of the GPU."""
SHEET_SPREAD = 0.65
"""How far the logarithms of those ratios lie off that."""
MISFIT_WIDTHS = 4.0
"""Number of widths that ``WIDTH_MISFIT`` counts as, and of cells that ``CELL_MISFIT`` does."""
USUAL_CLASSES = 1.0
"""Number of classes that the assumption of no usual effect of a width counts as."""
START_CLASSES = 1.0
MOST_MISFIT = 9.0
"""Most by which another namespace may say that squares of misfits are larger than usual: three standard deviations."""
GROWTH: Normal = (0.0, 0.25)
"""What others may say of the growth of noise from one bin to the next."""


@dataclass(slots=True)
class _Moments:
    """Weighted mean and variance across classes with prior pseudo-classes."""

    weight: float = 0.0
    total: float = 0.0
    squares: float = 0.0

    def add(self, value: float, weight: float) -> None:
        self.weight += weight
        self.total += weight * value
        self.squares += weight * value * value

    def normal(self, base: Normal, classes: float) -> Normal:
        """Mean and predictive variance for one more class."""
        mean0, variance0 = base
        weight = classes + self.weight
        mean = (classes * mean0 + self.total) / weight
        squares = self.squares - 2.0 * mean * self.total + mean * mean * self.weight
        squares += classes * (mean - mean0) ** 2 + 2.0 * classes * variance0
        spread = squares / (2.0 * classes + self.weight)
        return mean, spread * (1.0 + 1.0 / (weight + 1.0))


def unknowns_prior(told: Told[StepTimeFit]) -> tuple[Normal, ...]:
    """From the other classes' fits (best one per class)."""
    moments = [_Moments() for _ in range(SIZE)]
    for fit in told.own:
        for moment, value, informed in zip(moments, fit.unknowns, fit.informed, strict=True):
            moment.add(value, informed)
    for fits in told.others:
        for at, (moment, base) in enumerate(zip(moments, BASE, strict=True)):
            moment.add(vote([fit.unknowns[at] for fit in fits], base), median([fit.informed[at] for fit in fits]))
    return tuple(moment.normal(base, BASE_CLASSES) for moment, base in zip(moments, BASE, strict=True))


def usual_ratio(gpu_type: str, sibling: str) -> Normal:
    """log(seconds on the type / seconds on the sibling) before any class ran on both: by the data sheets, if known."""
    slices = log(slice_speed(sibling) / slice_speed(gpu_type))
    if not in_data_sheets(gpu_type, sibling):
        return slices, (2.0 * SIBLING_SPREAD) ** 2
    whole, other = whole_type(gpu_type), whole_type(sibling)
    relative = relative_speeds((whole, other))
    ratio = relative[other].estimate / relative[whole].estimate
    return SHEET_POWER * log(ratio) + slices, SHEET_SPREAD**2


def in_data_sheets(*gpu_types: str) -> bool:
    """Whether data sheets compare these types."""
    return all(data_sheet(each) is not None for each in gpu_types)


def on_type(prior: Sequence[Normal], gpu_type: str) -> tuple[Normal, ...]:
    """The prior where nothing is known but the GPU type: a slice is slower than what other classes ran on."""
    slower = -log(slice_speed(gpu_type))
    return tuple((mean + slower * (at == Unknown.COMPUTE), variance) for at, (mean, variance) in enumerate(prior))


def sibling_prior(
    prior: Sequence[Normal], sibling: StepTimeFit, usual: Normal, speed_ratios: Iterable[float]
) -> tuple[Normal, ...]:
    """The prior on another GPU type of a class that is known on one.

    ``usual``: see ``usual_ratio``. ``speed_ratios``: the same of the classes that ran on both.
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
    """The distance of the truth from the model: spreads from all ``fits`` (one step of expectation-maximisation).

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
    """The squares of what widths, their synchronising and cells are off: which of the three, and how much."""
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
    """From the other classes' curves: a bin counts by the reports that lie in it, up to one class's worth."""
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
