"""What was learned together with what somebody declared: the declared curve is a prior of the learned one.

Of a width, the logarithm l of goodput was learned with variance v, and d is that of the declared throughput. Units
differ by a factor, common to all widths and GPU types of a phase, which is the weighted mean c of l − d. A declared
curve is taken to be right to s at each width, so that both together say

    (l/v + (d + c)/s²) / (1/v + 1/s²)     with variance     1 / (1/v + 1/s²)

Where little was measured that has the declared shape at the measured scale; what is measured well is believed whatever
was declared. There is no threshold at which one gives way to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp, log, sqrt

from charterer.domain.profile import CurveSource
from charterer.estimate.learned import LIKELY, Entry, Learned
from charterer.estimate.throughput import WIDTH_MISFIT

DECLARED_SPREAD = WIDTH_MISFIT
"""Standard deviation of log throughput: curves measured once elsewhere are off by what interconnects differ."""
_LEAST_VARIANCE = 1e-6

Declared = Callable[[str, int], float | None]
"""Declared throughput of a GPU type at a width, in any unit; None where nothing is declared."""


def with_declared(learned: Learned, declared: Declared) -> Learned:
    """The learned curves with the declared ones as their prior."""
    learned_phases = tuple(replace(one, entries=_together(one.entries, declared)) for one in learned.learned_phases)
    return Learned(learned.class_id, learned.own_batch, learned.reports, learned_phases)


def _together(entries: Sequence[Entry], declared: Declared) -> tuple[Entry, ...]:
    known = [(one, log(said)) for one in entries if (said := declared(one.gpu_type, one.gpus))]
    weights = [1.0 / (_variance(one) + DECLARED_SPREAD**2) for one, _ in known]
    if not known:
        return tuple(entries)
    off = [weight * (log(one.goodput) - said) for weight, (one, said) in zip(weights, known, strict=True)]
    scale = sum(off) / sum(weights)
    expected = {(one.gpu_type, one.gpus): said + scale for one, said in known}
    return tuple(_between(one, expected.get((one.gpu_type, one.gpus))) for one in entries)


def _variance(one: Entry) -> float:
    return max(one.variance, _LEAST_VARIANCE)


def _between(one: Entry, expected: float | None) -> Entry:
    if expected is None:
        return one
    learned, said = 1.0 / _variance(one), 1.0 / DECLARED_SPREAD**2
    value = exp((learned * log(one.goodput) + said * expected) / (learned + said))
    spread = exp(LIKELY * sqrt(1.0 / (learned + said)))
    source = CurveSource.DECLARED if said > learned and one.source is not CurveSource.MEASURED else one.source
    return replace(one, goodput=value, low=value / spread, high=value * spread, source=source)
