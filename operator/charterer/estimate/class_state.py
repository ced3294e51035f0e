"""All statistics of one class, and what was last worked out from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from charterer.estimate.learned import Learned
from charterer.estimate.noise import Noise, NoiseReports
from charterer.estimate.observation import ClassTerms
from charterer.estimate.sizes import JobSizes
from charterer.estimate.step_times import StepTimes

if TYPE_CHECKING:
    from charterer.estimate.goodput import BatchCandidate
    from charterer.estimate.throughput import StepTimeFit


@dataclass(slots=True)
class ClassState:
    """Statistics: ``times`` by GPU type, ``noise`` and ``sizes``.

    Worked out: the noise ``curve`` (from so many reports), candidates ``tried`` on a width, whole profiles ``cached``
    with the ``version`` they are of. What is only borrowed from other classes, the curve before any report and fits of
    GPU types it never ran on, is kept with the lesson it is of.
    """

    terms: ClassTerms
    times: dict[str, StepTimes] = field(default_factory=dict)
    noise: NoiseReports = field(default_factory=NoiseReports)
    sizes: JobSizes = field(default_factory=JobSizes)
    curve: tuple[Noise, ...] = ()
    curve_reports: int = 0
    curve_lesson: int = 0
    borrowed: dict[str, tuple[int, StepTimeFit]] = field(default_factory=dict)
    version: int = 0
    tried: dict[tuple[str, int], tuple[StepTimeFit, tuple[BatchCandidate, ...]]] = field(default_factory=dict)
    cached: dict[tuple[tuple[int, ...], tuple[str, ...]], tuple[int, Learned]] = field(default_factory=dict)

    @property
    def reports(self) -> int:
        """How many were heard."""
        return sum(one.reports for one in self.times.values())

    @property
    def best(self) -> StepTimes | None:
        """The GPU type that most is known of; None before the first report."""
        return max((one for one in self.times.values() if one.reports), key=lambda one: one.reports, default=None)
