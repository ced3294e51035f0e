"""What happens where the cheap pool is too small for all, as short stories."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from charterer.domain.ids import PoolId
from charterer.domain.plan import Allocate, Release, Rent
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
    assert not decided.commands


def test_without_the_others_they_have_the_cheap_pool() -> None:
    world = two_pools()
    for number in range(4):
        world.job(f"anywhere-{number}", gpus=(1, 8, 8), profile="anywhere")
    decided = settle(world)
    assert set(gpus_by_pool(world)) == {("anywhere", NEAR)}
    assert not decided.pools


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


def test_when_the_pool_grows_nobody_waits_and_no_node_is_let_go_for_it() -> None:
    world = two_pools(near=2)
    for number in range(4):
        world.job(f"picky-{number}", gpus=8, profile="picky", hours_left=0.5)
    assert settle(world).pools[NEAR].scarcity.micros_per_hour > 0
    world.pools[NEAR] = replace(world.pools[NEAR], max_nodes=50)
    decided = plan(world.snapshot())
    assert not decided.pools
    assert [command.pool for command in decided.commands if isinstance(command, Rent)] == [NEAR, NEAR]
    assert not [command for command in decided.commands if isinstance(command, Release | Allocate)]
