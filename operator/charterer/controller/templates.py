"""Dry runs of all jobs' templates, before money is spent on the jobs (docs/development/adr/0024)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final, NamedTuple

from charterer.api.metadata import controller_of
from charterer.api.models.base import LARGEST_OBJECT_BYTES, stored_bytes
from charterer.api.models.trainingjob_status import RUNS_BYTES
from charterer.api.names import GROUP
from charterer.cluster.client import Client
from charterer.cluster.errors import AlreadyExists, ApiError, BadRequest, Forbidden, NamespaceTerminating, NotFound
from charterer.cluster.paths import PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS, SERVICES, TRAINING_JOBS, Resource
from charterer.controller.surveys import Backoff
from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Allocation, Job, Placement
from charterer.domain.money import Price
from charterer.domain.option import MOST_PODS, Option
from charterer.domain.pod import run_name
from charterer.domain.time import Instant
from charterer.workloads import NotATemplate, RunEnvironment, Workload
from charterer.workloads.adopted.noted import QUEUE_LABEL

# The dry run of a job's run, by which the operator and the command line learn whether the API server accepts a
# template.
#
# The schema of the TrainingJob does not describe the pod template. Only the Job API can validate the template. The pods
# themselves are not tried, but some objects that they need are looked up (docs/development/adr/0024).


TRIALS_AT_ONCE: Final = 8
"""Dry runs in flight, so that a long queue of jobs that arrives at once does not crowd out other requests."""
SHARED_SECONDS: Final = 60.0
"""Seconds for which the acceptance of a run counts for equal ones: long enough for jobs that arrive together, and short
enough for a new quota, policy or LimitRange to be asked about the next jobs.
"""

_PLACE_BYTES = 92
"""Most bytes of one placement in a record. A rental's name is its pool's name and a number."""
_VIEW_BYTES = 65_536
"""More bytes than all other fields of a job's status take."""


class Unmet(Exception):
    """The template is valid, but its runs need an object that is missing now and may be created later."""


def may_run_again(job: Job) -> bool:
    """Whether a run of the job may be created at some time from its template, which nobody has refused."""
    return job.finish is None and not job.deleting and not job.invalid


def needs_trial(job: Job) -> bool:
    """Whether the API server still has to create an object for the next run from its template, which nobody has
    refused.

    The template of an adopted object is in the object already, so such a job needs no trial.
    """
    return job.allocation is None and job.target is None and may_run_again(job)


class Trials:
    """Dry runs of jobs' runs. Of jobs whose runs differ in nothing but the job's name and uid and the run's number, one
    is tried.

    That one's acceptance counts for the others for ``SHARED_SECONDS``. A refusal does not, because it names the object.
    A job whose last run never started is tried itself: something may have changed, or have judged its run by its name.
    Use it only in the running event loop's thread.
    """

    def __init__(self, client: Client, workload: Workload, environment: RunEnvironment) -> None:
        self._client = client
        self._workload = workload
        self._environment = environment
        self._clock = asyncio.get_running_loop().time
        self._accepted: dict[str, float] = {}
        """When the last run of a digest was accepted, the oldest first."""
        self._asking: dict[str, asyncio.Event] = {}
        """The digests of runs that are being tried. The event is set with the answer."""

    async def refusal(self, job: Job, raw: Mapping[str, Any]) -> str:
        """The reason why no run of the job can be created, or "" if the API server accepts one. ``raw``: the job's
        object.

        Raises Unmet if no run could start for a cause outside the template. Raises ApiError if the answer is not known:
        Forbidden if the client may not create runs (``lacks_right``), or if something else such as a quota forbids it
        now.
        """
        if too_large := _too_large(job, raw):
            return refusal(too_large)
        try:
            try:
                await self._accept(job, raw)
            except NotATemplate as error:
                await self._dry_run(job, self._workload.unmodified(job, raw))
                return refusal(str(error))  # the API server's own error, if there is one, was raised above
        except NamespaceTerminating:
            return f"namespace {job.namespace} is being deleted"
        except BadRequest as error:
            return refusal(f"the Job API refuses it: {error.message}")
        if not job.has_service:
            await _holder(self._client, SERVICES, "Service", job.name, job)
        for need in _needs(raw):
            await _unless_missing(self._client, need, job)
        return ""

    async def _accept(self, job: Job, raw: Mapping[str, Any]) -> None:
        """Return once the API server has accepted a run of the job, or one that is equal."""
        digest = self._digest(job, raw)
        if not job.start_failures:
            if (answered := self._asking.get(digest)) is not None:
                await answered.wait()
            if self._is_accepted(digest) and await self._name_is_free(job):
                return
        if first := digest not in self._asking:
            self._asking[digest] = asyncio.Event()
        self._accepted.pop(digest, None)
        try:
            await self._accept_own(job, raw)
            self._accepted[digest] = self._clock()
        finally:
            if first:
                self._asking.pop(digest).set()

    def _digest(self, job: Job, raw: Mapping[str, Any]) -> str:
        """A digest of all that the job's run has in common with the runs of equal jobs of its namespace."""
        twin = replace(job, id=JobId("twin"), name="twin", last_run=0)
        manifest = self._workload.manifest(twin, raw, _example(twin), self._environment)
        return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()

    def _is_accepted(self, digest: str) -> bool:
        """Whether a run of this digest was accepted a short while ago. Forgets what was accepted before that."""
        oldest = self._clock() - SHARED_SECONDS
        for known in list(takewhile(lambda known: self._accepted[known] <= oldest, self._accepted)):
            del self._accepted[known]
        return digest in self._accepted

    async def _name_is_free(self, job: Job) -> bool:
        """Whether no Job has the name of the job's next run, as far as the client may know."""
        try:
            await self._client.get(
                self._workload.kind.resource.one(run_name(job.name, job.last_run + 1), job.namespace)
            )
        except NotFound:
            return True
        except Forbidden:
            pass
        return False

    async def _accept_own(self, job: Job, raw: Mapping[str, Any]) -> None:
        """Return once the API server has accepted the job's own run, or has it already."""
        run = self._workload.manifest(job, raw, _example(job), self._environment)
        try:
            stored = await self._dry_run(job, run)
        except AlreadyExists:
            resource, name = self._workload.kind.resource, run_name(job.name, job.last_run + 1)
            if await _holder(self._client, resource, "Job", name, job) != job.id:
                raise  # an earlier job of this name left it, and it is about to be collected
            return
        if (queue := _queue_of(stored)) and not _queue_of(run):
            raise Unmet(
                f"Kueue would hold its runs: LocalQueue {queue} of namespace {job.namespace} takes every Job there "
                "that names no queue. Give that LocalQueue another name, leave the namespace out of Kueue's "
                "managedJobsNamespaceSelector, or send a Job with a queue's label instead (docs/kueue.md)"
            )

    async def _dry_run(self, job: Job, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._client.post(self._workload.kind.resource.all(job.namespace), body, dry_run=True, strict=True)


def _queue_of(run: Mapping[str, Any]) -> str:
    """The queue of Kueue in which the run waits, or "" if it waits in none."""
    return str((run["metadata"].get("labels") or {}).get(QUEUE_LABEL, ""))


async def _holder(client: Client, resource: Resource, kind: str, name: str, job: Job) -> str:
    """The uid of the TrainingJob with the job's name that controls the object of this name, or "" if unknown.

    Raises Unmet if the object belongs to anybody else.
    """
    found = await _look(client, resource, name, job)
    if not found:
        return ""
    owner = controller_of(found)
    if owner is not None and (owner.group, owner.kind, owner.name) == (GROUP, "TrainingJob", job.name):
        return owner.uid
    raise Unmet(
        f"{kind} {job.namespace}/{name} is somebody else's, and runs of the job need that name: delete it, or create "
        "the job under another name"
    )


class _Need(NamedTuple):
    """An object that the template names in ``field``."""

    resource: Resource
    kind: str
    name: str
    field: str


def _needs(raw: Mapping[str, Any]) -> Iterator[_Need]:
    """The objects without which the pods of a template cannot start. The Job API must have accepted the template.

    Secrets and ConfigMaps are not looked up, because a right to see that an object exists is a right to read it.
    """
    spec = raw["spec"]["template"]["spec"]
    if account := spec.get("serviceAccountName"):
        yield _Need(SERVICE_ACCOUNTS, "ServiceAccount", account, "serviceAccountName")
    for index, volume in enumerate(spec.get("volumes") or ()):
        if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
            field = f"volumes[{index}].persistentVolumeClaim.claimName"
            yield _Need(PERSISTENT_VOLUME_CLAIMS, "PersistentVolumeClaim", claim, field)


async def _unless_missing(client: Client, need: _Need, job: Job) -> None:
    """Raises Unmet if the object does not exist."""
    if await _look(client, need.resource, need.name, job) is None:
        named = f"{need.kind} {job.namespace}/{need.name} does not exist, and spec.template.spec.{need.field} names it"
        raise Unmet(f"{named}: create it, or correct the template")


async def _look(client: Client, resource: Resource, name: str, job: Job) -> Mapping[str, Any] | None:
    """The object, or None if it does not exist, or an empty mapping if the client may not read it."""
    try:
        return await client.get(resource.one(name, job.namespace))
    except NotFound:
        return None
    except Forbidden:
        return {}


def lacks_right(error: Forbidden) -> bool:
    """Whether the client lacks the right to create runs in the namespace, or to create runs that a TrainingJob owns.

    The admission plugin OwnerReferencesPermissionEnforcement refuses runs with an owner.
    """
    return "cannot create resource" in error.message or "cannot set blockOwnerDeletion" in error.message


def refusal(why: str) -> str:
    """The message to a user from whose template no run can be created."""
    return f"spec.template: {why}; correct the template"


def _too_large(job: Job, raw: Mapping[str, Any]) -> str:
    """The reason why the job's record may grow to more than can be stored, or "" if it cannot.

    No node may be rented for a job whose allocation cannot be written. The record has the placements of at most two
    runs, while one run replaces the other.
    """
    places = 2 * min(job.widths.max, MOST_PODS) * _PLACE_BYTES
    size, record = stored_bytes(raw), places + RUNS_BYTES + _VIEW_BYTES
    if size + record <= LARGEST_OBJECT_BYTES:
        return ""
    return (
        f"the TrainingJob takes {size:,} bytes, and up to {record:,} more with what is recorded of its runs, but only "
        f"{LARGEST_OBJECT_BYTES:,} can be stored: make the template, the annotations or spec.gpus.max smaller"
    )


def _example(job: Job) -> Allocation:
    """An allocation of the job's preferred width. The dry run tries the template, and not the nodes."""
    gpus = max(job.widths.preferred, 1)
    option = Option(PoolId("dry-run"), gpus, 1.0, Price(0))
    return Allocation(job.last_run + 1, option, (Placement(RentalId("dry-run"), gpus),), Instant(0))


_log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 30.0
"""First and longest pause, in seconds, of a job whose dry run got no answer."""
_UNMET_SECONDS = 10.0
"""Seconds until the next dry run of a job that lacked something outside its template."""
_FIRST_UNWRITTEN_SECONDS = 300.0
_LONGEST_UNWRITTEN_SECONDS = 3600.0
"""First and longest pause, in seconds, of a job whose record is refused, for example by an admission policy. Each
attempt may rent nodes for the job.
"""


class Templates:
    """Makes dry runs of jobs' templates. Each generation of a job's spec has one (``Trials``), and more follow while
    something else is missing.

    Each run that never started causes another dry run, since its obstacle may have come after the first dry run.
    ``changed`` is called after each dry run.
    """

    def __init__(
        self, client: Client, workload: Workload, environment: RunEnvironment, changed: Callable[[], None]
    ) -> None:
        self._client = client
        self._trials = Trials(client, workload, environment)
        self._changed = changed
        self._unwritten: dict[JobId, str] = {}
        self._unwritten_backoff: Backoff[JobId] = Backoff(asyncio.get_running_loop().time, _FIRST_UNWRITTEN_SECONDS)
        self._backoff: Backoff[JobId] = Backoff(asyncio.get_running_loop().time, _FIRST_RETRY_SECONDS)
        self._answers: dict[JobId, tuple[tuple[int, int], str]] = {}
        self._unmet: set[JobId] = set()
        self._asking: dict[JobId, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(TRIALS_AT_ONCE)

    def refusals(self, jobs: Iterable[Job]) -> Mapping[JobId, str | None]:
        """The jobs that cannot be planned, with the refusal of their template, or None while a dry run goes on.

        A call starts a dry run for every job that needs one.
        """
        refused: dict[JobId, str | None] = {}
        current: set[JobId] = set()
        for job in jobs:
            current.add(job.id)
            if not needs_trial(job):
                if job.allocation is not None:
                    self._unwritten_backoff.succeeded(job.id)
                continue
            if self._unwritten_backoff.pausing(job.id):
                refused[job.id] = self._unwritten[job.id]
                continue
            of, message = self._answers.get(job.id, (None, ""))
            tried = of == _version(job)
            if not tried or message:
                refused[job.id] = message if tried else None
            if (not tried or job.id in self._unmet) and job.id not in self._asking:
                self._asking[job.id] = asyncio.create_task(self._try(job), name=f"template/{job.id}")
        for gone in self._answers.keys() - current:
            del self._answers[gone]
        self._unmet &= current
        for gone in self._unwritten.keys() - current:
            del self._unwritten[gone]
        self._unwritten_backoff.retain(current)
        self._backoff.retain(current)
        return refused

    def unwritten(self, job: JobId, why: str) -> None:
        """Pause a job whose record the API server refuses. During the pause no nodes are rented for the job."""
        self._unwritten[job] = f"its record cannot be written: {why}"
        self._unwritten_backoff.failed(job, _LONGEST_UNWRITTEN_SECONDS)

    async def _try(self, job: Job) -> None:
        try:
            async with self._slots:
                self._answers[job.id] = (_version(job), await self._verdict(job))
            self._unmet.discard(job.id)
            self._backoff.succeeded(job.id)
        except Unmet as unmet:
            self._answers[job.id] = (_version(job), str(unmet))
            self._unmet.add(job.id)
            self._changed()
            await asyncio.sleep(_UNMET_SECONDS)
        except ApiError as error:
            _log.warning("template of %s/%s not checked, again soon: %s", job.namespace, job.name, error)
            await asyncio.sleep(self._backoff.failed(job.id, _LONGEST_RETRY_SECONDS, error.retry_after))
        finally:
            del self._asking[job.id]
            self._changed()

    async def _verdict(self, job: Job) -> str:
        try:
            raw = await self._client.get(TRAINING_JOBS.one(job.name, job.namespace))
            return await self._trials.refusal(job, raw)
        except Forbidden as error:
            if not lacks_right(error):  # for instance a quota, which may allow it later
                raise
            return (
                f"the operator may not create Jobs in namespace {job.namespace}: an administrator can add it to the "
                "value namespaces of the operator's chart"
            )
        except NotFound:
            return "the job is gone"


def _version(job: Job) -> tuple[int, int]:
    """The generation of the job's spec and the number of its runs that never started. The answer of a dry run is valid
    only for these two numbers.
    """
    return job.generation, job.start_failures
