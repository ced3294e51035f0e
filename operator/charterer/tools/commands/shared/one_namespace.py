"""Reads the jobs of one namespace from their status, and parses the job names that users type."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import click
from pydantic import ValidationError

from charterer.api import decode
from charterer.api.models.base import Condition, ConditionStatus
from charterer.api.models.trainingjob_status import ComparedOption, JobState, TrainingJobView
from charterer.api.names import ConditionType
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import Forbidden, NotFound
from charterer.cluster.paths import EVENTS, TRAINING_JOBS
from charterer.domain.errors import InvalidObject
from charterer.domain.job import Job
from charterer.domain.plan import ReasonCode
from charterer.domain.reasons.phrases import as_variant, part
from charterer.domain.target import TargetRef
from charterer.domain.time import Instant, format_instant, seconds_between
from charterer.gpu_types import slice_profile
from charterer.policy.explain.alternatives import Rank
from charterer.sentences import count, names, similar_names
from charterer.tools.commands.shared import output
from charterer.tools.commands.shared.cluster import ROLE, ClusterOptions, call, wall_clock
from charterer.tools.commands.shared.output import JsonValue, copied
from charterer.workloads import ADOPTED

# Names of jobs as users type them. A name means a TrainingJob, or the object for which a TrainingJob was made.


_OWN = ("tj", "trainingjob", "trainingjobs", "trainingjob.charterer.dev", "trainingjobs.charterer.dev")


class JobName(NamedTuple):
    """A job name. ``kind`` is the kind of an adopted object, such as Job, or empty for the name of a TrainingJob."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind or 'TrainingJob'} {self.name!r}"

    def means(self, name: str, target: TargetRef | None) -> bool:
        """Return whether the name means a TrainingJob that has this ``name`` and this ``target``."""
        if not self.kind:
            return name == self.name
        return target is not None and self == (target.kind, target.name)


def job_name(given: str) -> JobName:
    """Parse ``NAME``, ``tj/NAME`` or ``job/NAME``. Raises click.BadParameter if the kind is no kind of job."""
    word, slash, name = given.rpartition("/")
    if not name:
        raise click.BadParameter(f"{given!r} names no job; write tj/NAME")
    if not slash or word.lower() in _OWN:
        return JobName("", name)
    for kind in ADOPTED:
        resource = kind.kind.resource
        if word.lower() in (kind.name.lower(), resource.plural, f"{resource.plural}.{resource.group}"):
            return JobName(kind.name, name)
    known = names([kind.name.lower() for kind in ADOPTED])
    raise click.BadParameter(f"{given!r}: {word!r} is no kind of job; write tj/NAME, or KIND/NAME with {known}")


async def record_of(client: Client, name: JobName, namespace: str) -> RawObject:
    """Get the TrainingJob of this name. If there is none, raises ClickException, which lists similar names. Also raises
    ApiError.
    """
    if not name.kind:
        try:
            return await client.get(TRAINING_JOBS.one(name.name, namespace))
        except NotFound:
            pass
    there = (await client.list(TRAINING_JOBS.all(namespace))).items
    for raw in there:
        target = raw["spec"].get("targetRef")
        if target is not None and name.means(raw["metadata"]["name"], TargetRef(*map(target.get, _REF))):
            return raw
    missing = none_of(name, namespace, [raw["metadata"]["name"] for raw in there])
    raise click.ClickException(missing + await why_not_adopted(client, name, namespace))


_REF = ("apiVersion", "kind", "name", "uid")


async def why_not_adopted(client: Client, name: JobName, namespace: str) -> str:
    """Return the end of a sentence that quotes the object's last NotAdopted Event, or an empty text if there is
    none.
    """
    said: Sequence[RawObject] = ()
    if name.kind:
        with suppress(Forbidden):
            of_it = f"reason=NotAdopted,regarding.kind={name.kind},regarding.name={name.name}"
            said = (await client.list(EVENTS.all(namespace), fields=of_it)).items
    last = max(said, key=lambda each: str(each["metadata"].get("creationTimestamp")), default=None)
    return "" if last is None else f". The operator said: {last.get('note')}"


def none_of(name: JobName, namespace: str, there: list[str]) -> str:
    """Return a sentence that no TrainingJob has this name, and what to do."""
    if name.kind:
        return (
            f"no TrainingJob was made for {name} in namespace {namespace}: see its Events (kubectl -n {namespace} "
            f"describe {name.kind.lower()} {name.name}), and charterer doctor -n {namespace}"
        )
    return f"no {name} in namespace {namespace}: {similar_names(name.name, there)}"


# Jobs of one namespace, read from their status for accounts that may not read the whole cluster.


@dataclass(frozen=True, slots=True)
class OwnJob:
    """A job and its status as the operator wrote it. ``job`` is None if the object cannot be decoded."""

    namespace: str
    name: str
    job: Job | None
    view: TrainingJobView

    @property
    def ended(self) -> bool:
        """Whether the job is complete or has failed after a start. The status says which."""
        return self.view.state in (JobState.COMPLETE, JobState.FAILED)

    @property
    def subject(self) -> str:
        """Kind, namespace and name of the object that the job's owner created.

        For an adopted job this is not the TrainingJob.
        """
        target = None if self.job is None else self.job.target
        kind, name = ("TrainingJob", self.name) if target is None else (target.kind, target.name)
        return f"{kind} {self.namespace}/{name}"

    @property
    def is_waiting(self) -> bool:
        """Whether the job has no GPUs and has not ended."""
        return self.view.state in (JobState.QUEUED, JobState.SUSPENDED, JobState.IDLE, JobState.INVALID)

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return the condition of this type, or None if the status lacks it."""
        return next((found for found in self.view.conditions if found.type == kind), None)

    @property
    def objection(self) -> Condition | None:
        """The condition Admitted if the operator refuses the job or changes its request, None otherwise."""
        found = self.condition(ConditionType.ADMITTED)
        wrong = found is not None and found.status is not ConditionStatus.UNKNOWN and found.reason != "Accepted"
        return found if wrong else None

    @property
    def not_starting(self) -> Condition | None:
        """The condition PodsReady if pods of the job do not start, None otherwise."""
        found = self.condition(ConditionType.PODS_READY)
        return found if found is not None and found.reason == ReasonCode.NOT_STARTING else None

    @property
    def best(self) -> ComparedOption | None:
        """The best option for the job at the budget's rate. The job usually has this option or waits for it."""
        ranked = {option.verdict: option for option in self.view.options}
        return ranked.get(Rank.BETTER) or ranked.get(Rank.CHOSEN)

    @property
    def why(self) -> str:
        """A sentence that explains the job's GPUs or its wait, or an empty text if the operator has written none."""
        chosen = next((option.message for option in self.view.options if option.verdict == Rank.CHOSEN), "")
        capacity = self.condition(ConditionType.CAPACITY_AVAILABLE)
        return chosen or (capacity.message if capacity is not None and self.is_waiting else "")


@dataclass(frozen=True, slots=True)
class OwnJobs:
    """The jobs of a namespace at ``now``, in order of name. ``namespace`` is empty for the jobs of all namespaces."""

    namespace: str
    jobs: Sequence[OwnJob]
    now: Instant


def own_job(cluster: ClusterOptions, name: JobName, namespace: str | None) -> OwnJobs:
    """Read one job.

    Raises ClickException if the account may not read the job. If there is no such job, the ClickException lists similar
    names.
    """
    where = namespace or cluster.access().namespace
    return call(cluster, lambda client: _read_one(client, name, where))


def own_jobs(cluster: ClusterOptions, namespace: str | None) -> OwnJobs:
    """Read all jobs of a namespace. Raises ClickException if the account may not read them."""
    where = namespace or cluster.access().namespace
    return call(cluster, lambda client: read_own_jobs(client, where))


async def read_own_jobs(client: Client, namespace: str) -> OwnJobs:
    """Read the jobs of a namespace, or of all namespaces if ``namespace`` is empty. Raises ApiError."""
    items = (await client.list(TRAINING_JOBS.all(namespace or None))).items
    jobs = sorted((seen_job(raw) for raw in items), key=lambda job: (job.namespace, job.name))
    return OwnJobs(namespace, jobs, wall_clock())


async def _read_one(client: Client, name: JobName, namespace: str) -> OwnJobs:
    return OwnJobs(namespace, (seen_job(await record_of(client, name, namespace)),), wall_clock())


def seen_job(raw: RawObject) -> OwnJob:
    """Decode a job from the API server. Raises ClickException if this version cannot read the status."""
    namespace, name = raw["metadata"]["namespace"], raw["metadata"]["name"]
    try:
        view = TrainingJobView.model_validate(raw.get("status") or {})
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(str(part) for part in fault["loc"])
        raise click.ClickException(
            f"TrainingJob {namespace}/{name}: status.{field}: {fault['msg']}: use the version of charterer that the "
            "operator has"
        ) from error
    try:
        job = decode.training_job(raw).job
    except InvalidObject:
        job = None
    return OwnJob(namespace, name, job, view)


def source_sentence(written: Instant | None, now: Instant) -> str:
    """Return sentences that name the answer's source, its age, and the ClusterRole that allows more."""
    age = "" if written is None else f" {output.duration(max(seconds_between(written, now), 0.0))} ago"
    return (
        f"From what the operator wrote into the status{age}; it writes again when that changes. Your account may not "
        f"read the whole cluster (ClusterRole {ROLE} allows it)."
    )


def source_json(written: Instant | None) -> JsonValue:
    """Return the answer's source and time as JSON."""
    return {"from": "status", "asOf": None if written is None else format_instant(written)}


def in_words(option: ComparedOption) -> str:
    """Return an option as text: ``8 GPUs on a100``, ``a shared GPU on a100-mps``, or ``any on a100`` for a pool."""
    if option.gpus is None:
        return f"any on {option.pool}"
    profile = slice_profile(option.gpu_type or "")
    what = part(profile) if profile else count(option.gpus, "GPU")
    return f"{what} on {option.pool}{as_variant(option.variant or '')}"


def compared_json(option: ComparedOption) -> JsonValue:
    """Return an option with the keys of ``charterer explain -o json``."""
    return {
        **copied(option, "pool gpuType capacityType gpus"),
        "slice": slice_profile(option.gpu_type or ""),
        "variant": option.variant or "",
        **copied(option, "hourly"),
        "chosen": option.verdict == Rank.CHOSEN,
        **copied(option, "secondsLeft costLeft perHourSaved rank=verdict nodes"),
        "why": option.message or None,
    }
