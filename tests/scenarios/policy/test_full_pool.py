"""What happens where the cheap pool is too small for all, as short stories."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from charterer.domain.ids import ClassId, JobId, PoolId
from charterer.domain.plan import Allocate, ReasonCode, Release, Rent
from charterer.domain.profile import Amdahl, SpeedCurve
from charterer.domain.time import after
from charterer.policy import plan
from tests import factory
from tests.scenarios.policy.stories import settle
from tests.worlds import World

NEAR, FAR = PoolId("near"), PoolId("far")


def two_pools(near: int = 4, amount: str = "90000") -> World:
    """``anywhere`` runs as well on the dearer pool; ``picky`` runs on the cheap one only."""
    world = World()
    world.budget(amount=amount)
    world.pool("near", price="16", max_nodes=near)
    world.pool("far", price="20", max_nodes=50)
    form = Amdahl(0.95, 1.0)
    world.profile("anywhere", form, gpu_type="near", work_hours=20, others=[SpeedCurve("far", form)])
    world.profile("picky", form, gpu_type="near", work_hours=20)
    return world


def gpus_by_pool(world: World) -> Counter[tuple[str, PoolId]]:
    """GPUs that jobs hold, by class and pool."""
    held: Counter[tuple[str, PoolId]] = Counter()
    for job in world.jobs.values():
        if job.allocation is not None:
            held[job.class_id.name, job.allocation.option.pool] += job.allocation.option.gpus
    return held


def test_jobs_that_can_go_elsewhere_leave_the_full_pool_to_those_that_cannot() -> None:
    world = two_pools()
    for number in range(4):
        world.job(f"anywhere-{number}", gpus=(1, 8, 32), profile="anywhere", age_seconds=60.0)
        world.job(f"picky-{number}", gpus=(1, 8, 32), profile="picky")
    decided = settle(world)
    held = gpus_by_pool(world)
    assert held["picky", NEAR] == 32
    assert held["anywhere", NEAR] == 0
    assert held["anywhere", FAR] > 0
    assert decided.pools[NEAR].scarcity.micros_per_hour > 0
    assert not decided.commands


def test_without_the_others_they_have_the_cheap_pool() -> None:
    world = two_pools()
    for number in range(4):
        world.job(f"anywhere-{number}", gpus=(1, 8, 8), profile="anywhere")
    decided = settle(world)
    assert set(gpus_by_pool(world)) == {("anywhere", NEAR)}
    assert not decided.pools


@pytest.mark.parametrize(("restart_seconds", "moves"), [(30.0, True), (900.0, False)])
def test_a_running_job_makes_room_only_if_that_pays_for_its_restart(restart_seconds: float, moves: bool) -> None:
    world = two_pools(near=1)
    profile = world.profiles[ClassId("team", "anywhere")]
    world.profiles[profile.id] = replace(profile, restart_seconds=restart_seconds)
    world.job("anywhere", gpus=8, profile="anywhere", hours_left=0.3)
    settle(world)
    for number in range(2):
        world.job(f"picky-{number}", gpus=(4, 8, 8), profile="picky")
    assert plan(world.snapshot()).pools[NEAR].scarcity.micros_per_hour > 0
    decided = settle(world)
    why = decided.jobs[JobId("picky-0")].reason.code
    assert (why is ReasonCode.POOL_FULL) is not moves
    allocation = world.jobs[JobId("anywhere")].allocation
    assert allocation is not None
    assert allocation.option.pool == (FAR if moves else NEAR)


def test_a_stock_out_spills_new_jobs_and_moves_nobody_back_and_forth() -> None:
    world = two_pools(near=20)
    for number in range(3):
        world.job(f"anywhere-{number}", gpus=(1, 8, 16), profile="anywhere")
    settle(world)
    runs = {name: job.allocation for name, job in world.jobs.items()}
    for number in range(3):
        world.job(f"late-{number}", gpus=(1, 8, 16), profile="anywhere")
    for _ in range(8):
        world.passes(30.0)
        cooled = after(world.now, 570.0)  # asked again and again, and there is nothing
        world.pools[NEAR] = replace(world.pools[NEAR], cooled=factory.cooled(cooled, 600.0))
        world.passes(400.0)
        decided = plan(world.snapshot())
        assert not any(isinstance(command, Rent) and command.pool == NEAR for command in decided.commands)
        world.carry_out(decided)
        world.everything_starts()
        assert {name: world.jobs[name].allocation for name in runs} == runs
    late = [job for name, job in world.jobs.items() if name.startswith("late")]
    assert {job.allocation.option.pool for job in late if job.allocation} == {FAR}


def test_when_the_pool_grows_its_price_is_gone_and_no_node_is_let_go_for_it() -> None:
    world = two_pools(near=2)
    for number in range(4):
        world.job(f"anywhere-{number}", gpus=(1, 8, 8), profile="anywhere", hours_left=0.5)
    settle(world)
    assert plan(world.snapshot()).pools
    world.pools[NEAR] = replace(world.pools[NEAR], max_nodes=50)
    decided = plan(world.snapshot())
    assert not decided.pools
    assert not [command for command in decided.commands if isinstance(command, Release | Allocate)]
