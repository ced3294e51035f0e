"""Trying the templates of all jobs by dry runs before money is spent on them (docs/development/adr/0004)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from charterer.cluster.client import Client
from charterer.cluster.errors import ApiError, Forbidden, NotFound
from charterer.cluster.paths import TRAINING_JOBS
from charterer.controller.backoff import Backoff
from charterer.controller.template_trial import TRIALS_AT_ONCE, Unmet, lacks_right, needs_trial, template_refusal
from charterer.domain.ids import JobId
from charterer.domain.job import Job
from charterer.workloads import RunEnvironment, Workload

_log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 30.0
"""Pauses of a job whose dry run had no answer."""
_UNMET_SECONDS = 10.0
"""Pause after which a job is tried again that lacked something outside of its template."""
_FIRST_UNWRITTEN_SECONDS = 300.0
_LONGEST_UNWRITTEN_SECONDS = 3600.0
"""Pauses of a job whose record is refused, as by an admission policy. Each attempt may rent nodes for it."""


class Templates:
    """Dry runs of jobs' templates: one for each generation of a job's spec, and more while it lacks something else.

    One more after each run that never started: what holds it up may have come after the first.

    ``changed``: called after each.
    """

    def __init__(
        self, client: Client, workload: Workload, environment: RunEnvironment, changed: Callable[[], None]
    ) -> None:
        self._client = client
        self._workload = workload
        self._environment = environment
        self._changed = changed
        self._unwritten: dict[JobId, str] = {}
        self._unwritten_backoff: Backoff[JobId] = Backoff(asyncio.get_running_loop().time, _FIRST_UNWRITTEN_SECONDS)
        self._backoff: Backoff[JobId] = Backoff(asyncio.get_running_loop().time, _FIRST_RETRY_SECONDS)
        self._answers: dict[JobId, tuple[tuple[int, int], str]] = {}
        self._unmet: set[JobId] = set()
        self._asking: dict[JobId, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(TRIALS_AT_ONCE)

    def refusals(self, jobs: Iterable[Job]) -> Mapping[JobId, str | None]:
        """The jobs that cannot be planned for: why their template was refused, None while it is being tried.

        Begins a dry run for every job that needs one.
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
        """The API server refuses the job's record: the job is left alone for a while, so that no nodes wait for it."""
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
            return await template_refusal(self._client, self._workload, job, raw, self._environment)
        except Forbidden as error:
            if not lacks_right(error):  # a quota, for instance, may let it pass later
                raise
            return (
                f"the operator may not create Jobs in namespace {job.namespace}: an administrator can add it to the "
                "value namespaces of the operator's chart"
            )
        except NotFound:
            return "the job is gone"


def _version(job: Job) -> tuple[int, int]:
    """The generation of the job's spec and the number of its runs that never started: an answer holds for these."""
    return job.generation, job.start_failures
