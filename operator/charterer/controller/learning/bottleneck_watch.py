"""Stores the reports of running jobs by pod, and finds the bottlenecks of these jobs.

This module has no clock and writes nothing. The findings go into the next snapshot, and a new leader has to find them
again.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from charterer.domain.ids import JobId, RentalId
from charterer.domain.job import Job
from charterer.domain.pool import Offering
from charterer.domain.rental import Rental
from charterer.domain.reports import Bottleneck, BottleneckKind, Findings
from charterer.domain.time import Instant
from charterer.estimate.bottlenecks import WINDOW, CheckpointTimes, NodeHistory, RunReports, Step, StepParts
from charterer.server.progress import ProgressReport

_log = logging.getLogger(__name__)

MOST_PODS = 50_000
"""Most pods whose reports are stored, of all jobs together: about 60 MB."""
_REFRESH_REPORTS = 60
"""Number of reports of pod 0 (about ten minutes) after which the numbers of a lasting finding are computed again."""


@dataclass(slots=True)
class _Watched:
    """A job's present run. ``batch``: samples of all GPUs in the last report. ``waits``: reports until the next
    computation.
    """

    reports: RunReports
    checkpoints: CheckpointTimes = field(default_factory=CheckpointTimes)
    batch: int = 0
    waits: int = 0


class BottleneckWatch:
    """The reports of all jobs, for use in one thread. ``latest``: the findings, replaced and never changed."""

    def __init__(self, most_pods: int = MOST_PODS) -> None:
        self.latest = Findings()
        self._most_pods = most_pods
        self._jobs: dict[JobId, _Watched] = {}
        self._history = NodeHistory()
        self._pods = 0
        self._full = False

    def handle_report(
        self, job: Job, offering: Offering, rentals: Mapping[RentalId, Rental], report: ProgressReport, at: Instant
    ) -> None:
        """Add a report of the job's present run. ``offering`` describes its nodes, which are among ``rentals``."""
        watched = self._watched(job)
        if watched is None:
            return
        again = False
        if report.index == 0:
            watched.batch = report.batch or watched.batch
            watched.waits -= 1
            again = watched.waits <= 0
            if report.checkpoint_seconds is not None:
                again = watched.checkpoints.add(report.checkpoint_seconds) or again
        parts = _parts(report)
        if parts is not None and job.has_all_pods():
            known = watched.reports.known
            again = watched.reports.add(report.index, parts, at) or again
            self._pods += watched.reports.known - known
        if again:
            self._look(job, watched, offering, rentals)

    def retain(self, jobs: Container[JobId], rentals: Container[RentalId]) -> None:
        """Drop every job and every slow node other than these."""
        gone = [rental for rental in self.latest.slow_nodes if rental not in rentals]
        if gone:
            self.latest = replace(self.latest, slow_nodes=self.latest.slow_nodes.difference(gone))
        for name in [name for name in self._jobs if name not in jobs]:
            self._pods -= self._jobs.pop(name).reports.known
            self._tell(name, ())

    def _watched(self, job: Job) -> _Watched | None:
        """The stored state of the job's present run. A new run or width begins with an empty state. None if there is no
        room for more.
        """
        allocation, watched = job.allocation, self._jobs.get(job.id)
        if allocation is None:
            return None
        run, pods = allocation.run, len(allocation.placements)
        if watched is not None and (watched.reports.run, watched.reports.pods) == (run, pods):
            return watched
        known = 0 if watched is None else watched.reports.known
        if self._pods - known + pods > self._most_pods:
            if not self._full:
                _log.warning("reports of %d pods are kept; those of %s and others are not", self._pods, job.id)
            self._full = True
            return None
        self._pods -= known
        watched = self._jobs[job.id] = _Watched(RunReports(run, pods), waits=WINDOW)
        self._tell(job.id, ())
        return watched

    def _look(self, job: Job, watched: _Watched, offering: Offering, rentals: Mapping[RentalId, Rental]) -> None:
        watched.waits = _REFRESH_REPORTS
        assert job.allocation is not None
        places = job.allocation.placements
        found = [
            replace(finding, rental=_rental_of(job, finding.pod, rentals)) if finding.pod is not None else finding
            for finding in watched.reports.findings()
        ]
        run = watched.reports.run
        computing = watched.reports.single_pod()
        variant = job.variant(job.allocation.option.variant)
        if computing is not None and variant is not None and variant.class_id.has_profile:
            place = places[0]
            step = Step(variant.class_id, offering.gpu_type, place.gpus, watched.batch)
            self._history.learn(step, place.rental, computing.median)
            ratio = self._history.slowdown(step, place.rental)
            if ratio is not None:
                lost = 1.0 - 1.0 / ratio
                found.append(Bottleneck(BottleneckKind.SLOW_NODE, run, ratio, lost, lost, 0, place.rental))
        seconds = watched.checkpoints.longer_than(job.grace_seconds)
        if seconds is not None:
            found.append(Bottleneck(BottleneckKind.CHECKPOINT_TOO_LONG, run, seconds, 0.0))
        self._tell(job.id, tuple([_rounded(finding) for finding in found]))
        self._doubt(job, found, well=watched.reports.complete)

    def _tell(self, job: JobId, found: tuple[Bottleneck, ...]) -> None:
        if found != self.latest.by_job.get(job, ()):
            by_job = {name: findings for name, findings in self.latest.by_job.items() if name != job}
            self.latest = replace(self.latest, by_job={**by_job, job: found} if found else by_job)

    def _doubt(self, job: Job, found: Iterable[Bottleneck], *, well: bool) -> None:
        """Store which of the run's nodes are slow. ``well``: whether the nodes without a finding are known not to be
        slow.

        If a pod is slow on a second node too, its work is the cause, and no node is.
        """
        assert job.allocation is not None
        slow = {finding.rental for finding in found if finding.kind is BottleneckKind.SLOW_WORKER}
        nodes = {place.rental for place in job.allocation.placements}
        doubted = {rental for rental in nodes & slow if not job.nodes_replaced}
        now = self.latest.slow_nodes.difference(nodes if well else ()) | doubted
        if now != self.latest.slow_nodes:
            self.latest = replace(self.latest, slow_nodes=now)


def _rental_of(job: Job, index: int, rentals: Mapping[RentalId, Rental]) -> RentalId | None:
    """The rental on which the pod runs. The scheduler may place the pods of a run in any order on the run's nodes."""
    run, allocation = job.current_run, job.allocation
    pods = () if run is None else run.pods
    node = next((pod.node for pod in pods if pod.index == index and pod.live and not pod.deleting), None)
    places = () if allocation is None or node is None else allocation.placements
    held = (rentals[place.rental] for place in places if place.rental in rentals)
    return next((rental.id for rental in held if rental.node == node), None)


def _parts(report: ProgressReport) -> StepParts | None:
    """The parts of the pod's steps, or None if the pod does not report its seconds of computing."""
    if not report.compute_seconds:
        return None
    return StepParts(report.compute_seconds, report.sync_seconds or 0.0, report.load_seconds or 0.0)


def _rounded(finding: Bottleneck) -> Bottleneck:
    """The finding with rounded numbers, so that noise is not taken for a new finding."""
    return replace(
        finding,
        value=round(finding.value, 2) if finding.value < 10.0 else round(finding.value),
        lost=round(finding.lost, 2),
        recovered=round(finding.recovered, 2),
    )
