"""The operator's snapshots: what the store, the clouds, the dry runs and the pods' reports say now, joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from charterer.cluster import kinds
from charterer.cluster.store import Store
from charterer.controller.run_warnings import RunWarnings
from charterer.controller.snapshot.cluster_state import cluster_state
from charterer.controller.snapshot.observe import observe
from charterer.controller.snapshot.volumes import Volumes
from charterer.controller.surveys import Surveys, pools_in
from charterer.controller.templates import Templates
from charterer.domain.ids import JobId
from charterer.domain.job import Job
from charterer.domain.nodes.demands import AnyOf
from charterer.domain.reports.bottleneck import Findings
from charterer.domain.reports.progress import Progress
from charterer.domain.snapshot import OperatorLimits, Snapshot
from charterer.domain.spending.use import CostRecording
from charterer.domain.time import Instant
from charterer.incremental import Memo
from charterer.server.progress import ProgressBoard


class SnapshotSource:
    """``observe`` makes a snapshot; ``last`` is the one that the present turn is decided on.

    ``findings``: what holds runs up. ``recording``: the record of costs. ``namespace``: the operator's own, whose
    annotation stops it.
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
        self._last: Snapshot | None = None
        self._memo = Memo()
        self._refusals: Mapping[JobId, str | None] = {}
        self._attached: Mapping[JobId, tuple[AnyOf, ...] | None] = {}
        self._reported: Mapping[JobId, Progress] = {}

    def observe(self) -> Snapshot:
        """Everything as it is known now. What has not changed is handed over as the same object as before."""
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
        )
        self._last = observe(state, self._now(), self._memo)
        return self._last

    def last(self) -> Snapshot:
        """The snapshot of the present turn; RuntimeError before the first."""
        if self._last is None:
            raise RuntimeError("no snapshot was made yet")
        return self._last

    def last_or_none(self) -> Snapshot | None:
        """The snapshot of the present turn, None before the first."""
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
