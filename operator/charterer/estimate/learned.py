"""The knowledge of a class: phases with curves for the planner, and every number with its origin for people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log

from charterer.domain.ids import ClassId
from charterer.domain.profile import TRIAL_STEP, CurveSource, Origin, Phase, SpeedCurve, ThroughputTable

MOST_WIDTHS = 64
"""Largest number of widths of a curve: it must be readable and fit a status."""
LIKELY = 1.645
"""Standard deviations to either end of a 90 % interval of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One width on one GPU type in one phase. ``goodput``: own-batch steps a second, with its 90 % interval.

    ``batch``: the total batch size that gives it; ``step_seconds`` with it; ``reports``: their number from that width.
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
        """The variance of the logarithm of goodput, from its interval."""
        return (log(self.high / self.low) / (2.0 * LIKELY)) ** 2


@dataclass(frozen=True, slots=True)
class LearnedPhase:
    """A phase that ends at the fraction ``until`` of the work. ``noise``: gradient noise scale, in own batches at the
    own batch size, with its 90 % interval; ``noise_reports``: reports in the phase (old ones count for less)."""

    until: float
    noise: float
    noise_low: float
    noise_high: float
    noise_reports: float
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Learned:
    """The knowledge of a class; entries are in order of GPU type and width."""

    class_id: ClassId
    own_batch: int
    reports: int
    learned_phases: tuple[LearnedPhase, ...]

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The planner's view: a table of goodput for each phase and GPU type."""
        return tuple(Phase(phase.until, _curves(phase.entries)) for phase in self.learned_phases)

    @property
    def entries(self) -> tuple[tuple[float, Entry], ...]:
        """Every number, for people: (until, entry)."""
        return tuple((phase.until, entry) for phase in self.learned_phases for entry in phase.entries)

    def phase(self, fraction: float) -> int:
        """The index of the phase that a job is in when ``fraction`` of its work is done."""
        ends = (index for index, phase in enumerate(self.learned_phases) if fraction < phase.until)
        return next(ends, len(self.learned_phases) - 1)

    def entry(self, phase: int, gpus: int, gpu_type: str | None = None) -> Entry:
        """The entry of a width (of the first GPU type where none is named); ValueError where there is none."""
        entries = [entry for entry in self.learned_phases[phase].entries if gpu_type in (None, entry.gpu_type)]
        for entry in entries:
            if entry.gpus == gpus:
                return entry
        widths = sorted({entry.gpus for entry in entries})
        raise ValueError(
            f"class {self.class_id}: nothing is known of {gpus} GPUs of {gpu_type or 'any type'}: "
            f"ask for one of {widths}"
        )

    def batch(self, phase: int, gpus: int, gpu_type: str | None = None) -> int:
        """The total batch size with the highest goodput."""
        return self.entry(phase, gpus, gpu_type).batch


def _curves(entries: Sequence[Entry]) -> tuple[SpeedCurve, ...]:
    types: dict[str, list[Entry]] = {}
    for entry in entries:
        types.setdefault(entry.gpu_type, []).append(entry)
    return tuple(
        SpeedCurve(
            gpu_type,
            ThroughputTable(tuple((entry.gpus, entry.goodput) for entry in of_type)),
            tuple(Origin(entry.source, entry.reports, entry.low, entry.high) for entry in of_type),
        )
        for gpu_type, of_type in types.items()
    )


# The widths at which learned curves have points, and those that jobs may be planned by.


_NODES = (1, 2, 3, 4, 6)
"""Numbers of nodes at which a curve has points, each also times 2, 4, 8, …: between them it is read linearly."""


def curve_widths(widths: Iterable[int], node_gpus: int) -> list[int]:
    """The widths at which a curve has points: all below a node of ``node_gpus`` GPUs, and round numbers of nodes."""
    return [gpus for gpus in widths if gpus < node_gpus or _round(gpus // node_gpus)]


def _round(nodes: int) -> bool:
    while nodes % 2 == 0 and nodes not in _NODES:
        nodes //= 2
    return nodes in _NODES


def plannable_widths(learned: Learned, ran: Mapping[str, Sequence[int]], declared: Collection[str] = ()) -> Learned:
    """Learned curves at the widths that jobs may be planned by. ``ran``: widths that ran, ascending, by GPU type.

    No width is wider than ``TRIAL_STEP`` times the widest that ran; on a GPU type that the class never ran on, none is
    wider than that one. A declared curve lifts both limits, and a class that never ran has neither: its jobs have one
    of their own (``policy.options.sources``). The speed of a GPU type that it never ran on is uncertain as a whole, and
    counts for the expected time: seconds are lognormal, so their mean is exp(v/2) times their median.
    """
    if not ran and not learned.reports:
        return learned
    widest = max((widths[-1] for widths in ran.values() if widths), default=0)
    return replace(
        learned,
        learned_phases=tuple(
            replace(phase, entries=_plannable(phase.entries, widest, ran, declared)) for phase in learned.learned_phases
        ),
    )


def _plannable(
    entries: Iterable[Entry], widest: int, ran: Collection[str], declared: Collection[str]
) -> tuple[Entry, ...]:
    allowed = [
        entry
        for entry in entries
        if entry.gpu_type in declared or entry.gpus <= widest * (TRIAL_STEP if entry.gpu_type in ran else 1)
    ]
    least_variance: dict[str, float] = {}
    for entry in allowed:
        if entry.gpu_type not in ran and entry.source is not CurveSource.DECLARED:
            variance = entry.variance
            least_variance[entry.gpu_type] = min(least_variance.get(entry.gpu_type, variance), variance)
    slower = {gpu_type: exp(-variance / 2.0) for gpu_type, variance in least_variance.items()}
    return tuple(_slower(entry, slower.get(entry.gpu_type, 1.0)) for entry in allowed)


def _slower(entry: Entry, factor: float) -> Entry:
    goodput = entry.goodput * factor
    return replace(entry, goodput=goodput, low=min(entry.low, goodput))
