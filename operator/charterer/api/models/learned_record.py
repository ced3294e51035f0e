"""Conversion of a learner's knowledge of one class into records of its profile's status, and back into a learner.

Numbers are rounded. Numbers for people have six digits, far more than are certain. Sums whose differences matter have
ten. A learner that is made from a status predicts the same to that precision.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, log, sqrt
from typing import NamedTuple

from charterer.api.models.learned import (
    LARGEST,
    MOST_CELLS,
    MOST_PHASES,
    MOST_SAMPLES,
    MOST_WIDTHS,
    BatchTermsStatus,
    ClassStatistics,
    FailedWidthStatus,
    LearnedClass,
    LearnedCurves,
    LearnedNoise,
    LearnedPair,
    LearnedPhaseStatus,
    LearnedStatus,
    LearnedWidth,
    NoiseSums,
    StepTimesCell,
)
from charterer.domain.ids import ClassId
from charterer.domain.profile import FailedWidth
from charterer.domain.time import Instant
from charterer.estimate.cells import BatchCell, StepTimes
from charterer.estimate.class_state import ClassState
from charterer.estimate.learned import Entry, Learned, LearnedPhase
from charterer.estimate.learner import learned_pairs, remembered
from charterer.estimate.noise import NoiseBin
from charterer.estimate.observation import Configuration, Shape


def curves_record(learned: Learned) -> LearnedCurves:
    """The record of the learned speeds."""
    return LearnedCurves(
        reports=learned.reports, phases=tuple(_phase(phase) for phase in learned.learned_phases[:MOST_PHASES])
    )


class Durations(NamedTuple):
    """Seconds of a checkpoint, a restart and an in-place resize in a class; None before the first report."""

    checkpoint: float | None = None
    restart: float | None = None
    resize: float | None = None


def class_record(
    state: ClassState, failed: Iterable[FailedWidth] = (), durations: Durations | None = None
) -> LearnedClass:
    """The record of the class's statistics for people, without its curves. ``failed``: widths on which runs failed.

    ``durations`` have two digits, because each change makes all plans of the class's jobs again.
    """
    sizes, known = state.sizes.latest, durations or Durations()
    return LearnedClass(
        batch=BatchTermsStatus.from_domain(state.terms),
        mean_steps=_exact(sum(sizes) / len(sizes)) if sizes else None,
        checkpoint_seconds=_two_digits(known.checkpoint),
        restart_seconds=_two_digits(known.restart),
        resize_seconds=_two_digits(known.resize),
        failed=tuple(FailedWidthStatus.from_domain(width) for width in failed),
        pairs=tuple([LearnedPair.from_domain(pair) for pair in learned_pairs(state)]),
    )


def _two_digits(seconds: float | None) -> float | None:
    return None if seconds is None else float(f"{seconds:.2g}")


def class_statistics(state: ClassState, sizes_through: Instant | None) -> ClassStatistics:
    """The statistics. ``sizes_through``: the sizes include jobs that finished up to this time."""
    cells = [
        _step_times(gpu_type, where, cell)
        for gpu_type, times in sorted(state.times.items())
        for where, cell in times.cells.items()
    ]
    return ClassStatistics(
        step_times=tuple(cells[:MOST_CELLS]),
        noise_reports=state.noise.reports,
        noise_sums=tuple(_noise_sums(index, sums) for index, sums in enumerate(state.noise.bins) if sums.weight),
        sizes=tuple(_round(work) for work in state.sizes.latest),
        sizes_through=sizes_through,
    )


def class_state(class_id: ClassId, learned: LearnedStatus, statistics: ClassStatistics) -> ClassState:
    """The state for ``Learner.restore``. Raises ValueError for an empty range of batch sizes."""
    declared = learned.batch.to_domain()
    state = ClassState(class_id, declared)
    for cell in statistics.step_times:
        times = state.times.setdefault(cell.gpu_type, StepTimes(declared.largest_per_gpu))
        where = Configuration(Shape(cell.nodes, cell.gpus), cell.per_gpu, cell.passes)
        times.cells[where] = BatchCell(cell.weight, log(cell.seconds), cell.scatter**2, cell.reports)
        times.reports += cell.reports
    for sums in statistics.noise_sums:
        state.noise.bins[sums.bin] = NoiseBin(sums.weight, sums.x, sums.xx, sums.z, sums.xz, sums.zz)
    state.noise.reports = statistics.noise_reports
    state.sizes.latest.extend(statistics.sizes)
    state.pairs = remembered([pair.to_domain() for pair in learned.pairs])
    return state


def _phase(phase: LearnedPhase) -> LearnedPhaseStatus:
    return LearnedPhaseStatus(
        until=_round(phase.until),
        noise=LearnedNoise(
            value=_round(phase.noise),
            low=_round(phase.noise_low),
            high=_round(phase.noise_high),
            reports=_round(phase.noise_reports),
        ),
        widths=tuple(_width(entry) for entry in phase.entries[:MOST_WIDTHS]),
    )


def _width(entry: Entry) -> LearnedWidth:
    return LearnedWidth(
        gpu_type=entry.gpu_type,
        gpus=entry.gpus,
        goodput=_round(entry.goodput),
        low=_round(entry.low),
        high=_round(entry.high),
        batch=min(entry.batch, MOST_SAMPLES),
        step_seconds=_round(entry.step_seconds),
        source=entry.source,
        reports=entry.reports,
    )


def _step_times(gpu_type: str, where: Configuration, cell: BatchCell) -> StepTimesCell:
    return StepTimesCell(
        gpu_type=gpu_type,
        nodes=where.shape.nodes,
        gpus=where.shape.gpus,
        per_gpu=where.local,
        passes=where.passes,
        seconds=_exact(exp(cell.mean)),
        scatter=_round(sqrt(max(cell.variance, 0.0))),
        weight=_exact(cell.weight),
        reports=cell.count,
    )


def _noise_sums(index: int, sums: NoiseBin) -> NoiseSums:
    return NoiseSums(
        bin=index,
        weight=_exact(sums.weight),
        x=_exact(sums.x),
        xx=_exact(sums.xx),
        z=_exact(sums.y),
        xz=_exact(sums.xy),
        zz=_exact(sums.yy),
    )


def _round(value: float) -> float:
    return float(f"{min(value, LARGEST):.6g}")


def _exact(value: float) -> float:
    return float(f"{value:.10g}")
