"""The evidence for the speed of an option: how it came to be known, and by how many reports."""

from __future__ import annotations

from enum import StrEnum

from charterer.domain.profile import CurveSource, Profile, ThroughputTable


class Basis(StrEnum):
    """The evidence for a speed, the surest first; DECLARED is what the profile's owner measured or said."""

    MEASURED = "measured"
    DECLARED = "declared"
    FORMULA = "declared formula"
    INTERPOLATED = "between two points"
    EXTRAPOLATED = "extrapolated"
    PRIOR = "from other classes"
    ASSUMED = "assumed"


_BASES = {
    CurveSource.MEASURED: Basis.MEASURED,
    CurveSource.DECLARED: Basis.DECLARED,
    CurveSource.EXTRAPOLATED: Basis.EXTRAPOLATED,
    CurveSource.PRIOR: Basis.PRIOR,
}


def basis(profile: Profile | None, gpu_type: str, gpus: int) -> Basis:
    """The evidence for the speed on a width: the weakest of the class's phases."""
    if profile is None:
        return Basis.ASSUMED
    found = [_of_phase(profile, phase, gpu_type, gpus) for phase in range(len(profile.phases))]
    return max(found, key=list(Basis).index, default=Basis.ASSUMED)


def _of_phase(profile: Profile, phase: int, gpu_type: str, gpus: int) -> Basis:
    curve = next((curve for curve in profile.phases[phase].curves if curve.gpu_type == gpu_type), None)
    if curve is None:
        return Basis.ASSUMED
    if not isinstance(curve.form, ThroughputTable):
        return Basis.FORMULA
    at = next((at for at, (width, _) in enumerate(curve.form.points) if width == gpus), None)
    if at is None:
        return Basis.INTERPOLATED
    return _BASES[curve.origins[at].source] if curve.origins else Basis.DECLARED


def reports(profile: Profile | None, gpu_type: str, gpus: int) -> int:
    """How many reports of a width there were; of a learned curve, which says the same in every phase."""
    curves = () if profile is None else profile.phases[0].curves
    return sum(
        origin.reports
        for curve in curves
        if curve.gpu_type == gpu_type
        for width, _, origin in curve.learned
        if width == gpus
    )
