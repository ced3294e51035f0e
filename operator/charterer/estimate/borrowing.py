"""What other classes say of one, from their statistics (``priors.votes``: who is believed how far)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log

from charterer.domain.ids import ClassId
from charterer.estimate.class_state import ClassState
from charterer.estimate.priors.model_prior import MeasuredModel, measured_model
from charterer.estimate.priors.prior import usual_ratio
from charterer.estimate.priors.votes import Told, vote
from charterer.estimate.sizes import PRIOR_WORK, SIZE_SPREAD
from charterer.estimate.throughput import Unknown


def usual_work(own: ClassState, others: Iterable[ClassState]) -> float:
    """Geometric mean of the other classes' mean work, or the class's own mean without others."""
    sizes = [(state.class_id, state.sizes.latest) for state in others if state.sizes.latest]
    told = Told.to(own.class_id, [(name, log(sum(works) / len(works))) for name, works in sizes])
    logs = [*told.own, *[vote(values, (log(PRIOR_WORK), SIZE_SPREAD**2)) for values in told.others]]
    if logs:
        return exp(sum(logs) / len(logs))
    works = own.sizes.latest
    return sum(works) / len(works) if works else PRIOR_WORK


def measured_models(others: Iterable[ClassState]) -> Iterable[MeasuredModel]:
    """The other classes whose models were described, where they ran."""
    for state in others:
        for gpu_type, times in state.times.items():
            if times.fit is not None:
                yield measured_model(state.class_id, state.model, gpu_type, times.fit)


def speed_ratios(listener: ClassId, others: Iterable[ClassState], gpu_type: str, sibling: str) -> Sequence[float]:
    """log(seconds on the type / seconds on the sibling) of the other classes that ran on both."""
    ratios = []
    for state in others:
        here, there = state.times.get(gpu_type), state.times.get(sibling)
        if here and there and here.fit and there.fit:
            ratios.append((state.class_id, here.fit.unknowns[Unknown.COMPUTE] - there.fit.unknowns[Unknown.COMPUTE]))
    told, usual = Told.to(listener, ratios), usual_ratio(gpu_type, sibling)
    return [*told.own, *[vote(values, usual) for values in told.others]]
