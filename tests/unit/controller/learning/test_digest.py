"""What a class's profile says: which widths, in whose words, what is tried next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.controller.learning.profile_writer import digest
from charterer.domain.profile import CurveSource, Profile, ThroughputTable
from charterer.policy.options.market import MenuKey, market, pool_offer
from charterer.policy.options.menu import build_menu
from charterer.policy.options.speeds import throughput
from charterer.policy.planner import plan
from tests.unit.controller.learning.classroom import CLASS, Classroom, step_seconds

DECLARED = {"curves": [{"gpuType": "a100", "throughput": [{"gpus": k, "value": 100.0 * k} for k in (1, 8, 64)]}]}


def widths(profile: Profile, gpu_type: str = "a100") -> dict[int, CurveSource]:
    (curve,) = [curve for curve in profile.phases[0].curves if curve.gpu_type == gpu_type]
    assert isinstance(curve.form, ThroughputTable)
    return {gpus: origin.source for (gpus, _), origin in zip(curve.form.points, curve.origins, strict=True)}


def values(profile: Profile) -> dict[int, float]:
    form = profile.phases[0].curves[0].form
    assert isinstance(form, ThroughputTable)
    return dict(form.points)


def test_nothing_wider_than_twice_what_has_run_is_offered() -> None:
    room = Classroom()
    room.says(room.runs(gpus=4))
    assert max(widths(room.learn())) == 8
    room.says(room.runs("wide", gpus=16))
    assert max(widths(room.learn())) == 32


def test_a_slice_has_a_curve_of_one_slice_only_before_and_after_its_first_report() -> None:
    room = Classroom()
    room.world.pool("cut", gpus=8, gpu_type="NVIDIA-A100-SXM4-40GB", cut="1g.5gb")
    room.says(room.runs(gpus=4))
    for job in room.world.jobs.values():
        room.world.jobs[job.id] = replace(job, widths=replace(job.widths, slices=("1g.5gb",)))
    assert widths(room.learn(), "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb").keys() == {1}
    assert max(widths(room.learn())) == 8


def test_before_any_report_a_slice_is_expected_to_be_slower_than_a_gpu() -> None:
    room = Classroom(spec={"batch": {"own": 256, "largest": 256, "largestPerGpu": 256}})
    room.world.pool("cut", gpus=8, gpu_type="NVIDIA-A100-SXM4-40GB", cut="1g.5gb")
    room.world.job("sft", gpus=(1, 1, 8), profile="resnet", hours_left=100, slices=("1g.5gb",))
    room.collector.expect_runs(room.world.snapshot())
    profile = room.learn()
    forms = {curve.gpu_type: curve.form for curve in profile.phases[0].curves}
    whole, part = (throughput(forms[name], 1) for name in ("a100", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"))
    assert whole is not None
    assert part == pytest.approx(whole / 7**0.5, rel=0.01)


def test_a_class_that_takes_no_slice_has_no_curve_of_it() -> None:
    room = Classroom()
    room.world.pool("cut", gpus=8, gpu_type="NVIDIA-A100-SXM4-40GB", cut="1g.5gb")
    room.says(room.runs(gpus=4))
    assert [curve.gpu_type for curve in room.learn().phases[0].curves] == ["a100"]


def test_every_report_is_counted_at_once() -> None:
    room = Classroom()
    job = room.runs(gpus=8)
    room.says(job, times=9)
    assert room.learn().reports == 8
    room.says(job, times=1)
    assert room.learn().reports == 9


def test_before_anything_is_learned_a_job_runs_on_its_preferred_width_and_never_wider() -> None:
    room = Classroom(spec={})
    job = room.world.job("sft", gpus=(1, 8, 32), profile="resnet", hours_left=100)
    decided = plan(room.world.snapshot()).jobs[job.id]
    assert decided.option is not None
    assert decided.option.gpus == 8


def test_a_class_that_says_its_batch_sizes_has_a_curve_before_its_first_report() -> None:
    room = Classroom(spec={"batch": {"own": 256, "largest": 256, "largestPerGpu": 256}})
    room.world.job("sft", gpus=(1, 8, 32), profile="resnet", hours_left=100)
    room.collector.expect_runs(room.world.snapshot())
    profile = room.learn()
    assert profile.unproven
    assert set(widths(profile).values()) == {CurveSource.PRIOR}
    assert max(widths(profile)) == 32
    room.says(room.runs("first", gpus=4))
    assert not room.learn().unproven


def test_a_class_with_a_declared_curve_is_planned_by_that_until_it_reports() -> None:
    room = Classroom(spec={**DECLARED, "batch": {"own": 256, "largest": 256, "largestPerGpu": 256}})
    room.world.job("sft", gpus=(1, 8, 32), profile="resnet", hours_left=100)
    room.collector.expect_runs(room.world.snapshot())
    assert CLASS not in room.collector.classes


def test_a_declared_curve_gives_the_shape_until_it_is_contradicted() -> None:
    room = Classroom(spec=DECLARED)
    job = room.runs(gpus=8)
    room.says(job)
    early = room.learn()
    assert widths(early)[8] is CurveSource.MEASURED
    assert widths(early)[64] is CurveSource.DECLARED
    assert values(early)[64] / values(early)[8] == pytest.approx(8.0, rel=0.25)
    room.says(job, times=40)
    for name, gpus in (("one", 1), ("many", 16), ("more", 32)):
        room.says(room.runs(name, gpus), times=40)
    late = room.learn()
    assert widths(late)[1] is CurveSource.MEASURED
    assert values(late)[32] / values(late)[1] == pytest.approx(step_seconds(1) / step_seconds(32), rel=0.1)


def test_declared_mean_work_is_what_it_was_in_hours_whatever_the_reference_is_now() -> None:
    room = Classroom(spec={**DECLARED, "meanWork": 3600})
    room.says(room.runs(gpus=8), times=10)
    profile = room.learn()
    assert profile.mean_work == pytest.approx(3600, rel=0.01)


def test_a_gpu_type_that_the_class_never_ran_on_is_offered_at_what_it_is_expected_to_take() -> None:
    room = Classroom()
    room.world.pool("h100", gpus=8)
    room.says(room.runs(gpus=8), times=20)
    profile = room.learn()
    assert max(widths(profile, "h100")) == 8
    assert set(widths(profile, "h100").values()) == {CurveSource.EXTRAPOLATED}
    there = {curve.gpu_type: curve for curve in profile.phases[0].curves}
    h100, a100 = there["h100"].form, there["a100"].form
    assert isinstance(h100, ThroughputTable)
    assert isinstance(a100, ThroughputTable)
    assert dict(h100.points)[8] < dict(a100.points)[8]


def test_gpu_types_that_no_job_of_the_class_may_use_are_left_out() -> None:
    room = Classroom()
    room.world.pool("h100", gpus=8)
    job = room.runs(gpus=8)
    room.world.jobs[job] = replace(room.world.jobs[job], gpu_types=("a100",))
    room.says(job)
    assert [curve.gpu_type for curve in room.learn().phases[0].curves] == ["a100"]


def test_a_batch_that_does_not_divide_by_the_gpus_is_learned_all_the_same() -> None:
    room = Classroom()
    room.says(room.runs(gpus=8), batch=100)
    assert widths(room.learn())[8] is CurveSource.MEASURED


def test_without_a_job_in_sight_nothing_new_is_said() -> None:
    room = Classroom()
    job = room.runs()
    room.says(job)
    del room.world.jobs[job]
    assert digest(room.collector.learner, CLASS, room.world.snapshot()) is None


def test_the_menu_of_a_learned_class_has_its_phases() -> None:
    room = Classroom(spec={"batch": {"own": 256, "largest": 8192, "largestPerGpu": 256}})
    job = room.runs()
    for part in range(20):
        room.says(job, times=4, done=part / 20, grad_sqr=1.0, grad_var=2.0 * 1.4**part)
    profile = room.learn()
    assert len(profile.phases) > 1
    menu = build_menu(MenuKey(profile.id, 1, 8, 32), profile, market(map(pool_offer, room.world.pools.values())))
    assert menu.known
    assert menu.until == tuple(phase.until for phase in profile.phases)
