"""How fast a width that was never measured, or hardly, is hoped to be.

A learned curve says of a width that never ran what is expected of it, which is cautious: planned by that alone, jobs
would run for ever where the first ones happened to. So the next width to try counts as faster than expected, by half
the way (in the logarithm) to the upper end of its 90 % interval. If that makes it a job's best choice, the job runs
there, reports within a minute, and from ten reports on the width counts as known; if it disappoints, the job moves
back where that pays. (Optimism in the face of uncertainty: Lai and Robbins 1985; Auer, Cesa-Bianchi and Fischer 2002.)

Widths to try double: one that lies within a factor of two of a measured one is known well enough from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt

from charterer.domain.profile import TRIAL_STEP, CurveSource, Phase, Profile, SpeedCurve, ThroughputTable

SURE_REPORTS = 10
"""A report scatters by some 5 %, and the first comes at a batch size that is not yet the best: after an unlucky one a
class would stay away for good. Ten are known to 1.6 %, less than neighbouring widths differ by."""


def exploration_candidates(profile: Profile) -> Mapping[str, frozenset[int]]:
    """By GPU type, where there are any, numbers of GPUs that are worth a trial.

    That is: if they are a good choice when they are as fast as may be hoped.
    """
    types = {curve.gpu_type for phase in profile.phases for curve in phase.curves if curve.origins}
    return {gpu_type: found for gpu_type in types if (found := _to_try(profile, gpu_type))}


def _to_try(profile: Profile, gpu_type: str) -> frozenset[int]:
    known = [
        (gpus, origin.reports if origin.source is CurveSource.MEASURED else 0)
        for phase in profile.phases
        for curve in phase.curves
        if curve.gpu_type == gpu_type
        for gpus, _, origin in curve.learned
    ]
    ran = {gpus for gpus, reports in known if reports}
    unsure = {gpus for gpus, reports in known if 0 < reports < SURE_REPORTS}
    widest = max(ran) if ran else min((gpus for gpus, _ in known), default=0) / TRIAL_STEP
    return frozenset(
        gpus
        for gpus, _ in known
        if gpus in unsure or (gpus <= TRIAL_STEP * widest and not any(_near(gpus, other) for other in ran))
    )


def _near(width: int, other: int) -> bool:
    return width < TRIAL_STEP * other and other < TRIAL_STEP * width


def optimistic_speed(profile: Profile, tried: Mapping[str, frozenset[int]]) -> Profile:
    """The profile with the widths to try as fast as may be hoped; the same object where there are none."""
    if not tried:
        return profile
    phases = tuple(
        Phase(phase.until, tuple(_optimistic(curve, tried.get(curve.gpu_type, frozenset())) for curve in phase.curves))
        for phase in profile.phases
    )
    return replace(profile, phases=phases)


def _optimistic(curve: SpeedCurve, tried: frozenset[int]) -> SpeedCurve:
    learned = curve.learned if tried else ()
    points = tuple(
        (gpus, sqrt(value * max(origin.high, value)) if gpus in tried else value) for gpus, value, origin in learned
    )
    return replace(curve, form=ThroughputTable(points)) if points else curve
