"""A submitted job: the TrainingJob that a planner sees, and the training that really goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, nextafter

from purser.domain.ids import BudgetId, ClassId, JobId, NodeName, RentalId
from purser.domain.job import (
    Allocation,
    Job,
    Pod,
    PodPhase,
    Progress,
    ResizePolicy,
    Run,
    RunOutcome,
    RunRecord,
    SpotPolicy,
    Widths,
)
from purser.domain.time import Instant
from purser.simulate.truth import Application, Reading
from purser.simulate.workload import Submission


@dataclass(slots=True)
class Task:
    """A job in the simulation; times are seconds of the virtual clock.

    ``done``: part of the work done at ``clock``; it grows from then on while the job trains. ``trains_from``: when its
    run has restarted. ``version`` tells events of a former run, or batch size, from those of this one. ``batch``: total
    batch size with which it trains, 0 for the best one at any time.
    """

    submission: Submission
    application: Application
    job: Job
    done: float = 0.0
    clock: float = 0.0
    trains_from: float = 0.0
    version: int = 0
    batch: int = 0
    restarts: int = -1
    started: float | None = None
    finished: float | None = None
    gpu_seconds: float = 0.0
    _seen: tuple[Job, float, float | None, Job] | None = None

    def advance(self, now: float) -> None:
        """Train until ``now``."""
        allocation = self.job.allocation
        if allocation is not None:
            self.gpu_seconds += (now - self.clock) * allocation.option.gpus
            trained = now - max(self.clock, self.trains_from)
            if trained > 0.0:
                self.done = self._training.after(self.done, allocation.option.gpus, trained)
        self.clock = now

    def ends_at(self) -> float:
        """When it is complete if it stays as it is; it must run."""
        assert self.job.allocation is not None
        left = self._training.seconds_left(self.done, self.job.allocation.option.gpus)
        return max(self.clock, self.trains_from) + left

    def loses(self, seconds: float) -> None:
        """What was done in so many last seconds is lost; it must run."""
        assert self.job.allocation is not None
        self.done = self._training.before(self.done, self.job.allocation.option.gpus, seconds)

    def reading(self) -> Reading:
        """What its trainer measures just now; it must run, with a batch size."""
        assert self.job.allocation is not None
        assert self.application.measured is not None
        epoch = self.application.epoch(self.done)
        found = self.application.measured.reading(epoch, self.job.allocation.option.gpus, self.batch)
        assert found is not None
        return found

    @property
    def _training(self) -> Application:
        """The application with the batch size that it has now."""
        assert self.job.allocation is not None
        gpus = self.job.allocation.option.gpus
        return self.application.at_batch(gpus, self.batch) if self.batch else self.application

    def seen(self, at: Instant, total: float | None) -> Job:
        """The TrainingJob with its progress as reported just now, of so much work; the same object if that is not new.

        ``total``: the whole work of the job in seconds of the reference option; None where it is not known.
        """
        known = self._seen
        if known is None or known[0] is not self.job or known[1:3] != (self.done, total):
            run = 0 if self.job.allocation is None else self.job.allocation.run
            progress = Progress(run, self.done, None, None, at)
            remaining = None if total is None else _left(total, self.done)
            known = self._seen = self.job, self.done, total, replace(self.job, progress=progress, remaining=remaining)
        return known[3]

    def runs(self, allocation: Allocation, now: Instant, nodes: Mapping[RentalId, NodeName | None]) -> None:
        """The run of an allocation begins, and the former one is over and recorded."""
        self._record(now, RunOutcome.STOPPED)
        pods = tuple(
            _pod(self.job.name, allocation, index, nodes[place.rental], place.gpus)
            for index, place in enumerate(allocation.placements)
        )
        run = Run(
            number=allocation.run,
            name=f"{self.job.name}-r{allocation.run}",
            uid=f"{self.job.id}-{allocation.run}",
            resource_version="1",
            completions=len(pods),
            suspended=False,
            deleting=False,
            created=now,
            started=now,
            complete=None,
            failed=None,
            failed_message="",
            pods=pods,
        )
        self.job = replace(self.job, allocation=allocation, last_run=allocation.run, runs=(run,))

    def stops(self, now: Instant, outcome: RunOutcome) -> None:
        """The run is over; the job has no place."""
        self._record(now, outcome)
        self.job = replace(self.job, allocation=None, runs=())

    def _record(self, now: Instant, outcome: RunOutcome) -> None:
        old = self.job.allocation
        if old is not None:
            record = RunRecord(old.run, outcome, old.option, old.placements, old.since, now, "")
            self.job = replace(self.job, records=(*self.job.records, record))


def _left(total: float, done: float) -> float:
    """What is left of ``total``, rounded so that dividing by what is left to do gives ``total`` again where it can.

    Planners know jobs of one size by that; the last digit would make each look a size of its own.
    """
    left = total * (1.0 - done)
    again = left / (1.0 - done) if done < 1.0 else total
    return left if again == total else nextafter(left, inf if again < total else 0.0)


def new_task(
    submission: Submission,
    application: Application,
    class_id: ClassId,
    budget: BudgetId,
    created: Instant,
    widths: Widths,
    resize: ResizePolicy,
    spot: SpotPolicy,
    weight: float,
) -> Task:
    """The task of a submission, as a TrainingJob that was just created."""
    job = Job(
        id=JobId(submission.name),
        namespace="team",
        name=submission.name,
        generation=1,
        resource_version="1",
        created=created,
        budget=budget,
        class_id=class_id,
        weight=weight,
        widths=widths,
        gpu_types=(),
        spot=spot,
        resize=resize,
        suspend=False,
        deleting=False,
        backoff_limit=3,
        max_restarts=1_000_000,
        ready_timeout_seconds=600.0,
        ttl_seconds_after_finished=None,
        grace_seconds=0,
        pod_gpus=1,
        remaining=None,
        progress=None,
        allocation=None,
        last_run=0,
        records=(),
        failures=0,
        restarts=0,
        finish=None,
        invalid="",
        runs=(),
    )
    return Task(submission, application, job, clock=submission.at)


def _pod(job: str, allocation: Allocation, index: int, node: NodeName | None, gpus: int) -> Pod:
    name = f"{job}-r{allocation.run}-{index}"
    return Pod(
        name=name,
        uid=name,
        run=allocation.run,
        index=index,
        gpus=gpus,
        node=node,
        phase=PodPhase.RUNNING,
        ready=True,
        deleting=False,
        disrupted=False,
        exit_code=None,
        finished=None,
        message="",
        allocation="",
        resource_version="1",
    )
