"""Warning Events about runs that start late. Only these Events show that a Job may not create pods, or that a volume is
missing.

A RayJob starts late also if its workers run, and the pods beside them do not: its head, and the submitter of its
entrypoint.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from charterer.api import decode
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError
from charterer.cluster.paths import EVENTS, JOBS, PODS
from charterer.domain.job import Job, StartWarnings
from charterer.domain.pod import PodPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, seconds_between
from charterer.workloads.adopted.job_set import part_of
from charterer.workloads.adopted.ray_job import RAY_JOBS, SUBMITTER_REFUSED, helpers

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 10.0
"""Seconds between two checks of the late runs."""
_LATE_SECONDS: Final = 10.0
"""Seconds after its start at which a run counts as late. Most pods without a problem are running by then."""
_OF_JOB_SET: Final = ("JobSet", "TrainJob")
"""Kinds whose pods are created by the Jobs of a JobSet."""
_JOBS_ASKED: Final = 3
"""Most Jobs of a JobSet whose Events are read in one check."""
_ASKED_AT_ONCE: Final = 20
"""Most late runs whose Events are read in one check. The remaining runs follow in the next check."""


class _Late(NamedTuple):
    """A late run. ``since``: its start. ``uid``: of its object. ``silent``: the uid of its first pending pod
    without a known problem; empty if there is none.

    ``kind``, ``name``: of that object. ``short``: whether a pod is missing. ``incomplete``: whether a RayJob waits for
    more than its workers.
    """

    namespace: str
    since: Instant
    uid: str
    kind: str
    name: str
    silent: str
    short: bool
    incomplete: bool


class RunWarnings:
    """Reads the last Warning Events of each late run. ``changed`` is called when ``latest`` has changed."""

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._client = client
        self._changed = changed
        self.latest: Mapping[str, StartWarnings] = {}
        """Reason and message of the last warnings, by the uid of the run's object. The mapping is replaced and never
        changed.
        """

    async def run(self, last: Callable[[], Snapshot | None]) -> None:
        """Check the snapshot that ``last`` returns at regular intervals, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            snapshot = last()
            if snapshot is not None:
                await self.look(snapshot)

    async def look(self, snapshot: Snapshot) -> None:
        """Read the Events of the runs that are late now. Runs without a known warning are first."""
        late = {uid: run for job in snapshot.jobs.values() for uid, run in _late(job, snapshot.now)}
        known = {run: text for run, text in self.latest.items() if run in late}
        for run in sorted(late, key=lambda uid: uid in known)[:_ASKED_AT_ONCE]:
            try:
                warnings = await self._about(late[run])
            except ApiError as error:
                _log.info("events of run %s not read, again soon: %s", run, error)
                continue
            if any(warnings):
                known[run] = warnings
        if known != self.latest:
            self.latest = known
            self._changed()

    async def _about(self, late: _Late) -> StartWarnings:
        missing = await self._last_warning(late, f"regarding.uid={late.uid}")
        if late.incomplete:
            missing = await self._about_ray_job(late, missing)
        if late.short and not missing and late.kind in _OF_JOB_SET:
            missing = await self._about_jobs(late)
        pod = await self._last_warning(late, f"regarding.uid={late.silent}") if late.silent else ""
        return StartWarnings(missing, pod)

    async def _about_jobs(self, late: _Late) -> str:
        """The reason why a Job of a JobSet creates no pods. No Event about the JobSet itself gives it."""
        jobs = (await self._client.list(JOBS.all(late.namespace), labels=part_of(late.name))).items
        for job in [job for job in jobs if _lacks_pods(job)][:_JOBS_ASKED]:
            if said := await self._last_warning(late, f"regarding.uid={job['metadata']['uid']}"):
                return f"Job {job['metadata']['name']}: {said}"
        return ""

    async def _about_ray_job(self, late: _Late, own: str) -> str:
        """The reason why Ray has not received the entrypoint of a RayJob, with the remedy.

        ``own``: the last warning about the RayJob itself. A warning that a part cannot be created is old if the part
        has pods by now.
        """
        parts, remedy, workers = helpers(await self._client.get(RAY_JOBS.one(late.name, late.namespace)))
        for part in parts:
            pods = (await self._client.list(PODS.all(late.namespace), labels=part.pods)).items
            if pods and own.startswith(part.refused):
                own = ""
            said = "" if pods else await self._last_warning(late, part.events)
            pending = [pod for pod in pods if (pod.get("status") or {}).get("phase") == PodPhase.PENDING]
            if pending:
                said = next(filter(None, [decode.pod_trouble(pod["status"]) for pod in pending]), "")
                said = said or await self._last_warning(late, f"regarding.uid={pending[0]['metadata']['uid']}")
            if said:
                return f"{part.name}: {said} ({remedy})"
        if late.short and workers and (said := await self._last_warning(late, workers)):
            return said
        return f"{own} ({remedy})" if own.startswith(SUBMITTER_REFUSED) else own

    async def _last_warning(self, late: _Late, subject: str) -> str:
        """The last warning about the subject since the run's start. An adopted object has those of earlier runs."""
        listing = await self._client.list(EVENTS.all(late.namespace), fields=f"{subject},type=Warning")
        found = [decode.warning_event(raw) for raw in listing.items]
        return max([event for event in found if event[0] >= late.since], default=(late.since, ""))[1]


def _lacks_pods(job: RawObject) -> bool:
    status = job.get("status") or {}
    made = sum(status.get(word) or 0 for word in ("active", "succeeded", "failed"))
    return bool(made < (job["spec"].get("parallelism") or 1))


def _late(job: Job, now: Instant) -> list[tuple[str, _Late]]:
    """The job's run, by its uid, if it was started long ago and not all that it needs runs."""
    run = job.current_run
    if run is None or run.suspended or run.started is None or run.ended is not None:
        return []
    if seconds_between(run.started, now) < _LATE_SECONDS:
        return []
    pending = [pod for pod in run.pods if pod.phase is PodPhase.PENDING]
    silent = next((pod.uid for pod in pending if not pod.trouble), "")
    short, incomplete = len(run.pods) < run.completions, bool(run.incomplete)
    if not (short or silent or incomplete):
        return []
    kind = "Job" if job.target is None else job.target.kind
    return [(run.uid, _Late(job.namespace, run.started, run.uid, kind, run.name, silent, short, incomplete))]
