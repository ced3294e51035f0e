"""Trying a job's template by a server-side dry run before money is spent on it (docs/development/adr/0004).

The pod template is opaque to the TrainingJob's schema; only the Job API knows whether it is right.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from charterer.api.models.trainingjob_status import RUNS_BYTES
from charterer.api.stored_size import LARGEST_OBJECT_BYTES, stored_bytes
from charterer.cluster.client import Client
from charterer.cluster.errors import ApiError, BadRequest, Forbidden, NamespaceTerminating, NotFound
from charterer.cluster.paths import TRAINING_JOBS
from charterer.controller.backoff import Backoff
from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import MOST_PODS, Allocation, Job, Placement
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.time import Instant
from charterer.workloads import NotATemplate, RunEnvironment, Workload

_log = logging.getLogger(__name__)

_AT_ONCE = 8
"""Dry runs in flight: a queue of jobs that arrives at once must not crowd out the loop's own requests."""

_FIRST_UNWRITTEN_SECONDS = 300.0
_LONGEST_UNWRITTEN_SECONDS = 3600.0
"""Pauses of a job whose record is refused, as by an admission policy. Each attempt may rent nodes for it."""
_PLACE_BYTES = 92
"""Most bytes of one place in a record: the name of a rental is that of its pool and a number."""
_VIEW_BYTES = 65_536
"""More than what else is in a job's status takes."""


class Templates:
    """Dry runs of jobs' templates, at most one for each generation of a job's spec. ``changed``: called after each."""

    def __init__(
        self, client: Client, workload: Workload, environment: RunEnvironment, changed: Callable[[], None]
    ) -> None:
        self._client = client
        self._workload = workload
        self._environment = environment
        self._changed = changed
        self._unwritten: dict[JobId, str] = {}
        self._unwritten_backoff: Backoff[JobId] = Backoff(asyncio.get_running_loop().time, _FIRST_UNWRITTEN_SECONDS)
        self._answers: dict[JobId, tuple[int, str]] = {}
        self._asking: dict[JobId, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def refusals(self, jobs: Iterable[Job]) -> Mapping[JobId, str | None]:
        """The jobs that cannot be planned for: why their template was refused, None while it is being tried.

        Begins a dry run for every job that needs one.
        """
        refused: dict[JobId, str | None] = {}
        current: set[JobId] = set()
        for job in jobs:
            current.add(job.id)
            if job.allocation is not None or job.finish is not None or job.deleting or job.invalid:
                continue
            if self._unwritten_backoff.pausing(job.id):
                refused[job.id] = self._unwritten[job.id]
                continue
            generation, message = self._answers.get(job.id, (-1, ""))
            if generation != job.generation:
                refused[job.id] = None
                if job.id not in self._asking:
                    self._asking[job.id] = asyncio.create_task(self._try(job), name=f"template/{job.id}")
            elif message:
                refused[job.id] = message
        for gone in self._answers.keys() - current:
            del self._answers[gone]
        for gone in self._unwritten.keys() - current:
            del self._unwritten[gone]
        self._unwritten_backoff.retain(current)
        return refused

    def unwritten(self, job: JobId, why: str) -> None:
        """The API server refuses the job's record: the job is left alone for a while, so that no nodes wait for it."""
        self._unwritten[job] = f"its record cannot be written: {why}"
        self._unwritten_backoff.failed(job, _LONGEST_UNWRITTEN_SECONDS)

    async def _try(self, job: Job) -> None:
        try:
            async with self._slots:
                self._answers[job.id] = (job.generation, await self._verdict(job))
        except ApiError as error:
            _log.warning("template of %s/%s not checked, again soon: %s", job.namespace, job.name, error)
            await asyncio.sleep(1.0)
        finally:
            del self._asking[job.id]
            self._changed()

    async def _verdict(self, job: Job) -> str:
        try:
            raw = await self._client.get(TRAINING_JOBS.one(job.name, job.namespace))
            if too_large := _too_large(job, raw):
                return refusal(too_large)
            runs = self._workload.kind.resource.all(job.namespace)
            try:
                run = self._workload.manifest(job, raw, _example(job), self._environment)
            except NotATemplate as error:
                await self._client.post(runs, self._workload.unmodified(job, raw), dry_run=True, strict=True)
                return refusal(str(error))  # the API server says it better, where it has something to say
            await self._client.post(runs, run, dry_run=True, strict=True)
        except NamespaceTerminating:
            return f"namespace {job.namespace} is being deleted"
        except Forbidden as error:
            if "cannot create resource" not in error.message:  # a quota, for instance, may let it pass later
                raise
            return (
                f"the operator may not create Jobs in namespace {job.namespace}: an administrator can add it to the "
                "value namespaces of the operator's chart"
            )
        except BadRequest as error:
            return refusal(f"the Job API refuses it: {error.message}")
        except NotFound:
            return "the job is gone"
        return ""


def refusal(why: str) -> str:
    """The message to the user whose template no run can be made from."""
    return f"spec.template: {why}; correct the template"


def _too_large(job: Job, raw: Mapping[str, Any]) -> str:
    """Why the job's record may come to be more than can be stored; empty where it cannot.

    A node is never rented for a job whose allocation cannot be written. The record has the places of two runs at most
    while one replaces the other.
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
    """An allocation of the job's preferred width: what is tried is the template, not the nodes."""
    gpus = max(job.widths.preferred, 1)
    option = Option(PoolId("dry-run"), gpus, 1.0, Price(0))
    return Allocation(job.last_run + 1, option, (Placement(RentalId("dry-run"), gpus),), Instant(0))
