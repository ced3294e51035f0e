"""A submitted job and its true progress."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from charterer.domain.ids import ClassId, JobId, PoolId, RentalId
from charterer.domain.job import Allocation, RunOutcome, RunRecord
from charterer.domain.money import Money
from charterer.domain.time import Instant
from charterer.gpu_types import sharers, slice_profile, whole_type
from charterer.tools.simulator.model.ground_truth import Application, TrainerMeasurement, WidthRates, variant_class
from charterer.tools.simulator.model.result import JobResult
from charterer.tools.simulator.model.workload import SimSession, Submission


class Gpu(NamedTuple):
    """A GPU of a rented node. ``number``: its number on the node, from 0."""

    rental: RentalId
    number: int


@dataclass(slots=True, eq=False)
class SimJob:
    """A job in the simulation. Times are seconds of the virtual clock.

    ``done``: fraction of the work done at ``advanced_to``. The fraction was last seen to grow at ``progressed_at``.
    ``kept``: the largest fraction that any run passed on to the next run. ``gpu_type``: of the present run.
    ``training_from``: end of the present run's restart. ``version`` grows with each run and batch size, so that events
    of a former run or batch size can be recognised. ``batch``: total batch size of the training, or 0 for the best one
    of each epoch.

    ``pace``: the fraction of the time in which the job trains and does not write a checkpoint. One checkpoint ends
    every ``cycle`` seconds from ``cycle_from`` on. ``predicted``, ``predicted_end`` and ``moves``: what the operator's
    planner wants stored of the job (see Job). ``widths``, ``gpu_types``: as in the JobResult. ``resized_from``: the
    allocation with which the job trains until pods that join its run in place are ready. ``session``: of an interactive
    job, which trains nothing and runs cells.

    If jobs may share GPUs, these fields matter too:

    ``devices``: the GPUs of the job's last run.
    ``passes``: number of passes in which the job does a step there.
    ``keeps``: the fraction of its speed that the job keeps beside its partners.
    ``held``: number of GPUs that the job holds. A shared GPU counts in part.
    ``partners``: the classes of the jobs that train beside the job.
    ``saved``: the time of the last checkpoint, and the fraction done at it.
    """

    id: JobId
    submission: Submission
    application: Application
    class_id: ClassId
    created: Instant
    advanced_to: float
    progressed_at: float
    done: float = 0.0
    kept: float = 0.0
    allocation: Allocation | None = None
    gpu_type: str = ""
    training_from: float = 0.0
    version: int = 0
    batch: int = 0
    pace: float = 1.0
    cycle: float = 0.0
    cycle_from: float = 0.0
    runs: int = 0
    records: tuple[RunRecord, ...] = ()
    started: float | None = None
    finished: float | None = None
    gpu_seconds: dict[PoolId, float] = field(default_factory=dict)
    predicted: Money | None = None
    predicted_end: Instant | None = None
    moves: tuple[Instant, ...] = ()
    widths: list[tuple[float, int]] = field(default_factory=list)
    gpu_types: list[tuple[float, str]] = field(default_factory=list)
    resized_from: Allocation | None = None
    session: SimSession | None = None
    devices: tuple[Gpu, ...] = ()
    passes: int = 1
    keeps: float = 1.0
    held: float = 0.0
    partners: tuple[ClassId, ...] = ()
    saved: tuple[float, float] = (0.0, 0.0)
    _width_rates: WidthRates = field(init=False)

    @property
    def gpus(self) -> int:
        """The width at which it trains. The job must run."""
        width = self.allocation if self.resized_from is None else self.resized_from
        assert width is not None
        return width.option.gpus

    @property
    def way(self) -> Application:
        """The application in the variant of the present run. The job must run."""
        assert self.allocation is not None
        return self.application.variant(self.allocation.option.variant)

    @property
    def run_class(self) -> ClassId:
        """The class whose speed the present run has. The job must run."""
        assert self.allocation is not None
        return variant_class(self.class_id, self.allocation.option.variant)

    def advance(self, now: float) -> None:
        """Train until ``now``."""
        allocation = self.allocation
        if allocation is not None:
            since = self.advanced_to
            self._hold(allocation, now - since)
            trained = now - (self.training_from if self.training_from > since else since)
            if trained > 0.0 and self.session is None:
                self.done = self._width_rates.after(self.done, trained * self._speed)
                self.progressed_at = now
        self.advanced_to = now

    def train_with(self, batch: int) -> float:
        """Train with that batch size from now on.

        Returns when the job completes if nothing changes. The job must run.
        """
        self.batch = batch
        self.version += 1
        self._width_rates = self.way.width_rates(self.gpu_type, self.gpus, batch)
        return max(self.advanced_to, self.training_from) + self._width_rates.seconds_left(self.done) / self._speed

    def complete(self, now: float) -> None:
        """Complete the job at ``now``. Its allocation stays, so that the caller can free its GPUs."""
        assert self.allocation is not None
        self._hold(self.allocation, now - self.advanced_to)
        self.advanced_to = self.progressed_at = self.finished = now
        self.done = 1.0
        self.widths.append((now, 0))

    def checkpoint_every(self, interval: float, write_seconds: float) -> None:
        """Train for ``interval`` seconds and then write for ``write_seconds``, in turn. Begin now, or at the job's
        first step if that is later.
        """
        self.cycle = interval + write_seconds
        self.pace = interval / self.cycle if self.cycle > 0.0 else 1.0
        self.cycle_from = max(self.advanced_to, self.training_from)
        self.saved = self.cycle_from, self.done

    def change_interval(self, interval: float, write_seconds: float) -> None:
        """Change the interval in the middle of a run.

        The last checkpoint stays. If the next checkpoint would be late by the new interval, it is due at once.
        """
        unsaved, saved = self._seconds_unsaved, (self.advanced_to, self._done_at_checkpoint)
        self.checkpoint_every(interval, write_seconds)
        if unsaved < self.cycle:
            self.cycle_from -= unsaved
            self.saved = saved

    @property
    def measured_type(self) -> str:
        """The GPU type whose speed its reports show (``controller.learning.report_collector``), or an empty text if
        none.
        """
        places = sharers(slice_profile(self.gpu_type))
        if places == 1 or len(self.partners) == places - 1:
            return self.gpu_type
        return "" if self.partners else whole_type(self.gpu_type)

    def share(self, keeps: float, held: float, partners: tuple[ClassId, ...]) -> None:
        """From now on the job keeps the fraction ``keeps`` of its speed, and holds ``held`` GPUs, beside
        ``partners``.
        """
        self.saved = self.advanced_to, self._done_at_checkpoint
        self.keeps, self.held, self.partners = keeps, held, partners

    @property
    def _speed(self) -> float:
        """Training per second, in seconds of training alone and without writing checkpoints."""
        return self.pace * self.keeps

    @property
    def _done_at_checkpoint(self) -> float:
        unsaved, (since, done) = self._seconds_unsaved, self.saved
        if self.cycle > 0.0 and self.advanced_to - unsaved <= since:
            return done
        return self._width_rates.before(self.done, unsaved * self._speed) if unsaved else self.done

    @property
    def _seconds_unsaved(self) -> float:
        """Seconds since the last checkpoint. 0 if checkpoints are written all the time, or if the job never loses
        work.
        """
        since = max(self.advanced_to - self.cycle_from, 0.0)
        return since % self.cycle if self.cycle > 0.0 else 0.0

    def lose_progress(self) -> None:
        """Lose the progress since the last checkpoint. The job must run."""
        self.done = self._done_at_checkpoint
        self.progressed_at = self.advanced_to

    def measurement(self) -> TrainerMeasurement:
        """The trainer's present measurement of steps beside its partners. The job must run, with a batch size."""
        epoch = self.way.epoch(self.done)
        measured = self.way.measurements[self.gpu_type].measurement(epoch, self.gpus, self.batch)
        assert measured is not None
        return replace(measured, step_seconds=measured.step_seconds / self.keeps) if self.keeps < 1.0 else measured

    def result(self) -> JobResult:
        """The job's result as of now."""
        return JobResult(
            name=self.submission.name,
            application=self.submission.application,
            submitted=self.submission.at,
            started=self.started,
            finished=self.finished,
            restarts=max(self.runs - 1, 0),
            pool_gpu_seconds=dict(self.gpu_seconds),
            widths=tuple(self.widths),
            gpu_types=tuple(self.gpu_types),
            cell_waits=() if self.session is None else tuple(self.session.waits),
        )

    def start_run(self, allocation: Allocation, gpu_type: str, training_from: float, now: Instant) -> None:
        """Start the run of an allocation on GPUs of a type. The run before it ends and is recorded."""
        if self.allocation is not None:
            self._record(self.allocation, now, RunOutcome.STOPPED)
        if self.started is None:
            self.started = self.advanced_to
        self.allocation, self.resized_from = allocation, None
        self.gpu_type = gpu_type
        self.training_from = training_from
        self.keeps, self.held = 1.0, allocation.option.gpus
        self.runs += 1
        self.gpu_types.append((self.advanced_to, gpu_type))
        self.widths.append((self.advanced_to, allocation.option.gpus))

    def resize_run(self, allocation: Allocation, now: Instant) -> None:
        """Hold the GPUs of more or fewer pods. The time before is recorded separately, because it had another price.

        The job trains at its former width until ``regroup``.
        """
        assert self.allocation is not None
        self._record(self.allocation, now, RunOutcome.STOPPED)
        self.resized_from = self.allocation if self.resized_from is None else self.resized_from
        self.allocation, self.held = allocation, allocation.option.gpus

    def regroup(self, training_from: float) -> None:
        """Train on at the width of the allocation from ``training_from`` on."""
        assert self.allocation is not None
        self.resized_from = None
        self.training_from = max(self.training_from, training_from)
        self.widths.append((self.advanced_to, self.allocation.option.gpus))

    def stop_run(self, now: Instant, outcome: RunOutcome) -> None:
        """End the run, if there is one, and record it. Then the job has no allocation."""
        if self.allocation is not None:
            self._record(self.allocation, now, outcome)
            self.widths.append((self.advanced_to, 0))
        self.allocation = self.resized_from = None
        self.version += 1

    def _hold(self, allocation: Allocation, seconds: float) -> None:
        pool = allocation.option.pool
        self.gpu_seconds[pool] = self.gpu_seconds.get(pool, 0.0) + seconds * self.held

    def _record(self, run: Allocation, now: Instant, outcome: RunOutcome) -> None:
        self.records = (*self.records, RunRecord(run.run, outcome, run.option, run.placements, run.since, now, ""))
