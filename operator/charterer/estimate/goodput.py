"""Goodput: statistical progress per second, in steps at the own batch size, and the batch size that makes most of it.

goodput(k, B) = gain(B / B₀) / T(k, B)        (Pollux, OSDI'21, §3: throughput × statistical efficiency)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

from charterer.domain.profile import BatchTerms
from charterer.estimate.batch_cell import CellEffect
from charterer.estimate.noise import Noise, gain, noise_growth
from charterer.estimate.observation import Configuration, Shape, split
from charterer.estimate.throughput import ModelPrediction, StepTimeFit

_GRID = 1.06
"""Ratio between neighbouring batch sizes: goodput is flat around the best one except for kinks of real step times. On
those a ratio of 1.25 loses 0.7 % of all time and money, and one of 1.12 loses 0.4 %."""


@dataclass(frozen=True, slots=True)
class BatchCandidate:
    """One way to do a step on a shape, with what does not depend on the phase.

    ``model``: log T without the cell's ``own`` effect, which follows its reports; ``scale``: B/B₀, and
    ``noise_growth`` of it.
    """

    where: Configuration
    model: ModelPrediction
    own: CellEffect
    scale: float
    noise_growth: float


@dataclass(frozen=True, slots=True)
class BatchChoice:
    """The best batch on a shape: its configuration, log goodput (mean and variance), and log seconds per step."""

    where: Configuration
    log_goodput: float
    variance: float
    log_seconds: float


def configurations(terms: BatchTerms, shape: Shape) -> tuple[Configuration, ...]:
    """Ways to do a step between the own and the largest batch: single passes of any size, full passes, and the largest.

    A batch that does not divide by the GPUs is rounded up to whole samples per GPU, so the own batch alone may come out
    above the largest. Empty where even the least batch per GPU is too large in total.
    """
    least = max(terms.own, terms.smallest_per_gpu * shape.gpus)
    most = terms.largest
    ways: dict[Configuration, None] = {}

    def add(batch: float) -> None:
        where = split(terms, shape, round(batch))
        if where.local >= terms.smallest_per_gpu and least <= where.batch <= most:
            ways[where] = None

    batch, single_pass = float(least), min(most, shape.gpus * terms.largest_per_gpu)
    while batch < single_pass:
        add(batch)
        batch *= _GRID
    full = 1.0
    while (batch := shape.gpus * terms.largest_per_gpu * round(full)) <= most:
        add(batch)
        full = max(full * _GRID, full + 1.0)
    add(least)
    passes = -(-most // (shape.gpus * terms.largest_per_gpu))
    add(most // (shape.gpus * passes) * shape.gpus * passes)
    if not ways and terms.own >= terms.smallest_per_gpu * shape.gpus:
        ways[split(terms, shape, terms.own)] = None
    return tuple(sorted(ways))


def candidates(fit: StepTimeFit, terms: BatchTerms, shape: Shape) -> tuple[BatchCandidate, ...]:
    """All configurations of a shape."""
    ways = configurations(terms, shape)
    scales = [where.batch / terms.own for where in ways]
    return tuple(
        BatchCandidate(where, model, own, scale, noise_growth(scale))
        for where, model, own, scale in zip(ways, fit.by_model(ways), fit.own_effects(ways), scales, strict=True)
    )


def probes(options: Sequence[BatchCandidate]) -> Sequence[Configuration]:
    """The configurations that a new width is tried at first: the smallest and the largest single pass.

    Between the two a step is known from both, and each further pass costs what the larger one computes; from one batch
    size alone, however often it ran, nobody can tell what depends on the batch and what does not.
    """
    single = [option.where for option in options if option.where.passes == 1]
    return (single[0], single[-1]) if single else ()


def best_batch(
    fit: StepTimeFit, noise: Noise, options: Sequence[BatchCandidate], optimism: float = 0.0
) -> BatchChoice | None:
    """The candidate with the highest expected goodput; None where there is none.

    ``optimism``: standard deviations by which each step time counts as shorter. What is uncertain of all batch sizes
    alike favours none, so only the variance beyond that of the surest one counts. The choice itself says what is
    expected without it.
    """
    best, most = None, 0.0
    level, tilt = noise.level, noise.tilt
    hope = 0.0
    for option, hoped in zip(options, _hopes(fit, options, optimism), strict=True):
        rate = exp(hoped - option.own.mean - option.model.mean)
        goodput = gain(exp(level + tilt * option.noise_growth), option.scale) * rate
        if goodput > most:
            best, most, hope = option, goodput, hoped
    if best is None:
        return None
    variance = fit.variance(best.model, best.own) + noise.gain_variance(best.scale)
    return BatchChoice(best.where, log(most) - hope, variance, best.model.mean + best.own.mean)


def _hopes(fit: StepTimeFit, options: Sequence[BatchCandidate], optimism: float) -> Sequence[float]:
    """By how much the log seconds of each candidate count as less."""
    if not optimism:
        return [0.0] * len(options)
    variances = [fit.variance(option.model, option.own) for option in options]
    common = min(variances, default=0.0)
    return [optimism * sqrt(variance - common) for variance in variances]
