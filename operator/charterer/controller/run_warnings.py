"""Reads the Warning Events of runs that start late. Only these Events show that a Job may not create pods, or that a
volume is missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from charterer.api import decode
from charterer.cluster.client import Client
from charterer.cluster.errors import ApiError
from charterer.cluster.paths import EVENTS
from charterer.domain.job import Job
from charterer.domain.pod import PodPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, seconds_between

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 10.0
"""Seconds between two checks of the late runs."""
_LATE_SECONDS: Final = 10.0
"""Seconds after its start at which a run counts as late. Most pods without a problem are running by then."""
_ASKED_AT_ONCE: Final = 20
"""Most late runs whose Events are read in one check. The remaining runs follow in the next check."""


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
        late = {run: subjects for job in snapshot.jobs.values() for run, subjects in _late(job, snapshot.now)}
        known = {run: text for run, text in self.latest.items() if run in late}
        for run in sorted(late, key=lambda uid: uid in known)[:_ASKED_AT_ONCE]:
            namespace, subjects = late[run]
            try:
                warning = await self._last_warning(namespace, subjects)
            except ApiError as error:
                _log.info("events of run %s not read, again soon: %s", run, error)
                continue
            if warning:
                known[run] = warning
        if known != self.latest:
            self.latest = known
            self._changed()

    async def _last_warning(self, namespace: str, subjects: Sequence[str]) -> str:
        found: list[tuple[Instant, str]] = []
        for uid in subjects:
            listing = await self._client.list(EVENTS.all(namespace), fields=f"regarding.uid={uid},type=Warning")
            found += [decode.warning_event(raw) for raw in listing.items]
        return max(found)[1] if found else ""


def _late(job: Job, now: Instant) -> list[tuple[str, tuple[str, Sequence[str]]]]:
    """The job's run, if the run was started long ago and not all its pods run. The run comes with the subjects of its
    Events: the run's object, and the first pending pod without a known problem.
    """
    run = job.current_run
    if run is None or run.suspended or run.started is None or run.ended is not None:
        return []
    if seconds_between(run.started, now) < _LATE_SECONDS:
        return []
    pending = [pod for pod in run.pods if pod.phase is PodPhase.PENDING]
    if len(run.pods) >= run.completions and not any(not pod.trouble for pod in pending):
        return []
    subjects = [run.uid, *[pod.uid for pod in pending if not pod.trouble][:1]]
    return [(run.uid, (job.namespace, subjects))]
