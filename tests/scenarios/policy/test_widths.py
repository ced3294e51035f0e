"""How one budget becomes widths of jobs, as short stories."""

from __future__ import annotations

from charterer.domain.ids import JobId
from charterer.domain.job import SpotPolicy
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import CapacityType
from charterer.domain.profile import PowerLaw, SpeedCurve
from charterer.policy import plan
from tests.scenarios.policy.stories import STEEP, WIDE, settle, simple, why


def test_one_job_alone_gets_about_as_many_gpus_as_the_rest_of_the_month_pays_for() -> None:
    world = simple(amount="112")  # 40 h of one GPU cost $80
    world.job("train", gpus=WIDE, profile="sft")
    settle(world)
    allocation = world.jobs[JobId("train")].allocation
    assert allocation is not None
    assert allocation.option.gpus == 16
    assert len(allocation.placements) == 2


def test_jobs_in_sight_are_no_load_for_ever() -> None:
    """Nine jobs of about $100 each came at once, and $20,000 are for half a month."""
    world = simple(amount="20000")
    for number in range(9):
        world.job(f"j{number}", gpus=WIDE, profile="sft")
    settle(world)
    assert {job.allocation.option.gpus for job in world.jobs.values() if job.allocation} == {32}


def test_with_more_jobs_each_gets_less_and_all_of_them_run() -> None:
    world = simple(amount="400")
    for number in range(4):
        world.job(f"j{number}", gpus=WIDE, profile="sft")
    settle(world)
    widths = [job.allocation.option.gpus for job in world.jobs.values() if job.allocation]
    assert widths == [4, 4, 4, 4]


def test_a_heavier_job_is_given_more() -> None:
    world = simple(amount="180")
    world.pool("a100", gpus=1, price="2")
    world.job("light", gpus=WIDE, profile="sft")
    world.job("heavy", gpus=WIDE, profile="sft", weight=8.0)
    decided = plan(world.snapshot())
    light, heavy = decided.jobs[JobId("light")].option, decided.jobs[JobId("heavy")].option
    assert light is not None
    assert heavy is not None
    assert heavy.gpus > light.gpus


def test_declared_arrivals_decide_instead_of_the_jobs_in_sight() -> None:
    crowded, quiet = simple(amount="11520"), simple(amount="11520")
    crowded.profile("sft", STEEP, work_hours=40, arrivals_per_hour=1.0)
    quiet.profile("sft", STEEP, work_hours=40, arrivals_per_hour=0.02)
    for world in (crowded, quiet):
        world.job("train", gpus=WIDE, profile="sft")
    few, many = (plan(world.snapshot()).jobs[JobId("train")].option for world in (crowded, quiet))
    assert few is not None
    assert many is not None
    assert few.gpus < many.gpus


def test_a_job_without_a_curve_runs_at_its_preferred_width_however_much_money_there_is() -> None:
    world = simple(amount="900000")
    world.job("unknown", gpus=(1, 2, 64))
    settle(world)
    allocation = world.jobs[JobId("unknown")].allocation
    assert allocation is not None
    assert allocation.option.gpus == 2
    assert why(plan(world.snapshot()), "unknown") is ReasonCode.NO_CURVE


def test_a_job_without_a_curve_goes_narrower_only_when_a_limit_forces_it() -> None:
    world = simple(max_hourly="16")
    world.job("unknown", gpus=(1, 16, 16))
    settle(world)
    allocation = world.jobs[JobId("unknown")].allocation
    assert allocation is not None
    assert allocation.option.gpus == 8


def test_the_gpu_type_that_does_a_unit_of_work_for_less_is_chosen() -> None:
    world = simple()
    world.pool("h100", gpus=8, price="24")
    world.profile("sft", STEEP, work_hours=40, others=[SpeedCurve("h100", PowerLaw(0.9, 2.0))])
    world.job("train", gpus=WIDE, profile="sft")
    option = plan(world.snapshot()).jobs[JobId("train")].option
    assert option is not None
    assert option.pool == "h100"


def test_spot_is_only_for_jobs_that_allow_it() -> None:
    world = simple()
    world.pool("spot", price="4", gpu_type="a100", capacity=CapacityType.SPOT)
    world.job("careful", gpus=WIDE, profile="sft")
    world.job("bold", gpus=WIDE, profile="sft", spot=SpotPolicy.ALLOWED)
    decided = plan(world.snapshot())
    pools = {job: verdict.option.pool for job, verdict in decided.jobs.items() if verdict.option}
    assert pools == {"careful": "a100", "bold": "spot"}
