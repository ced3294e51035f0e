"""What a learner knows of one class into ``status.learned``, and back: into the planner's phases, and into a learner.

Numbers are rounded so that a person can read them: what is shown to six digits, far less than it is uncertain; sums of
which differences are taken to ten. A learner that is made from a status predicts the same to that precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log, sqrt

from charterer.api.models import learned as api
from charterer.api.models.base import Json, dump
from charterer.domain.ids import ClassId
from charterer.domain.profile import BatchTerms, FailedWidth, Origin, Phase, SpeedCurve, ThroughputTable
from charterer.domain.time import Instant
from charterer.estimate.batch_cell import BatchCell
from charterer.estimate.class_state import ClassState
from charterer.estimate.learned import Entry, Learned, LearnedPhase
from charterer.estimate.noise import NoiseBin
from charterer.estimate.observation import Configuration, Shape
from charterer.estimate.step_times import StepTimes


def curves_record(learned: Learned) -> Json:
    """The part of ``status.learned`` that says what is known of a class."""
    return dump(
        api.LearnedCurves(
            reports=learned.reports,
            phases=tuple(_phase(one) for one in learned.learned_phases[: api.MOST_PHASES]),
        )
    )


def statistics_record(state: ClassState, through: Instant | None, failed: Iterable[FailedWidth] = ()) -> Json:
    """The part of ``status.learned`` that it was learned from.

    The cells stay in their order, the latest of a GPU type last. ``through``: jobs that finished up to then are in the
    sizes. ``failed``: widths on which runs failed.
    """
    cells = [
        (gpu_type, where, cell)
        for gpu_type, times in sorted(state.times.items())
        for where, cell in times.cells.items()
    ]
    return dump(
        api.LearnedStatistics(
            batch=_terms(state.terms),
            step_times=tuple(_step_times(*one) for one in cells[: api.MOST_CELLS]),
            noise_reports=state.noise.reports,
            noise_sums=tuple(
                api.NoiseSums(
                    bin=at,
                    weight=_exact(one.weight),
                    x=_exact(one.x),
                    xx=_exact(one.xx),
                    z=_exact(one.y),
                    xz=_exact(one.xy),
                    zz=_exact(one.yy),
                )
                for at, one in enumerate(state.noise.bins)
                if one.weight
            ),
            sizes=api.SizesStatus(latest=tuple(_round(work) for work in state.sizes.latest), through=through),
            failed=tuple(
                api.FailedWidthStatus(
                    gpu_type=one.gpu_type, gpus=one.gpus, failures=one.failures, at=one.at, message=one.message[:256]
                )
                for one in failed
            ),
        )
    )


def failed_widths(status: api.LearnedStatus) -> tuple[FailedWidth, ...]:
    """Widths on which runs failed."""
    return tuple(FailedWidth(one.gpu_type, one.gpus, one.failures, one.at, one.message) for one in status.failed)


def phases(status: api.LearnedStatus, first: tuple[str, int] | None) -> tuple[Phase, ...]:
    """The planner's phases; none where a phase says nothing. ``first``: GPU type and width that should be reference."""
    if not status.phases or not all(one.widths for one in status.phases):
        return ()
    return tuple(Phase(one.until, _curves(one.widths, first)) for one in status.phases)


def state(class_id: ClassId, status: api.LearnedStatus) -> ClassState:
    """The statistics that ``Learner.restore`` takes. ValueError for an empty range of batch sizes."""
    batch = status.batch
    declared = BatchTerms(batch.own, batch.largest, batch.largest_per_gpu, batch.smallest_per_gpu)
    found = ClassState(class_id, declared)
    for one in status.step_times:
        times = found.times.setdefault(one.gpu_type, StepTimes(declared.largest_per_gpu))
        where = Configuration(Shape(one.nodes, one.gpus), one.per_gpu, one.passes)
        times.cells[where] = BatchCell(one.weight, log(one.seconds), one.scatter**2, one.reports)
        times.reports += one.reports
    for sums in status.noise_sums:
        found.noise.bins[sums.bin] = NoiseBin(sums.weight, sums.x, sums.xx, sums.z, sums.xz, sums.zz)
    found.noise.reports = status.noise_reports
    found.sizes.latest.extend(status.sizes.latest)
    return found


def _terms(declared: BatchTerms) -> api.BatchTermsStatus:
    return api.BatchTermsStatus(
        own=declared.own,
        largest=declared.largest,
        largest_per_gpu=declared.largest_per_gpu,
        smallest_per_gpu=declared.smallest_per_gpu,
    )


def _phase(phase: LearnedPhase) -> api.LearnedPhaseStatus:
    return api.LearnedPhaseStatus(
        until=_round(phase.until),
        noise=api.LearnedNoise(
            value=_round(phase.noise),
            low=_round(phase.noise_low),
            high=_round(phase.noise_high),
            reports=_round(phase.noise_reports),
        ),
        widths=tuple(_width(one) for one in phase.entries[: api.MOST_WIDTHS]),
    )


def _width(entry: Entry) -> api.LearnedWidth:
    return api.LearnedWidth(
        gpu_type=entry.gpu_type,
        gpus=entry.gpus,
        goodput=_round(entry.goodput),
        low=_round(entry.low),
        high=_round(entry.high),
        batch=entry.batch,
        step_seconds=_round(entry.step_seconds),
        source=entry.source,
        reports=entry.reports,
    )


def _step_times(gpu_type: str, where: Configuration, cell: BatchCell) -> api.StepTimesStatus:
    return api.StepTimesStatus(
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


def _curves(widths: Sequence[api.LearnedWidth], first: tuple[str, int] | None) -> tuple[SpeedCurve, ...]:
    """Curves by GPU type, that of the declared reference first: work is measured on it."""
    types: dict[str, dict[int, api.LearnedWidth]] = {}
    for one in widths:
        types.setdefault(one.gpu_type, {})[one.gpus] = one
    order = sorted(types, key=lambda name: (first is None or name != first[0], name))
    return tuple(
        SpeedCurve(
            name,
            ThroughputTable(tuple((gpus, one.goodput) for gpus, one in sorted(types[name].items()))),
            tuple(Origin(one.source, one.reports, one.low, one.high) for _, one in sorted(types[name].items())),
        )
        for name in order
    )


def _round(value: float) -> float:
    return float(f"{min(value, api.LARGEST):.6g}")


def _exact(value: float) -> float:
    return float(f"{value:.10g}")
