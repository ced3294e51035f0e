"""Hears the reports of running jobs, keeps the learner, and says which batch size a job should use now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from charterer.api.models import learned_record
from charterer.api.models.learned import MOST_FAILED, LearnedStatus
from charterer.controller.snapshot.job_work import total_work
from charterer.domain.ids import ClassId, JobId
from charterer.domain.job import FinishKind, Job, RunOutcome, RunRecord
from charterer.domain.pool import Offering
from charterer.domain.profile import FAILURES_KEPT_SECONDS, FailedWidth, Profile
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after, seconds_between
from charterer.estimate.learner import Learner
from charterer.estimate.noise import BINS
from charterer.estimate.observation import ClassTerms, Observation
from charterer.policy.jobs.predicates import settled
from charterer.policy.options.speedup import reference_throughput
from charterer.server.progress import ProgressReport

_log = logging.getLogger(__name__)

MODEL_MISFIT = 0.1
"""How far true curves lie off concave ones (``Learner``): two nodes are often slower than one."""
MOST_CLASSES = 2_000
"""Classes learned of at the same time: tenants name them, and each takes memory and a place in the others' priors."""
_WORTH_CHANGING = 1.1
"""A job is told another batch size from this ratio on, just below a step of those tried: nearer ones are as good."""

_AGAIN_SECONDS = 30.0
"""Batch sizes are worked out anew so often: thousands of jobs report every ten seconds, and a fit takes a while."""


@dataclass(slots=True)
class ClassLearning:
    """What is kept of a class beside its statistics.

    ``uid``: of the SpeedupProfile that remembers it, None before there is one. ``through``: jobs that finished up to
    then are in the sizes. ``news``: whether something was learned since it was last written down. ``best``: batch sizes
    worked out since ``worked_out``, by GPU type, width and bin of progress. ``failed``: widths on which runs failed, by
    GPU type and width.
    """

    uid: str | None = None
    through: Instant | None = None
    news: bool = True
    best: dict[tuple[str, int, int], int] = field(default_factory=dict)
    worked_out: Instant | None = None
    failed: dict[tuple[str, int], FailedWidth] = field(default_factory=dict)


@dataclass(slots=True)
class _Window:
    """What the last report of a job was of: the steps until the next one are timed only if nothing changed between."""

    run: int
    gpus: int


@dataclass(slots=True)
class ReportCollector:
    """``server.counsel.Counsel`` over the last snapshot. For one thread."""

    last: Callable[[], Snapshot | None]
    learner: Learner = field(default_factory=lambda: Learner([], model_misfit=MODEL_MISFIT))
    classes: dict[ClassId, ClassLearning] = field(default_factory=dict)
    _windows: dict[JobId, _Window] = field(default_factory=dict)
    _full: bool = False

    def recall(self, class_id: ClassId, uid: str, status: LearnedStatus) -> None:
        """Take what a SpeedupProfile remembers. ValueError naming the field that cannot be."""
        self.learner.restore(learned_record.state(class_id, status))
        failed = {(one.gpu_type, one.gpus): one for one in learned_record.failed_widths(status)}
        self.classes[class_id] = ClassLearning(uid, status.sizes.through, news=False, failed=failed)

    def forget(self, class_id: ClassId) -> None:
        """The class's profile was deleted: so is what was learned of it."""
        self.learner.forget(class_id)
        self.classes.pop(class_id, None)

    def hear(self, job: JobId, run: int, report: ProgressReport, at: Instant) -> int | None:
        """Learn from a report, and say the batch size to use from now on; None where the job should keep its own."""
        snapshot = self.last()
        known = None if snapshot is None else snapshot.jobs.get(job)
        if snapshot is None or known is None or not known.class_id.has_profile:
            return None
        offering = _offering(known, run, snapshot)
        if offering is None or known.allocation is None:
            return None
        profile = snapshot.profiles.get(known.class_id)
        if report.index == 0 and settled(known):
            self._learn(known, profile, offering, report, at)
        return self._batch(known, profile, offering, report, at)

    def finished(self, snapshot: Snapshot) -> None:
        """Learn the sizes of jobs that have ended since; each counts once, by when it ended."""
        for job in sorted(snapshot.jobs.values(), key=_ended):
            taught = self.classes.get(job.class_id)
            profile = snapshot.profiles.get(job.class_id)
            if taught is None or profile is None or not profile.reports or job.finish is None:
                continue
            if job.finish.kind is not FinishKind.COMPLETE or job.finish.at <= (taught.through or 0):
                continue
            reference = reference_throughput(profile)
            work = total_work(job, profile, snapshot.pools, 1.0, job.finish.at)
            taught.through = job.finish.at
            if work and reference:
                self.learner.completed(job.class_id, work * reference)
                taught.news = True

    def failed(self, snapshot: Snapshot) -> None:
        """Learn on which widths runs failed that were never measured: each run counts once, by when it ended.

        A width that has been measured since works, and after a month what was is forgotten.
        """
        oldest = after(snapshot.now, -FAILURES_KEPT_SECONDS)
        for job in snapshot.jobs.values():
            taught = self.classes.get(job.class_id)
            if taught is None:
                continue
            for record in job.records:
                if record.outcome is RunOutcome.FAILED and record.until > oldest:
                    self._count(taught, job.class_id, record, snapshot)
        for class_id, taught in self.classes.items():
            seen = self.learner.seen(class_id) if taught.failed else {}
            over = [
                key for key, one in taught.failed.items() if one.at <= oldest or one.gpus in seen.get(one.gpu_type, ())
            ]
            for key in over:
                del taught.failed[key]
            taught.news = taught.news or bool(over)

    def _count(self, taught: ClassLearning, class_id: ClassId, record: RunRecord, snapshot: Snapshot) -> None:
        pool = snapshot.pools.get(record.option.pool)
        if pool is None or pool.offering is None:
            return
        key = pool.offering.gpu_type, record.option.gpus
        known = taught.failed.get(key)
        if key[1] in self.learner.seen(class_id).get(key[0], ()) or (known is not None and record.until <= known.at):
            return
        if known is None and len(taught.failed) >= MOST_FAILED:
            return
        failures = 1 if known is None else known.failures + 1
        taught.failed[key] = FailedWidth(*key, failures, record.until, record.message)
        taught.news = True
        _log.info("class %s: a run failed on %d GPUs of %s: %s", class_id, key[1], key[0], record.message)

    def retain(self, jobs: Iterable[JobId]) -> None:
        """Forget what was heard of every job that is not among ``jobs``."""
        for gone in self._windows.keys() - set(jobs):
            del self._windows[gone]

    def _learn(
        self, job: Job, profile: Profile | None, offering: Offering, report: ProgressReport, at: Instant
    ) -> None:
        allocation, seconds = job.allocation, report.seconds_per_step
        if allocation is None or report.batch is None or seconds is None:
            return
        window = _Window(allocation.run, allocation.option.gpus)
        before, self._windows[job.id] = self._windows.get(job.id), window
        if before != window:
            return
        if not self._declared(job.class_id, profile, report.batch):
            return
        known = report.done is not None
        observed = Observation(
            class_id=job.class_id,
            gpu_type=offering.gpu_type,
            nodes=len(allocation.placements),
            gpus=allocation.option.gpus,
            batch=report.batch,
            step_seconds=seconds,
            fraction=report.done or 0.0,
            at=at,
            grad_sqr=report.grad_sqr if known else None,
            grad_var=report.grad_var if known else None,
        )
        try:
            self.learner.report(observed)
        except ValueError as error:
            _log.info("report of %s/%s not learned from: %s", job.namespace, job.name, error)
        else:
            self.classes[job.class_id].news = True

    def _declared(self, class_id: ClassId, profile: Profile | None, batch: int) -> bool:
        """Whether the class is learned of, under the terms that it has now."""
        if class_id not in self.classes and len(self.classes) >= MOST_CLASSES:
            if not self._full:
                _log.warning("%s classes are learned of; %s and others are not", MOST_CLASSES, class_id)
            self._full = True
            return False
        before = self.learner.declared(class_id)
        terms = _terms(class_id, profile, before, batch)
        if before is not None and before != terms:
            _log.info("class %s has other batch sizes now (%s): it is learned anew", class_id, terms)
        self.learner.declare(terms)
        taught = self.classes.setdefault(class_id, ClassLearning())
        if before != terms:
            taught.worked_out = None
        return True

    def _best(self, class_id: ClassId, gpu_type: str, gpus: int, done: float, at: Instant) -> int:
        """The best batch size there, as worked out a moment ago if it was."""
        taught = self.classes[class_id]
        if taught.worked_out is None or not 0.0 <= seconds_between(taught.worked_out, at) < _AGAIN_SECONDS:
            taught.worked_out = at
            taught.best.clear()
        key = (gpu_type, gpus, int(done * BINS))
        if key not in taught.best:
            taught.best[key] = self.learner.batch(class_id, gpu_type, gpus, done)
        return taught.best[key]

    def _batch(
        self, job: Job, profile: Profile | None, offering: Offering, report: ProgressReport, at: Instant
    ) -> int | None:
        """The best batch size just now; the reported one where that is as good. None before gradients were heard of."""
        if profile is None or profile.batch is None or job.allocation is None:
            return None
        declared = learned_record.terms(job.class_id, profile.batch)
        if self.learner.declared(job.class_id) != declared or not self.learner.state(job.class_id).noise.reports:
            return None
        best = self._best(job.class_id, offering.gpu_type, job.allocation.option.gpus, report.done or 0.0, at)
        if report.batch is not None and 1.0 / _WORTH_CHANGING < best / report.batch < _WORTH_CHANGING:
            return min(report.batch, declared.largest_batch)
        return best


def _terms(class_id: ClassId, profile: Profile | None, before: ClassTerms | None, batch: int) -> ClassTerms:
    """What the spec declares; else the one batch size that was reported first."""
    if profile is not None and profile.batch is not None:
        return learned_record.terms(class_id, profile.batch)
    own = batch if before is None else before.own_batch
    return ClassTerms(class_id, own, own, own)


def _offering(job: Job, run: int, snapshot: Snapshot) -> Offering | None:
    """What the job's present run is on; None while another run speaks or nothing is known of its pool."""
    if job.allocation is None or job.allocation.run != run:
        return None
    pool = snapshot.pools.get(job.allocation.option.pool)
    return None if pool is None else pool.offering


def _ended(job: Job) -> int:
    return 0 if job.finish is None else job.finish.at
