"""The checks of one namespace's jobs and profiles, from what the operator wrote into their status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from charterer.api.condition_types import ConditionType
from charterer.api.models.base import ConditionStatus
from charterer.api.models.trainingjob_status import JobState
from charterer.api.words.jobs import JOB_STATES, REASONS
from charterer.cli.doctor.finding import Finding, condition_of, remedy_of
from charterer.cli.shared.own_jobs import OwnJob, OwnJobs
from charterer.cluster.client import RawObject
from charterer.domain.jobs.target import Target
from charterer.domain.time import Instant
from charterer.sentences import count


@dataclass(frozen=True, slots=True)
class OwnReading:
    """The TrainingJobs of a namespace, its SpeedupProfiles, and its objects that are to be adopted and have not ended.

    None of what may not be read.
    """

    jobs: OwnJobs
    profiles: Sequence[RawObject] = ()
    targets: Sequence[Target] = ()


NOTHING_OWN: Final = OwnReading(OwnJobs("", (), Instant(0)))


class JobTally(NamedTuple):
    """How many jobs that need nobody run, and how many wait."""

    running: int = 0
    waiting: int = 0

    def __str__(self) -> str:
        """As the end of a sentence."""
        if not (self.running or self.waiting):
            return ""
        told = f": {count(self.running, 'job')} {'runs' if self.running == 1 else 'run'}"
        wait = f", {self.waiting} {'waits' if self.waiting == 1 else 'wait'} for what passes by itself"
        return told + (wait if self.waiting else "")

    @classmethod
    def of(cls, own: OwnJobs) -> JobTally:
        """Counts the jobs that have not ended."""
        fine = [job for job in own.jobs if not job.ended and ((found := _job(job)) is None or not found.remedy)]
        waiting = sum(job.is_waiting for job in fine)
        return cls(len(fine) - waiting, waiting)


def check_own_jobs(own: OwnJobs) -> Iterable[Finding]:
    """Each job that needs a person or waits, and how many others there are."""
    others = 0
    for job in own.jobs:
        if job.ended:
            continue
        found = _job(job)
        if found is None:
            others += 1
        else:
            yield found
    where = f"namespace {own.namespace}" if own.namespace else "the cluster"
    if others or (own.namespace and not own.jobs):
        yield Finding("jobs", where, f"has {_told(own, others)}")


def _told(own: OwnJobs, others: int) -> str:
    if not own.jobs:
        return "no TrainingJob"
    return f"{count(others, 'TrainingJob')} that {'needs' if others == 1 else 'need'} nothing"


def _job(own: OwnJob) -> Finding | None:
    found = _found(own)
    holds = None if own.job is None else own.job.allocation
    if found is None or not found.remedy or holds is None or own.view.state is JobState.RUNNING:
        return found
    return replace(found, lost=holds.option.price)


def _found(own: OwnJob) -> Finding | None:
    view, subject = own.view, own.subject
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
    if why in REASONS and REASONS[why].needs_person:
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
