"""The stretches of a job's life that deserve curves of their own.

Curves differ between stretches only by the gain that large batches have, so neighbours are joined while at no batch
size their gains differ by what matters: the most alike first, and while they are many, those that lose least by it in
the sum of squares over their bins (Ward 1963), so that a short stretch in which noise grows fast is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

from charterer.estimate.noise import BINS, Noise, gain

MOST_PHASES = 12
"""A plan looks at every phase of every job: more than a dozen cost more than they bring."""
ALIKE = 0.05
"""Gains that differ by less than 5 % are one phase's: as much as one report scatters, and less than a width's step."""


@dataclass(slots=True)
class PhaseSegment:
    """Bins that follow each other: their number, the mean noise, and the log gains at a few scales."""

    bins: int
    noise: Noise
    gains: tuple[float, ...]

    def unlike(self, other: PhaseSegment) -> float:
        """The largest difference of log gains."""
        return max(abs(one - two) for one, two in zip(self.gains, other.gains, strict=True))

    def joined(self, other: PhaseSegment, scales: Sequence[float]) -> PhaseSegment:
        """Both as one."""
        bins = self.bins + other.bins
        part = other.bins / bins
        one, two = self.noise, other.noise
        off, tilted = two.level - one.level, two.tilt - one.tilt
        noise = Noise(
            one.level + part * off,
            one.tilt + part * tilted,
            one.level_variance + part * (two.level_variance - one.level_variance),
            one.covariance + part * (two.covariance - one.covariance),
            one.tilt_variance + part * (two.tilt_variance - one.tilt_variance),
            one.count + two.count,
        )
        return PhaseSegment(bins, noise, _gains(noise, scales))


def phase_segments(curve: Sequence[Noise], largest_scale: float) -> tuple[tuple[float, Noise], ...]:
    """Phases of a noise curve of ``BINS`` bins: where each ends (the last at 1) and its noise; at most MOST_PHASES."""
    scales = [log(largest_scale) * part for part in (0.25, 0.5, 1.0)]
    found = [PhaseSegment(1, noise, _gains(noise, scales)) for noise in curve]
    costs = [first.unlike(second) for first, second in pairwise(found)]
    while costs:
        few = len(found) <= MOST_PHASES
        at = min(
            range(len(costs)),
            key=costs.__getitem__ if few else lambda at: costs[at] ** 2 / (1 / found[at].bins + 1 / found[at + 1].bins),
        )
        if few and costs[at] >= ALIKE:
            break
        found[at] = found[at].joined(found.pop(at + 1), scales)
        del costs[at]
        if at:
            costs[at - 1] = found[at - 1].unlike(found[at])
        if at < len(costs):
            costs[at] = found[at].unlike(found[at + 1])
    ends, done = [], 0
    for one in found:
        done += one.bins
        ends.append((done / BINS, one.noise))
    return tuple(ends)


def _gains(noise: Noise, scales: Sequence[float]) -> tuple[float, ...]:
    return tuple(log(gain(noise.at(scale), exp(scale))) for scale in scales)
