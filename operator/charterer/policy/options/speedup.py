"""How fast a class of jobs is at a width: throughput of a curve, and speed relative to the class's reference option."""

from __future__ import annotations

from bisect import bisect_left

from charterer.domain.profile import Amdahl, PowerLaw, Profile, ThroughputTable


def throughput(form: ThroughputTable | Amdahl | PowerLaw, gpus: int) -> float | None:
    """Throughput on ``gpus`` GPUs in the curve's unit; None where the curve says nothing.

    A table is read linearly between its points and never beyond its first or last one: what has not been measured
    is not offered.
    """
    match form:
        case ThroughputTable(points):
            at = bisect_left(points, gpus, key=lambda point: point[0])
            if at == len(points):
                return None
            right_gpus, right = points[at]
            if right_gpus == gpus:
                return right
            if at == 0:
                return None
            left_gpus, left = points[at - 1]
            return left + (right - left) * (gpus - left_gpus) / (right_gpus - left_gpus)
        case Amdahl(parallel, value):
            return value / ((1.0 - parallel) + parallel / gpus)
        case PowerLaw(exponent, value):
            return value * float(gpus**exponent)


def reference_width(form: ThroughputTable | Amdahl | PowerLaw) -> int:
    """The smallest width of a curve: a table's first number of GPUs, 1 for the formulas."""
    return form.points[0][0] if isinstance(form, ThroughputTable) else 1


def reference_throughput(profile: Profile) -> float | None:
    """Throughput of the class's reference option (first phase's first curve, smallest width); None without curves."""
    if not profile.phases or not profile.phases[0].curves:
        return None
    form = profile.phases[0].curves[0].form
    return throughput(form, reference_width(form))


def speed(profile: Profile, phase: int, gpu_type: str, gpus: int, reference: float | None = None) -> float | None:
    """Units of work per second on ``gpus`` GPUs of a type in a phase, where the reference option does one.

    None if unknown. Of several curves for a type the first counts. ``reference``: throughput of the reference option,
    where the profile's own is not what work is measured by.
    """
    reference = reference_throughput(profile) if reference is None else reference
    form = next((curve.form for curve in profile.phases[phase].curves if curve.gpu_type == gpu_type), None)
    if form is None or not reference:
        return None
    value = throughput(form, gpus)
    return value / reference if value is not None and value > 0 else None
