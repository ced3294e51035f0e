"""The speeds of jobs: as measured, in variants, as assumed on other GPU types, and as hoped at widths that were not
measured."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, fsum, log, sqrt
from typing import Final, NamedTuple

from charterer.domain.ids import ClassId
from charterer.domain.job import Variant
from charterer.domain.money import Price
from charterer.domain.pool import CapacityType
from charterer.domain.profile import (
    FAILURES_KEPT_SECONDS,
    TRIAL_STEP,
    Amdahl,
    CurveSource,
    FailedWidth,
    Phase,
    PowerLaw,
    Profile,
    SpeedCurve,
    ThroughputTable,
)
from charterer.domain.time import Instant, after
from charterer.gpu_types import RelativeSpeed, compute_part, relative_speeds, slice_speed
from charterer.policy.options.market import PoolOffer
from charterer.policy.options.pair_speeds import Parts

# The speed of a class of jobs at a width: the throughput of a curve, and the speed relative to the class's reference
# option.


def throughput(form: ThroughputTable | Amdahl | PowerLaw, gpus: int) -> float | None:
    """Throughput on ``gpus`` GPUs in the curve's unit; None if the width is outside a table.

    A table is linear between its points, and undefined beyond its first and last point, because widths outside the
    measured range are not offered.
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
    """Units of work per second on ``gpus`` GPUs of a type in a phase; None if unknown. The reference option does one
    unit of work per second.

    If a type has several curves, the first counts. ``reference``: throughput of the reference option; None for the
    profile's own reference option.
    """
    reference = reference_throughput(profile) if reference is None else reference
    form = next((curve.form for curve in profile.phases[phase].curves if curve.gpu_type == gpu_type), None)
    if form is None or not reference:
        return None
    value = throughput(form, gpus)
    return value / reference if value is not None and value > 0 else None


# Widths on which runs failed before the class was ever measured there, for example for lack of memory.
#
# No speedup curve shows that a width fails. So the width leaves the class's menu for an hour after the first failure,
# and four times as long after each further one, because each failure costs a job a run. The width returns to the menu
# because the failure may have had another cause. The job whose run failed never uses the width again, so that trials
# do not use up its ``backoffLimit``. A width that was measured is not avoided, because a failure there is the job's
# own fault.


QuarantinedWidths = frozenset[tuple[str, int]]
"""Widths by GPU type."""

_FIRST_SECONDS = 3600.0
"""Seconds for which a width is avoided after its first failure. A temporary fault, such as a missing image or data
set, is mostly over by then."""
_FACTOR = 4.0


def quarantined_widths(profiles: Mapping[ClassId, Profile], now: Instant) -> Mapping[ClassId, QuarantinedWidths]:
    """For each class with such widths, the widths that must not be chosen now."""
    found = {}
    for name, profile in profiles.items():
        if profile.failed:
            found[name] = frozenset((failed.gpu_type, failed.gpus) for failed, _ in quarantines(profile, now))
    return {name: widths for name, widths in found.items() if widths}


def quarantines(profile: Profile, now: Instant) -> Sequence[tuple[FailedWidth, Instant]]:
    """The widths that the class does not use now, each with the end of that time."""
    ends = [(failed, after(failed.at, backoff_seconds(failed.failures))) for failed in profile.failed]
    return [(failed, end) for failed, end in ends if now < end and not _measured(profile, failed.gpu_type, failed.gpus)]


def backoff_seconds(failures: int) -> float:
    """Seconds for which a width is avoided after that number of failures."""
    seconds = _FIRST_SECONDS
    for _ in range(failures - 1):
        seconds = min(seconds * _FACTOR, FAILURES_KEPT_SECONDS)
    return seconds


def untested(profile: Profile, widths: QuarantinedWidths) -> QuarantinedWidths:
    """The ``widths`` that were never measured; empty if the class has no reports. A job's own failures count on these
    widths only."""
    if not profile.reports:
        return frozenset()
    return frozenset(width for width in widths if not _measured(profile, *width))


def _measured(profile: Profile, gpu_type: str, gpus: int) -> bool:
    return any(
        width == gpus and origin.source is CurveSource.MEASURED
        for curve in profile.phases[0].curves
        if curve.gpu_type == gpu_type
        for width, _, origin in curve.learned
    )


# The speeds of a job's variants by one measure.
#
# Each variant has its own class, with a curve in its own unit. The unit that all variants have in common is the
# sample: a throughput times ``Profile.samples`` is samples a second. All speeds are relative to one reference option,
# that of the first class with a curve. The template's class comes first.


_MOST_APART: Final = 100.0
"""Largest believed ratio of the samples a second of a GPU in two variants. The largest published ratio is 64: one GPU
was eight times as fast as eight GPUs (MariusGNN). If a profile mistakes a step of 128 samples or more for a sample,
the ratio is above the bound."""


class ClassKnowledge(NamedTuple):
    """The facts of one class from which a menu follows.

    ``explore``: whether its budget pays for trials.
    ``quarantined``: widths that must not be chosen now.
    ``parts``: the fractions of its speed that the class keeps on shared GPUs if partners are chosen.
    """

    profile: Profile | None
    explore: bool = False
    quarantined: QuarantinedWidths = frozenset()
    parts: Parts = ()


def has_curve(profile: Profile | None) -> bool:
    """Whether a variant may be chosen by the profile: its curves are declared, or learned from jobs of this class."""
    return profile is not None and not profile.unproven and bool(profile.phases and profile.phases[0].curves)


def measuring_profile(profiles: Sequence[Profile | None]) -> Profile | None:
    """The profile to whose reference option all speeds are relative: the template's profile if it has a curve. None
    if no profile has a curve."""
    template, *others = profiles
    if template is not None and reference_throughput(template):
        return template
    return next((profile for profile in others if has_curve(profile)), None)


def reference_in(profile: Profile, measure: Profile) -> float | None:
    """The throughput of the measure's reference option in the unit of ``profile``."""
    reference = reference_throughput(measure)
    return reference if reference is None or profile is measure else reference * measure.samples / profile.samples


def paced(profile: Profile, ends: Sequence[float]) -> Profile:
    """The profile, divided into phases that end at ``ends``. Jobs take the same time in each of them as by the
    profile's own phases."""
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
    """The mean of a learned curve over parts of phases, all of which have its widths."""
    assert isinstance(curve.form, ThroughputTable)
    forms = [(part, other.form) for part, phase in parts for other in phase.curves if other.gpu_type == curve.gpu_type]
    points = []
    for gpus, value in curve.form.points:
        seconds = [part / (throughput(form, gpus) or value) for part, form in forms]
        points.append((gpus, sum(part for part, _ in forms) / sum(seconds)))
    return replace(curve, form=ThroughputTable(tuple(points)))


def units_differ(profile: Profile, measure: Profile) -> str:
    """Why the curves of a variant cannot be in the same unit as those of ``measure``; empty if they can.

    If both profiles were measured, they are believed however much they differ.
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
    """Why no width of a variant is on its declared curves; empty if one is, or if its curves are learned."""
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


# The speed that is hoped for at a width with few or no reports.
#
# A learned curve gives the expected speed of a width that never ran, which is cautious: planned by that alone, jobs
# would always run where the first ones happened to run. So the next width to try counts as faster than expected, by
# half the way (in the logarithm) to the upper end of its 90 % interval. If that makes the width a job's best choice,
# the job runs at the width and reports within a minute. From ten reports on, the width counts as known. If the width
# turns out slow, the job moves back if that pays. This is optimism in the face of uncertainty (Lai and Robbins 1985;
# Auer, Cesa-Bianchi and Fischer 2002).
#
# Each width to try is twice the one before, because a width within a factor of two of a measured width is known well
# enough.


SURE_REPORTS = 10
"""Number of reports from which on a width counts as known. A report scatters by some 5 %, and the first report comes
at a batch size that is not yet the best. If one report were enough, a class would never return to a width after an
unlucky report. The mean of ten reports is known to 1.6 %, which is less than the difference between neighbouring
widths."""


def exploration_candidates(profile: Profile) -> Mapping[str, frozenset[int]]:
    """For each GPU type with such widths, the numbers of GPUs that are worth a trial.

    These widths would be a good choice if they had the highest plausible speed.
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
    """The profile, in which the widths to try have the highest plausible speed; the same object if there are no
    widths to try."""
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


# The assumed speeds of GPU types for jobs without measurements, from data sheets, or from prices for types without a
# data sheet.
#
# A type without a data sheet is assumed to do as much work for a dollar as the geometric mean of the known types of
# its market. So a type with twice the price of a GPU-hour is assumed to be twice as fast. In Google's price list that
# ships with Charterer, GPU-hours differ by a factor of 11 in their price, and by 1.4 in the work for a dollar. The
# assumed speed is at most that of the fastest known type, because a price alone is no reason to expect more than was
# ever measured. It has no lower bound, so a cheap type looks slow, and not like a bargain. So work on such a type
# never looks cheaper than on the best known type of its market. The type is chosen if the best known type is full, or
# if its speed lies between those of known types and the time saved is worth its price. The interval is the widest
# possible: from the lower end of the slowest known type to the fastest. The first report of a run replaces the
# assumption.
#
# If no type is known, it is unknown how much work a dollar buys. All types then count as equally fast, and the
# cheapest is tried first.


def assumed_speeds(offers: Sequence[tuple[PoolOffer, Price]]) -> Mapping[str, RelativeSpeed]:
    """The speed of every offered type, relative to the fastest known type, or to whole GPUs if no type is known."""
    types = sorted({offer.gpu_type for offer, _ in offers})
    known = relative_speeds(types)
    slowest = min((speed.low for speed in known.values()), default=0.0)
    # Spot nodes are cheaper because they may be taken back, and not because their GPUs are slow. So a spot price is not
    # compared with on-demand prices, if there is another comparison.
    of_capacity = ([(offer, price) for offer, price in offers if offer.capacity_type is each] for each in CapacityType)
    markets = [_Market.of(_hourly(each), known) for each in (*of_capacity, offers)]
    guesses = {each: _guess(each, markets) for each in types if each not in known}
    return {**known, **{each: RelativeSpeed(guess, min(guess, slowest), 1.0) for each, guess in guesses.items()}}


class _Market(NamedTuple):
    """Prices that are compared with each other.

    ``hourly``: the price of a GPU-hour of each type.
    ``for_a_dollar``: the mean work of the known types for a unit of ``hourly``; None if no known type has a price.
    """

    hourly: Mapping[str, float]
    for_a_dollar: float | None

    @classmethod
    def of(cls, hourly: Mapping[str, float], known: Mapping[str, RelativeSpeed]) -> _Market:
        # A slice counts like its whole GPU, because its part of the price equals its part of the compute units.
        work = [
            log(speed.estimate / slice_speed(each) * compute_part(each) / hourly[each])
            for each, speed in known.items()
            if each in hourly
        ]
        return cls(hourly, exp(fsum(work) / len(work)) if work else None)


def _guess(gpu_type: str, markets: Sequence[_Market]) -> float:
    """The assumed speed by the first market that sells this type and a known type: on-demand capacity, spot capacity,
    all offers."""
    for market in markets:
        if market.for_a_dollar is not None and gpu_type in market.hourly:
            whole = market.for_a_dollar * market.hourly[gpu_type] / compute_part(gpu_type)
            return min(whole * slice_speed(gpu_type), 1.0)
    return slice_speed(gpu_type)  # no known type, or a price of zero


def _hourly(offers: Sequence[tuple[PoolOffer, Price]]) -> Mapping[str, float]:
    """The lowest price of a GPU-hour of each type, in micro-dollars. Nodes that are paid for anyway count at the
    price that is really paid."""
    hourly: dict[str, float] = {}
    for offer, price in offers:
        paid = price if offer.paid is None else offer.paid
        each = paid.micros_per_hour / offer.gpus_per_node
        if each > 0.0:
            hourly[offer.gpu_type] = min(each, hourly.get(offer.gpu_type, each))
    return hourly
