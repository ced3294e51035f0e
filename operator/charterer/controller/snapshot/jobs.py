"""Joins that compute a job's total work, and the problems that do not prevent the job from running."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from charterer.api.decode import DecodedJob
from charterer.api.models.trainingjob_status import MISLEADING_VARIABLES
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.domain.budget import Budget
from charterer.domain.errors import Problem
from charterer.domain.ids import ClassId, JobId, PoolId
from charterer.domain.job import Job
from charterer.domain.option import Option
from charterer.domain.profile import DEFAULT_RESTART_SECONDS, Profile
from charterer.domain.reports import TRUSTED_FRACTION
from charterer.domain.time import Instant, seconds_between
from charterer.policy.options.speeds import (
    has_curve,
    measuring_profile,
    paced,
    reference_in,
    speed,
    units_differ,
    widths_differ,
)
from charterer.policy.solve.hull import bisect
from charterer.sentences import count, did_you_mean

# The total work of a job, computed from the fraction done and the times of its runs.


_HALVINGS = 30
"""Bisection steps on the logarithm of total work. If speeds differ by a factor of 100, the result is exact to 1e-8."""

_Span = tuple[Sequence[float], float]
"""Speed in each phase, and seconds."""


def remaining_work(
    job: Job, profiles: Sequence[Profile | None], gpu_types: Mapping[PoolId, str], now: Instant
) -> float | None:
    """Expected work left, in seconds of the reference option, or None if unknown.

    From TRUSTED_FRACTION on, the job's total work is its own work done, divided by the fraction done. Below
    TRUSTED_FRACTION, the total is the mean work of the job's class. The reported fraction of the total is subtracted.
    If a job reports nothing, the whole mean is left, however long the job has run. ``profiles``: of the job's
    ``classes``.
    """
    mean = None if profiles[0] is None else profiles[0].mean_work
    fraction = None if job.progress is None else job.progress.fraction
    if fraction is None:
        return mean
    if fraction >= TRUSTED_FRACTION:
        total = total_work(job, profiles, gpu_types, fraction, now)
        if total > 0.0:
            return total * (1 - fraction)
    return None if mean is None else mean * (1 - fraction)


def total_work(
    job: Job, profiles: Sequence[Profile | None], gpu_types: Mapping[PoolId, str], done: float, now: Instant
) -> float:
    """Work of the whole job in seconds of the reference option, if the fraction ``done`` (above 0) of it is done.

    The result is 0.0 if the job's runs have had no time yet. One restart is subtracted for each run, however often the
    run was resized. A run that is not on record counts up to its last report, even if the run was told to stop, because
    the fraction comes from that report. If curves were learned, a run counts with the present speeds of its option,
    because the speeds at its start may have been guesses. ``profiles``: of the job's ``classes``. ``gpu_types``: by
    pool.
    """
    known = _KnownSpeeds(job, profiles, gpu_types)
    spans = [(record.option, record.since, record.until) for record in job.records]
    current = job.trains_on
    progress = job.progress
    if progress is not None and all(record.number != progress.run for record in job.records):
        spans += [
            (given.option, given.since, min(progress.at, now))
            for given in (*job.replaced, current)
            if given is not None and given.run == progress.run
        ]
    timed = [
        (known.speeds(option), max(seconds_between(since, until) - known.restart(option), 0.0))
        for option, since, until in spans
    ]
    timed += [(known.speeds(stretch.option), stretch.seconds) for stretch in job.stretches]
    return _total([span for span in timed if span[1] > 0.0], known.ends, done)


class _KnownSpeeds:
    """The present speeds of a job's options, in phases that end at the fractions ``ends``."""

    def __init__(self, job: Job, profiles: Sequence[Profile | None], gpu_types: Mapping[PoolId, str]) -> None:
        self._job = job
        self._of_class = dict(zip(job.classes, profiles, strict=True))
        self._measure = measure = measuring_profile(profiles)
        self._gpu_types = gpu_types
        learned = measure is not None and measure.reports
        self.ends = tuple(phase.until for phase in measure.phases) if measure is not None and learned else (1.0,)

    def restart(self, option: Option) -> float:
        """Seconds of a restart with this option."""
        profile = self._profile(option)
        return DEFAULT_RESTART_SECONDS if profile is None else profile.restart_seconds

    def speeds(self, option: Option) -> Sequence[float]:
        """The speed in each phase. If the class's curves are only declared, each phase has the speed for which the
        option was chosen.

        The speed of a variant is computed anew, because its reference option may have changed since the choice.
        """
        profile, measure = self._profile(option), self._measure
        if profile is None or measure is None or not (profile.reports or (option.variant and has_curve(profile))):
            return (option.speed,) * len(self.ends)
        gpu_type, reference = self._gpu_types.get(option.pool, ""), reference_in(profile, measure)
        in_phases = paced(profile, self.ends)
        speeds = [speed(in_phases, phase, gpu_type, option.gpus, reference) for phase in range(len(self.ends))]
        return [option.speed if value is None else value for value in speeds]

    def _profile(self, option: Option) -> Profile | None:
        variant = self._job.variant(option.variant)
        return None if variant is None else self._of_class[variant.class_id]


def _total(spans: Sequence[_Span], ends: Sequence[float], done: float) -> float:
    """The total work, if the fraction ``done`` of it was done in the ``spans``. It is not known in which phases the
    spans were.
    """
    least = sum(min(speeds) * seconds for speeds, seconds in spans) / done
    most = sum(max(speeds) * seconds for speeds, seconds in spans) / done
    if len(ends) == 1 or least == most:
        return least
    return bisect(most, least, lambda total: _reached(spans, ends, total) >= done, _HALVINGS)[1]


def _reached(spans: Sequence[_Span], ends: Sequence[float], total: float) -> float:
    """The fraction of ``total`` work that is done after the spans, at most 1."""
    done, phase = 0.0, 0
    for speeds, seconds in spans:
        left = seconds
        while phase < len(ends):
            needed = (ends[phase] - done) * total / speeds[phase]
            if needed > left:
                done += left * speeds[phase] / total
                break
            left, done, phase = left - needed, ends[phase], phase + 1
    return done


# Problems of jobs that run anyway: a profile that does not exist, a priority class without a weight in the budget, and
# variables that somebody else sets.


PROFILE_NAME: Final = "spec.profileName"
"""The field of a job whose profile does not exist or cannot be used."""


def without_profile(
    state: ClusterState, jobs: Mapping[JobId, Job], profiles: Mapping[ClassId, Profile]
) -> Iterable[Problem]:
    """Problems of jobs whose profile does not exist."""
    there: dict[str, list[str]] = {}
    for profile in state.profiles:
        there.setdefault(profile.namespace, []).append(profile.name)
    return [
        _no_profile(jobs[decoded.job.id], decoded.profile_name, there.get(decoded.job.namespace, ()), state.problems)
        for decoded in state.jobs.values()
        if decoded.profile_name and decoded.job.class_id not in profiles
    ]


def without_weight(jobs: Mapping[ObjectKey, DecodedJob], payers: Mapping[str, Budget]) -> Sequence[Problem]:
    """Problems of jobs whose priority class has no weight in a budget that has weights."""
    problems: list[Problem] = []
    for decoded in jobs.values():
        job, payer = decoded.job, payers.get(decoded.job.namespace)
        weighed = [] if payer is None else [name for name, _ in payer.weights]
        if decoded.priority_class and weighed and payer is not None and decoded.priority_class not in weighed:
            message = (
                f"{decoded.priority_class!r} has no weight in GPUBudget {payer.id}, so the job has weight 1; "
                f"the budget weighs {', '.join(weighed)}"
            )
            field, reason = "spec.priorityClassName", "PriorityClassUnknown"
            problems.append(Problem("TrainingJob", job.namespace, job.name, field, reason, message))
    return problems


def with_contradicting_variants(jobs: Mapping[JobId, Job], profiles: Mapping[ClassId, Profile]) -> Sequence[Problem]:
    """Problems of jobs with a variant whose curves have another unit, or widths that the variant cannot have."""
    problems: list[Problem] = []
    for job in jobs.values():
        measure = measuring_profile([profiles.get(class_id) for class_id in job.classes]) if job.variants else None
        for index, variant in enumerate(job.variants if measure is not None else ()):
            profile = profiles.get(variant.class_id)
            if profile is None or measure is None or not has_curve(profile):
                continue
            why = units_differ(profile, measure) or widths_differ(variant, profile)
            if why:
                message = f"variant {variant.name}: {why}"
                field = f"spec.variants[{index}]"
                problems.append(Problem("TrainingJob", job.namespace, job.name, field, "VariantContradicts", message))
    return problems


def with_misleading_variables(jobs: Mapping[ObjectKey, DecodedJob]) -> Sequence[Problem]:
    """Problems of jobs whose template sets a variable that Charterer or a launcher sets."""
    field = "spec.template.spec.containers[0].env"
    return [
        Problem("TrainingJob", found.job.namespace, found.job.name, field, MISLEADING_VARIABLES, found.variables)
        for found in jobs.values()
        if found.variables
    ]


def _no_profile(job: Job, name: str, there: Iterable[str], problems: Iterable[Problem]) -> Problem:
    broken = next(
        (p for p in problems if (p.kind, p.namespace, p.name) == ("SpeedupProfile", job.namespace, name)), None
    )
    if broken is None:
        hint = did_you_mean(name, there)
        create = f"{hint} Create it" if hint else "create it"
        message = (
            f"no SpeedupProfile {name!r} in namespace {job.namespace}: {create}, correct spec.profileName, or let the "
            "job report its batch size, then Charterer creates it and learns"
        )
        reason = "ProfileNotFound"
    else:
        message = f"SpeedupProfile {name!r} cannot be used: {broken.field}: {broken.message}"
        reason = broken.reason
    message += f"; until then the job runs on {count(job.widths.preferred, 'GPU')}"
    return Problem("TrainingJob", job.namespace, job.name, PROFILE_NAME, reason, message)
