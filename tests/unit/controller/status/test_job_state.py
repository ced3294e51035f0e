"""The word of a job's State column."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.api.models.trainingjob_status import JobState
from charterer.controller.status.jobs import job_state, job_view
from charterer.domain.interactive import Interactive
from charterer.domain.job import CANNOT_START, IN_DOUBT, Finish, FinishKind, Job, Run
from charterer.domain.money import ZERO
from charterer.domain.plan import Reason, ReasonCode, Verdict
from charterer.domain.pod import Pod, PodPhase
from charterer.domain.reasons.options import NoPool
from charterer.domain.reports import Progress
from tests.factory import allocation, at, job, pod, run, snapshot


def placed(*runs: Run) -> Job:
    return job(allocation=allocation(), runs=runs, last_run=1)


@pytest.mark.parametrize(
    ("one", "state"),
    [
        (placed(), JobState.STARTING),
        (placed(run(1, suspended=True)), JobState.STARTING),
        (placed(run(1, pod(phase=PodPhase.PENDING, ready=False))), JobState.STARTING),
        (placed(run(1, pod(), incomplete="KubeRay says Initializing of it, not Running")), JobState.STARTING),
        (placed(run(1, pod())), JobState.RUNNING),
        (placed(run(1, pod(phase=PodPhase.SUCCEEDED, ready=False))), JobState.RUNNING),
        (placed(run(1, pod(ready=False))), JobState.RUNNING),
        (placed(run(1, pod(phase=PodPhase.SUCCEEDED), complete=at(9))), JobState.RUNNING),
        (placed(run(1, pod(phase=PodPhase.FAILED), failed=at(9))), JobState.STOPPING),
        (job(interactive=Interactive(asks=3, answered=3)), JobState.IDLE),
        (job(interactive=Interactive(asks=4, answered=3)), JobState.QUEUED),
        (job(interactive=Interactive(asks=3, answered=3), runs=(run(1, pod()),)), JobState.STOPPING),
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


def test_no_word_of_a_run_changes_when_its_pods_end_well_so_that_its_end_is_one_write() -> None:
    def words(*pods: Pod) -> list[tuple[str, str, str]]:
        one = placed(run(1, *pods))
        return [(shown.type, shown.status, shown.reason) for shown in job_view(one, None, (), snapshot(one)).conditions]

    assert words(pod()) == words(pod(phase=PodPhase.SUCCEEDED, ready=False))
    assert words(pod()) != words(pod(phase=PodPhase.FAILED, ready=False))
    assert words(pod()) != words(pod(phase=PodPhase.SUCCEEDED, ready=False, deleting=True))


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


OLD = run(1, pod(), template="the old one")


def test_pods_that_keep_an_older_template_are_told_of_until_they_end() -> None:
    edited = job(allocation=allocation(), runs=(OLD,), last_run=1, template="the new one")
    shown = [
        found for found in job_view(edited, None, (), snapshot(edited)).conditions if found.type == "TemplateCurrent"
    ]
    assert [(found.status, found.reason) for found in shown] == [("False", "TemplateChanged")]
    assert "the pods of sft-r1 keep the template that it began with; the next run has the new one" in shown[0].message
    for template, last in [
        ("the old one", OLD),
        ("the new one", run(1, pod())),
        ("the new one", replace(OLD, failed=at(9))),
    ]:
        one = job(allocation=allocation(), runs=(last,), last_run=1, template=template)
        assert "TemplateCurrent" not in {found.type for found in job_view(one, None, (), snapshot(one)).conditions}


def test_a_running_job_that_no_pool_fits_any_more_says_so_where_it_says_that_it_has_its_gpus() -> None:
    one = placed(run(1, pod()))
    why = Verdict(None, Reason(ReasonCode.NO_OPTION, 0.0, ZERO, NoPool()), None)
    shown = next(
        found for found in job_view(one, why, (), snapshot(one)).conditions if found.type == "CapacityAvailable"
    )
    assert (shown.status, shown.message) == ("True", "the job has its GPUs: there is no GPUPool: apply one")


@pytest.mark.parametrize("code", [ReasonCode.RIGID, ReasonCode.BUDGET_OPTIMAL, ReasonCode.NO_CURVE])
def test_how_an_option_was_chosen_is_no_reason_to_wait(code: ReasonCode) -> None:
    why = Verdict(None, Reason(code, 0.0, ZERO, NoPool()), None)
    queued, running = job(), placed(run(1, pod()))
    shown = job_view(queued, why, (), snapshot(queued))
    assert (shown.state, shown.why) == (JobState.QUEUED, "Placing")
    capacity = next(found for found in shown.conditions if found.type == "CapacityAvailable")
    assert (capacity.status, capacity.reason) == ("False", "Placing")
    assert job_view(running, why, (), snapshot(running)).why == code
