"""Kubernetes Events for what a user should know: what was decided for a job, and what happened to the nodes."""

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
    """Says what was done, on the object that a user would look at."""

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
                self._say(_rental(do.rental, snapshot), "Releasing", do.reason.message, "Release")
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
        """A command or step did not work; it will be tried again."""
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
    """The object that a command or step is about, the most telling one where there are several."""
    for field, find in (("job", _job), ("rental", _rental), ("pool", _pool), ("budget", _budget)):
        found = find(getattr(do, field), snapshot) if hasattr(do, field) else None
        if found is not None:
            return found
    return None


def _job(job: JobId, snapshot: Snapshot) -> EventSubject | None:
    known = snapshot.jobs.get(job)
    return None if known is None else EventSubject(API_VERSION, "TrainingJob", known.namespace, known.name, known.id)


def _budget(budget: BudgetId, snapshot: Snapshot) -> EventSubject | None:
    known = snapshot.budgets.get(budget)
    return None if known is None else EventSubject(API_VERSION, "GPUBudget", "", known.id, known.uid)


def _pool(pool: PoolId, snapshot: Snapshot) -> EventSubject | None:
    known = snapshot.pools.get(pool)
    return None if known is None else EventSubject(API_VERSION, "GPUPool", "", known.id, known.uid)


def _rental(rental: RentalId, snapshot: Snapshot) -> EventSubject | None:
    known = snapshot.rentals.get(rental)
    return None if known is None else EventSubject(API_VERSION, "GPURental", "", known.id, known.uid)
