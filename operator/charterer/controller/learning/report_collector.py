"""Collects the reports of running jobs, feeds them to the learner, and advises each job on its batch size."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from charterer.api.models import learned_record
from charterer.api.models.learned import MOST_FAILED, ClassStatistics, LearnedStatus
from charterer.controller.learning.bottleneck_watch import BottleneckWatch
from charterer.controller.snapshot.jobs import total_work
from charterer.domain.ids import ClassId, JobId, RentalId
from charterer.domain.job import FinishKind, Job, RunOutcome, RunRecord
from charterer.domain.pool import Offering
from charterer.domain.profile import FAILURES_KEPT_SECONDS, BatchTerms, FailedWidth, Profile
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after, seconds_between
from charterer.estimate.learner import Learner, learn_pair
from charterer.estimate.noise import BINS
from charterer.estimate.observation import Observation
from charterer.gpu_types import whole_type
from charterer.policy.options.speeds import reference_throughput
from charterer.server.progress import ProgressReport

# Which GPU type a report measures if jobs share GPUs, and the class of the job on the same GPU.


@dataclass(slots=True)
class JobsOnNodes:
    """The jobs on each node that share GPUs, computed once a snapshot."""

    _of: Snapshot | None = None
    _jobs: dict[RentalId, list[Job]] = field(default_factory=dict)

    def measured_type(self, job: Job, offering: Offering, snapshot: Snapshot) -> str:
        """The GPU type whose speed the job's report measures, or "" if unknown.

        A job that shares GPUs and is alone on its node is as fast as on a whole GPU, so its report measures the whole
        GPU. A report from a full node measures a place on a shared GPU. A report from a partly full node measures
        neither, because nobody knows which jobs share a GPU there.
        """
        if job.allocation is None or not job.allocation.option.shares_gpu:
            return offering.gpu_type
        jobs = len(self._beside(job, snapshot)) + 1
        if jobs <= 1:
            return whole_type(offering.gpu_type)
        return offering.gpu_type if jobs >= offering.gpus_per_node else ""

    def partner(self, job: Job, offering: Offering, snapshot: Snapshot) -> ClassId | None:
        """The class of the one other job that trains on the job's GPU, or None if unknown.

        It is unknown if the node has several GPUs, because nobody knows which job is on which GPU. It is also unknown
        if the other job's present run has not reported yet: that job may still be starting, and does not slow this job
        down.
        """
        if job.allocation is None or not job.allocation.option.shares_gpu or offering.gpus_per_node != 2:
            return None
        others = self._beside(job, snapshot)
        if len(others) != 1 or offering.slices_per_gpu != 2:
            return None
        other, run = others[0], others[0].allocation
        variant = None if run is None else other.variant(run.option.variant)
        trains = run is not None and other.progress is not None and other.progress.run == run.run
        return variant.class_id if variant is not None and trains and variant.class_id.has_profile else None

    def _beside(self, job: Job, snapshot: Snapshot) -> list[Job]:
        """The other jobs on the job's node that share its GPUs."""
        if snapshot is not self._of:
            self._of, self._jobs = snapshot, _by_node(snapshot)
        assert job.allocation is not None
        there = self._jobs.get(job.allocation.placements[0].rental, ())
        return [other for other in there if other.id != job.id]


def _by_node(snapshot: Snapshot) -> dict[RentalId, list[Job]]:
    """The jobs that share GPUs and whose pods run, by node."""
    found: dict[RentalId, list[Job]] = {}
    for job in snapshot.jobs.values():
        if job.allocation is not None and job.allocation.option.shares_gpu and job.has_all_pods():
            found.setdefault(job.allocation.placements[0].rental, []).append(job)
    return found


_log = logging.getLogger(__name__)

MODEL_MISFIT = 0.1
"""How far true curves are expected to be from concave ones, as a standard deviation (see ``Learner``). Two nodes are
often slower than one, which no concave curve allows.
"""
MOST_CLASSES = 2_000
"""Most classes learned at the same time. Tenants choose the names of classes, and each class uses memory and influences
the priors of other classes.
"""
_WORTH_CHANGING = 1.1
"""Smallest ratio of the best batch size to the present one at which a job is advised to change. The value is just below
the ratio of two neighbouring candidates.
"""
_SMOOTHING = 0.05
_CHANGE_SMOOTHING = 0.25
_LONGEST_RESTART_SECONDS = 3600.0
"""Longest restart, in seconds, that is learned. A first report that comes later shows how long the first step took, and
not how long the start took.
"""
_ADVICE_SECONDS = 30.0
"""Seconds for which a best batch size is reused. Thousands of jobs report every ten seconds, and a fit is slow."""


@dataclass(slots=True)
class ClassLearning:
    """What is stored of a class beside its statistics.

    ``uid``: of the SpeedupProfile that stores the class, or None before there is one. ``through``: the jobs that
    finished up to this time are counted in the class's mean work. ``changed``: whether something was learned since the
    last write. ``best``: batch sizes computed since ``best_since``, by GPU type, width and bin of progress. ``failed``:
    widths on which runs failed, by GPU type and width. ``durations``: of checkpoints, restarts and changes in place.
    """

    uid: str | None = None
    through: Instant | None = None
    changed: bool = True
    best: dict[tuple[str, int, int], int] = field(default_factory=dict)
    best_since: Instant | None = None
    failed: dict[tuple[str, int], FailedWidth] = field(default_factory=dict)
    durations: learned_record.Durations = field(default_factory=learned_record.Durations)


@dataclass(slots=True)
class _Window:
    """Run, width, GPU type and partner's class at a job's last report. The next report counts only if all are
    unchanged.
    """

    run: int
    gpus: int
    gpu_type: str
    beside: ClassId | None


@dataclass(slots=True)
class ReportCollector:
    """The ``server.http.BatchAdvisor`` of the last snapshot, for use in one thread.

    ``last``: returns the last snapshot, or None before the first. ``most_classes``: most classes that are learned.
    ``watch``: gets every report of a present run.
    """

    last: Callable[[], Snapshot | None]
    most_classes: int = MOST_CLASSES
    learner: Learner = field(default_factory=lambda: Learner({}, model_misfit=MODEL_MISFIT))
    classes: dict[ClassId, ClassLearning] = field(default_factory=dict)
    watch: BottleneckWatch = field(default_factory=BottleneckWatch)
    _windows: dict[JobId, _Window] = field(default_factory=dict)
    _begun: dict[JobId, int] = field(default_factory=dict)
    _full: bool = False
    _jobs_on_nodes: JobsOnNodes = field(default_factory=JobsOnNodes)

    def restore(self, class_id: ClassId, uid: str, learned: LearnedStatus, statistics: ClassStatistics) -> None:
        """Load the learned part of a SpeedupProfile. Raises ValueError, which names the invalid field."""
        self.learner.restore(learned_record.class_state(class_id, learned, statistics))
        failed = {(width.gpu_type, width.gpus): width.to_domain() for width in learned.failed}
        self.classes[class_id] = ClassLearning(
            uid,
            statistics.sizes_through,
            changed=False,
            failed=failed,
            durations=learned_record.Durations(
                learned.checkpoint_seconds, learned.restart_seconds, learned.resize_seconds
            ),
        )

    def forget(self, class_id: ClassId) -> None:
        """Drop what was learned of a class whose profile was deleted."""
        self.learner.forget(class_id)
        self.classes.pop(class_id, None)

    def handle_report(self, job_id: JobId, run: int, report: ProgressReport, at: Instant) -> int | None:
        """Learn from a report. Returns the batch size to use from now on, or None if the job should keep its own."""
        snapshot = self.last()
        job = None if snapshot is None else snapshot.jobs.get(job_id)
        if snapshot is None or job is None:
            return None
        offering = _offering(job, run, snapshot)
        if offering is None:
            return None
        self.watch.handle_report(job, offering, snapshot.rentals, report, at)
        class_id = _class_of_run(job)
        if class_id is None or not class_id.has_profile:
            return None
        profile = snapshot.profiles.get(class_id)
        if report.index == 0 and job.has_all_pods() and _of_its_width(job, report):
            gpu_type = self._jobs_on_nodes.measured_type(job, offering, snapshot)
            beside = self._jobs_on_nodes.partner(job, offering, snapshot)
            self._learn(job, class_id, profile, gpu_type, beside, report, at)
        if report.index == 0:
            self._learn_changes(job, class_id, report, at)
        return self._advice(job, class_id, profile, offering, report, at)

    def learn_models(self, snapshot: Snapshot) -> None:
        """Read what the owners of the learned classes say of their models. The description of a class without running
        jobs is read too, because it improves the priors of other classes.
        """
        for class_id in self.classes:
            if (profile := snapshot.profiles.get(class_id)) is not None:
                self.learner.describe(class_id, profile.model)

    def expect_runs(self, snapshot: Snapshot) -> None:
        """Give a prior to the classes of unfinished jobs whose profiles declare batch sizes and no curve."""
        wanted = [class_id for job in snapshot.jobs.values() if job.finish is None for class_id in job.classes]
        for class_id in wanted:
            profile = snapshot.profiles.get(class_id)
            if profile is None or profile.batch is None or profile.declared:
                continue
            if class_id not in self.classes:
                self._declare(class_id, profile, profile.batch.own)

    def learn_sizes(self, snapshot: Snapshot) -> None:
        """Learn the mean work of classes from the jobs that have ended since the last call. Each job counts once, by
        the time of its end.

        Kubernetes reports whole seconds, so several jobs may have ended at the same time.
        """
        before = {class_id: learning.through for class_id, learning in self.classes.items()}
        for job in sorted(snapshot.jobs.values(), key=_ended):
            learning = self.classes.get(job.class_id)
            profile = snapshot.profiles.get(job.class_id)
            if learning is None or profile is None or not profile.reports or job.finish is None:
                continue
            if job.finish.kind is not FinishKind.COMPLETE or job.finish.at <= (before[job.class_id] or 0):
                continue
            reference = reference_throughput(profile)
            profiles = [snapshot.profiles.get(class_id) for class_id in job.classes]
            work = total_work(job, profiles, snapshot.gpu_types, 1.0, job.finish.at)
            learning.through = job.finish.at
            if work and reference:
                self.learner.completed(job.class_id, work * reference)
                learning.changed = True

    def learn_failures(self, snapshot: Snapshot) -> None:
        """Learn on which widths runs failed before the speed there was measured. Each run counts once, by the time of
        its end.

        Once a width has been measured, it works, so its failures are dropped. All failures are dropped after a month.
        """
        oldest = after(snapshot.now, -FAILURES_KEPT_SECONDS)
        failed = [
            (job, record)
            for job in snapshot.jobs.values()
            for record in job.records
            if record.outcome is RunOutcome.FAILED and record.until > oldest
        ]
        for job, record in sorted(failed, key=lambda entry: entry[1].until):
            variant = job.variant(record.option.variant)
            if variant is None:
                continue
            if variant.class_id not in self.classes and (like := self.learner.declared(job.class_id)) is not None:
                self._declare(variant.class_id, snapshot.profiles.get(variant.class_id), like.own)
            if (learning := self.classes.get(variant.class_id)) is not None:
                self._count(learning, variant.class_id, record, snapshot)
        for class_id, learning in self.classes.items():
            ran = self.learner.widths_run(class_id) if learning.failed else {}
            over = [
                key
                for key, width in learning.failed.items()
                if width.at <= oldest or width.gpus in ran.get(width.gpu_type, ())
            ]
            for key in over:
                del learning.failed[key]
            learning.changed = learning.changed or bool(over)

    def _count(self, learning: ClassLearning, class_id: ClassId, record: RunRecord, snapshot: Snapshot) -> None:
        pool = snapshot.pools.get(record.option.pool)
        if pool is None or pool.offering is None:
            return
        key = pool.offering.gpu_type, record.option.gpus
        last = learning.failed.get(key)
        measured = key[1] in self.learner.widths_run(class_id).get(key[0], ())
        if measured or (last is not None and record.until <= last.at):
            return
        if last is None and len(learning.failed) >= MOST_FAILED:
            return
        failures = 1 if last is None else last.failures + 1
        learning.failed[key] = FailedWidth(*key, failures, record.until, record.message)
        learning.changed = True
        _log.info("class %s: a run failed on %d GPUs of %s: %s", class_id, key[1], key[0], record.message)

    def retain(self, jobs: Collection[JobId], rentals: Collection[RentalId]) -> None:
        """Drop the last report of every job other than ``jobs``, and the nodes other than ``rentals``."""
        self.watch.retain(jobs, rentals)
        kept = set(jobs)
        for of_jobs in (self._windows, self._begun):
            for job_id in of_jobs.keys() - kept:
                del of_jobs[job_id]

    def _learn(
        self,
        job: Job,
        class_id: ClassId,
        profile: Profile | None,
        gpu_type: str,
        beside: ClassId | None,
        report: ProgressReport,
        at: Instant,
    ) -> None:
        """Learn the speed. ``gpu_type``: the type that the report measures, empty if none. ``beside``: the partner's
        class.
        """
        allocation, seconds = job.trains_on, report.seconds_per_step
        if allocation is None or report.batch is None or seconds is None:
            return
        window = _Window(allocation.run, allocation.option.gpus, gpu_type, beside)
        before, self._windows[job.id] = self._windows.get(job.id), window
        if before != window or not gpu_type:
            return
        if not self._declare(class_id, profile, report.batch):
            return
        has_progress = report.done is not None
        observed = Observation(
            class_id=class_id,
            gpu_type=gpu_type,
            nodes=len(allocation.placements),
            gpus=allocation.option.gpus,
            batch=report.batch,
            step_seconds=seconds,
            fraction=report.done or 0.0,
            at=at,
            grad_sqr=report.grad_sqr if has_progress else None,
            grad_var=report.grad_var if has_progress else None,
        )
        try:
            self.learner.report(observed)
        except ValueError as error:
            _log.info("report of %s/%s not learned from: %s", job.namespace, job.name, error)
        else:
            if beside is not None:
                learn_pair(self.learner, observed, beside)
            learning = self.classes[class_id]
            learning.changed = True
            checkpoint = _smoothed(learning.durations.checkpoint, report.checkpoint_seconds)
            learning.durations = learning.durations._replace(checkpoint=checkpoint)

    def _learn_changes(self, job: Job, class_id: ClassId, report: ProgressReport, at: Instant) -> None:
        """Learn the run's time to its first report, and the time that a change in place took."""
        learning, allocation = self.classes.get(class_id), job.allocation
        if allocation is None or (report.done is None and report.step is None):
            return
        last, known = job.progress, self._begun.get(job.id) == allocation.run
        self._begun[job.id] = allocation.run
        if learning is None:
            return
        durations = learning.durations
        if not known and (last is None or last.run != allocation.run):
            trained = allocation.since if last is None else max(allocation.since, last.at)
            restart = seconds_between(trained, at)
            if 0.0 <= restart <= _LONGEST_RESTART_SECONDS:
                durations = durations._replace(restart=_averaged(durations.restart, restart))
        if report.resize_seconds is not None:
            durations = durations._replace(resize=_averaged(durations.resize, report.resize_seconds))
        learning.changed = learning.changed or durations != learning.durations
        learning.durations = durations

    def _declare(self, class_id: ClassId, profile: Profile | None, batch: int) -> bool:
        """Declare the present batch terms of a class. Returns False if too many classes are learned already."""
        if class_id not in self.classes and len(self.classes) >= self.most_classes:
            if not self._full:
                _log.warning("%s classes are learned; %s and others are not", self.most_classes, class_id)
            self._full = True
            return False
        before = self.learner.declared(class_id)
        terms = _terms(profile, before, batch)
        if before is not None and before != terms:
            _log.info("class %s has other batch sizes now (%s): it is learned anew", class_id, terms)
        self.learner.declare(class_id, terms)
        if profile is not None:
            self.learner.describe(class_id, profile.model)
        learning = self.classes.setdefault(class_id, ClassLearning())
        if before != terms:
            learning.best_since = None
        return True

    def _best(self, class_id: ClassId, gpu_type: str, gpus: int, done: float, at: Instant) -> int:
        """The best batch size on a width. It is computed at most once every ``_ADVICE_SECONDS``."""
        learning = self.classes[class_id]
        if learning.best_since is None or not 0.0 <= seconds_between(learning.best_since, at) < _ADVICE_SECONDS:
            learning.best_since = at
            learning.best.clear()
        key = (gpu_type, gpus, int(done * BINS))
        if key not in learning.best:
            learning.best[key] = self.learner.batch(class_id, gpu_type, gpus, done)
        return learning.best[key]

    def _advice(
        self,
        job: Job,
        class_id: ClassId,
        profile: Profile | None,
        offering: Offering,
        report: ProgressReport,
        at: Instant,
    ) -> int | None:
        """The best batch size now. The reported batch size if it is as good. None before gradients were reported."""
        if profile is None or profile.batch is None or job.allocation is None:
            return None
        terms = profile.batch
        if self.learner.declared(class_id) != terms or not self.learner.state(class_id).noise.reports:
            return None
        best = self._best(class_id, offering.gpu_type, job.allocation.option.gpus, report.done or 0.0, at)
        if report.batch is not None and 1.0 / _WORTH_CHANGING < best / report.batch < _WORTH_CHANGING:
            return min(report.batch, terms.largest)
        return best


def _smoothed(before: float | None, reported: float | None) -> float | None:
    """Seconds of a checkpoint: the former value, moved a twentieth of the way to the reported one. The step is small
    because all reports between two saves repeat the same value.
    """
    if not reported or before is None:
        return reported or before
    return before + _SMOOTHING * (reported - before)


def _averaged(before: float | None, reported: float) -> float:
    """Seconds of a change in place: the former value, moved a quarter of the way to the reported one. Each change is
    reported only once.
    """
    return reported if before is None else before + _CHANGE_SMOOTHING * (reported - before)


def _terms(profile: Profile | None, before: BatchTerms | None, batch: int) -> BatchTerms:
    """The batch terms that the spec declares. If the spec declares none, the batch size that was reported first is the
    only one.
    """
    if profile is not None and profile.batch is not None:
        return profile.batch
    own = batch if before is None else before.own
    return BatchTerms(own, own, own)


def _class_of_run(job: Job) -> ClassId | None:
    """The class of the variant that the present run has, or None if the spec no longer names the variant."""
    variant = None if job.allocation is None else job.variant(job.allocation.option.variant)
    return None if variant is None else variant.class_id


def _offering(job: Job, run: int, snapshot: Snapshot) -> Offering | None:
    """The nodes of the job's present run, or None if another run reports, or if the offering of its pool is unknown."""
    if job.allocation is None or job.allocation.run != run:
        return None
    pool = snapshot.pools.get(job.allocation.option.pool)
    return None if pool is None else pool.offering


def _of_its_width(job: Job, report: ProgressReport) -> bool:
    """Whether the report comes from a group of the run's present width, as far as that is known."""
    group, width = job.current_group, job.trains_on
    if group is None or width is None:
        return True
    whole = group.pending or len(group.indexes) == len(width.placements)
    return whole and (report.generation or 0) == group.formed


def _ended(job: Job) -> int:
    return 0 if job.finish is None else job.finish.at
