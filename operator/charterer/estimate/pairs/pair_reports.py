"""Reports of jobs that share a GPU with one other job of a known class: what they keep of their speed alone."""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, log

from charterer.domain.ids import ClassId
from charterer.domain.profile import MOST_PAIRS, PairSpeed
from charterer.estimate.batch_cell import MEMORY_REPORTS, BatchCell
from charterer.estimate.class_state import ClassState, PairKey
from charterer.estimate.learner import Learner
from charterer.estimate.observation import Observation, split
from charterer.gpu_types import whole_type


def learn_pair(learner: Learner, report: Observation, beside: ClassId) -> None:
    """Learn from a report that the learner took, of a job beside one of the other class on its GPU.

    The job's step is compared with what the same step takes alone on a GPU of that type, as far as that is known now.
    A pair remembers ``MEMORY_REPORTS``, so what was compared with a worse estimate is forgotten.
    """
    state = learner.state(report.class_id)
    alone = learner.step_times(report.class_id, whole_type(report.gpu_type))
    expected = alone.predict(split(state.terms, report.shape, report.batch)).mean
    key = report.gpu_type, beside
    cell = state.pairs.pop(key, None) or BatchCell()
    cell.add(expected - log(report.step_seconds), state.times[report.gpu_type].scatter)
    state.pairs[key] = cell  # the latest is last
    if len(state.pairs) > MOST_PAIRS:
        del state.pairs[next(iter(state.pairs))]


def learned_pairs(state: ClassState) -> tuple[PairSpeed, ...]:
    """What the class kept beside others, the least recent first."""
    return tuple(
        [
            PairSpeed(gpu_type, beside, min(exp(cell.mean), 1.0), cell.count)
            for (gpu_type, beside), cell in state.pairs.items()
        ]
    )


def remembered(pairs: Iterable[PairSpeed]) -> dict[PairKey, BatchCell]:
    """The statistics of pairs that were recorded."""
    return {
        (pair.gpu_type, pair.beside): BatchCell(
            min(float(pair.reports), MEMORY_REPORTS), log(pair.kept), 0.0, pair.reports
        )
        for pair in pairs
    }
