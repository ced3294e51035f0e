"""The operator's snapshots, made of the store, the clouds' answers, the dry runs and the pods' reports."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from charterer.api.node_demands import class_terms, volume_terms
from charterer.cluster import kinds
from charterer.cluster.client import Client
from charterer.cluster.errors import ApiError, Forbidden, NotFound
from charterer.cluster.paths import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from charterer.cluster.store import Store
from charterer.controller.run_warnings import RunWarnings
from charterer.controller.snapshot.cluster_state import cluster_state
from charterer.controller.snapshot.observe import observe
from charterer.controller.surveys import Backoff, Surveys, pools_in
from charterer.controller.templates import Templates
from charterer.domain.cost_row import CostRecording
from charterer.domain.ids import JobId
from charterer.domain.job import Job
from charterer.domain.node_demands import AnyOf
from charterer.domain.reports import Findings, Progress
from charterer.domain.snapshot import OperatorLimits, Snapshot
from charterer.domain.time import Instant
from charterer.incremental import Memo
from charterer.server.progress import ProgressBoard

# The zones of jobs' volumes, looked up on the API server before nodes are rented for the jobs.
#
# The zone of a bound volume never changes. An unbound volume may be in any zone that its StorageClass allows. The first
# pod that is scheduled binds the volume, so the lookup is repeated until then.


_log = logging.getLogger(__name__)

_UNBOUND_SECONDS = 15.0
"""Seconds until an unbound volume is looked up again."""
_FIRST_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 30.0
_AT_ONCE = 8
"""Requests in flight."""


class _Volume(NamedTuple):
    """A PersistentVolumeClaim, or, if ``namespace`` is empty, a StorageClass."""

    namespace: str
    name: str


class _Answer(NamedTuple):
    """The node terms of a volume. ``stays``: whether they are final."""

    terms: AnyOf
    stays: bool


class Volumes:
    """The node terms of jobs' volumes. Each volume is looked up once, and again while it is unbound.

    ``changed`` is called after each lookup.
    """

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._client = client
        self._changed = changed
        self._answers: dict[_Volume, _Answer] = {}
        self._asking: dict[_Volume, asyncio.Task[None]] = {}
        self._backoff: Backoff[_Volume] = Backoff(asyncio.get_running_loop().time, _FIRST_RETRY_SECONDS)
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def terms(self, jobs: Iterable[Job]) -> Mapping[JobId, tuple[AnyOf, ...] | None]:
        """The node terms of the volumes of each job that has volumes and has not finished. None for a job while one of
        its volumes is looked up.

        A call starts the lookup of every volume that is not known or may have changed.
        """
        found: dict[JobId, tuple[AnyOf, ...] | None] = {}
        current: set[_Volume] = set()
        for job in jobs:
            volumes = list(_volumes(job)) if job.finish is None else []
            if not volumes:
                continue
            current.update(volumes)
            answers = [self._answers.get(volume) for volume in volumes]
            known = [answer for answer in answers if answer is not None]
            all_known = len(known) == len(answers)
            found[job.id] = tuple([answer.terms for answer in known if answer.terms]) if all_known else None
        for volume in sorted(current - self._asking.keys()):
            answer = self._answers.get(volume)
            if answer is None or not answer.stays:
                self._asking[volume] = asyncio.create_task(self._ask(volume), name=f"volume/{'/'.join(volume)}")
        for gone in self._answers.keys() - current:
            del self._answers[gone]
        self._backoff.retain(current)
        return found

    async def _ask(self, volume: _Volume) -> None:
        """Look the volume up. If the volume does not exist or may not be read, it has no terms, and the scheduler
        decides where the pod goes.
        """
        try:
            async with self._slots:
                self._answers[volume] = answer = await _look(self._client, volume)
            self._backoff.succeeded(volume)
            self._changed()
            if not answer.stays:
                await asyncio.sleep(_UNBOUND_SECONDS)
        except ApiError as error:
            _log.warning("%s not looked up, again soon: %s", "/".join(volume), error)
            await asyncio.sleep(self._backoff.failed(volume, _LONGEST_RETRY_SECONDS, error.retry_after))
        finally:
            del self._asking[volume]
            self._changed()


async def volumes_now(client: Client, jobs: Iterable[Job]) -> Mapping[JobId, tuple[AnyOf, ...]]:
    """The node terms of the volumes of jobs that have not finished, as far as the client may read them."""
    by_job = {job.id: list(_volumes(job)) for job in jobs if job.finish is None}
    asked = sorted({volume for volumes in by_job.values() for volume in volumes})
    slots = asyncio.Semaphore(_AT_ONCE)

    async def look(volume: _Volume) -> _Answer:
        async with slots:
            return await _look(client, volume)

    answers = dict(zip(asked, await asyncio.gather(*map(look, asked)), strict=True))
    return {
        job: tuple([answers[volume].terms for volume in volumes if answers[volume].terms])
        for job, volumes in by_job.items()
        if volumes
    }


async def _look(client: Client, volume: _Volume) -> _Answer:
    try:
        if not volume.namespace:
            return _Answer(await _of_class(client, volume.name), stays=True)
        claim = await client.get(PERSISTENT_VOLUME_CLAIMS.one(volume.name, volume.namespace))
        spec = claim.get("spec") or {}
        if bound := spec.get("volumeName"):
            found = await client.get(PERSISTENT_VOLUMES.one(bound))
            return _Answer(volume_terms(found, volume.name), stays=True)
        name = spec.get("storageClassName")
        return _Answer(await _of_class(client, name) if name else (), stays=False)
    except NotFound:
        return _Answer((), stays=False)
    except Forbidden as error:
        _log.warning("where %s can be attached is not known: %s", "/".join(volume), error)
        return _Answer((), stays=True)


async def _of_class(client: Client, name: str) -> AnyOf:
    return class_terms(await client.get(STORAGE_CLASSES.one(name)), name)


def _volumes(job: Job) -> Iterator[_Volume]:
    for claim in job.demands.claims:
        yield _Volume(job.namespace, claim)
    for name in job.demands.classes:
        yield _Volume("", name)


class SnapshotSource:
    """``observe`` makes a snapshot, and ``last`` returns the one that the present turn decides on.

    ``findings`` gives the bottlenecks of runs. ``recording`` gives the state of the record of costs. ``namespace`` is
    the operator's own, where an annotation stops the operator.
    """

    def __init__(
        self,
        store: Store,
        surveys: Surveys,
        templates: Templates,
        volumes: Volumes,
        board: ProgressBoard,
        warnings: RunWarnings,
        findings: Callable[[], Findings],
        recording: Callable[[], CostRecording],
        now: Callable[[], Instant],
        namespace: str,
        limits: OperatorLimits,
        not_adopted: frozenset[str],
    ) -> None:
        self._store = store
        self._surveys = surveys
        self._templates = templates
        self._volumes = volumes
        self._board = board
        self._warnings = warnings
        self._findings = findings
        self._recording = recording
        self._now = now
        self._namespace = namespace
        self._limits = limits
        self._not_adopted = not_adopted
        self._last: Snapshot | None = None
        self._memo = Memo()
        self._refusals: Mapping[JobId, str | None] = {}
        self._attached: Mapping[JobId, tuple[AnyOf, ...] | None] = {}
        self._reported: Mapping[JobId, Progress] = {}

    def observe(self) -> Snapshot:
        """The snapshot of now. Whatever has not changed is the same object as in the snapshot before."""
        jobs = [decoded.job for decoded in self._store.view(kinds.TRAINING_JOBS).objects.values()]
        if (refusals := self._templates.refusals(jobs)) != self._refusals:
            self._refusals = refusals
        if (attached := self._volumes.terms(jobs)) != self._attached:
            self._attached = attached
        if (progress := self._progress(jobs)) != self._reported:
            self._reported = progress
        self._surveys.keep(pools_in(self._store))
        state = cluster_state(
            self._store,
            surveys=self._surveys.latest,
            quotes=self._surveys.quotes,
            refusals=self._refusals,
            volumes=self._attached,
            progress=self._reported,
            warnings=self._warnings.latest,
            findings=self._findings(),
            namespace=self._namespace,
            limits=self._limits,
            cost_recording=self._recording(),
            not_adopted=self._not_adopted,
        )
        self._last = observe(state, self._now(), self._memo)
        return self._last

    def last(self) -> Snapshot:
        """The snapshot of the present turn. Raises RuntimeError before the first turn."""
        if self._last is None:
            raise RuntimeError("no snapshot was made yet")
        return self._last

    def last_or_none(self) -> Snapshot | None:
        """The snapshot of the present turn, or None before the first turn."""
        return self._last

    def _progress(self, jobs: Iterable[Job]) -> Mapping[JobId, Progress]:
        jobs = list(jobs)
        for job in jobs:
            recorded, allocation = job.progress, job.allocation
            present = recorded is not None and allocation is not None and recorded.run == allocation.run
            if recorded is not None and (present or job.interactive is not None):
                self._board.adopt(job.id, recorded, self._now())
        reports = ((job.id, self._board.latest(job.id)) for job in jobs)
        return {job: report for job, report in reports if report is not None}
