"""Phases: segments of a job's life with curves of their own.

Curves differ between segments only by the gain of large batches, so neighbours are joined while their gains differ by
less than ``ALIKE`` at every batch size: the most alike first, and while they are many, those whose joining adds least
to the sum of squares over their bins (Ward 1963), so that a short segment in which noise grows fast is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

from charterer.estimate.noise import BINS, Noise, gain

MOST_PHASES = 12
"""Largest number of phases: a plan looks at every phase of every job, and more than a dozen bring little."""
ALIKE = 0.05
"""Difference of log gains below which neighbours are joined: as much as one report scatters."""


@dataclass(slots=True)
class PhaseSegment:
    """Bins that follow each other: their number, the mean noise, and the log gains at a few scales."""

    bins: int
    noise: Noise
    gains: tuple[float, ...]

    def unlike(self, other: PhaseSegment) -> float:
        """The largest difference of log gains."""
        return max(abs(mine - theirs) for mine, theirs in zip(self.gains, other.gains, strict=True))

    def joined(self, other: PhaseSegment, scales: Sequence[float]) -> PhaseSegment:
        """Both joined; means are weighted by bins."""
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
    """Phases of a noise curve of ``BINS`` bins: where each ends (the last at 1) and its noise; at most MOST_PHASES."""
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
