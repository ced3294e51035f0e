"""The gradient noise scale by progress and batch size, and what a larger batch gains.

φ = σ²/μ² is the noise scale in own batches. A step at s own batches makes as much progress as

    gain = (φ + 1) / (φ/s + 1)        (Pollux, OSDI'21, equation 6)

steps at the own batch. φ grows over training by orders of magnitude, and the measured φ also grows with the batch
size, up to a limit. Training with a small batch B does not reach the minimum of the loss, because the noise of its
own steps keeps it away, in proportion to σ²/B (Mandt, Hoffman and Blei 2017). This distance adds a part to μ², so 1/φ
= 1/φ∞ + c/s. Therefore

    log φ = h(p) + b(p)·g(s),   g(s) = log((1 + R) / (1 + R/s))

where b is 1 if c = R/φ∞, and 0 if φ does not depend on the batch size (McCandlish et al. 2018). Progress p is cut into
bins. Level h and tilt b follow random walks over the bins, so reports in one bin inform about its neighbours, and a
Kalman filter with a backward pass gives the posterior mean and variance of both in every bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, isfinite, log

BINS = 64
"""Number of bins of a job's progress. A bin is 1.6 % of the job, or an epoch or two. From bin to bin, noise changes
by one step."""
LEVEL_STEP = 0.3
"""Standard deviation of a step of h. If a learning rate drops, φ doubles at once, which is a step of two standard
deviations."""
TILT_STEP = 0.05
"""Standard deviation of a step of b. Steps add up with the root of the number of bins, so b may change by 0.4 over a
job's life."""
TILT_START = (0.5, 0.25)
"""Mean and variance of b at the start of training. The two theoretical cases, 0 and 1, are one standard deviation
from the mean."""
OWN_NOISE = 3.0
"""R. In measured tables the medians of c·φ∞ are 0.2 (yolov3), 0.7 (deepspeech2), 2 (imagenet; 14 after a learning rate
dropped), 3 (cifar10) and 45 (bert); b absorbs the difference."""
LEVEL_START = (0.0, 9.0)
"""Mean and variance of h at the start of training, before any class was seen: from 0.05 to 20 own batches."""
REPORT_SCATTER = 0.3
"""Standard deviation of log φ between reports, assumed until the class's own is known. It is large because reports
average few steps."""
SCATTER_REPORTS = 4.0
MEMORY_REPORTS = 50.0
"""Number of reports that a bin remembers, so that a class whose code changed is followed within a few jobs."""
LEAST_NOISE = 0.01
"""Smaller values of φ count as this one. Below it, no larger batch gains even 1 %."""
MOST_NOISE_PER_SCALE = 100.0
"""Larger values of φ count as this multiple of the largest scale. Beyond it, the gain equals the scale to within 1
%."""


def bin_at(fraction: float) -> int:
    """The bin of a job once ``fraction`` of its work is done."""
    return min(int(fraction * BINS), BINS - 1)


def log_noise(grad_sqr: float, grad_var: float, largest_scale: float) -> float | None:
    """log φ of a report, limited to the range that matters; None if nothing was measured (both numbers are zero, or
    one is not finite).

    ``grad_sqr`` is an unbiased estimate, so it may be negative if noise outweighs the gradient. Then φ counts as
    large.
    """
    if not (isfinite(grad_sqr) and isfinite(grad_var) and grad_var >= 0.0) or (grad_sqr <= 0.0 and not grad_var):
        return None
    most = MOST_NOISE_PER_SCALE * largest_scale
    return log(min(max(grad_var / grad_sqr, LEAST_NOISE), most)) if grad_sqr > grad_var / most else log(most)


def noise_growth(scale: float) -> float:
    """The function g: how much larger log φ is at ``scale`` own batches than at one own batch, if b is 1."""
    return log((1.0 + OWN_NOISE) / (1.0 + OWN_NOISE / scale))


def gain(noise: float, scale: float) -> float:
    """Progress of a step at ``scale`` own batches, in steps at the own batch; between 1 and ``scale``."""
    return (noise + 1.0) / (noise / scale + 1.0)


@dataclass(frozen=True, slots=True)
class Noise:
    """log φ in one bin of progress: h and b with their variances and covariance.

    ``count``: number of reports in the bin.
    """

    level: float
    tilt: float
    level_variance: float
    covariance: float
    tilt_variance: float
    count: float

    def at(self, scale: float) -> float:
        """φ at a batch size, given as its ratio to the own batch size."""
        return exp(self.level + self.tilt * noise_growth(scale))

    def gain_variance(self, scale: float) -> float:
        """Variance of the log of the gain, to first order."""
        noise, growth = self.at(scale), noise_growth(scale)
        slope = noise / (noise + 1.0) - noise / (noise + scale)
        spread = self.level_variance + growth * (2.0 * self.covariance + growth * self.tilt_variance)
        return slope * slope * spread


@dataclass(slots=True)
class NoiseBin:
    """Weighted sums of the reports of one bin. In the names of the sums, x is g(s) and y is log φ of a report."""

    weight: float = 0.0
    x: float = 0.0
    xx: float = 0.0
    y: float = 0.0
    xy: float = 0.0
    yy: float = 0.0


@dataclass(frozen=True, slots=True)
class NoisePrior:
    """The prior from other classes: mean and variance of h at the start, and its mean growth from bin to bin."""

    start: tuple[float, float] = LEVEL_START
    growth: tuple[float, ...] = (0.0,) * (BINS - 1)


@dataclass(slots=True)
class NoiseReports:
    """Statistics of one class's reports of gradient noise. ``reports``: number of reports."""

    bins: list[NoiseBin] = field(default_factory=lambda: [NoiseBin() for _ in range(BINS)])
    reports: int = 0

    def add(self, fraction: float, growth: float, value: float) -> None:
        """Add a report. ``fraction``: the fraction of the work that is done. ``growth``: g of the report's batch
        size. ``value``: the report's log φ."""
        here = self.bins[bin_at(fraction)]
        keep = 1.0 - 1.0 / MEMORY_REPORTS
        here.weight = here.weight * keep + 1.0
        here.x = here.x * keep + growth
        here.xx = here.xx * keep + growth * growth
        here.y = here.y * keep + value
        here.xy = here.xy * keep + growth * value
        here.yy = here.yy * keep + value * value
        self.reports += 1

    def scatter(self) -> float:
        """Variance of log φ of a report about its bin's mean, without the part that the batch size explains."""
        squares, degrees = SCATTER_REPORTS * REPORT_SCATTER**2, SCATTER_REPORTS
        for noise_bin in self.bins:
            if noise_bin.weight > 2.0:
                across = noise_bin.xx - noise_bin.x * noise_bin.x / noise_bin.weight
                along = noise_bin.xy - noise_bin.x * noise_bin.y / noise_bin.weight
                left = noise_bin.yy - noise_bin.y * noise_bin.y / noise_bin.weight
                if across > 1e-9 * noise_bin.weight:
                    left -= along * along / across
                squares += max(left, 0.0)
                degrees += noise_bin.weight - 2.0
        return squares / degrees

    def curve(self, prior: NoisePrior) -> tuple[Noise, ...]:
        """The posterior of log φ in each bin."""
        return _smooth(self.bins, prior, self.scatter())


_State = tuple[float, float, float, float, float]
"""Mean of h, mean of b, variance of h, covariance, variance of b."""


def _smooth(bins: Sequence[NoiseBin], prior: NoisePrior, scatter: float) -> tuple[Noise, ...]:
    level, spread = prior.start
    tilt, tilt_spread = TILT_START
    ahead: _State = (level, tilt, spread, 0.0, tilt_spread)
    foreseen: list[_State] = []
    known: list[_State] = []
    for at, noise_bin in enumerate(bins):
        foreseen.append(ahead)
        here = _update(ahead, noise_bin, scatter) if noise_bin.weight else ahead
        known.append(here)
        if at + 1 < len(bins):
            h, b, hh, hb, bb = here
            ahead = (h + prior.growth[at], b, hh + LEVEL_STEP**2, hb, bb + TILT_STEP**2)
    found = [known[-1]]
    for here, ahead in zip(reversed(known[:-1]), reversed(foreseen[1:]), strict=True):
        found.append(_backward(here, ahead, found[-1]))
    return tuple(Noise(*state, noise_bin.weight) for state, noise_bin in zip(reversed(found), bins, strict=True))


def _update(state: _State, noise_bin: NoiseBin, scatter: float) -> _State:
    """The state after the reports of a bin, by Bayes' rule for normal distributions."""
    h, b, hh, hb, bb = state
    determinant = hh * bb - hb * hb
    p, q, r = bb / determinant, -hb / determinant, hh / determinant
    right_h = p * h + q * b + noise_bin.y / scatter
    right_b = q * h + r * b + noise_bin.xy / scatter
    p += noise_bin.weight / scatter
    q += noise_bin.x / scatter
    r += noise_bin.xx / scatter
    determinant = p * r - q * q
    hh, hb, bb = r / determinant, -q / determinant, p / determinant
    return hh * right_h + hb * right_b, hb * right_h + bb * right_b, hh, hb, bb


def _backward(here: _State, ahead: _State, after: _State) -> _State:
    """The state of a bin given all later reports too (Rauch, Tung and Striebel 1965). ``ahead``: the next bin's state
    as predicted from
    ``here``. ``after``: the next bin's state given all later reports."""
    _, _, hh, hb, bb = ahead
    determinant = hh * bb - hb * hb
    p, q, r = bb / determinant, -hb / determinant, hh / determinant
    g11, g12 = here[2] * p + here[3] * q, here[2] * q + here[3] * r
    g21, g22 = here[3] * p + here[4] * q, here[3] * q + here[4] * r
    dh, db = after[0] - ahead[0], after[1] - ahead[1]
    d11, d12, d22 = after[2] - hh, after[3] - hb, after[4] - bb
    e11, e12 = g11 * d11 + g12 * d12, g11 * d12 + g12 * d22
    e21, e22 = g21 * d11 + g22 * d12, g21 * d12 + g22 * d22
    return (
        here[0] + g11 * dh + g12 * db,
        here[1] + g21 * dh + g22 * db,
        here[2] + e11 * g11 + e12 * g12,
        here[3] + e11 * g21 + e12 * g22,
        here[4] + e21 * g21 + e22 * g22,
    )
