"""The outcome of a run that has ended. The terminal condition of the run's object is evidence and not proof.

A Job counts a pod that is evicted and exits with 0 as a completed index. A rank whose machine fails makes its peers
fail with exit codes of their own. So a run is complete only if each index has an undisturbed Succeeded pod. A failure
is the job's own only if every machine of the run was seen healthy after the failure.

A rank that stops because its peers stop gets no signal itself, and may exit with 0. So the exit code 0 of a run that
was being stopped or resized is believed only if the run's reports agree. After a request to stop, any other exit code
means that the run stopped, because launchers turn 143 into codes of their own.
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

# Pods that the kubelet refused before any of their containers began. Examples of causes are a lost GPU, a device plugin
# that restarts, and a node that is full after all.
#
# Nothing of the job ran, so nothing of it has failed. The run counts as one that never started, or as interrupted if it
# had been running. The node is not used again (``Node.refused``).


def refusal(run: Run) -> str:
    """The run's refused pod, its node and the kubelet's message, or "" if no pod was refused."""
    refused = min((pod for pod in run.pods if pod.refused), key=lambda pod: pod.index, default=None)
    return "" if refused is None else RefusedPod.of(refused).sentence()


def refused_outcome(job: Job, run: Run, at: Instant) -> RunOutcome:
    """The outcome of a run with a refused pod that ended ``at`` a time.

    A kubelet that restarts also refuses pods that it ran before. A run that lasted longer than its time to get ready
    had been running, because it would have been withdrawn otherwise.
    """
    reported = job.progress is not None and job.progress.run == run.number
    ran = run.started is not None and seconds_between(run.started, at) > job.ready_timeout_seconds
    return RunOutcome.INTERRUPTED if reported or ran else RunOutcome.NOT_STARTED


# Failures of jobs that share a GPU through MPS. A fatal fault of one client ends all clients.
#
# Nobody knows which client caused the fault. So if runs of two jobs fail on one node at the same time, both count as
# interrupted. Such runs count against maxRestarts and not against backoffLimit. A job that fails by itself will do so
# again without company. Two jobs that have ended each other twice are not put together any more
# (``domain.job_records``).


_SAME_FAULT_SECONDS = 2.0
"""Seconds between two ends that may have one fault as their cause. Kubelets report whole seconds, one container at a
time.
"""


def failed_beside(job: Job, allocation: Allocation, failed: Instant, view: LifecycleView) -> str:
    """A sentence about another job that failed together with this job on a GPU that both used, or "" if no other job
    did.

    ``failed``: when this job's run failed.
    """
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
    """The times when runs of the job on these rentals failed, from its records and its current run's pods."""
    for record in job.records:
        may_have = record.outcome in (RunOutcome.FAILED, RunOutcome.INTERRUPTED)
        if may_have and any(placement.rental in rentals for placement in record.placements):
            yield record.until
    if job.allocation is not None and any(placement.rental in rentals for placement in job.allocation.placements):
        yield from _ends(job.current_run)


def _ends(run: Run | None) -> Iterator[Instant]:
    """The times when the run's pods failed."""
    for pod in () if run is None else run.pods:
        if pod.phase is PodPhase.FAILED and pod.finished is not None:
            yield pod.finished


# Runs that have to be stopped, and the outcome of a run whose object is being deleted.


def active(run: Run) -> bool:
    """Whether the run may have pods started for it."""
    return not run.suspended and run.ended is None


def to_stop(run: Run) -> bool:
    """Whether a run that nobody wants still has to be stopped.

    The controller of an object in deletion leaves its pods alone, even if the object is suspended. So the pods
    themselves are ended.
    """
    return any(pod.live and not pod.deleting for pod in run.pods) if run.deleting else active(run)


def ended_by_pods(run: Run) -> Run:
    """The run with the end that its pods prove. The Job controller gives a Job in deletion no condition."""
    ends = [pod.finished for pod in run.pods if pod.finished is not None]
    if ends and not run.unproven:
        return replace(run, complete=max(ends))
    failed = [pod.finished for pod in run.pods if pod.phase is PodPhase.FAILED and pod.finished is not None]
    return replace(run, failed=max(failed), failed_message="its Job is being deleted") if failed else run


_POD_DELAY_SECONDS = 10
"""Seconds by which a pod's event may come after its Job's, because separate streams watch the two kinds."""
_CLOCK_SKEW_SECONDS = 2
"""Seconds by which the clocks of two machines may differ. Times of two machines are compared with this margin."""
_SURVEY_WAIT_SECONDS = 600
"""Seconds that a failed run waits for its cloud to report on its machines. After that the run counts as interrupted."""
_REPORT_SECONDS = 60.0
"""Seconds by which the last report may lag behind training, because it is written to the status at this interval."""
_MOST_SPEEDUP = 2.0
"""Largest ratio of a run's speed between its last report and its end to its speed before the last report."""
_ALMOST_DONE = 0.9
"""Smallest fraction of the work (``_may_be_done``) at which a run that nobody asked to end counts as complete. A script
that counts its ten epochs from zero never reports more than 0.9.
"""
_DONE = 0.99
"""Smallest fraction in the last report at which a run that was asked to stop counts as complete."""
_RESIZE_SECONDS = 600
"""Seconds after a resize in place in which an exit with 0 may be its effect, because torchrun waits for peers."""
_MOMENT_SECONDS = 10.0
"""Seconds after the end of a pod in which its peers may fail because it is missing."""
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
    """The step that records the run's end, the wait before it, or None while the run goes on.

    ``stopped``: Charterer wants the run to end, so a suspended run has ended and does not wait to begin. A run whose
    object is being deleted has ended once no pod is alive, because no controller reports its end and a finalizer may
    keep the object.
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
    """The end of an adopted object, which its own controller decides. The job ends in the same way, whatever the pods
    report.
    """
    if run.complete is not None:
        return _RunVerdict(RunOutcome.COMPLETE, "")
    told = "; ".join(part for part in (run.failed_message, refusal(run)) if part)
    return _RunVerdict(RunOutcome.FAILED, told, finish=run.failed_message.partition(":")[0] or "Failed")


def _of_session(run: Run, verdict: _RunVerdict) -> _RunVerdict:
    """The verdict on an interactive job's run. The worker exits with 0 or 143 to end the session, and not the job."""
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
    """The verdict Complete, unless the run's reports contradict the exit code 0. A script that never reports is
    believed.
    """
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
    """The reason why a rank may have stopped before its work was done, or "" if no rank was asked to stop."""
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
    """The largest fraction of the work that may be done at the instant ``at``, judged by the last report."""
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
    """Whether a run that forms groups failed only because its pods asked for a restart."""
    codes = {pod.exit_code for pod in run.pods if pod.phase is PodPhase.FAILED and not pod.deleting}
    return job.group is not None and job.group.reports and codes == {RESTART_EXIT_CODE}


def _deleted_before(job: Job, run: Run, failed: Instant) -> Sequence[str]:
    """The pods that somebody deleted before any pod failed by itself. The other pods may have failed because the
    deleted pods are missing.

    The Job's controller ends the other pods as well, but only after it has seen a failure. Both times are known in
    whole seconds, and nothing is concluded from equal times. If pods were deleted at several times, only the pods
    that were deleted first are returned.
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
    """Whether the pod ended by itself: not by SIGTERM, and not later than the second in which it was deleted."""
    if pod.told_to_end is None:
        return True
    return pod.finished is not None and pod.finished <= pod.told_to_end and pod.exit_code != _TERMINATED


def _disruption(allocation: Allocation, run: Run, failed: Instant, view: LifecycleView, deleted: Sequence[str]) -> str:
    """The cause of the loss of the run's pods: an unhealthy machine, or somebody who evicted or deleted them."""
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
    """The verdict on a run that Charterer stopped. The run is interrupted if it also lost a machine or pod for another
    reason.
    """
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
    """The verdict on a run that Charterer ended because it never started, because it stalled, or for another reason."""
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
    """The fault of the machine, or "" if the machine was seen healthy after the failure, or a wait while neither is
    known."""
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
    """The name, exit code and message of the pod that failed first, or the Job's message if no failed pod is left.

    A pod that aborted (134) is chosen only if no other pod failed, because a peer's end may have caused the abort.
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
    """The record of the run's end, with only those placements that are trusted."""
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
    """The job's end if this run ended the job, or None if the job goes on.

    A run ends its job if it completes (reason ``completed``), or if it exceeds backoffLimit, maxRestarts or
    START_ATTEMPTS. The failure of an adopted object ends its job at once.
    """
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
