"""Warning Events about runs that start late. Only these Events show that a Job may not create pods, or that a volume is
missing.

A RayJob starts late also if its workers run, and the pods beside them do not: its head, and the submitter of its
entrypoint.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from charterer.api import decode
from charterer.cluster.client import Client
from charterer.cluster.errors import ApiError
from charterer.cluster.paths import EVENTS, PODS
from charterer.domain.job import Job
from charterer.domain.pod import PodPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, seconds_between
from charterer.workloads.adopted.ray_job import RAY_JOBS, SUBMITTER_REFUSED, helpers

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 10.0
"""Seconds between two checks of the late runs."""
_LATE_SECONDS: Final = 10.0
"""Seconds after its start at which a run counts as late. Most pods without a problem are running by then."""
_ASKED_AT_ONCE: Final = 20
"""Most late runs whose Events are read in one check. The remaining runs follow in the next check."""


class _Late(NamedTuple):
    """A late run. ``since``: its start. ``subjects``: the uids of what its Events are about.

    ``ray_job``: the name of the run's RayJob if that waits for more than its workers; otherwise empty.
    """

    namespace: str
    since: Instant
    subjects: Sequence[str]
    ray_job: str


class RunWarnings:
    """Reads the last Warning Event of each late run. ``changed`` is called when ``latest`` has changed."""

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._client = client
        self._changed = changed
        self.latest: Mapping[str, str] = {}
        """Reason and message of the last warning, by the uid of the run's object. The mapping is replaced and never
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
                warning = await self._about(late[run])
            except ApiError as error:
                _log.info("events of run %s not read, again soon: %s", run, error)
                continue
            if warning:
                known[run] = warning
        if known != self.latest:
            self.latest = known
            self._changed()

    async def _about(self, late: _Late) -> str:
        last = await self._last_warning(late, [f"regarding.uid={uid}" for uid in late.subjects])
        return await self._about_ray_job(late, last) if late.ray_job else last

    async def _about_ray_job(self, late: _Late, last: str) -> str:
        """What keeps a RayJob from its entrypoint, with the remedy. ``last``: the last warning about its own object."""
        parts, remedy = helpers(await self._client.get(RAY_JOBS.one(late.ray_job, late.namespace)))
        for part in parts:
            pods = (await self._client.list(PODS.all(late.namespace), labels=part.pods)).items
            pending = [pod for pod in pods if (pod.get("status") or {}).get("phase") == PodPhase.PENDING]
            if pods and not pending:
                continue
            said = next(filter(None, [decode.pod_trouble(pod["status"]) for pod in pending]), "")
            subjects = [part.events, *[f"regarding.uid={pod['metadata']['uid']}" for pod in pending[:1]]]
            if said := said or await self._last_warning(late, subjects):
                return f"{part.name}: {said} ({remedy})"
        return f"{last} ({remedy})" if last.startswith(SUBMITTER_REFUSED) else last

    async def _last_warning(self, late: _Late, subjects: Iterable[str]) -> str:
        """The last warning about these subjects since the run's start. An adopted object has those of earlier runs."""
        found: list[tuple[Instant, str]] = []
        for subject in subjects:
            listing = await self._client.list(EVENTS.all(late.namespace), fields=f"{subject},type=Warning")
            found += [decode.warning_event(raw) for raw in listing.items]
        return max([event for event in found if event[0] >= late.since], default=(late.since, ""))[1]


def _late(job: Job, now: Instant) -> list[tuple[str, _Late]]:
    """The job's run, by its uid, if it was started long ago and not all that it needs runs.

    The subjects of its Events are the object, and the first pending pod without a known problem.
    """
    run = job.current_run
    if run is None or run.suspended or run.started is None or run.ended is not None:
        return []
    if seconds_between(run.started, now) < _LATE_SECONDS:
        return []
    pending = [pod for pod in run.pods if pod.phase is PodPhase.PENDING]
    silent = [pod.uid for pod in pending if not pod.trouble][:1]
    if len(run.pods) >= run.completions and not silent and not run.incomplete:
        return []
    ray_job = run.name if run.incomplete else ""
    return [(run.uid, _Late(job.namespace, run.started, [run.uid, *silent], ray_job))]
