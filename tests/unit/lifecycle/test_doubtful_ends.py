"""What an exit code says of a run that Charterer was stopping or resizing, and of one whose reports say otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.job import Allocation, FinishKind, Job, ResizePolicy, Run, RunOutcome
from charterer.domain.pod import PodPhase
from charterer.domain.reports import Progress
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import RecordRun, RunWarning
from charterer.lifecycle.run import run_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import allocation, at, instance, job, node, notice, pod, rental, run, snapshot, survey

HERE, NEXT = allocation("a100-1"), allocation("a100-2", run=2)
MACHINES = (instance(), instance("i2"))
ZERO = pod(phase=PodPhase.SUCCEEDED, exit_code=0, finished=at(1000))
PAUSED = run(2, suspended=True, started=None)


def world(of: Job, **surveyed: Any) -> Snapshot:
    rentals = (rental("a100-1", MACHINES[0]), rental("a100-2", MACHINES[1]))
    nodes = (node(run_labels={of.run_label: "r1"}), node("i2", run_labels={of.run_label: "r2"}))
    return snapshot(of, *rentals, *nodes, survey(*MACHINES, asked=2000, **surveyed), now=at(2000))


def recorded(of: Job, **surveyed: Any) -> RecordRun:
    step = run_step(of.id, LifecycleView.of(world(of, **surveyed)))
    assert isinstance(step, RecordRun), step
    return step


def reported(fraction: float | None, seconds: float = 995, number: int = 1) -> Progress:
    return Progress(number, fraction, None, None, at(seconds))


def stopping(ended: Run, progress: Progress | None = None) -> Job:
    """A job whose run is being replaced."""
    return job(allocation=NEXT, runs=(ended, PAUSED), replaced=(HERE,), last_run=2, progress=progress)


def going(ended: Run, progress: Progress | None, intent: Allocation = HERE, **changes: Any) -> Job:
    """A job of whose run Charterer wants nothing."""
    return job(allocation=intent, runs=(ended,), last_run=1, progress=progress, **changes)


ALL_ZERO = run(1, ZERO, complete=at(1001))


def test_ranks_that_exit_with_0_while_they_are_stopped_have_stopped_if_their_reports_say_so() -> None:
    done = recorded(stopping(ALL_ZERO, reported(0.4)))
    assert (done.record.outcome, done.finish) == (RunOutcome.STOPPED, None)
    assert done.warning is RunWarning.STOPPED_WITH_ZERO
    words = "its pods exited with 0 while Charterer was stopping the run, but its last report, 6 s before, says 40.0%"
    assert done.record.message.startswith(words)


@pytest.mark.parametrize("progress", [None, reported(1.0), reported(0.995), reported(None), reported(0.4, number=0)])
def test_a_run_that_completed_just_when_it_was_to_be_stopped_is_complete(progress: Progress | None) -> None:
    done = recorded(stopping(ALL_ZERO, progress))
    assert (done.record.outcome, done.record.message) == (RunOutcome.COMPLETE, "")
    assert done.finish is not None


def elastic(progress: Progress | None, resized: float, policy: ResizePolicy = ResizePolicy.IN_PLACE) -> Job:
    return going(ALL_ZERO, progress, allocation("a100-1", since=at(resized)), resize=policy)


def test_workers_that_exit_with_0_because_a_peer_was_taken_from_them_do_not_complete_the_job() -> None:
    done = recorded(elastic(reported(0.0007, 688), resized=689))  # torchrun then waited for 300 s at its exit barrier
    assert (done.record.outcome, done.finish, done.warning) == (RunOutcome.STOPPED, None, RunWarning.STOPPED_WITH_ZERO)
    assert (
        "312 s after the run was resized in place, but its last report, 313 s before, says 0.1%" in done.record.message
    )


def test_a_resize_long_ago_a_done_job_and_one_that_never_reports_are_complete() -> None:
    for done in [
        recorded(elastic(reported(0.95), resized=400)),
        recorded(elastic(reported(1.0), resized=990)),
        recorded(elastic(None, resized=990)),
    ]:
        assert done.finish is not None
        assert done.finish.reason == "Completed"


def test_a_run_whose_machine_is_taken_back_stopped_when_it_exits_with_0_unfinished() -> None:
    done = recorded(going(ALL_ZERO, reported(0.4)), notices=(notice("i1", 1100),))
    assert (done.record.outcome, done.finish) == (RunOutcome.STOPPED, None)
    assert "when the cloud took back i1" in done.record.message


def test_a_job_that_ends_long_before_its_work_is_done_is_complete_and_its_owner_is_told() -> None:
    done = recorded(going(ALL_ZERO, reported(0.07)))
    assert (done.record.outcome, done.warning) == (RunOutcome.COMPLETE, None)
    assert done.finish is not None
    assert (done.finish.kind, done.finish.reason) == (FinishKind.COMPLETE, "CompletedInDoubt")
    assert done.finish.message == (
        "run 1 completed: its pods exited with 0, but its last report, 6 s before, says 7.0% of the work. If that was "
        "not meant, read its logs and create the job again; if it was, let the script report fraction=1 last"
    )


@pytest.mark.parametrize(
    "progress",
    [
        None,
        reported(None),
        reported(0.07, number=0),
        reported(1.0),  # also the last word of a script that stops early on purpose
        reported(0.9),  # the last of ten epochs, counted from zero
        reported(0.85),  # the rest took less than a report may be late
        reported(0.5, 600),  # the operator was away since
        reported(0.05, 45),  # a short job ended before its second report
        reported(0.1, 0),  # a report at the very start says nothing of the speed
        reported(1.0, 1005),  # by a clock that is ahead
    ],
)
def test_reports_that_leave_it_open_raise_no_doubt(progress: Progress | None) -> None:
    done = recorded(going(ALL_ZERO, progress))
    assert done.finish is not None
    assert (done.finish.reason, done.finish.message) == ("Completed", "run 1 completed")


@pytest.mark.parametrize("code", [143, 1, 139])
def test_any_code_but_0_during_a_stop_means_stopped_and_a_traceback_is_not_the_jobs_message(code: int) -> None:
    """Also where the trainer heard of the stop by its report, and ended before its Job was suspended."""
    failed = pod(phase=PodPhase.FAILED, exit_code=code, finished=at(1000), message="Traceback: SignalException")
    for suspended in (True, False):
        done = recorded(stopping(run(1, failed, failed=at(1001), suspended=suspended), reported(0.4)))
        assert (done.record.outcome, done.record.message, done.warning) == (RunOutcome.STOPPED, "", None)


def test_a_run_that_was_evicted_while_it_was_stopped_counts_as_interrupted_when_only_its_job_says_so() -> None:
    evicted = run(1, failed=at(1001), failed_message="Pod x was disrupted", failed_by_disruption=True)
    assert recorded(stopping(evicted)).record.outcome is RunOutcome.INTERRUPTED


KILLED = pod(phase=PodPhase.FAILED, exit_code=137, finished=at(1029), deleting=True, must_end_by=at(1030))


def test_a_trainer_that_was_killed_after_its_grace_period_lost_work_and_its_owner_is_told() -> None:
    done = recorded(stopping(run(1, KILLED, suspended=True)))
    assert (done.record.outcome, done.warning) == (RunOutcome.STOPPED, RunWarning.KILLED_AFTER_GRACE)
    assert done.record.message == (
        "sft-r1-0 did not end within the grace period of 30 s and was killed: what was done since the last checkpoint "
        "is lost. Save and exit at SIGTERM (docs/progress.md), or raise terminationGracePeriodSeconds"
    )


def test_a_trainer_that_was_killed_and_whose_pod_is_gone_is_told_of_as_well() -> None:
    assert recorded(stopping(run(1, departed=(KILLED,), suspended=True))).warning is RunWarning.KILLED_AFTER_GRACE


@pytest.mark.parametrize(
    "changes",
    [{"exit_code": 143}, {"finished": at(1010)}, {"message": "OOMKilled"}, {"must_end_by": None}, {"finished": None}],
)
def test_a_trainer_that_ended_otherwise_was_not_killed_after_its_grace_period(changes: dict[str, Any]) -> None:
    done = recorded(stopping(run(1, replace(KILLED, **changes), suspended=True)))
    assert (done.record.outcome, done.record.message, done.warning) == (RunOutcome.STOPPED, "", None)
