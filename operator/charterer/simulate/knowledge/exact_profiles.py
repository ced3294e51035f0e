"""What a planner knows that knows the truth: exact curves, phase by phase. The bound of what can be learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

from charterer.domain.ids import ClassId
from charterer.domain.profile import Phase, Profile, SpeedCurve, ThroughputTable
from charterer.simulate.knowledge.ground_truth import Application

MOST_PHASES = 128
"""Who knows the truth knows every epoch of the applications that there are."""
ALIKE = 0.001
"""Epochs whose speeds differ by less than this at every width, but for a common factor, are always one phase."""


@dataclass(slots=True)
class _EpochRange:
    """Epochs that follow each other: ``span`` of the work, and the seconds that it takes by width."""

    until: float
    span: float
    seconds: dict[int, float]

    def unlike(self, other: _EpochRange) -> float:
        """The largest factor between their speeds at two widths, beyond one that all widths have in common; from 1."""
        ratios = [log(self.seconds[width] / self.span * other.span / other.seconds[width]) for width in self.seconds]
        return exp(max(ratios) - min(ratios))

    def join(self, other: _EpochRange) -> None:
        self.until = other.until
        self.span += other.span
        for width, seconds in other.seconds.items():
            self.seconds[width] += seconds


def phases(application: Application, gpu_type: str, most: int = MOST_PHASES, alike: float = ALIKE) -> tuple[Phase, ...]:
    """The application's epochs as phases, the most alike neighbours joined; throughput is the part of the job a second.

    What joining two costs grows with how unlike they are and with the work of the smaller one.
    """
    begins = (0.0, *application.ends)
    stretches = [
        _EpochRange(end, end - begin, {width: (end - begin) / rate for width, rate in rates.items()})
        for begin, end, rates in zip(begins, application.ends, application.rates, strict=False)
    ]
    while len(stretches) > 1:
        costs = [
            (first.unlike(second) - 1.0) * (1.0 if len(stretches) <= most else min(first.span, second.span))
            for first, second in pairwise(stretches)
        ]
        at = min(range(len(costs)), key=costs.__getitem__)
        if len(stretches) <= most and costs[at] >= alike:
            break
        stretches[at].join(stretches.pop(at + 1))
    return tuple(_phase(stretch, gpu_type) for stretch in stretches)


def _phase(stretch: _EpochRange, gpu_type: str) -> Phase:
    points = tuple((width, stretch.span / seconds) for width, seconds in sorted(stretch.seconds.items()))
    return Phase(stretch.until, (SpeedCurve(gpu_type, ThroughputTable(points)),))


def profile(
    class_id: ClassId, found: Sequence[Phase], restart_seconds: float, arrivals_per_hour: float | None = None
) -> Profile:
    """The class's profile. Work is in seconds of the first phase at its smallest width, and all jobs are alike."""
    form = found[0].curves[0].form
    assert isinstance(form, ThroughputTable)
    return Profile(class_id, 1, tuple(found), 1.0 / form.points[0][1], arrivals_per_hour, restart_seconds)


def profiles(
    applications: Mapping[ClassId, Application], gpu_type: str, restart_seconds: float
) -> Mapping[ClassId, Profile]:
    """The profiles of all classes."""
    return {name: profile(name, phases(one, gpu_type), restart_seconds) for name, one in applications.items()}
