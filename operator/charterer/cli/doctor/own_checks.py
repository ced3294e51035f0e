"""The checks of one namespace's jobs and profiles, from what the operator wrote into their status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from charterer.api.condition_types import ConditionType
from charterer.api.models.base import ConditionStatus
from charterer.api.models.trainingjob_status import JobState
from charterer.api.words.jobs import JOB_STATES, REASONS
from charterer.cli.doctor.finding import Finding, condition_of, remedy_of
from charterer.cli.shared.own_jobs import OwnJob, OwnJobs
from charterer.cluster.client import RawObject
from charterer.domain.plan import ReasonCode
from charterer.sentences import count

_NEEDS_A_PERSON = frozenset(
    {
        ReasonCode.NO_OPTION,
        ReasonCode.MAX_COST,
        ReasonCode.NO_BUDGET,
        ReasonCode.PLANNING_FAILED,
        ReasonCode.NOT_BELIEVED,
        ReasonCode.NOT_RECORDED,
        ReasonCode.BACK_OFF,
    }
)
"""Reasons of a job that does not go on by itself, or not as it should."""
_ENDED_WELL_OR_READ_ABOUT = (JobState.COMPLETE, JobState.FAILED)
"""States of jobs that are no matter of the doctor: how a job ended is in its status."""


@dataclass(frozen=True, slots=True)
class OwnReading:
    """The TrainingJobs of a namespace, and its SpeedupProfiles, none where they may not be read."""

    jobs: OwnJobs
    profiles: Sequence[RawObject]


def check_own_jobs(own: OwnJobs) -> Iterable[Finding]:
    """Each job that needs a person or waits, and how many others there are."""
    others = 0
    for job in own.jobs:
        if job.view.state in _ENDED_WELL_OR_READ_ABOUT:
            continue
        found = _job(job)
        if found is None:
            others += 1
        else:
            yield found
    if others or not own.jobs:
        yield Finding("jobs", f"namespace {own.namespace}", f"has {_told(own, others)}")


def _told(own: OwnJobs, others: int) -> str:
    if not own.jobs:
        return "no TrainingJob"
    return f"{count(others, 'TrainingJob')} that {'needs' if others == 1 else 'need'} nothing"


def _job(own: OwnJob) -> Finding | None:
    view, subject = own.view, f"TrainingJob {own.namespace}/{own.name}"
    if view.state is None:
        remedy = "if it lasts for a minute, ask who runs the operator whether it leads"
        return Finding("jobs", subject, "no operator has looked at it yet", remedy)
    if view.state is JobState.CANNOT_START:
        failed = own.condition(ConditionType.FAILED)
        text = f"could not start: {'' if failed is None else failed.message}"
        return Finding("jobs", subject, text, "correct that in its template, delete it and submit it again")
    objection = own.objection
    if objection is not None and objection.status is ConditionStatus.FALSE:
        known = REASONS.get(objection.reason) or JOB_STATES[JobState.INVALID]
        return Finding("jobs", subject, f"is refused: {objection.message}", remedy_of(known.remedy, "trainingjobs"))
    if (waits := own.not_starting) is not None:
        remedy = "correct that in its template: the next run has the new one"
        return Finding("jobs", subject, f"does not start: {waits.message}", remedy)
    why = view.why or ""
    if why in _NEEDS_A_PERSON:
        known = REASONS[why]
        return Finding("jobs", subject, f"({why}): {own.why}", remedy_of(known.remedy, "trainingjobs"))
    if objection is not None:
        known_word = REASONS.get(objection.reason)
        remedy = "correct the field" if known_word is None else remedy_of(known_word.remedy, "trainingjobs")
        return Finding("jobs", subject, f"is not as it says: {objection.message}", remedy)
    return Finding("jobs", subject, f"waits ({why}): {own.why}") if own.is_waiting else None


def check_own_profiles(profiles: Iterable[RawObject]) -> Iterable[Finding]:
    """Profiles that cannot be used."""
    for item in profiles:
        ready = condition_of(item, "Ready")
        if ready is not None and ready.get("status") == "False":
            subject = f"SpeedupProfile {item['metadata']['namespace']}/{item['metadata']['name']}"
            yield Finding("profiles", subject, f"cannot be used: {ready.get('message', '')}", "correct the field")
