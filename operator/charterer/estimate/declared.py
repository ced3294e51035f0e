"""Declared curves as priors of the learned ones.

At a width, the logarithm l of goodput was learned with variance v, and d is that of the declared throughput. The units
differ by a factor, common to all widths and GPU types of a phase, which is the weighted mean c of l − d. A declared
curve is assumed to be right to s at each width, so that the combined estimate is

    (l/v + (d + c)/s²) / (1/v + 1/s²)     with variance     1 / (1/v + 1/s²)

Where little was measured, that has the declared shape at the measured scale; a width that was measured well keeps its
measured value. There is no threshold at which one gives way to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp, log, sqrt

from charterer.domain.profile import CurveSource
from charterer.estimate.learned import LIKELY, Entry, Learned
from charterer.estimate.throughput import WIDTH_MISFIT

DECLARED_SPREAD = WIDTH_MISFIT
"""Standard deviation of declared log throughput: interconnects differ from those where curves were measured."""
_LEAST_VARIANCE = 1e-6

Declared = Callable[[str, int], float | None]
"""Declared throughput of a GPU type at a width, in any unit; None where nothing is declared."""


def with_declared(learned: Learned, declared: Declared) -> Learned:
    """The learned curves with the declared ones as their prior."""
    learned_phases = tuple(
        replace(phase, entries=_combined(phase.entries, declared)) for phase in learned.learned_phases
    )
    return Learned(learned.class_id, learned.own_batch, learned.reports, learned_phases)


def _combined(entries: Sequence[Entry], declared: Declared) -> tuple[Entry, ...]:
    pairs = [(entry, log(value)) for entry in entries if (value := declared(entry.gpu_type, entry.gpus))]
    if not pairs:
        return tuple(entries)
    weights = [1.0 / (_variance(entry) + DECLARED_SPREAD**2) for entry, _ in pairs]
    differences = [weight * (log(entry.goodput) - value) for weight, (entry, value) in zip(weights, pairs, strict=True)]
    scale = sum(differences) / sum(weights)
    expected = {(entry.gpu_type, entry.gpus): value + scale for entry, value in pairs}
    return tuple(_with_prior(entry, expected.get((entry.gpu_type, entry.gpus))) for entry in entries)


def _variance(entry: Entry) -> float:
    return max(entry.variance, _LEAST_VARIANCE)


def _with_prior(entry: Entry, expected: float | None) -> Entry:
    """The entry combined with the log goodput that is expected from the declared curve."""
    if expected is None:
        return entry
    learned, prior = 1.0 / _variance(entry), 1.0 / DECLARED_SPREAD**2
    value = exp((learned * log(entry.goodput) + prior * expected) / (learned + prior))
    spread = exp(LIKELY * sqrt(1.0 / (learned + prior)))
    source = CurveSource.DECLARED if prior > learned and entry.source is not CurveSource.MEASURED else entry.source
    return replace(entry, goodput=value, low=value / spread, high=value * spread, source=source)
