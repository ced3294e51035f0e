"""A pod that its kubelet refused before any container began is no failure of the job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.job import CANNOT_START, START_ATTEMPTS, Run, RunOutcome
from charterer.domain.pod import PodPhase
from charterer.domain.reports import Progress
from charterer.domain.target import TargetRef
from tests.factory import at, pod, run
from tests.unit.lifecycle.test_run import ONE, mine, placed, recorded

SAID = "UnexpectedAdmissionError: Pod was rejected: Allocate failed"
REFUSED = pod(1, phase=PodPhase.FAILED, refused=True, message=SAID)
TOLD = f"Node n-i1 refused pod sft-r1-1: {SAID}"
STOPPED_PEER = pod(phase=PodPhase.FAILED, exit_code=143, deleting=True, finished=at(99), told_to_end=at(98))


def failed(seconds: float = 100, started: float = 60) -> Run:
    """A run of two pods whose second one was refused, after which the Job's controller ended the first one."""
    return run(
        1, STOPPED_PEER, REFUSED, failed=at(seconds), started=at(started), failed_message="BackoffLimitExceeded: x"
    )


def test_the_run_never_started_and_nothing_counts_against_backoff_limit() -> None:
    done = recorded(placed(mine(failed(), backoff_limit=0)))
    assert (done.record.outcome, done.record.message) == (RunOutcome.NOT_STARTED, TOLD)
    assert done.finish is None


def test_as_many_in_a_row_as_of_any_other_runs_that_never_start_end_the_job() -> None:
    done = recorded(placed(mine(failed(), start_failures=START_ATTEMPTS - 1)))
    assert done.finish is not None
    assert done.finish.reason == CANNOT_START
    assert TOLD in done.finish.message


@pytest.mark.parametrize(
    ("ended", "reported", "outcome"),
    [(500, False, RunOutcome.NOT_STARTED), (700, False, RunOutcome.INTERRUPTED), (100, True, RunOutcome.INTERRUPTED)],
    ids=["within its time to get ready", "after that", "it had reported"],
)
def test_a_run_that_had_been_running_is_interrupted(ended: float, reported: bool, outcome: RunOutcome) -> None:
    """A kubelet that restarts refuses pods that it ran before."""
    progress = Progress(1, None, 7, None, at(90)) if reported else None
    done = recorded(placed(mine(failed(ended), progress=progress), asked=1000, now=1000))
    assert (done.record.outcome, done.finish) == (outcome, None)


def test_a_run_that_charterer_stopped_for_it_is_told_so_too() -> None:
    stopped = run(1, REFUSED, suspended=True, started=at(60))
    job = replace(mine(stopped, intent=None, replaced=(ONE,)), last_run=1)
    done = recorded(placed(job))
    assert (done.record.outcome, done.record.message) == (RunOutcome.NOT_STARTED, TOLD)


def test_the_end_of_an_adopted_object_is_its_own_and_says_which_node_refused_its_pod() -> None:
    ref = TargetRef("batch/v1", "Job", "whisper", "u")
    done = recorded(placed(replace(mine(failed()), target=ref)))
    assert (done.record.outcome, done.record.message) == (RunOutcome.FAILED, f"BackoffLimitExceeded: x; {TOLD}")
    assert done.finish is not None
    assert done.finish.reason == "BackoffLimitExceeded"
