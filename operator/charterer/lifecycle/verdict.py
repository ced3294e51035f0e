"""How a run ended: the terminal condition of its object is evidence, not yet the truth.

A Job counts a pod that is evicted and exits with 0 as a completed index, and a rank that dies with its machine takes
its peers down with exit codes of their own. Completion therefore needs the undisturbed Succeeded pod of every index,
and a failure is the job's own only if every machine of the run was seen healthy after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from charterer.domain.job import (
    CANNOT_START,
    START_ATTEMPTS,
    Allocation,
    Finish,
    FinishKind,
    Job,
    Placement,
    Pod,
    PodPhase,
    Run,
    RunOutcome,
    RunRecord,
)
from charterer.domain.job_cost import costed
from charterer.domain.pool import InstanceState
from charterer.domain.rental import RentalPhase
from charterer.domain.steps import RecordRun, Wait
from charterer.domain.time import Instant, after, seconds_between
from charterer.lifecycle.view import LifecycleView, must_show, vanished
from charterer.sentences import count, names

_POD_DELAY_SECONDS = 10
"""Seconds by which a pod's event may come after its Job's: the two kinds are watched by separate streams."""
_CLOCK_SKEW_SECONDS = 2
"""Seconds by which the clocks of cloud and cluster may differ when a failure is compared with a survey."""
_SURVEY_WAIT_SECONDS = 600
"""Seconds that a failed run waits for its cloud to report on its machines before it counts as interrupted."""
HAD_NO_JOB = "it had no Job"
"""The message of a run that was stopped before it was made."""
_REPORT_SECONDS = 60.0
"""Seconds by which the last report may lag behind training: how often it is written to the status."""
_MOST_SPEEDUP = 2.0
"""How many times faster than up to its last report a run may have ended its work."""
_ALMOST_DONE = 0.9
"""A fraction that may have been done from which on nobody doubts the end."""
_KILLED = 137
"""Exit code of SIGKILL."""


@dataclass(frozen=True, slots=True)
class _RunVerdict:
    outcome: RunOutcome
    message: str


def judge(
    job: Job, allocation: Allocation, run: Run | None, view: LifecycleView, *, stopped: bool
) -> RecordRun | Wait | None:
    """The step that records the run's end, what that waits for, or None while it runs.

    ``stopped``: Charterer wants the run to end, so that a suspended run has ended and is not still to begin.
    """
    if run is None:
        why = job.doubts[0].why if job.doubts else HAD_NO_JOB
        return _record(job, allocation, run, _stopped(allocation, why), view) if stopped else None
    if run.ended is None and not (stopped and run.suspended):
        return None
    live = [pod.name for pod in run.pods if pod.live]
    if live:
        return Wait(f"{count(len(live), 'pod')} of {run.name} to end ({names(live)})")
    if run.complete is not None:
        verdict = _completion(job, allocation, run, run.complete, view, stopped=stopped)
    elif run.failed is not None and not run.suspended:
        verdict = _failure(allocation, run, run.failed, view)
    else:
        verdict = _suspended(allocation, run, view)
    return verdict if isinstance(verdict, Wait) else _record(job, allocation, run, verdict, view)


def _completion(
    job: Job, allocation: Allocation, run: Run, complete: Instant, view: LifecycleView, *, stopped: bool
) -> _RunVerdict | Wait:
    missing = run.unproven
    if not missing:
        return _doubted(job, allocation, run, complete, stopped=stopped)
    deadline = after(complete, _POD_DELAY_SECONDS)
    if view.snapshot.now < deadline:
        return Wait(f"the Succeeded pod of index {missing[0]} of {run.name}", until=deadline)
    return _RunVerdict(
        RunOutcome.INTERRUPTED,
        f"its Job says Complete, but {count(len(missing), 'index')} from {missing[0]} on "
        "left no undisturbed Succeeded pod: a pod that was made to stop exited with 0",
    )


def _doubted(job: Job, allocation: Allocation, run: Run, complete: Instant, *, stopped: bool) -> _RunVerdict:
    """All pods exited with 0, which a script that was told to stop may do, too: what its own reports make of that.

    A run that Charterer stopped or resized meanwhile goes on from its checkpoint. Any other completes: to stop early is
    its script's right.
    """
    report = job.progress
    if report is None or report.run != run.number or report.fraction is None:
        return _RunVerdict(RunOutcome.COMPLETE, "")
    begun = allocation.since if run.started is None else run.started
    told = max(seconds_between(begun, report.at), 1.0)
    since = max(seconds_between(report.at, complete), 0.0) + _REPORT_SECONDS
    if report.fraction * (1.0 + _MOST_SPEEDUP * since / told) >= _ALMOST_DONE:
        return _RunVerdict(RunOutcome.COMPLETE, "")
    words = f"its pods exited with 0, and its last report says {100 * report.fraction:.3g} % done"
    if stopped:
        return _RunVerdict(RunOutcome.STOPPED, f"{words}: it was told to stop, and should have exited with 143")
    if begun < allocation.since >= report.at:
        return _RunVerdict(RunOutcome.INTERRUPTED, f"{words}: it was being resized, and goes on from its checkpoint")
    return _RunVerdict(RunOutcome.COMPLETE, f"{words}: a script that stops early on purpose should report fraction=1")


def _failure(allocation: Allocation, run: Run, failed: Instant, view: LifecycleView) -> _RunVerdict | Wait:
    if run.failed_by_disruption or any(pod.disrupted for pod in run.pods):
        return _RunVerdict(RunOutcome.INTERRUPTED, _disruption(allocation, run, failed, view))
    deadline = after(failed, _SURVEY_WAIT_SECONDS)
    unknown: Wait | None = None
    for placement in allocation.placements:
        health = _health(placement, failed, view)
        if isinstance(health, Wait):
            unknown = health
        elif health:
            return _RunVerdict(RunOutcome.INTERRUPTED, health)
    if unknown is None:
        return _RunVerdict(RunOutcome.FAILED, _failure_message(run))
    if view.snapshot.now < deadline:
        return Wait(unknown.reason, until=deadline)
    return _RunVerdict(RunOutcome.INTERRUPTED, f"the state of its machines is unknown; waited for {unknown.reason}")


def _disruption(allocation: Allocation, run: Run, failed: Instant, view: LifecycleView) -> str:
    """The cause that took the run's pods away: a machine that is not well, or somebody who evicted them."""
    for placement in allocation.placements:
        health = _health(placement, failed, view)
        if health and not isinstance(health, Wait):
            return health
    disrupted = [pod.name for pod in run.pods if pod.disrupted]
    return _evicted(disrupted) if disrupted else f"a pod was evicted or preempted by somebody ({run.failed_message})"


def _evicted(pods: Sequence[str]) -> str:
    return f"{names(pods)} {'was' if len(pods) == 1 else 'were'} evicted or preempted by somebody"


def _suspended(allocation: Allocation, run: Run, view: LifecycleView) -> _RunVerdict:
    """A run that Charterer stopped: interrupted if it lost a machine or a pod to somebody else meanwhile."""
    lost = [placement.rental for placement in allocation.placements if _ended(placement, view)]
    disrupted = [pod.name for pod in run.pods if pod.disrupted]
    if lost or disrupted:
        what = f"the machine of {names(lost)} has ended" if lost else _evicted(disrupted)
        return _RunVerdict(RunOutcome.INTERRUPTED, what)
    killed = [pod.name for pod in run.pods if _killed_late(pod)]
    if killed:
        unsaved = "so it is not known to have saved anything: allow more by terminationGracePeriodSeconds"
        return _stopped(allocation, f"{names(killed)} had to be killed at the end of the grace period, {unsaved}")
    return _stopped(allocation, "")


def _killed_late(pod: Pod) -> bool:
    """Whether the pod's grace period was over when it was killed; before that it was by something else."""
    if pod.exit_code != _KILLED or pod.finished is None or pod.must_end_by is None:
        return False
    return seconds_between(pod.finished, pod.must_end_by) <= _CLOCK_SKEW_SECONDS


def _stopped(allocation: Allocation, message: str) -> _RunVerdict:
    """Charterer ended the run: because it never started, or for a reason of its own."""
    if allocation.withdrawn_because:
        return _RunVerdict(RunOutcome.NOT_STARTED, allocation.withdrawn_because)
    return _RunVerdict(RunOutcome.STOPPED, message)


def _ended(placement: Placement, view: LifecycleView) -> bool:
    rental = view.rental(placement.rental)
    return rental is None or rental.phase is RentalPhase.ENDED


def _health(placement: Placement, failed: Instant, view: LifecycleView) -> str | Wait:
    """The machine's fault; empty when it was seen healthy after the failure; Wait while that is unknown."""
    rental = view.rental(placement.rental)
    if rental is None or rental.phase is RentalPhase.ENDED or rental.instance is None:
        died = f"instance {rental.instance}, " if rental is not None and rental.instance is not None else ""
        return f"{died}the machine of {placement.rental}, has ended"
    node = view.node(rental)
    if node is None or not node.ready or node.deleting:
        return f"the Node of {rental.id} (instance {rental.instance}) is not ready"
    survey, instance = view.survey(rental), view.instance(rental)
    if survey is None:
        return Wait(f"the cloud to be asked about GPUPool {rental.pool}")
    if instance is None:
        if vanished(rental, instance, survey):
            return f"instance {rental.instance}, the machine of {rental.id}, has ended"
        return Wait(f"the cloud to list instance {rental.instance}")
    if instance.state is not InstanceState.RUNNING:
        return f"instance {instance.id}, the machine of {rental.id}, is {instance.state}"
    if any(notice.instance == instance.id and notice.certain for notice in survey.notices):
        return f"the cloud takes back instance {instance.id}, the machine of {rental.id}"
    if not must_show(survey, after(failed, _CLOCK_SKEW_SECONDS)):
        return Wait(f"the cloud to say that {rental.instance} is still healthy")
    return ""


def _failure_message(run: Run) -> str:
    """The pod that failed first with its exit code and message; the Job's message where no pod is left."""
    failed = [pod for pod in run.pods if pod.phase is PodPhase.FAILED]
    first = min(failed, key=lambda pod: (pod.deleting, pod.finished or Instant(2**62), pod.index), default=None)
    if first is None:
        return run.failed_message
    code = "" if first.exit_code is None else f" exited with {first.exit_code}"
    return f"pod {first.name}{code}" + (f": {first.message}" if first.message else "")


def _record(job: Job, allocation: Allocation, run: Run | None, verdict: _RunVerdict, view: LifecycleView) -> RecordRun:
    """The record of the run's end, without the places where it is not believed to have been."""
    until = allocation.since if run is None else max(_ended_at(run, view.snapshot.now), allocation.since)
    record = RunRecord(
        number=allocation.run,
        outcome=verdict.outcome,
        option=allocation.option,
        placements=job.believed(allocation),
        since=allocation.since,
        until=until,
        message=verdict.message,
        generation=job.generation,
    )
    record = costed(job, record, view.snapshot.rentals)
    return RecordRun(job.id, record, _finish(job, record, view.snapshot.now))


def _ended_at(run: Run, now: Instant) -> Instant:
    def finished(pod: Pod) -> Instant:
        return now if pod.finished is None else pod.finished

    return max((finished(pod) for pod in run.pods), default=now if run.ended is None else run.ended)


def _finish(job: Job, record: RunRecord, now: Instant) -> Finish | None:
    """The job's end if this run ended it: by completing, or by one failure, interruption or missed start too many."""
    if job.finish is not None:
        return None
    if record.outcome is RunOutcome.COMPLETE:
        completed = f"run {record.number} completed"
        if not record.message:
            return Finish(FinishKind.COMPLETE, record.until, "Completed", completed)
        return Finish(FinishKind.COMPLETE, record.until, "CompletedInDoubt", f"{completed}: {record.message}")
    if record.outcome is RunOutcome.FAILED and job.failures + 1 > job.backoff_limit:
        history = f"run {record.number} failed, as {job.failures} before it; backoffLimit is {job.backoff_limit}"
        return Finish(FinishKind.FAILED, now, "BackoffLimitExceeded", f"{history}: {record.message}")
    if record.outcome is RunOutcome.INTERRUPTED and job.restarts + 1 > job.max_restarts:
        history = f"run {record.number} was interrupted, as {job.restarts} before it; maxRestarts is {job.max_restarts}"
        return Finish(FinishKind.FAILED, now, "MaxRestartsExceeded", f"{history}: {record.message}")
    if record.outcome is RunOutcome.NOT_STARTED and job.start_failures + 1 >= START_ATTEMPTS:
        history = f"{count(job.start_failures + 1, 'run')} in a row never started"
        return Finish(FinishKind.FAILED, now, CANNOT_START, f"{history}; the last one: {record.message}")
    return None
