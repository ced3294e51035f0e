"""Exact knowledge: true curves, phase by phase. It bounds what can be learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

from charterer.domain.ids import ClassId
from charterer.domain.profile import Phase, Profile, SpeedCurve, ThroughputTable
from charterer.domain.time import Instant
from charterer.simulate.model.ground_truth import Application
from charterer.simulate.model.sim_job import SimJob

MOST_PHASES = 128
"""Phases of an exact profile at most: more than any measured application has epochs, so that none is lost."""
MERGE_BELOW = 0.001
"""Relative difference of speeds up to which neighbouring epochs are merged, whatever factor all widths share."""


@dataclass(frozen=True, slots=True)
class ExactKnowledge:
    """Given profiles that are true, and so never change."""

    class_profiles: Mapping[ClassId, Profile]
    report_seconds: float = float("inf")

    def profiles(self) -> Mapping[ClassId, Profile]:
        """The given ones."""
        return self.class_profiles

    def expected_work(self, job: SimJob) -> float | None:
        """The mean of the class: all its jobs are alike."""
        profile = self.class_profiles.get(job.class_id)
        return None if profile is None else profile.mean_work

    def batch(self, job: SimJob) -> int:
        """The best one of each epoch."""
        return 0

    def receive_report(self, job: SimJob, at: Instant) -> None:
        """Ignore it: everything is known."""


@dataclass(slots=True)
class _EpochRange:
    """Consecutive epochs: ``span``, the fraction of the work in them, and the seconds that it takes by width."""

    until: float
    span: float
    seconds: dict[int, float]

    def unlike(self, other: _EpochRange) -> float:
        """The largest ratio of their speeds between two widths, without the factor common to all; at least 1."""
        ratios = [log(self.seconds[width] / self.span * other.span / other.seconds[width]) for width in self.seconds]
        return exp(max(ratios) - min(ratios))

    def join(self, other: _EpochRange) -> None:
        self.until = other.until
        self.span += other.span
        for width, seconds in other.seconds.items():
            self.seconds[width] += seconds


def exact_phases(
    application: Application, gpu_type: str, most: int = MOST_PHASES, merge_below: float = MERGE_BELOW
) -> tuple[Phase, ...]:
    """The application's epochs as at most ``most`` phases; throughput is the fraction of the job a second.

    The most similar neighbours are merged first; above ``most``, the cost of merging two grows with their difference
    and with the work of the smaller one.
    """
    begins = (0.0, *application.ends)
    ranges = [
        _EpochRange(end, end - begin, {width: (end - begin) / rate for width, rate in rates.items()})
        for begin, end, rates in zip(begins, application.ends, application.rates, strict=False)
    ]
    while len(ranges) > 1:
        costs = [
            (first.unlike(second) - 1.0) * (1.0 if len(ranges) <= most else min(first.span, second.span))
            for first, second in pairwise(ranges)
        ]
        at = min(range(len(costs)), key=costs.__getitem__)
        if len(ranges) <= most and costs[at] >= merge_below:
            break
        ranges[at].join(ranges.pop(at + 1))
    return tuple(_phase(epochs, gpu_type) for epochs in ranges)


def _phase(epochs: _EpochRange, gpu_type: str) -> Phase:
    points = tuple((width, epochs.span / seconds) for width, seconds in sorted(epochs.seconds.items()))
    return Phase(epochs.until, (SpeedCurve(gpu_type, ThroughputTable(points)),))


def exact_profile(
    class_id: ClassId, phases: Sequence[Phase], restart_seconds: float, arrivals_per_hour: float | None = None
) -> Profile:
    """The class's profile. Work is in seconds of the first phase at its smallest width; all jobs have the same."""
    form = phases[0].curves[0].form
    assert isinstance(form, ThroughputTable)
    return Profile(class_id, 1, tuple(phases), 1.0 / form.points[0][1], arrivals_per_hour, restart_seconds)


def exact_profiles(
    applications: Mapping[ClassId, Application], gpu_type: str, restart_seconds: float
) -> Mapping[ClassId, Profile]:
    """The profiles of all classes."""
    return {
        class_id: exact_profile(class_id, exact_phases(application, gpu_type), restart_seconds)
        for class_id, application in applications.items()
    }
