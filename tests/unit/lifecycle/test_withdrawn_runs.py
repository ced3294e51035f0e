"""Runs that were given up because their pods did not start or did not advance, and jobs that cannot start at all."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.job import FinishKind, RunOutcome
from charterer.domain.pod import Pod, PodPhase
from charterer.domain.steps import RecordRun
from tests.factory import at, pod, run
from tests.unit.lifecycle.test_run import ONE, mine, placed, recorded


def withdrawn(failures: int = 0) -> RecordRun:
    """The record of a run that was given up because its pods did not start, after so many others in a row."""
    given_up = replace(ONE, withdrawn_because="run 1 was not fully running: pod sft-r1-0: Unschedulable: no")
    stopped = run(1, suspended=True)
    return recorded(placed(mine(stopped, intent=None, replaced=(given_up,), start_failures=failures)))


def test_a_run_withdrawn_because_its_pods_did_not_start_is_recorded_so_in_the_pods_own_words() -> None:
    done = withdrawn()
    assert done.record.outcome is RunOutcome.NOT_STARTED
    assert done.record.message.endswith("pod sft-r1-0: Unschedulable: no")
    assert done.finish is None


def test_the_third_run_in_a_row_that_never_starts_ends_the_job_as_one_that_cannot_start() -> None:
    assert withdrawn(1).finish is None
    finish = withdrawn(2).finish
    assert finish is not None
    assert (finish.kind, finish.reason) == (FinishKind.FAILED, "CannotStart")
    assert finish.message.startswith("3 runs in a row never started; the last one: run 1 was not")
    assert finish.message.endswith("Unschedulable: no")


def test_a_withdrawn_run_that_completed_after_all_is_complete() -> None:
    given_up = replace(ONE, withdrawn_because="late")
    whole = run(1, pod(phase=PodPhase.SUCCEEDED), complete=at(500), suspended=True)
    assert recorded(placed(mine(whole, intent=None, replaced=(given_up,)))).record.outcome is RunOutcome.COMPLETE


def stalled(*pods: Pod, **fields: int) -> RecordRun:
    """The record of a run that was given up because it did not advance."""
    given_up = replace(ONE, stalled_because="run 1 has not advanced for 30 min while its pods live")
    stopped = run(1, *pods, suspended=True)
    return recorded(placed(mine(stopped, intent=None, replaced=(given_up,), **fields)))


def test_a_run_that_did_not_advance_counts_as_a_restart_also_if_its_pods_had_to_be_killed() -> None:
    killed = pod(phase=PodPhase.FAILED, exit_code=137, finished=at(530), must_end_by=at(530), deleting=True)
    for done in (stalled(), stalled(killed)):
        assert done.record.outcome is RunOutcome.STALLED
        assert done.record.message.startswith("run 1 has not advanced for 30 min")
        assert done.finish is None


def test_a_job_whose_runs_stall_too_often_has_failed() -> None:
    finish = stalled(restarts=3, max_restarts=3).finish
    assert finish is not None
    assert finish.reason == "MaxRestartsExceeded"
