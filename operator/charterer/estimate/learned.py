"""What is known of a class: phases with curves for the planner, and for people every number with its origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log

from charterer.domain.ids import ClassId
from charterer.domain.profile import CurveSource, Origin, Phase, SpeedCurve, ThroughputTable

MOST_WIDTHS = 64
"""Curves are readable, and fit a status, up to so many widths."""
LIKELY = 1.645
"""Standard deviations to either end of a 90 % interval of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One width on one GPU type in one phase. ``goodput``: own-batch steps a second, with its 90 % interval.

    ``batch``: the total batch size that gives it; ``step_seconds`` with it; ``reports``: how many came from that width.
    """

    gpu_type: str
    gpus: int
    goodput: float
    low: float
    high: float
    batch: int
    step_seconds: float
    source: CurveSource
    reports: int

    @property
    def variance(self) -> float:
        """Of the logarithm of goodput, by its interval."""
        return (log(self.high / self.low) / (2.0 * LIKELY)) ** 2


@dataclass(frozen=True, slots=True)
class LearnedPhase:
    """A phase up to the part ``until`` of the work. ``noise``: gradient noise scale in own batches at the own batch
    size, with its 90 % interval; ``noise_reports``: how many reports lie in the phase (old ones count for less)."""

    until: float
    noise: float
    noise_low: float
    noise_high: float
    noise_reports: float
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Learned:
    """All that is known of a class; entries are in order of GPU type and width."""

    class_id: ClassId
    own_batch: int
    reports: int
    learned_phases: tuple[LearnedPhase, ...]

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """As the planner takes it: a table of goodput per phase and GPU type."""
        return tuple(Phase(one.until, _curves(one.entries)) for one in self.learned_phases)

    @property
    def entries(self) -> tuple[tuple[float, Entry], ...]:
        """Every number there is, for people: (until, entry)."""
        return tuple((one.until, entry) for one in self.learned_phases for entry in one.entries)

    def phase(self, fraction: float) -> int:
        """The index of the phase in which a job is of which that part is done."""
        return next(
            (at for at, one in enumerate(self.learned_phases) if fraction < one.until), len(self.learned_phases) - 1
        )

    def entry(self, phase: int, gpus: int, gpu_type: str | None = None) -> Entry:
        """What is known of a width (of the first GPU type where none is named); ValueError where nothing is."""
        for one in self.learned_phases[phase].entries:
            if one.gpus == gpus and gpu_type in (None, one.gpu_type):
                return one
        known = sorted({one.gpus for one in self.learned_phases[phase].entries if gpu_type in (None, one.gpu_type)})
        raise ValueError(
            f"class {self.class_id}: nothing is known of {gpus} GPUs of {gpu_type or 'any type'}: "
            f"ask for one of {known}"
        )

    def batch(self, phase: int, gpus: int, gpu_type: str | None = None) -> int:
        """The total batch size with the highest goodput."""
        return self.entry(phase, gpus, gpu_type).batch


def _curves(entries: Sequence[Entry]) -> tuple[SpeedCurve, ...]:
    types: dict[str, list[Entry]] = {}
    for one in entries:
        types.setdefault(one.gpu_type, []).append(one)
    return tuple(
        SpeedCurve(
            gpu_type,
            ThroughputTable(tuple((one.gpus, one.goodput) for one in found)),
            tuple(Origin(one.source, one.reports, one.low, one.high) for one in found),
        )
        for gpu_type, found in types.items()
    )
