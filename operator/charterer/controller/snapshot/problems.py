"""What is odd in jobs that run all the same: profiles that do not exist, priority classes that their budget does not
weigh, variables that somebody else sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from charterer.api.decode import DecodedJob
from charterer.api.models.trainingjob_status import MISLEADING_VARIABLES
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.domain.budget import Budget
from charterer.domain.errors import Problem
from charterer.domain.ids import ClassId, JobId
from charterer.domain.job import Job
from charterer.domain.profile import Profile
from charterer.policy.options.variants import has_curve, measuring_profile, units_differ, widths_differ
from charterer.sentences import count, did_you_mean

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
    """Problems of jobs whose priority class is none of those that their budget gives a weight."""
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
    """Problems of jobs of which a variant's curves are in another unit, or at widths that it cannot have."""
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
    """Problems of jobs whose template sets what Charterer or a launcher sets."""
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
