"""What a class that is hardly known should try next: ramping up in steps of seconds, from narrow to wide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt

from purser.estimate.goodput import best_batch, candidates, configurations
from purser.estimate.noise import Noise
from purser.estimate.observation import ClassTerms, Configuration, Shape
from purser.estimate.throughput import Fit

KNOWN = 0.1
"""A step time known to 10 % (one standard deviation) needs no trying: neighbouring widths differ by far more."""
PROBE_STEPS = 20
"""Steps of one try: their mean scatters by 5 % where single ones scatter by 20 %."""
SHORTEST_SECONDS = 5.0
LONGEST_SECONDS = 120.0
WIDENING = 2
"""A try is at most so many times as wide as what has run: the money at risk then grows by a known factor."""
_LIKELY = 1.645


@dataclass(frozen=True, slots=True)
class Probe:
    """Run so for about ``seconds``: it tells most of what is not known yet. ``uncertainty``: of log seconds a step."""

    gpu_type: str
    gpus: int
    batch: int
    seconds: float
    uncertainty: float
    why: str


def next_probe(
    fit: Fit, terms: ClassTerms, noise: Noise, gpu_type: str, shapes: Sequence[Shape], widest_run: int
) -> Probe | None:
    """The narrowest width that is not known well and may be worth having; None where there is none.

    ``shapes``: what is offered, ascending; ``widest_run``: GPUs of the widest that has run (0 for none). On a width the
    batch that is known least is tried: the own batch, the largest in one pass, or what now looks best.
    """
    reached = 0.0
    first = min((shape.gpus for shape in shapes), default=0)
    for shape in shapes:
        if shape.gpus > max(first, WIDENING * widest_run):
            return None
        tried = candidates(fit, terms, shape)
        choice = best_batch(fit, noise, tried)
        if choice is None:
            continue
        single = [where for where in configurations(terms, shape) if where.passes == 1]
        wanted: list[Configuration] = [choice.where, *(single[:1]), *(single[-1:])]
        unsure, where = max((sqrt(fit.predict(one).variance), one) for one in wanted)
        lucky = choice.log_goodput + _LIKELY * sqrt(choice.variance)
        if unsure > KNOWN and exp(lucky) > reached:
            return _probe(fit, where, gpu_type, unsure)
        reached = max(reached, exp(choice.log_goodput))
    return None


def _probe(fit: Fit, where: Configuration, gpu_type: str, unsure: float) -> Probe:
    seen = fit.predict(where)
    seconds = min(max(PROBE_STEPS * exp(seen.mean + unsure), SHORTEST_SECONDS), LONGEST_SECONDS)
    gpus = where.shape.gpus
    width = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    known = f"{seen.count} reports of this width" if seen.count else "this width has never run"
    why = (
        f"{width} at batch {where.batch}: about {exp(seen.mean):.3g} s a step, known only to a factor "
        f"{exp(_LIKELY * unsure):.2f} ({known})"
    )
    return Probe(gpu_type, gpus, where.batch, seconds, unsure, why)
