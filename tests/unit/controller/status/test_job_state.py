"""The word of a job's State column."""

from __future__ import annotations

import pytest

from charterer.api.models.trainingjob_status import JobState
from charterer.controller.status.jobs import job_state, job_view
from charterer.domain.job import CANNOT_START, IN_DOUBT, Finish, FinishKind, Job, PodPhase, Progress, Run
from tests.factory import allocation, at, job, pod, run, snapshot


def placed(*runs: Run) -> Job:
    return job(allocation=allocation(), runs=runs, last_run=1)


@pytest.mark.parametrize(
    ("one", "state"),
    [
        (placed(), JobState.STARTING),
        (placed(run(1, suspended=True)), JobState.STARTING),
        (placed(run(1, pod(phase=PodPhase.PENDING, ready=False))), JobState.STARTING),
        (placed(run(1, pod())), JobState.RUNNING),
        (placed(run(1, pod(phase=PodPhase.SUCCEEDED, ready=False))), JobState.RUNNING),
        (placed(run(1, pod(ready=False))), JobState.RUNNING),
        (placed(run(1, pod(phase=PodPhase.SUCCEEDED), complete=at(9))), JobState.RUNNING),
        (placed(run(1, pod(phase=PodPhase.FAILED), failed=at(9))), JobState.STOPPING),
        (job(finish=Finish(FinishKind.FAILED, at(9), "BackoffLimitExceeded", "")), JobState.FAILED),
        (job(finish=Finish(FinishKind.FAILED, at(9), CANNOT_START, "")), JobState.CANNOT_START),
    ],
)
def test_a_run_that_has_begun_never_starts_again(one: Job, state: JobState) -> None:
    assert job_state(one) is state


def test_pods_that_do_not_start_are_shown_in_their_own_words() -> None:
    pending = pod(phase=PodPhase.PENDING, ready=False, trouble="container trainer: ErrImagePull: no such tag")
    one = placed(run(1, pending))
    ready = next(shown for shown in job_view(one, None, (), snapshot(one)).conditions if shown.type == "PodsReady")
    message = "0 of 1 pods of sft-r1 are ready: pod sft-r1-0: container trainer: ErrImagePull: no such tag"
    assert (ready.reason, ready.message) == ("NotStarting", message)


def test_a_running_job_whose_pods_are_not_ready_is_not_shown_as_ready() -> None:
    one = placed(run(1, pod(ready=False)))
    ready = next(shown for shown in job_view(one, None, (), snapshot(one)).conditions if shown.type == "PodsReady")
    assert (job_state(one), ready.status, ready.reason) == (JobState.RUNNING, "False", "NotReady")


def test_a_job_that_ended_early_shows_how_far_it_says_it_came() -> None:
    early = Finish(FinishKind.COMPLETE, at(9), IN_DOUBT, "run 1 completed: but its last report says 7.0%")
    shown = job_view(one := job(finish=early, progress=Progress(1, 0.07, None, None, at(8))), None, (), snapshot(one))
    complete = next(condition for condition in shown.conditions if condition.type == "Complete")
    assert (shown.state, shown.why, shown.progress_percent) == (JobState.COMPLETE, IN_DOUBT, 7)
    assert (complete.status, complete.reason, complete.message) == ("True", IN_DOUBT, early.message)
