"""What is learned of reports, what is not, and which batch size a job is told."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.controller.learning import report_collector
from charterer.domain.ids import ClassId, JobId
from charterer.domain.job import Finish, FinishKind, Placement, ResizePolicy, RunOutcome, RunRecord, TrainingGroup
from charterer.domain.profile import CurveSource, ModelFacts, ThroughputTable
from charterer.domain.time import after
from charterer.policy.options.speeds import reference_throughput
from charterer.policy.planner import plan
from charterer.server.progress import ProgressReport
from tests import lanes
from tests.unit.controller.learning.classroom import CLASS, SHARED, Classroom, step_seconds

BATCH = {"own": 256, "largest": 8192, "largestPerGpu": 256}


def reports(room: Classroom) -> int:
    return sum(times.reports for times in room.collector.learner.state(CLASS).times.values())


def test_a_class_that_nobody_described_is_learned_from_its_first_job() -> None:
    room = Classroom()
    assert room.says(room.runs()) is None
    profile = room.learn()
    (phase,) = profile.phases
    (curve,) = phase.curves
    assert isinstance(curve.form, ThroughputTable)
    points = dict(zip([gpus for gpus, _ in curve.form.points], curve.origins, strict=True))
    assert points[8].source is CurveSource.MEASURED
    assert points[4].source is CurveSource.EXTRAPOLATED
    assert dict(curve.form.points)[8] == pytest.approx(1.0 / step_seconds(8), rel=0.05)


def test_the_first_report_after_a_start_is_not_counted_since_its_steps_began_before() -> None:
    room = Classroom()
    room.says(room.runs(), times=1)
    assert CLASS not in room.collector.classes


def test_a_job_teaches_as_soon_as_its_pods_run_though_its_job_object_does_not_say_so_yet() -> None:
    room = Classroom()
    job = room.world.jobs[room.runs()]
    room.world.jobs[job.id] = replace(job, runs=tuple(replace(run, started=None) for run in job.runs))
    room.says(job.id, times=4)
    assert reports(room) == 3


def test_a_job_that_never_says_its_batch_size_or_step_time_teaches_nothing() -> None:
    room = Classroom()
    job = room.runs()
    for _ in range(3):
        assert (
            room.collector.handle_report(job, 1, ProgressReport(fraction=0.5, throughput=812.5), room.world.now) is None
        )
        assert room.collector.handle_report(job, 1, ProgressReport(fraction=0.5, batch=256), room.world.now) is None
    assert room.collector.classes == {}


def test_only_the_first_pod_of_the_present_run_teaches() -> None:
    room = Classroom()
    job = room.runs(gpus=16)
    for _ in range(3):
        room.collector.handle_report(job, 1, ProgressReport(index=1, batch=256, step_seconds=0.5), room.world.now)
        room.collector.handle_report(job, 7, ProgressReport(batch=256, step_seconds=0.5), room.world.now)
        room.collector.handle_report(JobId("gone"), 1, ProgressReport(batch=256, step_seconds=0.5), room.world.now)
    assert room.collector.classes == {}


def test_a_job_without_a_profile_name_has_no_class_to_learn_of() -> None:
    room = Classroom()
    room.world.job("alone")
    room.world.rental()
    room.world.runs_on("alone", "a100-1", gpus=8)
    for _ in range(3):
        room.collector.handle_report(JobId("alone"), 1, ProgressReport(batch=256, step_seconds=0.5), room.world.now)
    assert room.collector.classes == {}


def test_no_batch_size_is_told_before_gradients_were_heard_of_or_without_leave() -> None:
    asked = Classroom(spec={"batch": BATCH})
    assert asked.says(asked.runs()) is None
    unasked = Classroom()
    assert unasked.says(unasked.runs(), grad_sqr=1.0, grad_var=100.0) is None


def test_a_noisy_job_is_told_a_larger_batch_within_its_limits_and_a_quiet_one_its_own() -> None:
    noisy = Classroom(spec={"batch": BATCH})
    told = noisy.says(noisy.runs(), times=30, grad_sqr=1.0, grad_var=1000.0)
    assert told is not None
    assert 1024 <= told <= 8192
    quiet = Classroom(spec={"batch": BATCH})
    assert quiet.says(quiet.runs(), times=30, grad_sqr=1.0, grad_var=0.01) == 256


def test_a_job_near_the_best_batch_size_keeps_its_own() -> None:
    room = Classroom(spec={"batch": BATCH})
    job = room.runs()
    best = room.says(job, times=30, grad_sqr=1.0, grad_var=1000.0)
    assert best is not None
    for _ in range(10):
        best = room.says(job, batch=best, times=10, grad_sqr=1.0, grad_var=1000.0) or 0
    assert room.says(job, batch=round(best * 0.95), grad_sqr=1.0, grad_var=1000.0) == round(best * 0.95)
    assert room.says(job, batch=round(best * 0.8), grad_sqr=1.0, grad_var=1000.0) == best


def test_other_batch_sizes_in_the_spec_begin_anew() -> None:
    room = Classroom()
    job = room.runs()
    room.says(job, times=6)
    assert reports(room) == 5
    room.spec = {"batch": BATCH}
    room.read()
    room.says(job, times=1)
    assert reports(room) == 1


def test_more_classes_than_can_be_kept_are_not_learned() -> None:
    room = Classroom()
    room.collector.most_classes = 1
    room.collector.classes[ClassId("team", "other")] = report_collector.ClassLearning()
    room.says(room.runs())
    assert CLASS not in room.collector.classes


def test_a_finished_job_tells_the_size_of_the_next_ones_once() -> None:
    room = Classroom()
    job = room.runs()
    room.says(job)
    room.learn()
    done = room.world.jobs[job]
    assert done.allocation is not None
    room.world.passes(3570.0)
    room.world.carry_out(plan(room.world.snapshot()))
    room.world.jobs[job] = replace(
        done,
        allocation=None,
        runs=(),
        replaced=(done.allocation,),
        finish=Finish(FinishKind.COMPLETE, room.world.now, "", ""),
    )
    room.world.stops("sft")
    room.runs("next")
    profile = room.learn()
    room.collector.learn_sizes(room.world.snapshot())
    (work,) = room.collector.learner.state(CLASS).sizes.latest
    assert work == pytest.approx(3570.0 / step_seconds(8), rel=0.05)
    assert profile.mean_work == pytest.approx(work / (reference_throughput(profile) or math.nan), rel=1e-4)
    assert room.restarted().classes[CLASS].through == room.world.now


def test_jobs_that_end_within_one_second_each_tell_their_size_once() -> None:
    room = Classroom()
    jobs = [room.runs(name) for name in ("sft", "next")]
    for job in jobs:
        room.says(job, times=6)
    room.runs("last")
    room.learn()
    room.world.passes(3600.0)
    end = Finish(FinishKind.COMPLETE, room.world.now, "", "")
    for job in jobs:
        room.world.jobs[job] = replace(room.world.jobs[job], finish=end)
    for _ in range(2):
        room.collector.learn_sizes(room.world.snapshot())
        assert len(room.collector.learner.state(CLASS).sizes.latest) == 2


NUMBER = st.floats(1e-6, 86_400.0)


@settings(max_examples=lanes.examples(30))
@given(
    st.lists(
        st.builds(
            ProgressReport,
            fraction=st.none() | st.floats(0.0, 1.0),
            batch=st.integers(1, 10**9),
            step_seconds=NUMBER,
            grad_sqr=st.none() | st.floats(-1e30, 1e30),
            grad_var=st.none() | st.floats(0.0, 1e30),
        ),
        min_size=2,
        max_size=12,
    ),
    st.sampled_from([None, {"batch": BATCH}]),
)
def test_whatever_a_hostile_job_reports_is_heard_and_written_and_read_again(
    heard: list[ProgressReport], spec: dict[str, object] | None
) -> None:
    room = Classroom(spec=spec)
    job = room.runs()
    for report in heard:
        told = room.collector.handle_report(job, 1, report, room.world.now)
        assert told is None or 1 <= told <= max(8192, report.batch or 0)
    profile = room.learn()
    assert profile.unreadable == ""
    assert room.restarted().classes.keys() == {CLASS}
    plan(room.world.snapshot())


def test_a_truth_that_scales_is_seen_to_scale() -> None:
    room = Classroom()
    for name, gpus in (("one", 1), ("four", 4), ("eight", 8), ("many", 16)):
        room.says(room.runs(name, gpus), times=10)
    form = room.learn().phases[0].curves[0].form
    assert isinstance(form, ThroughputTable)
    points = dict(form.points)
    assert points[8] / points[1] == pytest.approx(step_seconds(1) / step_seconds(8), rel=0.1)
    assert max(points) == 32
    assert SHARED / 32 < 1 / points[32] < step_seconds(16)


# --- widths on which runs fail ----------------------------------------------------------------------------------------


def fails(room: Classroom, job: JobId, message: str = "pod sft-r2-0 exited with 1", gpus: int = 16) -> None:
    """A run of the job has just failed, after a minute, on another width than it runs on now."""
    known = room.world.jobs[job]
    assert known.allocation is not None
    option = replace(known.allocation.option, gpus=gpus)
    since = after(room.world.now, -60.0)
    run = RunRecord(7, RunOutcome.FAILED, option, known.allocation.placements, since, room.world.now, message)
    room.world.jobs[job] = replace(known, records=(*known.records, run))


def failures(room: Classroom) -> list[tuple[int, int, str]]:
    profile = room.learn()
    return [(failed.gpus, failed.failures, failed.message) for failed in profile.failed]


def test_a_failed_run_is_remembered_with_its_width_and_counted_once() -> None:
    room = Classroom()
    job = room.runs()
    room.says(job)
    fails(room, job, "first")
    assert failures(room) == failures(room) == [(16, 1, "first")]
    room.collector = room.restarted()
    assert failures(room) == [(16, 1, "first")]
    room.world.passes(60.0)
    fails(room, job, "second")
    assert failures(room) == [(16, 2, "second")]
    assert room.collector.classes[CLASS].changed


def test_failures_that_are_heard_of_together_count_in_the_order_in_which_runs_ended() -> None:
    room = Classroom()
    jobs = [room.runs(name) for name in ("sft", "next")]
    room.says(jobs[0])
    fails(room, jobs[1], "first")
    room.world.passes(60.0)
    fails(room, jobs[0], "second")
    assert failures(room) == failures(room) == [(16, 2, "second")]


def test_a_run_that_failed_where_the_class_was_measured_or_ended_otherwise_says_nothing_of_the_width() -> None:
    room = Classroom()
    job = room.runs()
    room.says(job)
    fails(room, job, gpus=8)
    known = room.world.jobs[job]
    stopped = replace(
        known.records[0], option=replace(known.records[0].option, gpus=16), outcome=RunOutcome.INTERRUPTED
    )
    room.world.jobs[job] = replace(known, records=(*known.records, stopped))
    assert failures(room) == []


def test_a_failure_is_forgotten_once_the_width_works_and_after_a_month() -> None:
    room = Classroom()
    job = room.runs()
    room.says(job)
    fails(room, job)
    assert len(failures(room)) == 1
    wide = room.runs("wide", gpus=16)
    room.says(wide)
    assert failures(room) == []
    late = Classroom()
    job = late.runs()
    late.says(job)
    fails(late, job)
    assert len(failures(late)) == 1
    late.world.passes(30 * 86_400.0)
    assert failures(late) == []


def test_how_long_checkpoints_take_is_learned_and_survives_a_restart() -> None:
    room = Classroom()
    job = room.runs()
    room.says(job)
    assert room.learn().checkpoint_seconds is None
    room.says(job, checkpoint_seconds=40.0)
    assert room.learn().checkpoint_seconds == 40.0
    room.says(job, times=200, checkpoint_seconds=10.0)
    assert room.learn().checkpoint_seconds == 10.0


def test_the_specs_seconds_of_a_checkpoint_go_first() -> None:
    room = Classroom(spec={"checkpointSeconds": 5.0})
    job = room.runs()
    room.says(job, checkpoint_seconds=40.0)
    assert room.learn().checkpoint_seconds == 5.0


def test_how_long_restarts_and_changes_in_place_take_is_learned_apart_and_survives_a_restart() -> None:
    room = Classroom()
    job = room.runs()
    room.says(job)
    assert (room.learn().restart_seconds, room.learn().resize_seconds) == (30.0, 0.0)
    begins_again(room, job, after_seconds=8.0)
    assert room.learn().restart_seconds == 8.0
    room.says(job, times=1, resize_seconds=2.0)
    assert (room.learn().restart_seconds, room.learn().resize_seconds) == (8.0, 2.0)
    begins_again(room, job, after_seconds=12.0)
    room.says(job, times=1, resize_seconds=6.0)
    assert (room.learn().restart_seconds, room.learn().resize_seconds) == (9.0, 3.0)


def begins_again(room: Classroom, job: JobId, after_seconds: float) -> None:
    """The job's next run, whose first report comes so long after the last one of the former run."""
    held = room.world.jobs[job]
    assert held.allocation is not None
    again = replace(held.allocation, run=held.allocation.run + 1, since=room.world.now)
    run = replace(held.runs[0], number=again.run)
    room.world.jobs[job] = replace(held, allocation=again, runs=(run,), last_run=again.run)
    room.world.passes(after_seconds)
    report = ProgressReport(run=again.run, fraction=0.2, batch=256, step_seconds=1.0)
    for _ in range(2):  # the second one may come before the first one is in a snapshot
        room.collector.handle_report(job, again.run, report, room.world.now)
        room.world.passes(0.0)


@pytest.mark.parametrize("spec", [{"restartSeconds": 20, "resizeSeconds": 1}])
def test_the_specs_seconds_of_changes_go_first(spec: dict[str, Any]) -> None:
    room = Classroom(spec=spec)
    job = room.runs()
    room.says(job, resize_seconds=5.0)
    begins_again(room, job, after_seconds=8.0)
    assert (room.learn().restart_seconds, room.learn().resize_seconds) == (20.0, 1.0)


def test_while_pods_join_the_speed_is_that_of_the_former_width() -> None:
    room = Classroom()
    job = room.runs(gpus=8)
    node = room.world.rental()
    held = room.world.jobs[job]
    assert held.allocation is not None
    two = replace(
        held.allocation,
        option=replace(held.allocation.option, gpus=16),
        placements=(*held.allocation.placements, Placement(node.id, 8)),
    )
    pods = (*held.runs[0].pods, replace(held.runs[0].pods[0], index=1, uid="joins", name="joins"))
    run = replace(held.runs[0], completions=2, pods=pods)
    group = TrainingGroup(1, 2, (0, 1), held.allocation.since, held.allocation.since, formed=1, reports=True)
    room.world.jobs[job] = replace(
        held,
        allocation=two,
        resized_from=held.allocation,
        group=group,
        runs=(run,),
        resize=ResizePolicy.IN_PLACE,
    )
    room.says(job, step_seconds=step_seconds(8), generation=1)
    assert room.collector.learner.widths_run(CLASS) == {"a100": (8,)}
    room.says(job, step_seconds=step_seconds(16), generation=2)  # nobody has recorded that group yet
    assert room.collector.learner.widths_run(CLASS) == {"a100": (8,)}


def test_what_the_owner_says_of_a_model_is_known_with_the_first_report_and_followed_later() -> None:
    room = Classroom(spec={"model": {"family": "resnet", "flopsPerSample": 24_500_000_000}})
    room.says(room.runs())
    assert room.collector.learner.state(CLASS).model == ModelFacts("resnet", 24.5e9)
    room.world.profiles[CLASS] = replace(room.world.profiles[CLASS], model=ModelFacts(parameters=25.6e6))
    room.collector.learn_models(room.world.snapshot())
    assert room.collector.learner.state(CLASS).model == ModelFacts(parameters=25.6e6)
