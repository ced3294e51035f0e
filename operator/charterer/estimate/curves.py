"""Curves of a class: how they are fitted to noisy points, divided into phases of a job's life, and combined with
declared curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log, sqrt
from statistics import NormalDist

import numpy as np
from scipy.optimize import nnls

from charterer.domain.profile import CurveSource
from charterer.estimate.learned import LIKELY, Entry, Learned
from charterer.estimate.noise import BINS, Noise, gain
from charterer.estimate.throughput import WIDTH_MISFIT

# Phases: segments of a job's life with curves of their own.
#
# Curves differ between segments only by the gain of large batches. So neighbours are joined while their gains differ
# by less than ``ALIKE`` at every batch size, the most similar ones first. While there are too many segments, the two
# neighbours are joined whose joining adds least to the sum of squares over their bins (Ward 1963). So a short segment
# in which noise grows fast is kept.


MOST_PHASES = 12
"""Most phases of a class. A plan looks at every phase of every job, and more than a dozen phases gain little."""
ALIKE = 0.05
"""Difference of log gains below which neighbours are joined. It is as large as the scatter of one report."""


@dataclass(slots=True)
class PhaseSegment:
    """Consecutive bins: how many, their mean noise, and their log gains at a few scales."""

    bins: int
    noise: Noise
    gains: tuple[float, ...]

    def unlike(self, other: PhaseSegment) -> float:
        """The largest difference of log gains."""
        return max(abs(mine - theirs) for mine, theirs in zip(self.gains, other.gains, strict=True))

    def joined(self, other: PhaseSegment, scales: Sequence[float]) -> PhaseSegment:
        """The two segments joined; means are weighted by bins."""
        bins = self.bins + other.bins
        fraction = other.bins / bins
        first, second = self.noise, other.noise
        noise = Noise(
            first.level + fraction * (second.level - first.level),
            first.tilt + fraction * (second.tilt - first.tilt),
            first.level_variance + fraction * (second.level_variance - first.level_variance),
            first.covariance + fraction * (second.covariance - first.covariance),
            first.tilt_variance + fraction * (second.tilt_variance - first.tilt_variance),
            first.count + second.count,
        )
        return PhaseSegment(bins, noise, _gains(noise, scales))


def phase_segments(curve: Sequence[Noise], largest_scale: float) -> tuple[tuple[float, Noise], ...]:
    """The at most MOST_PHASES phases of a noise curve of ``BINS`` bins: for each, the fraction of the work at which
    it ends (1 for the last), and its noise."""
    scales = [largest_scale**fraction for fraction in (0.25, 0.5, 1.0)]
    segments = [PhaseSegment(1, noise, _gains(noise, scales)) for noise in curve]
    costs = [first.unlike(second) for first, second in pairwise(segments)]
    while costs:
        few = len(segments) <= MOST_PHASES
        at = min(
            range(len(costs)),
            key=costs.__getitem__
            if few
            else lambda at: costs[at] ** 2 / (1 / segments[at].bins + 1 / segments[at + 1].bins),
        )
        if few and costs[at] >= ALIKE:
            break
        segments[at] = segments[at].joined(segments.pop(at + 1), scales)
        del costs[at]
        if at:
            costs[at - 1] = segments[at - 1].unlike(segments[at])
        if at < len(costs):
            costs[at] = segments[at].unlike(segments[at + 1])
    ends, done = [], 0
    for segment in segments:
        done += segment.bins
        ends.append((done / BINS, segment.noise))
    return tuple(ends)


def _gains(noise: Noise, scales: Sequence[float]) -> tuple[float, ...]:
    return tuple(log(gain(noise.at(scale), scale)) for scale in scales)


# A concave, non-decreasing curve through noisy points, and the time that a width is expected to take.
#
# The curve is f(k) = c₀ + Σ_j c_j·min(k, k_j) with c₀, c_j ≥ 0 and k_j the widths: linear between its knots (c_j >
# 0), flat after the last, and never more than proportional to the width, which keeps it above 0. In this basis of
# hinges the weighted least squares fit is a non-negative least squares problem (Lawson and Hanson 1974, ch. 23).


_NORMAL = NormalDist()
_MOST_ITERATIONS_PER_WIDTH = 30
"""Iterations of the active set after which nnls gives up; a few per width are usual."""


def expected_time(log_mean: float, variance: float, fallback: float) -> float:
    """Expected time per unit of work at a width whose log time is normal. ``fallback``: the expected time at the next
    narrower width.

    A job that finds the width slower than the narrower width goes back, so a time T counts as min(T, fallback). The
    result is at least the median of T, so an unlikely gain never makes the width look better than its median. The
    result is at most the mean of T, because going back is never worse than staying.
    """
    spread, median = sqrt(variance), exp(log_mean)
    mean = median * exp(variance / 2.0)
    if not spread or fallback <= median:
        return median
    distance = (log(fallback) - log_mean) / spread
    capped = mean * _NORMAL.cdf(distance - spread) + fallback * (1.0 - _NORMAL.cdf(distance))
    return min(mean, max(median, capped))


def concave_fit(widths: Sequence[int], values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The concave non-decreasing values with f(0) ≥ 0 closest to ``values`` in Σ weight·(f − value)².

    ValueError unless the three are equally long, widths ascend from above 0, and weights are positive.
    """
    if not len(widths) == len(values) == len(weights):
        raise ValueError(f"{len(widths)} widths, {len(values)} values, {len(weights)} weights: give as many of each")
    if any(low >= high for low, high in pairwise((0, *widths))):
        raise ValueError(f"widths {list(widths)} must ascend from above 0")
    if any(not weight > 0.0 for weight in weights):
        raise ValueError(f"weights {list(weights)} must be above 0")
    if not widths:
        return []
    knots = np.array(widths, dtype=float)
    hinges = np.minimum(knots[:, None], knots[None, :]) / knots
    basis = np.column_stack([np.ones(len(knots)), hinges])
    root = np.sqrt(weights)
    root /= root.max()
    coefficients, _ = nnls(
        basis * root[:, None], np.asarray(values) * root, maxiter=_MOST_ITERATIONS_PER_WIDTH * len(knots)
    )
    fitted: list[float] = (basis @ coefficients).tolist()
    return fitted


def near_concave(
    widths: Sequence[int], values: Sequence[float], weights: Sequence[float], model_misfit: float
) -> list[float]:
    """The concave fit, moved towards the measured values where they are known well, because true curves are not
    exactly concave.

    ``model_misfit``: how far true curves lie off concave curves, as a standard deviation relative to the value. At 0
    the result is the concave fit itself.
    """
    if not model_misfit:
        return concave_fit(widths, values, weights)
    misfits = [(model_misfit * value) ** 2 for value in values]
    smooth = concave_fit(
        widths, values, [1.0 / (1.0 / weight + own) for weight, own in zip(weights, misfits, strict=True)]
    )
    kept = [weight * own / (1.0 + weight * own) for weight, own in zip(weights, misfits, strict=True)]
    return [fit + keep * (value - fit) for fit, keep, value in zip(smooth, kept, values, strict=True)]


# Declared curves as priors of the learned ones.
#
# At a width, the logarithm l of goodput was learned with variance v, and d is the logarithm of the declared
# throughput. The units of l and d differ by a factor that is common to all widths and GPU types of a phase. The
# logarithm of this factor is estimated as c, the weighted mean of l − d. A declared curve is assumed to have an error
# of standard deviation s at each width, so the combined estimate is
#
#   (l/v + (d + c)/s²) / (1/v + 1/s²)    with variance 1 / (1/v + 1/s²)
#
# If little was measured, the combined curve has the declared shape at the measured scale. A width that was measured
# well keeps its measured value. There is no threshold at which measured values replace declared ones.


DECLARED_SPREAD = WIDTH_MISFIT
"""Standard deviation s of declared log throughput. The interconnects differ from those on which the declared curves
were measured."""
_LEAST_VARIANCE = 1e-6

Declared = Callable[[str, int], float | None]
"""Declared throughput of a GPU type at a width, in any unit; None if none is declared."""


def with_declared(learned: Learned, declared: Declared) -> Learned:
    """The learned curves with the declared curves as their prior."""
    learned_phases = tuple(
        replace(phase, entries=_combined(phase.entries, declared)) for phase in learned.learned_phases
    )
    return Learned(learned.class_id, learned.own_batch, learned.reports, learned_phases)


def _combined(entries: Sequence[Entry], declared: Declared) -> tuple[Entry, ...]:
    pairs = [(entry, log(value)) for entry in entries if (value := declared(entry.gpu_type, entry.gpus))]
    if not pairs:
        return tuple(entries)
    weights = [1.0 / (_variance(entry) + DECLARED_SPREAD**2) for entry, _ in pairs]
    differences = [weight * (log(entry.goodput) - value) for weight, (entry, value) in zip(weights, pairs, strict=True)]
    scale = sum(differences) / sum(weights)
    expected = {(entry.gpu_type, entry.gpus): value + scale for entry, value in pairs}
    return tuple(_with_prior(entry, expected.get((entry.gpu_type, entry.gpus))) for entry in entries)


def _variance(entry: Entry) -> float:
    return max(entry.variance, _LEAST_VARIANCE)


def _with_prior(entry: Entry, expected: float | None) -> Entry:
    """The entry combined with the log goodput that is expected from the declared curve."""
    if expected is None:
        return entry
    learned, prior = 1.0 / _variance(entry), 1.0 / DECLARED_SPREAD**2
    value = exp((learned * log(entry.goodput) + prior * expected) / (learned + prior))
    spread = exp(LIKELY * sqrt(1.0 / (learned + prior)))
    source = CurveSource.DECLARED if prior > learned and entry.source is not CurveSource.MEASURED else entry.source
    return replace(entry, goodput=value, low=value / spread, high=value * spread, source=source)
