"""Exact knowledge: true curves, phase by phase. It bounds what can be learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

from charterer.domain.ids import ClassId
from charterer.domain.profile import Phase, Profile, SpeedCurve, ThroughputTable
from charterer.domain.time import Instant
from charterer.simulate.model.ground_truth import Application, with_variants
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
    """Consecutive epochs: ``span``, the fraction of the work in them, and the seconds that it takes by type and
    width.
    """

    until: float
    span: float
    seconds: dict[tuple[str, int], float]

    def unlike(self, other: _EpochRange) -> float:
        """The largest ratio of their speeds between two options, without the factor common to all; at least 1."""
        ratios = [log(self.seconds[option] / self.span * other.span / other.seconds[option]) for option in self.seconds]
        return exp(max(ratios) - min(ratios))

    def join(self, other: _EpochRange) -> None:
        self.until = other.until
        self.span += other.span
        for option, seconds in other.seconds.items():
            self.seconds[option] += seconds


def exact_phases(
    application: Application, most: int = MOST_PHASES, merge_below: float = MERGE_BELOW
) -> tuple[Phase, ...]:
    """The application's epochs as at most ``most`` phases; throughput is the fraction of the job a second.

    The most similar neighbours are merged first; above ``most``, the cost of merging two grows with their difference
    and with the work of the smaller one.
    """
    begins = (0.0, *application.ends)
    ranges = [
        _EpochRange(
            end,
            end - begin,
            {
                (gpu_type, width): (end - begin) / rate
                for gpu_type, epochs in application.rates.items()
                for width, rate in sorted(epochs[epoch].items())
            },
        )
        for epoch, (begin, end) in enumerate(zip(begins, application.ends, strict=False))
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
    return tuple(map(_phase, ranges))


def _phase(epochs: _EpochRange) -> Phase:
    """One curve for each GPU type."""
    points: dict[str, list[tuple[int, float]]] = {}
    for (gpu_type, width), seconds in epochs.seconds.items():
        points.setdefault(gpu_type, []).append((width, epochs.span / seconds))
    curves = (SpeedCurve(gpu_type, ThroughputTable(tuple(table))) for gpu_type, table in points.items())
    return Phase(epochs.until, tuple(curves))


def exact_profile(
    class_id: ClassId,
    phases: Sequence[Phase],
    restart_seconds: float,
    arrivals_per_hour: float | None = None,
    resize_seconds: float = 0.0,
) -> Profile:
    """The class's profile. Work is in seconds of the first phase's first curve at its smallest width; all jobs have
    the same.
    """
    form = phases[0].curves[0].form
    assert isinstance(form, ThroughputTable)
    work = 1.0 / form.points[0][1]
    return Profile(class_id, 1, tuple(phases), work, arrivals_per_hour, restart_seconds, resize_seconds=resize_seconds)


def exact_profiles(
    applications: Mapping[ClassId, Application], restart_seconds: float, resize_seconds: float = 0.0
) -> Mapping[ClassId, Profile]:
    """The profiles of all classes, variants included."""
    return {
        class_id: exact_profile(class_id, exact_phases(application), restart_seconds, resize_seconds=resize_seconds)
        for class_id, application in with_variants(applications).items()
    }
