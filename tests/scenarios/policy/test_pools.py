"""Pools that are full, cooling or going, as short stories."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.ids import JobId
from charterer.domain.plan import Allocate, ReasonCode
from charterer.domain.pool import CapacityType
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
