"""What is known of a class: phases with curves for the planner, and every number with its origin for people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log

from charterer.domain.ids import ClassId
from charterer.domain.profile import TRIAL_STEP, CurveSource, Origin, Phase, SpeedCurve, ThroughputTable

MOST_WIDTHS = 64
"""Most widths of a curve, so that a person can read the curve and a status can hold it."""
LIKELY = 1.645
"""Standard deviations from the mean to each end of a normal distribution's 90 % interval."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One width on one GPU type in one phase.

    ``goodput``: own-batch steps a second, with the 90 % interval from ``low`` to ``high``.
    ``batch``: the total batch size for which the goodput is highest.
    ``step_seconds``: seconds of a step with that batch size.
    ``reports``: number of reports from the width.
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
    """A phase of a job's life.

    ``until``: the fraction of the work at which it ends.
    ``noise``: gradient noise scale at the own batch size, in own batches, with its 90 % interval.
    ``noise_reports``: number of reports in the phase; older reports count for less.
    """

    until: float
    noise: float
    noise_low: float
    noise_high: float
    noise_reports: float
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Learned:
    """What is known of a class. Entries are in order of GPU type and width."""

    class_id: ClassId
    own_batch: int
    reports: int
    learned_phases: tuple[LearnedPhase, ...]

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The phases as the planner sees them: a table of goodput for each phase and GPU type."""
        return tuple(Phase(phase.until, _curves(phase.entries)) for phase in self.learned_phases)

    @property
    def entries(self) -> tuple[tuple[float, Entry], ...]:
        """All entries, each with the end of its phase: (until, entry)."""
        return tuple((phase.until, entry) for phase in self.learned_phases for entry in phase.entries)

    def phase(self, fraction: float) -> int:
        """The index of the phase that a job is in when ``fraction`` of its work is done."""
        ends = (index for index, phase in enumerate(self.learned_phases) if fraction < phase.until)
        return next(ends, len(self.learned_phases) - 1)

    def entry(self, phase: int, gpus: int, gpu_type: str | None = None) -> Entry:
        """The entry of a width on the GPU type, or on the first GPU type if none is named. Raises ValueError if there
        is no such entry."""
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
        """The total batch size with the highest goodput at a width."""
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


# The widths at which learned curves have points, and the widths by which jobs may be planned.


_NODES = (1, 2, 3, 4, 6)
"""Numbers of nodes at which a curve has points; these numbers times 2, 4, 8, … also have points. Between two points a
curve is linear."""


def curve_widths(widths: Iterable[int], node_gpus: int) -> list[int]:
    """The widths at which a curve has points: all widths below a node of ``node_gpus`` GPUs, and some whole numbers
    of nodes."""
    return [gpus for gpus in widths if gpus < node_gpus or _round(gpus // node_gpus)]


def _round(nodes: int) -> bool:
    while nodes % 2 == 0 and nodes not in _NODES:
        nodes //= 2
    return nodes in _NODES


def plannable_widths(learned: Learned, ran: Mapping[str, Sequence[int]], declared: Collection[str] = ()) -> Learned:
    """The learned curves at the widths by which jobs may be planned.

    ``ran``: for each GPU type, the widths that ran, ascending. ``declared``: GPU types that have a declared curve.

    No width is wider than ``TRIAL_STEP`` times the widest that ran. On a GPU type on which the class never ran, no
    width is wider than the widest that ran. A declared curve lifts both limits. A class that never ran has neither
    limit, because ``policy.options.sources`` limits the widths of its jobs. On a GPU type on which the class never
    ran, the speeds of all widths share one uncertainty. It makes the expected time longer: seconds are lognormal, so
    their mean is exp(v/2) times their median.
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
