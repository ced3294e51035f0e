"""Writes learned curves to SpeedupProfile.status at a bounded rate. The next operator reads the curves there."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from charterer.api import names
from charterer.api.manifests import EventSubject
from charterer.api.metadata import ObjectMeta, differs_by
from charterer.api.models import learned_record
from charterer.api.models.base import dump
from charterer.api.models.machine_state import packed
from charterer.api.models.speedupprofile import SpeedupProfileRecord
from charterer.cluster import kinds
from charterer.cluster.client import Client
from charterer.cluster.errors import AlreadyExists, ApiError, NotFound, Withheld
from charterer.cluster.events import Recorder
from charterer.cluster.kinds import status_apply
from charterer.cluster.store import ObjectKey, Store
from charterer.controller.learning.report_collector import ReportCollector
from charterer.controller.surveys import Backoff
from charterer.domain.errors import InvalidObject
from charterer.domain.ids import ClassId
from charterer.domain.job import Job, Variant, Widths
from charterer.domain.profile import SpeedCurve, ThroughputTable
from charterer.domain.snapshot import Snapshot
from charterer.estimate.curves import with_declared
from charterer.estimate.learned import MOST_WIDTHS, Learned, curve_widths, plannable_widths
from charterer.estimate.learner import Learner
from charterer.gpu_types import may_use, slice_profile
from charterer.policy.options.sources import offered_widths
from charterer.policy.options.speeds import throughput

# Pure functions that make the profile of a class as it should be written now, with its widths and their speeds.


def digest(learner: Learner, class_id: ClassId, snapshot: Snapshot) -> Learned | None:
    """The class's profile, or None if the class has no unfinished job to show which widths matter."""
    jobs = [job for job in snapshot.jobs.values() if class_id in job.classes and job.finish is None]
    if not jobs:
        return None
    asked = [each for job in jobs for each in job.ways if each.class_id == class_id]
    profile = snapshot.profiles.get(class_id)
    declared = () if profile is None else profile.declared
    ran = learner.widths_run(class_id)
    nodes = _nodes(jobs, snapshot)
    for gpu_type, size in nodes.items():
        learner.set_node_gpus(gpu_type, size)
    types = tuple(sorted(nodes.keys() | ran.keys()))
    widths = _widths(asked, nodes, snapshot, ran.values(), declared)
    if not widths or not types:
        return None
    learned = _without_wide_slices(learner.profile(class_id, widths, types))
    if declared:
        learned = with_declared(learned, lambda gpu_type, gpus: _declared(declared, gpu_type, gpus))
    learned = plannable_widths(learned, ran, {curve.gpu_type for curve in declared})
    return replace(learned, reports=learner.state(class_id).reports)


def _without_wide_slices(learned: Learned) -> Learned:
    """The curves without widths that no job can have. A job has at most one slice."""
    phases = [
        replace(
            phase,
            entries=tuple([entry for entry in phase.entries if entry.gpus == 1 or not slice_profile(entry.gpu_type)]),
        )
        for phase in learned.learned_phases
    ]
    return replace(learned, learned_phases=tuple(phases))


def _nodes(jobs: Iterable[Job], snapshot: Snapshot) -> dict[str, int]:
    """GPUs of the largest node by GPU type, of the types that the class's jobs may use and a pool offers."""
    wanted = [(frozenset(job.gpu_types), way.slices, way.shared_mib) for job in jobs for way in job.ways]
    largest: dict[str, int] = {}
    for pool in snapshot.pools.values():
        offering = pool.offering
        if offering is not None and any(may_use(offering.gpu_type, *choice) for choice in wanted):
            largest[offering.gpu_type] = max(largest.get(offering.gpu_type, 1), offering.gpus_per_node)
    return largest


def _range(asked: Sequence[Variant]) -> Widths:
    return Widths(min(each.least for each in asked), asked[0].preferred, max(each.most for each in asked))


def _widths(
    asked: Sequence[Variant],
    nodes: dict[str, int],
    snapshot: Snapshot,
    ran: Iterable[Sequence[int]],
    declared: Sequence[SpeedCurve],
) -> list[int]:
    """The widths at which a curve gets points: widths that pools offer, widths that have run, and declared widths."""
    most = max((pool.max_nodes for pool in snapshot.pools.values()), default=1)
    between = _range(asked)
    points = {gpus for widths in ran for gpus in widths}
    for gpu_type, size in nodes.items():
        points |= set(curve_widths(offered_widths(gpu_type, size, between, most), size))
    points |= {each.preferred for each in asked}
    points |= {gpus for curve in declared if isinstance(curve.form, ThroughputTable) for gpus, _ in curve.form.points}
    return sorted(points)[:MOST_WIDTHS]


def _declared(curves: Iterable[SpeedCurve], gpu_type: str, gpus: int) -> float | None:
    form = next((curve.form for curve in curves if curve.gpu_type == gpu_type), None)
    return None if form is None else throughput(form, gpus)


_log = logging.getLogger(__name__)

_KIND = kinds.SPEEDUP_PROFILES
_LABELS = {"app.kubernetes.io/managed-by": "charterer", names.LABEL_LEARNED: "true"}


@dataclass(frozen=True, slots=True)
class WriteIntervals:
    """Intervals in seconds.

    ``poll``: between two passes over all classes. ``digest``: between two computations of one class's profile, if the
    class ran on no new width. Each computation takes some ten milliseconds. ``sources``: between two writes of one
    profile, if the origin of a number changed. ``drift``: between two writes, if only numbers moved. ``reports``:
    between two writes, if only the count of reports grew. ``retry``: until the first attempt after a failure. Each
    further failure doubles the pause, up to ``last_retry``.
    """

    poll: float = 5.0
    digest: float = 30.0
    sources: float = 10.0
    drift: float = 60.0
    reports: float = 600.0
    retry: float = 30.0
    last_retry: float = 3600.0


_LEAST_CHANGE = 0.02
"""Smallest relative change of a number that is written. Even the best numbers are not known more exactly than that."""
_COUNTS = frozenset({"reports"})
"""Fields that grow with every report."""


@dataclass(frozen=True, slots=True)
class _WrittenProfile:
    status: Mapping[str, Any]
    at: float


@dataclass(frozen=True, slots=True)
class _DigestedClass:
    ran: Mapping[str, tuple[int, ...]]
    at: float


class ProfileWriter:
    """Writes what the collector has learned. Also creates each profile that a job names and that does not exist."""

    def __init__(
        self,
        collector: ReportCollector,
        client: Client,
        store: Store,
        recorder: Recorder,
        intervals: WriteIntervals | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collector = collector
        self._client = client
        self._store = store
        self._recorder = recorder
        self._intervals = intervals or WriteIntervals()
        self._clock = clock
        self._written: dict[ClassId, _WrittenProfile] = {}
        self._backoff: Backoff[ClassId] = Backoff(clock, self._intervals.retry)
        self._digested: dict[ClassId, _DigestedClass] = {}

    async def restore(self) -> None:
        """Read the learned part of all profiles. A profile that cannot be read is ignored, which a log line and an
        Event report.

        Raises ApiError if the profiles cannot be listed.
        """
        listing = await self._client.list(_KIND.resource.all())
        for raw in listing.items:
            if "learned" in (raw.get("status") or {}):
                self._restore(raw)

    def _restore(self, raw: Mapping[str, Any]) -> None:
        meta = ObjectMeta.of(_KIND.name, raw)
        class_id = ClassId(meta.namespace, meta.name)
        try:
            record = meta.read(SpeedupProfileRecord, "status", raw)
            statistics = record.statistics()
            if record.learned is None or statistics is None:
                raise ValueError("status.machineState: it is missing")
            self._collector.restore(class_id, meta.uid, record.learned, statistics)
        except InvalidObject as error:
            self._ignored(meta, f"{error.problem.field}: {error.problem.message}")
        except ValueError as error:
            self._ignored(meta, str(error))
        else:
            self._written[class_id] = _WrittenProfile(raw["status"]["learned"], self._clock())

    def _ignored(self, meta: ObjectMeta, why: str) -> None:
        note = f"what was learned is ignored and learned anew, because its status cannot be read: {why}"
        _log.warning("%s %s/%s: %s", _KIND.name, meta.namespace, meta.name, note)
        subject = EventSubject(names.API_VERSION, _KIND.name, meta.namespace, meta.name, meta.uid)
        self._recorder.record(subject, "LearnedUnreadable", note, action="Recall", warning=True)

    async def run(self) -> None:
        """Write what is due every ``poll`` seconds, forever."""
        while True:
            await asyncio.sleep(self._intervals.poll)
            snapshot = self._collector.last()
            if snapshot is not None:
                await self.write_due(snapshot)

    async def write_due(self, snapshot: Snapshot) -> None:
        """Learn from jobs that ended, and write every profile that is due."""
        self._collector.retain(snapshot.jobs.keys(), snapshot.rentals.keys())
        self._collector.expect_runs(snapshot)
        self._collector.learn_models(snapshot)
        self._collector.learn_sizes(snapshot)
        self._collector.learn_failures(snapshot)
        self._backoff.retain(self._collector.classes.keys())
        named = {class_id for job in snapshot.jobs.values() for class_id in job.classes}
        for class_id in list(self._collector.classes):
            if self._backoff.pausing(class_id) or self._gone(class_id, named):
                continue
            await asyncio.sleep(0)  # the loop and the progress endpoint wait for the work on one class at most
            try:
                await self._update(class_id, snapshot)
                self._backoff.succeeded(class_id)
            except Withheld:
                self._backoff.failed(class_id, self._intervals.last_retry)
            except ApiError as error:
                _log.warning("what was learned of %s is not written, again soon: %s", class_id, error)
                self._backoff.failed(class_id, self._intervals.last_retry)
            except Exception:
                _log.exception("what was learned of %s cannot be told; please report it", class_id)
                self._backoff.failed(class_id, self._intervals.last_retry)

    def _gone(self, class_id: ClassId, named: Container[ClassId]) -> bool:
        """Drop what was learned of a class whose profile was deleted, and return whether the class was dropped.

        A class without a profile is dropped once no job names it, since it would use memory for ever. ``named``: the
        classes of all jobs.
        """
        uid = self._collector.classes[class_id].uid
        if class_id in named if uid is None else self._store.uid(_KIND, _key(class_id)) == uid:
            return False
        why = "no job names it any more" if uid is None else "it was deleted"
        _log.info("what was learned of SpeedupProfile %s is forgotten: %s", class_id, why)
        self._collector.forget(class_id)
        self._written.pop(class_id, None)
        self._digested.pop(class_id, None)
        return True

    async def _update(self, class_id: ClassId, snapshot: Snapshot) -> None:
        learning, written = self._collector.classes[class_id], self._written.get(class_id)
        overwritten = self._overwritten(class_id, written)
        if not overwritten and not (learning.changed and self._digest_due(class_id)):
            return
        learned = digest(self._collector.learner, class_id, snapshot)
        if learned is not None:
            curves: Mapping[str, Any] = dump(learned_record.curves_record(learned))
        elif written is not None:
            curves = {key: written.status[key] for key in ("reports", "phases") if key in written.status}
        else:
            return
        state = self._collector.learner.state(class_id)
        record = learned_record.class_record(state, learning.failed.values(), learning.durations)
        status = {**curves, **dump(record)}
        if overwritten or self._due(status, written):
            await self._write(class_id, status)
        elif written is not None and _significant_fields(status) != _significant_fields(written.status):
            self._digested.pop(class_id, None)  # the profile has changed, but the last write was too recent

    def _digest_due(self, class_id: ClassId) -> bool:
        """Whether the class ran on a new width, or its last digest is old."""
        ran, last = self._collector.learner.widths_run(class_id), self._digested.get(class_id)
        if last is not None and last.ran == ran and self._clock() - last.at < self._intervals.digest:
            return False
        self._digested[class_id] = _DigestedClass(ran, self._clock())
        return True

    def _overwritten(self, class_id: ClassId, written: _WrittenProfile | None) -> bool:
        """Whether somebody changed the status that was written, so that plans can no longer use it."""
        key = _key(class_id)
        held = self._store.get(_KIND, key.name, key.namespace)
        if held is None or written is None:
            return False
        usable = all(phase.get("widths") for phase in written.status.get("phases", ()))
        return bool(held.unreadable) or (usable and held.reports != written.status.get("reports"))

    def _due(self, status: Mapping[str, Any], written: _WrittenProfile | None) -> bool:
        if written is None:
            return True
        age = self._clock() - written.at
        if age >= self._intervals.sources and _significant_fields(status) != _significant_fields(written.status):
            return True
        if age >= self._intervals.drift and any(
            differs_by(_LEAST_CHANGE, status.get(numbers), written.status.get(numbers), _COUNTS)
            for numbers in ("phases", "pairs")
        ):
            return True
        return age >= self._intervals.reports

    async def _write(self, class_id: ClassId, status: Mapping[str, Any]) -> None:
        """Create the profile if there is none, and write its status. If another object has its name by now, nothing is
        written.
        """
        learning, key = self._collector.classes[class_id], _key(class_id)
        learning.changed = False
        try:
            if learning.uid is None:
                learning.uid = await self._uid(key)
            raw = await self._client.get(_KIND.resource.one(key.name, key.namespace))
            if raw["metadata"]["uid"] != learning.uid:
                return
            state = self._collector.learner.state(class_id)
            machine_state, _ = packed(learned_record.class_statistics(state, learning.through))
            record = {"learned": status, **({} if machine_state is None else {"machineState": dump(machine_state)})}
            body = status_apply(_KIND, key, raw["metadata"]["resourceVersion"], record)
            path = _KIND.resource.status(key.name, key.namespace)
            self._store.put(_KIND, await self._client.apply(path, body, names.MANAGER_RECORD))
        except ApiError:
            learning.changed = True
            raise
        self._written[class_id] = _WrittenProfile(status, self._clock())

    async def _uid(self, key: ObjectKey) -> str:
        """The uid of the profile of that name. If the profile does not exist, it is created."""
        path = _KIND.resource.one(key.name, key.namespace)
        try:
            raw = await self._client.get(path)
        except NotFound:
            metadata = {"name": key.name, "namespace": key.namespace, "labels": _LABELS}
            body = {"apiVersion": names.API_VERSION, "kind": _KIND.name, "metadata": metadata, "spec": {}}
            try:
                raw = await self._client.post(_KIND.resource.all(key.namespace), body)
            except AlreadyExists:
                raw = await self._client.get(path)
        self._store.put(_KIND, raw)
        uid: str = raw["metadata"]["uid"]
        return uid


def _key(class_id: ClassId) -> ObjectKey:
    return ObjectKey(*class_id)


def _significant_fields(status: Mapping[str, Any]) -> object:
    """The parts of the status that are not measured numbers: batch sizes, the source of each width, the failed widths
    and the pairs.
    """
    widths = [
        [(width["gpuType"], width["gpus"], width["source"]) for width in phase.get("widths", ())]
        for phase in status.get("phases", ())
    ]
    failed = [(width["gpuType"], width["gpus"], width["failures"]) for width in status.get("failed", ())]
    pairs = sorted([(pair["gpuType"], pair["beside"]) for pair in status.get("pairs", ())])
    return status["batch"], widths, failed, pairs
