"""Pools that are full, cooling or going, as short stories."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.ids import JobId, RentalId
from charterer.domain.plan import Allocate, ReasonCode
from charterer.domain.pool import CapacityType, NodeLifetimes
from charterer.policy import plan
from tests.scenarios.policy.stories import placed, releases, rents, simple, why


def test_a_cooling_pool_is_passed_over_for_the_next_best() -> None:
    world = simple()
    world.pool("a100", cooled_for=300.0)
    world.pool("other", gpu_type="a100", price="18")
    world.job("train", gpus=8, profile="sft")
    assert rents(plan(world.snapshot())) == ["other-1"]


def test_a_job_waits_for_a_cooling_pool_when_there_is_no_other_and_says_when() -> None:
    world = simple()
    pool = world.pool("a100", cooled_for=300.0)
    world.job("train", gpus=8)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert why(decided, "train") is ReasonCode.POOL_COOLING
    assert decided.again_at == pool.cooled[-1].until


def test_nodes_that_a_cooling_pool_already_has_are_used() -> None:
    world = simple()
    world.pool("a100", cooled_for=300.0)
    world.rental()
    world.job("train", gpus=8)
    assert placed(plan(world.snapshot())) == {"train": 8}


def test_a_full_pool_is_not_asked_for_more() -> None:
    world = simple()
    world.pool("a100", max_nodes=1)
    world.job("one", gpus=8, age_seconds=10)
    world.job("two", gpus=8)
    decided = plan(world.snapshot())
    assert rents(decided) == ["a100-1"]
    assert why(decided, "two") is ReasonCode.POOL_FULL


def test_the_name_of_a_rental_that_is_gone_is_not_used_again() -> None:
    world = simple()
    pool = world.pool("a100", max_nodes=9)
    world.rental("a100")
    world.rental("a100")
    del world.rentals[RentalId("a100-1")]
    world.job("one", gpus=8, age_seconds=10)
    world.job("two", gpus=8)
    assert rents(plan(world.snapshot())) == ["a100-3"]
    world.pools[pool.id] = replace(pool, lifetimes=NodeLifetimes(at=world.now, ordinal=6))
    assert rents(plan(world.snapshot())) == ["a100-7"]


def test_a_width_that_no_pool_has_says_so() -> None:
    world = simple()
    world.job("odd", gpus=12)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert why(decided, "odd") is ReasonCode.NO_OPTION


def test_a_job_that_only_spot_nodes_would_fit_is_told_so() -> None:
    world = simple()
    world.pool("a100", gpu_type="a100", capacity=CapacityType.SPOT)
    world.job("careful", gpus=8)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert decided.jobs[JobId("careful")].reason.message == (
        "no GPUPool with a known price offers 8 GPUs that the cloud cannot take back: set spec.spotPolicy to Allowed, "
        "or add a pool of on-demand nodes"
    )


def test_a_job_waits_without_a_warning_while_the_cloud_of_a_new_pool_is_being_asked() -> None:
    world = simple()
    new = world.pool("new")
    world.pools[new.id] = replace(new, offering=None, quote=None)
    world.unsurveyed.add(new.id)
    world.job("train", gpus=8, gpu_types=("new",))
    decided = plan(world.snapshot())
    assert why(decided, "train") is ReasonCode.NOT_ASKED_YET
    assert decided.jobs[JobId("train")].reason.message == (
        "the cloud has not answered yet what it offers in GPUPool new, and no other pool fits"
    )


def test_a_job_without_an_option_is_told_which_pools_cannot_be_used_and_no_name_of_an_endpoint() -> None:
    world = simple()
    dead = world.pool("dead")
    world.unsurveyed.add(dead.id)
    world.pools[dead.id] = replace(dead, offering=None, quote=None, trouble="no connection: check the pool's endpoint")
    world.job("train", gpus=8, gpu_types=("A100-SXM",))
    world.pool("a100", gpu_type="NVIDIA-A100-SXM4-40GB")
    decided = plan(world.snapshot())
    assert why(decided, "train") is ReasonCode.NO_OPTION
    assert decided.jobs[JobId("train")].reason.message == (
        "no GPUPool with a known price offers 8 GPUs of type A100-SXM: pools have NVIDIA-A100-SXM4-40GB (did you mean "
        "NVIDIA-A100-SXM4-40GB?); GPUPool dead cannot be used now, as its conditions say"
    )


def test_a_job_waits_for_the_first_answer_of_a_new_operator_without_a_warning() -> None:
    world = simple()
    world.unsurveyed.add(world.pool("a100").id)
    world.job("train", gpus=8)
    assert why(plan(world.snapshot()), "train") is ReasonCode.NOT_ASKED_YET


def test_a_pool_that_is_deleted_is_emptied_and_its_jobs_go_elsewhere() -> None:
    world = simple()
    pool = world.pool("a100")
    world.pool("other", gpu_type="a100", price="18")
    world.rental("a100")
    world.rental("other")
    world.job("train", gpus=8, profile="sft")
    world.runs_on("train", "a100-1", gpus=8)
    world.pools[pool.id] = replace(pool, deleting=True)
    decided = plan(world.snapshot())
    assert releases(decided) == {"a100-1": ReasonCode.POOL_DELETED}
    assert placed(decided) == {"train": 8}
    assert world.jobs[JobId("train")].allocation is not None
    command = next(item for item in decided.commands if isinstance(item, Allocate) and item.allocation)
    assert command.allocation is not None
    assert command.allocation.run == 2
