"""All statistics of one class, and the results that were last derived from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from charterer.domain.ids import ClassId
from charterer.domain.profile import NO_FACTS, BatchTerms, ModelFacts
from charterer.estimate.batch_cell import BatchCell
from charterer.estimate.learned import Learned
from charterer.estimate.noise import Noise, NoiseReports
from charterer.estimate.sizes import JobSizes
from charterer.estimate.step_times import StepTimes

if TYPE_CHECKING:
    from charterer.estimate.goodput import BatchCandidate
    from charterer.estimate.throughput import StepTimeFit

PairKey = tuple[str, ClassId]
"""The type of a shared GPU, and the class of the job beside it."""


@dataclass(slots=True)
class ClassState:
    """Statistics: ``times`` by GPU type, ``noise`` and ``sizes``; ``pairs``: log of the part of its speed alone that it
    kept beside others (``pairs.pair_reports``). ``model``: what its owner says of it.

    Derived: the noise ``curve`` (from ``curve_reports`` reports that scatter with the variance ``curve_scatter``),
    ``curve_off``, the sum of what later reports of log φ lie above it, ``candidates`` by GPU type and width with their
    fit, whole ``profiles`` by widths and GPU types with the ``version`` they are of. What is only borrowed from other
    classes, the curve before any report and fits of GPU types it never ran on, is kept with the number of the prior
    generation it is of.
    """

    class_id: ClassId
    terms: BatchTerms
    times: dict[str, StepTimes] = field(default_factory=dict)
    noise: NoiseReports = field(default_factory=NoiseReports)
    sizes: JobSizes = field(default_factory=JobSizes)
    model: ModelFacts = NO_FACTS
    pairs: dict[PairKey, BatchCell] = field(default_factory=dict)
    curve: tuple[Noise, ...] = ()
    curve_reports: int = 0
    curve_prior: int = 0
    curve_scatter: float = 0.0
    curve_off: float = 0.0
    borrowed: dict[str, tuple[int, StepTimeFit]] = field(default_factory=dict)
    version: int = 0
    candidates: dict[tuple[str, int], tuple[StepTimeFit, tuple[BatchCandidate, ...]]] = field(default_factory=dict)
    profiles: dict[tuple[tuple[int, ...], tuple[str, ...]], tuple[int, Learned]] = field(default_factory=dict)

    @property
    def reports(self) -> int:
        """The number of reports received."""
        return sum(times.reports for times in self.times.values())

    @property
    def best(self) -> StepTimes | None:
        """The GPU type with the most reports; None before the first report."""
        reported = (times for times in self.times.values() if times.reports)
        return max(reported, key=lambda times: times.reports, default=None)
