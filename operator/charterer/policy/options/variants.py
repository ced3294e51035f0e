"""The speeds of a job's variants by one measure.

Each variant has a class of its own, with a curve in a unit of its own. What they have in common is the sample: a
throughput times ``Profile.samples`` is samples a second. All are measured by one reference, that of the first class
which has a curve, the template's before the others'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from charterer.domain.jobs.variant import Variant
from charterer.domain.profile import Phase, Profile, SpeedCurve, ThroughputTable
from charterer.policy.options.pair_speeds import Parts
from charterer.policy.options.speedup import reference_throughput, reference_width, throughput
from charterer.policy.options.width_backoff import QuarantinedWidths

_MOST_APART: Final = 100.0
"""Largest ratio of what a GPU does in two variants. The largest that is published is eight times the speed of eight
GPUs on one (MariusGNN), 64; a step of 128 samples or more that is taken for a sample is beyond."""


class ClassKnowledge(NamedTuple):
    """The facts of one class from which a menu follows.

    ``explore``: whether its budget pays for trials; ``quarantined``: widths that are not to be chosen now; ``parts``:
    what it keeps on shared GPUs where partners are chosen.
    """

    profile: Profile | None
    explore: bool = False
    quarantined: QuarantinedWidths = frozenset()
    parts: Parts = ()


def has_curve(profile: Profile | None) -> bool:
    """Whether a variant may be chosen by it: its curves are declared, or were learned of jobs of this class."""
    return profile is not None and not profile.unproven and bool(profile.phases and profile.phases[0].curves)


def measuring_profile(profiles: Sequence[Profile | None]) -> Profile | None:
    """The profile whose reference option measures all; None where no profile, the template's first, has a curve."""
    template, *others = profiles
    if template is not None and reference_throughput(template):
        return template
    return next((profile for profile in others if has_curve(profile)), None)


def reference_in(profile: Profile, measure: Profile) -> float | None:
    """The throughput of the measure's reference option in the unit of ``profile``."""
    reference = reference_throughput(measure)
    return reference if reference is None or profile is measure else reference * measure.samples / profile.samples


def paced(profile: Profile, ends: Sequence[float]) -> Profile:
    """The profile in phases that end at ``ends``: in each as fast as in the mean over it, which takes the same time."""
    if tuple(ends) == tuple(phase.until for phase in profile.phases):
        return profile
    phases = [Phase(end, _between(profile, begin, end)) for begin, end in zip((0.0, *ends), ends, strict=False)]
    return replace(profile, phases=tuple(phases))


def _between(profile: Profile, begin: float, end: float) -> tuple[SpeedCurve, ...]:
    parts: list[tuple[float, Phase]] = []
    since = 0.0
    for phase in profile.phases:
        part = min(phase.until, end) - max(since, begin)
        if part > 0.0:
            parts.append((part, phase))
        since = phase.until
    return parts[0][1].curves if len(parts) == 1 else tuple([_mean(curve, parts) for curve in parts[0][1].curves])


def _mean(curve: SpeedCurve, parts: Sequence[tuple[float, Phase]]) -> SpeedCurve:
    """A learned curve in the mean over parts of phases, which all have its widths."""
    assert isinstance(curve.form, ThroughputTable)
    forms = [(part, other.form) for part, phase in parts for other in phase.curves if other.gpu_type == curve.gpu_type]
    points = []
    for gpus, value in curve.form.points:
        seconds = [part / (throughput(form, gpus) or value) for part, form in forms]
        points.append((gpus, sum(part for part, _ in forms) / sum(seconds)))
    return replace(curve, form=ThroughputTable(tuple(points)))


def units_differ(profile: Profile, measure: Profile) -> str:
    """Why the curves of a variant cannot be in the unit of those that measure; empty where they may be.

    What was measured of both is believed, however it differs.
    """
    if profile is measure or (profile.reports and measure.reports):
        return ""
    for curve in profile.phases[0].curves:
        other = next((other for other in measure.phases[0].curves if other.gpu_type == curve.gpu_type), None)
        if other is None:
            continue
        here, there = _of_a_gpu(curve) * profile.samples, _of_a_gpu(other) * measure.samples
        if not there / _MOST_APART <= here <= there * _MOST_APART:
            return (
                f"by SpeedupProfile {profile.id.name} a GPU of {curve.gpu_type} does {here:.4g} "
                f"samples a second, and {there:.4g} by SpeedupProfile {measure.id.name}, which is more than "
                f"{_MOST_APART:g} times apart: give spec.curves of both in samples a second, or leave them out to have "
                "them learned; until then the variant is no option"
            )
    return ""


def widths_differ(variant: Variant, profile: Profile) -> str:
    """Why a variant can have no width of its declared curves; empty where it can, or its curves are learned."""
    tables = [curve.form for curve in profile.declared if isinstance(curve.form, ThroughputTable)]
    if profile.reports or not tables or len(tables) < len(profile.declared):
        return ""
    points = [form.points for form in tables]
    if any(ends[0][0] <= variant.most and variant.least <= ends[-1][0] for ends in points):
        return ""
    widths = sorted({gpus for of_table in points for gpus, _ in of_table})
    asked = f"{variant.least}" if variant.least == variant.most else f"{variant.least} to {variant.most}"
    return (
        f"it may have {asked} GPUs, and SpeedupProfile {profile.id.name} has curves at "
        f"{widths[0]} to {widths[-1]} only: correct the variant's gpus or spec.curves, or leave the curves out to have "
        "them learned; until then the variant is no option"
    )


def _of_a_gpu(curve: SpeedCurve) -> float:
    gpus = reference_width(curve.form)
    return (throughput(curve.form, gpus) or 0.0) / gpus
