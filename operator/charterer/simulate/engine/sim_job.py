"""A submitted job, and the training that really goes on."""

from __future__ import annotations

from dataclasses import dataclass, field

from charterer.domain.ids import ClassId, JobId
from charterer.domain.job import Allocation, RunOutcome, RunRecord
from charterer.domain.money import Money
from charterer.domain.time import Instant
from charterer.simulate.engine.result import JobResult
from charterer.simulate.engine.workload import Submission
from charterer.simulate.knowledge.ground_truth import Application, TrainerMeasurement, WidthRates


@dataclass(slots=True, eq=False)
class SimJob:
    """A job in the simulation; times are seconds of the virtual clock.

    ``done``: part of the work done at ``clock``; it grows from then on while the job trains, and was last seen to grow
    at ``grown``. ``trains_from``: when its run has restarted. ``version`` is another with each run or batch size: it
    tells events of a former one. ``batch``: total batch size with which it trains, 0 for the best one at any time.
    ``predicted`` and ``moves``: what the operator's planner wants remembered of it (see Job).
    """

    id: JobId
    submission: Submission
    application: Application
    class_id: ClassId
    created: Instant
    clock: float
    grown: float
    done: float = 0.0
    allocation: Allocation | None = None
    trains_from: float = 0.0
    version: int = 0
    batch: int = 0
    runs: int = 0
    records: tuple[RunRecord, ...] = ()
    started: float | None = None
    finished: float | None = None
    gpu_seconds: float = 0.0
    predicted: Money | None = None
    moves: tuple[Instant, ...] = ()
    _pace: WidthRates = field(init=False)

    def advance(self, now: float) -> None:
        """Train until ``now``."""
        allocation = self.allocation
        if allocation is not None:
            gpus = allocation.option.gpus
            clock = self.clock
            self.gpu_seconds += (now - clock) * gpus
            trained = now - (self.trains_from if self.trains_from > clock else clock)
            if trained > 0.0:
                self.done = self._pace.after(self.done, trained)
                self.grown = now
        self.clock = now

    def trains(self, batch: int) -> float:
        """With that batch size from now on; when it is complete if it stays so. It must run."""
        assert self.allocation is not None
        self.batch = batch
        self.version += 1
        self._pace = self.application.pace(self.allocation.option.gpus, batch)
        return max(self.clock, self.trains_from) + self._pace.seconds_left(self.done)

    def completes(self, now: float) -> None:
        """It is complete; what it held it keeps, to be told by."""
        assert self.allocation is not None
        self.gpu_seconds += (now - self.clock) * self.allocation.option.gpus
        self.clock = self.grown = self.finished = now
        self.done = 1.0

    def loses(self, seconds: float) -> None:
        """What was done in so many last seconds is lost; it must run."""
        self.done = self._pace.before(self.done, seconds)
        self.grown = self.clock

    def reading(self) -> TrainerMeasurement:
        """What its trainer measures just now; it must run, with a batch size."""
        assert self.allocation is not None
        assert self.application.measured is not None
        epoch = self.application.epoch(self.done)
        found = self.application.measured.reading(epoch, self.allocation.option.gpus, self.batch)
        assert found is not None
        return found

    def result(self) -> JobResult:
        """What came of it up to now."""
        return JobResult(
            name=self.submission.name,
            application=self.submission.application,
            submitted=self.submission.at,
            started=self.started,
            finished=self.finished,
            restarts=max(self.runs - 1, 0),
            gpu_seconds=self.gpu_seconds,
        )

    def begins(self, allocation: Allocation, trains_from: float, now: Instant) -> None:
        """The run of an allocation begins, and the former one is over and recorded."""
        if self.allocation is not None:
            self._record(self.allocation, now, RunOutcome.STOPPED)
        if self.started is None:
            self.started = self.clock
        self.allocation = allocation
        self.trains_from = trains_from
        self.runs += 1

    def resized(self, allocation: Allocation, trains_from: float, now: Instant) -> None:
        """The run goes on with more or fewer pods; what it was is recorded, for what it cost."""
        assert self.allocation is not None
        self._record(self.allocation, now, RunOutcome.STOPPED)
        self.allocation = allocation
        self.trains_from = max(self.trains_from, trains_from)

    def stops(self, now: Instant, outcome: RunOutcome) -> None:
        """The run is over, if there was one; the job has no place."""
        if self.allocation is not None:
            self._record(self.allocation, now, outcome)
        self.allocation = None
        self.version += 1

    def _record(self, run: Allocation, now: Instant, outcome: RunOutcome) -> None:
        self.records = (*self.records, RunRecord(run.run, outcome, run.option, run.placements, run.since, now, ""))
