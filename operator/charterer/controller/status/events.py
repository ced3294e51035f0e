"""Kubernetes Events for users: what was decided for a job, and what happened to the nodes."""

from __future__ import annotations

from charterer.api.manifests import EventSubject
from charterer.api.names import API_VERSION
from charterer.cluster.events import Recorder
from charterer.domain.ids import BudgetId, JobId, PoolId, RentalId
from charterer.domain.job import FinishKind, RunOutcome
from charterer.domain.plan import Allocate, Command, Release, Rent
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import Cool, MarkEnded, MarkReady, RecordOrphan, RecordRun, Step


class Events:
    """Records an Event for what was done, on the object that a user would look at."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def done(self, do: Command | Step, snapshot: Snapshot) -> None:
        """A command or step took effect."""
        match do:
            case Allocate():
                self._allocated(do, snapshot)
            case Rent():
                self._say(_budget(do.budget, snapshot), "Renting", f"{do.rental}: {do.reason.message}", "Rent")
            case Release():
                rental = snapshot.rentals.get(do.rental)
                pool = None if rental is None else snapshot.pools.get(rental.pool)
                gone = pool is not None and pool.gone
                self._say(_rental(do.rental, snapshot), "Releasing", do.reason.message, "Release", warning=gone)
            case Cool():
                self._say(_pool(do.pool, snapshot), do.because, do.message, "Cool", warning=True)
            case RecordOrphan():
                note = f"instance {do.instance.id} runs in the group but was not asked for: it gets a rental of its own"
                self._say(_pool(do.pool, snapshot), "UnknownInstance", note, "Adopt", warning=True)
            case MarkReady():
                self._say(_rental(do.rental, snapshot), "NodeReady", f"node {do.node} is ready", "MarkReady")
            case MarkEnded():
                note = f"ended at a cost of {do.cost}" + (" (the cloud no longer knew when)" if do.estimated else "")
                self._say(_rental(do.rental, snapshot), "Ended", note, "MarkEnded", warning=do.estimated)
            case RecordRun():
                self._run_ended(do, snapshot)
            case _:
                return

    def failed(self, do: Command | Step, message: str, snapshot: Snapshot) -> None:
        """A command or step failed; it will be tried again."""
        about = _subject(do, snapshot)
        self._say(about, "Failing", f"{type(do).__name__}: {message}", type(do).__name__, warning=True)

    def _allocated(self, do: Allocate, snapshot: Snapshot) -> None:
        reason = do.reason.why.value if do.allocation is None else "Allocated"
        self._say(_job(do.job, snapshot), reason, do.reason.message, "Allocate")

    def _run_ended(self, do: RecordRun, snapshot: Snapshot) -> None:
        record = do.record
        bad = record.outcome in (RunOutcome.FAILED, RunOutcome.INTERRUPTED)
        note = f"run {record.number} on {record.option.gpus} GPUs: {record.message or record.outcome.value}"
        self._say(_job(do.job, snapshot), f"Run{record.outcome.value}", note, "RecordRun", warning=bad)
        if do.finish is not None and do.finish.kind is FinishKind.FAILED:
            self._say(_job(do.job, snapshot), do.finish.reason, do.finish.message, "Finish", warning=True)

    def _say(self, subject: EventSubject | None, reason: str, note: str, action: str, *, warning: bool = False) -> None:
        if subject is not None:
            self._recorder.record(subject, reason, note or reason, action=action, warning=warning)


def _subject(do: Command | Step, snapshot: Snapshot) -> EventSubject | None:
    """The object that a command or step is about, the most specific one where there are several."""
    for field, find in (("job", _job), ("rental", _rental), ("pool", _pool), ("budget", _budget)):
        subject = find(getattr(do, field), snapshot) if hasattr(do, field) else None
        if subject is not None:
            return subject
    return None


def _job(job_id: JobId, snapshot: Snapshot) -> EventSubject | None:
    job = snapshot.jobs.get(job_id)
    return None if job is None else EventSubject(API_VERSION, "TrainingJob", job.namespace, job.name, job.id)


def _budget(budget_id: BudgetId, snapshot: Snapshot) -> EventSubject | None:
    budget = snapshot.budgets.get(budget_id)
    return None if budget is None else EventSubject(API_VERSION, "GPUBudget", "", budget.id, budget.uid)


def _pool(pool_id: PoolId, snapshot: Snapshot) -> EventSubject | None:
    pool = snapshot.pools.get(pool_id)
    return None if pool is None else EventSubject(API_VERSION, "GPUPool", "", pool.id, pool.uid)


def _rental(rental_id: RentalId, snapshot: Snapshot) -> EventSubject | None:
    rental = snapshot.rentals.get(rental_id)
    return None if rental is None else EventSubject(API_VERSION, "GPURental", "", rental.id, rental.uid)
