"""How a run ended: the terminal condition of its object is evidence, not yet the truth.

A Job counts a pod that is evicted and exits with 0 as a completed index, and a rank that dies with its machine takes
its peers down with exit codes of their own. Completion therefore needs the undisturbed Succeeded pod of every index,
and a failure is the job's own only if every machine of the run was seen healthy after it.

A rank that its peers told to stop gets no signal itself, and may exit with 0. So the exit code 0 of a run that was
being stopped or resized is believed only if its reports do not say otherwise. Any other code then means that it
stopped: launchers turn 143 into codes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from charterer.domain.ids import RentalId
from charterer.domain.job import (
    CANNOT_START,
    IN_DOUBT,
    RESTART_EXIT_CODE,
    START_ATTEMPTS,
    Allocation,
    Finish,
    FinishKind,
    Job,
    Placement,
    ResizePolicy,
    Run,
    RunOutcome,
    RunRecord,
)
from charterer.domain.job_records import costed, told_of
from charterer.domain.pod import Pod, PodPhase
from charterer.domain.pool import InstanceState
from charterer.domain.reasons.nodes import RefusedPod
from charterer.domain.rental import RentalPhase
from charterer.domain.reports import Progress
from charterer.domain.steps import RecordRun, RunWarning, Wait
from charterer.domain.time import Instant, after, seconds_between
from charterer.lifecycle.view import LifecycleView, must_show, vanished
from charterer.sentences import count, names

# Pods that the kubelet of their node refused before any container of them began: a lost GPU, a device plugin that
# restarts, a node that is full after all.
#
# Nothing of the job ran, so nothing of it has failed: such a run counts as one that never started, or was
# interrupted if it had been running, and the node is not used again (``Node.refused``).


def refusal(run: Run) -> str:
    """Which pod of the run was refused and by which node, in the kubelet's words; empty if none was."""
    refused = min((pod for pod in run.pods if pod.refused), key=lambda pod: pod.index, default=None)
    return "" if refused is None else RefusedPod.of(refused).sentence()


def refused_outcome(job: Job, run: Run, at: Instant) -> RunOutcome:
    """How a run with a refused pod ended ``at``.

    A kubelet that restarts refuses pods that it ran before, too. Had a run not been running by its time to get ready,
    it would have been withdrawn.
    """
    reported = job.progress is not None and job.progress.run == run.number
    ran = run.started is not None and seconds_between(run.started, at) > job.ready_timeout_seconds
    return RunOutcome.INTERRUPTED if reported or ran else RunOutcome.NOT_STARTED


# Failures of jobs that share a GPU through MPS: a fatal fault of one client ends all of them.
#
# Nobody knows whose fault it was. So runs of two jobs that fail on one node in the same moment both count as
# interrupted: against maxRestarts and not against backoffLimit. A job that fails by itself goes on to do so without
# company. Two that have ended each other twice are not put together any more (``domain.job_records``).


_SAME_FAULT_SECONDS = 2.0
"""Seconds between two ends that may be of one fault: kubelets tell whole ones, one container after another."""


def failed_beside(job: Job, allocation: Allocation, failed: Instant, view: LifecycleView) -> str:
    """That another job failed together with this one, whose run ``failed`` then, on GPUs of both; empty if none did."""
    pool = view.snapshot.pools.get(allocation.option.pool)
    if pool is None or pool.partition is None or not pool.partition.shares_faults:
        return ""
    here = {placement.rental for placement in allocation.placements}
    at = min(_ends(job.current_run), default=failed)
    for other in view.snapshot.jobs.values():
        if other.id != job.id and any(
            abs(seconds_between(end, at)) <= _SAME_FAULT_SECONDS for end in _failures(other, here)
        ):
            return told_of(other)
    return ""


def _failures(job: Job, rentals: Set[RentalId]) -> Iterator[Instant]:
    """When runs of the job on these rentals failed, as far as that is on record, or their objects are there."""
    for record in job.records:
        may_have = record.outcome in (RunOutcome.FAILED, RunOutcome.INTERRUPTED)
        if may_have and any(placement.rental in rentals for placement in record.placements):
            yield record.until
    if job.allocation is not None and any(placement.rental in rentals for placement in job.allocation.placements):
        yield from _ends(job.current_run)


def _ends(run: Run | None) -> Iterator[Instant]:
    """When its pods failed."""
    for pod in () if run is None else run.pods:
        if pod.phase is PodPhase.FAILED and pod.finished is not None:
            yield pod.finished


# Which runs are told to stop, and how one has ended whose object is being deleted.


def active(run: Run) -> bool:
    """Whether the run may have pods started for it."""
    return not run.suspended and run.ended is None


def to_stop(run: Run) -> bool:
    """Whether a run that nobody wants is to be told to stop.

    The controller of an object in deletion leaves its pods alone, whatever the object says: they are told themselves.
    """
    return any(pod.live and not pod.deleting for pod in run.pods) if run.deleting else active(run)


def ended_by_pods(run: Run) -> Run:
    """The run as the Job controller would end it, which gives a Job in deletion no condition."""
    ends = [pod.finished for pod in run.pods if pod.finished is not None]
    if ends and not run.unproven:
        return replace(run, complete=max(ends))
    failed = [pod.finished for pod in run.pods if pod.phase is PodPhase.FAILED and pod.finished is not None]
    return replace(run, failed=max(failed), failed_message="its Job is being deleted") if failed else run


_POD_DELAY_SECONDS = 10
"""Seconds by which a pod's event may come after its Job's: the two kinds are watched by separate streams."""
_CLOCK_SKEW_SECONDS = 2
"""Seconds by which the clocks of two machines may differ when what one of them says is compared with the other."""
_SURVEY_WAIT_SECONDS = 600
"""Seconds that a failed run waits for its cloud to report on its machines before it counts as interrupted."""
_REPORT_SECONDS = 60.0
"""Seconds by which the last report may lag behind training: how often it is written to the status."""
_MOST_SPEEDUP = 2.0
"""How many times faster than up to its last report a run may have ended its work."""
_ALMOST_DONE = 0.9
"""A fraction that may have been done from which on nobody doubts an end that nobody asked for: a script that counts its
ten epochs from zero never reports more."""
_DONE = 0.99
"""The same for a run that was asked to stop, where only the last step may be missing from the report."""
_RESIZE_SECONDS = 600
"""Seconds after a resize in place in which an exit with 0 may be its effect: torchrun waits for peers."""
_MOMENT_SECONDS = 10.0
"""Seconds after the end of a pod in which its peers may fail for want of it."""
_TERMINATED = 143
"""The exit code after SIGTERM."""
_ABORTED = 134
"""The exit code after SIGABRT, by which JAX ends the processes whose peer is gone."""


@dataclass(frozen=True, slots=True)
class _RunVerdict:
    outcome: RunOutcome
    message: str
    warning: RunWarning | None = None
    finish: str = "Completed"


def judge(
    job: Job, allocation: Allocation, run: Run | None, view: LifecycleView, *, stopped: bool
) -> RecordRun | Wait | None:
    """The step that records the run's end, what that waits for, or None while it runs.

    ``stopped``: Charterer wants the run to end, so that a suspended run has ended and is not still to begin. One whose
    object is being deleted has ended with its pods: no controller says so, and a foreign finalizer may keep the object.
    """
    if run is None:
        nothing = "it had no Job" if job.target is None else "it had not been placed"
        why = allocation.stopped_because or (job.doubts[0].why if job.doubts else nothing)
        return _record(job, allocation, run, _stopped(job, allocation, why), view) if stopped else None
    gone = run.deleting and not run.suspended
    if run.ended is None and not gone and not (stopped and run.suspended):
        return None
    live = [pod.name for pod in run.pods if pod.live]
    if live:
        return Wait(f"{count(len(live), 'pod')} of {job.run_title(run.number)} to end ({names(live)})")
    deleted = gone and run.ended is None
    if deleted and job.target is None:
        run = ended_by_pods(run)
    if job.target is not None and run.ended is not None:
        verdict: _RunVerdict | Wait = _own_end(run)
    elif run.complete is not None:
        verdict = _completion(job, allocation, run, run.complete, view, stopped=stopped)
    elif run.failed is not None and not run.suspended and (run.failed_by_disruption or not stopped):
        verdict = _failure(job, allocation, run, run.failed, view)
    elif deleted and not stopped:
        verdict = _RunVerdict(RunOutcome.INTERRUPTED, f"{job.run_title(run.number)} was deleted by somebody")
    else:
        verdict = _suspended(job, allocation, run, view)
    if isinstance(verdict, Wait):
        return verdict
    return _record(job, allocation, run, verdict if job.interactive is None else _of_session(run, verdict), view)


def _own_end(run: Run) -> _RunVerdict:
    """The end of an adopted object, which its own controller decides: it is the job's, whatever its pods say."""
    if run.complete is not None:
        return _RunVerdict(RunOutcome.COMPLETE, "")
    told = "; ".join(part for part in (run.failed_message, refusal(run)) if part)
    return _RunVerdict(RunOutcome.FAILED, told, finish=run.failed_message.partition(":")[0] or "Failed")


def _of_session(run: Run, verdict: _RunVerdict) -> _RunVerdict:
    """The same of an interactive job, whose worker ends a session and never the job: with 0, or with 143."""
    codes = {pod.exit_code for pod in run.pods if pod.phase is PodPhase.FAILED}
    if verdict.outcome is RunOutcome.COMPLETE or (verdict.outcome is RunOutcome.FAILED and codes == {_TERMINATED}):
        return _RunVerdict(RunOutcome.STOPPED, "its worker ended, and with it the session")
    return verdict


def _completion(
    job: Job, allocation: Allocation, run: Run, complete: Instant, view: LifecycleView, *, stopped: bool
) -> _RunVerdict | Wait:
    missing = run.unproven
    if not missing:
        return _unless_reports_differ(job, allocation, run, complete, view, stopped=stopped)
    deadline = after(complete, _POD_DELAY_SECONDS)
    if view.snapshot.now < deadline:
        return Wait(f"the Succeeded pod of index {missing[0]} of {run.name}", until=deadline)
    return _RunVerdict(
        RunOutcome.INTERRUPTED,
        f"its Job says Complete, but {count(len(missing), 'index')} from {missing[0]} on "
        "left no undisturbed Succeeded pod: a pod that was made to stop exited with 0",
    )


def _unless_reports_differ(
    job: Job, allocation: Allocation, run: Run, complete: Instant, view: LifecycleView, *, stopped: bool
) -> _RunVerdict:
    """Complete, as far as the exit code 0 of all pods can be believed. A script that never reports always is."""
    last = job.progress
    if last is None or last.run != run.number or last.fraction is None:
        return _RunVerdict(RunOutcome.COMPLETE, "")
    said = f"its last report, {max(seconds_between(last.at, complete), 0.0):.0f} s before, says {last.fraction:.1%}"
    asked = _asked_to_stop(job, allocation, run, complete, view, stopped=stopped)
    if asked and last.fraction < _DONE:
        return _RunVerdict(
            RunOutcome.STOPPED,
            f"its pods exited with 0 {asked}, but {said} of the work, so the job goes on: a trainer that stops must "
            "exit with 143 on every rank (docs/progress.md)",
            RunWarning.STOPPED_WITH_ZERO,
        )
    if _may_be_done(last, run, complete) < _ALMOST_DONE:
        return _RunVerdict(
            RunOutcome.COMPLETE,
            f"its pods exited with 0, but {said} of the work. If that was not meant, read its logs and create the job "
            "again; if it was, let the script report fraction=1 last",
            finish=IN_DOUBT,
        )
    return _RunVerdict(RunOutcome.COMPLETE, "")


def _asked_to_stop(
    job: Job, allocation: Allocation, run: Run, complete: Instant, view: LifecycleView, *, stopped: bool
) -> str:
    """Why some rank of the run may have stopped although its work was not done; empty if Charterer asked none to."""
    if stopped:
        return "while Charterer was stopping the run"
    rentals = [view.rental(placement.rental) for placement in allocation.placements]
    for rental in rentals:
        survey = None if rental is None else view.survey(rental)
        for notice in () if survey is None else survey.notices:
            if rental is not None and notice.instance == rental.instance and notice.certain:
                return f"when {'GPUs broke of' if notice.broken else 'the cloud took back'} {notice.instance}"
    if job.resize is ResizePolicy.IN_PLACE and run.started is not None and run.started < allocation.since:
        seconds = seconds_between(allocation.since, complete)
        return f"{seconds:.0f} s after the run was resized in place" if seconds <= _RESIZE_SECONDS else ""
    return ""


def _may_be_done(last: Progress, run: Run, at: Instant) -> float:
    """The fraction that may be done at that time, by what the last report says."""
    if last.fraction is None or run.started is None or last.at <= run.started:
        return 1.0
    since = max(seconds_between(last.at, at), 0.0) + _REPORT_SECONDS
    return last.fraction * (1.0 + _MOST_SPEEDUP * since / seconds_between(run.started, last.at))


def _failure(job: Job, allocation: Allocation, run: Run, failed: Instant, view: LifecycleView) -> _RunVerdict | Wait:
    if _asks_for_restart(job, run):
        text = f"its trainer asked for a restart (exit code {RESTART_EXIT_CODE}): the pods could not form a group"
        return _RunVerdict(RunOutcome.INTERRUPTED, text)
    deleted = _deleted_before(job, run, failed)
    if deleted or run.failed_by_disruption or any(pod.disrupted for pod in run.pods):
        return _RunVerdict(RunOutcome.INTERRUPTED, _disruption(allocation, run, failed, view, deleted))
    if refused := refusal(run):
        return _RunVerdict(refused_outcome(job, run, failed), refused)
    if other := failed_beside(job, allocation, failed, view):
        return _RunVerdict(RunOutcome.INTERRUPTED, other)
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


def _asks_for_restart(job: Job, run: Run) -> bool:
    """Whether no pod of a run that forms groups failed by itself but to ask for a restart."""
    codes = {pod.exit_code for pod in run.pods if pod.phase is PodPhase.FAILED and not pod.deleting}
    return job.group is not None and job.group.reports and codes == {RESTART_EXIT_CODE}


def _deleted_before(job: Job, run: Run, failed: Instant) -> Sequence[str]:
    """Its pods that somebody deleted before any pod failed by itself; the others may have failed for want of them.

    The Job's controller tells the other pods to end as well, but only once it has seen a failure. Both times are known
    in whole seconds, and nothing is concluded from equal ones. Of several the first.
    """
    pods = (*run.pods, *run.departed)
    ends = [pod.finished for pod in pods if pod.phase is PodPhase.FAILED and _by_itself(pod)]
    known = [end for end in ends if end is not None]
    if len(known) < len(ends):
        return ()
    first = min(known, default=after(failed, 1.0))
    since = after(first, -job.grace_seconds - _MOMENT_SECONDS)
    members = [
        (pod.told_to_end, pod.name) for pod in pods if pod.told_to_end is not None and pod.index < run.completions
    ]
    told = [(at, name) for at, name in members if since <= at < first]
    return [name for at, name in told if at == min(told)[0]]


def _by_itself(pod: Pod) -> bool:
    """Whether the pod had ended before it was told to; in the same second, if not by that."""
    if pod.told_to_end is None:
        return True
    return pod.finished is not None and pod.finished <= pod.told_to_end and pod.exit_code != _TERMINATED


def _disruption(allocation: Allocation, run: Run, failed: Instant, view: LifecycleView, deleted: Sequence[str]) -> str:
    """The cause that took the run's pods away: a machine that is not well, or somebody who evicted or deleted them."""
    for placement in allocation.placements:
        health = _health(placement, failed, view)
        if health and not isinstance(health, Wait):
            return health
    disrupted = [pod.name for pod in run.pods if pod.disrupted]
    if deleted and not disrupted:
        return f"{names(deleted)} {_was(deleted)} deleted by somebody"
    return _evicted(disrupted) if disrupted else f"a pod was evicted or preempted by somebody ({run.failed_message})"


def _evicted(pods: Sequence[str]) -> str:
    return f"{names(pods)} {_was(pods)} evicted or preempted by somebody"


def _was(pods: Sequence[str]) -> str:
    return "was" if len(pods) == 1 else "were"


def _suspended(job: Job, allocation: Allocation, run: Run, view: LifecycleView) -> _RunVerdict:
    """A run that Charterer stopped: interrupted if it lost a machine or a pod to somebody else meanwhile."""
    lost = [placement.rental for placement in allocation.placements if _ended(placement, view)]
    disrupted = [pod.name for pod in run.pods if pod.disrupted]
    if lost or disrupted:
        what = f"the machine of {names(lost)} has ended" if lost else _evicted(disrupted)
        return _RunVerdict(RunOutcome.INTERRUPTED, what)
    if refused := refusal(run):
        return _RunVerdict(refused_outcome(job, run, run.failed or view.snapshot.now), refused)
    verdict = _stopped(job, allocation, allocation.stopped_because)
    killed = [pod.name for pod in (*run.pods, *run.departed) if pod.killed_after_grace]
    if not killed or verdict.outcome is not RunOutcome.STOPPED:
        return verdict
    why = verdict.message and f"{verdict.message}; "
    return _RunVerdict(
        RunOutcome.STOPPED,
        f"{why}{names(killed)} did not end within the grace period of {job.grace_seconds} s and {_was(killed)} killed: "
        "what was done since the last checkpoint is lost. Save and exit at SIGTERM (docs/progress.md), or raise "
        "terminationGracePeriodSeconds",
        RunWarning.KILLED_AFTER_GRACE,
    )


def _stopped(job: Job, allocation: Allocation, message: str) -> _RunVerdict:
    """Charterer ended the run: because it never started, or did not advance, or for a reason of its own."""
    if allocation.withdrawn_because and job.adopted is not None and job.adopted.queued and not job.adopted.has_quota:
        return _RunVerdict(RunOutcome.STOPPED, f"Kueue did not let it start: {allocation.withdrawn_because}")
    if allocation.withdrawn_because:
        return _RunVerdict(RunOutcome.NOT_STARTED, allocation.withdrawn_because)
    if allocation.stalled_because:
        return _RunVerdict(RunOutcome.STALLED, allocation.stalled_because)
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
    for notice in survey.notices:
        if notice.instance == instance.id and notice.certain:
            what = "GPUs are broken of" if notice.broken else "the cloud takes back"
            return f"{what} instance {instance.id}, the machine of {rental.id}"
    if not must_show(survey, after(failed, _CLOCK_SKEW_SECONDS)):
        return Wait(f"the cloud to say that {rental.instance} is still healthy")
    return ""


def _failure_message(run: Run) -> str:
    """The pod that failed first with its exit code and message; the Job's message where no pod is left.

    One that aborted speaks only where no other failed: it may be what another one's end did to it.
    """
    failed = [pod for pod in run.pods if pod.phase is PodPhase.FAILED]

    def order(pod: Pod) -> tuple[bool, bool, Instant, int]:
        return pod.deleting, pod.exit_code == _ABORTED, pod.finished or Instant(2**62), pod.index

    first = min(failed, key=order, default=None)
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
        placements=job.trusted(allocation),
        since=allocation.since,
        until=until,
        message=verdict.message,
        generation=job.generation,
        because=allocation.because,
    )
    record = costed(job, record, view.snapshot.rentals)
    return RecordRun(job.id, record, _finish(job, record, verdict.finish, view.snapshot.now), verdict.warning)


def _ended_at(run: Run, now: Instant) -> Instant:
    def finished(pod: Pod) -> Instant:
        return now if pod.finished is None else pod.finished

    return max((finished(pod) for pod in run.pods), default=now if run.ended is None else run.ended)


def _finish(job: Job, record: RunRecord, completed: str, now: Instant) -> Finish | None:
    """The job's end if this run ended it: by completing (the word for that is ``completed``), or by one failure,
    interruption or missed start too many."""
    if job.finish is not None:
        return None
    if record.outcome is RunOutcome.COMPLETE:
        history = f"run {record.number} completed" + (f": {record.message}" if record.message else "")
        return Finish(FinishKind.COMPLETE, record.until, completed, history)
    if record.outcome is RunOutcome.FAILED and job.target is not None:
        return Finish(FinishKind.FAILED, record.until, completed, f"{job.target} has failed: {record.message}")
    if record.outcome is RunOutcome.FAILED and job.failures + 1 > job.backoff_limit:
        history = f"run {record.number} failed, as {job.failures} before it; backoffLimit is {job.backoff_limit}"
        return Finish(FinishKind.FAILED, now, "BackoffLimitExceeded", f"{history}: {record.message}")
    if record.outcome.counts_as_restart and job.restarts + 1 > job.max_restarts:
        history = f"run {record.number} was interrupted, as {job.restarts} before it; maxRestarts is {job.max_restarts}"
        return Finish(FinishKind.FAILED, now, "MaxRestartsExceeded", f"{history}: {record.message}")
    if record.outcome is RunOutcome.NOT_STARTED and job.start_failures + 1 >= START_ATTEMPTS:
        history = f"{count(job.start_failures + 1, 'run')} in a row never started"
        return Finish(FinishKind.FAILED, now, CANNOT_START, f"{history}; the last one: {record.message}")
    return None
