"""GPUPoolSets: what is to be done about the pools of a set, and what is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from charterer.domain.errors import Problem
from charterer.domain.ids import PoolId, PoolSetId, StepKey, StepKind
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.pool_set import DeclaredPool, PoolSet
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import CreatePool, DeletePool, EditPool, Wait
from charterer.domain.time import Instant
from charterer.lifecycle.next_steps import next_steps
from charterer.lifecycle.pool_set import Difference, Obstacle, ObstacleKind, pool_set_steps
from tests.worlds import World

SET, A, B = PoolSetId("gpu"), PoolId("gpu-a"), PoolId("gpu-b")


def pools(*names: PoolId, set_uid: str = "uid-gpu") -> Mapping[PoolId, Pool]:
    """Pools of a set."""
    world = World()
    made = {name: world.pool(name) for name in names}
    return {name: replace(pool, uid=f"uid-{name}", set_uid=set_uid) for name, pool in made.items()}


def a_set(*names: PoolId, name: PoolSetId = SET, created: int = 0) -> PoolSet:
    """A set that declares these pools as ``pools`` has them."""
    declared = {each: DeclaredPool.of(pool) for each, pool in pools(*names).items()}
    return PoolSet(name, f"uid-{name}", 1, Instant(created), deleting=False, pools=declared)


def seen(*sets: PoolSet, there: Mapping[PoolId, Pool] | None = None, problems: tuple[Problem, ...] = ()) -> Snapshot:
    snapshot = World().snapshot()
    by_name = {each.id: each for each in sets}
    return replace(snapshot, pool_sets=by_name, declared_pools=there or {}, problems=problems)


def steps(*sets: PoolSet, of: PoolSetId = SET, **more: object) -> Mapping[PoolId, Difference]:
    return pool_set_steps(of, seen(*sets, **more))  # type: ignore[arg-type]


def test_a_pool_that_is_not_there_is_created_and_one_that_is_as_declared_is_left_alone() -> None:
    assert steps(a_set(A, B), there=pools(A)) == {B: CreatePool(SET, B)}
    assert steps(a_set(A, B), there=pools(A, B)) == {}


def test_a_pool_that_is_declared_no_more_is_deleted_once() -> None:
    there = pools(A, B)
    assert steps(a_set(A), there=there) == {B: DeletePool(SET, B, "uid-gpu-b")}
    assert steps(a_set(A), there={**there, B: replace(there[B], deleting=True)}) == {}


@pytest.mark.parametrize("change", [{"max_nodes": 7}, {"labels": {"x": "y"}}, {"learns_waits": False}])
def test_a_pool_that_differs_in_what_can_be_changed_is_changed_back(change: Mapping[str, object]) -> None:
    there = pools(A)
    changed = {A: replace(there[A], **change)}  # type: ignore[arg-type]
    assert steps(a_set(A), there=changed) == {A: EditPool(SET, A)}


def test_a_size_of_the_group_that_is_less_than_declared_is_no_difference() -> None:
    snapshot = seen(a_set(A), there=pools(A))
    small = {A: replace(snapshot.declared_pools[A], max_nodes=1)}
    assert pool_set_steps(SET, replace(snapshot, pools=small)) == {}


def test_a_pool_that_differs_in_what_cannot_be_changed_is_left_alone() -> None:
    there = {A: replace(pools(A)[A], capacity_type=CapacityType.SPOT, max_nodes=99)}
    assert steps(a_set(A), there=there) == {A: Obstacle(ObstacleKind.CANNOT_CHANGE)}


def test_a_pool_of_somebody_else_is_left_alone_whatever_it_says() -> None:
    assert steps(a_set(A), there=pools(A, set_uid="")) == {A: Obstacle(ObstacleKind.NAME_TAKEN)}
    former = pools(A, set_uid="uid-of-a-set-that-is-gone")
    assert steps(a_set(A), there=former) == {A: Obstacle(ObstacleKind.NAME_TAKEN)}
    assert steps(a_set(A), there=pools(A, B, set_uid="")).keys() == {A}


def test_of_two_sets_that_declare_one_name_the_older_gets_it_unless_the_other_has_it() -> None:
    older, younger = a_set(A, created=1), a_set(A, name=PoolSetId("g"), created=2)
    assert steps(older, younger) == {A: CreatePool(SET, A)}
    assert steps(older, younger, of=younger.id) == {A: Obstacle(ObstacleKind.NAME_TAKEN, SET)}
    there = pools(A, set_uid=younger.uid)
    assert steps(older, younger, there=there) == {A: Obstacle(ObstacleKind.NAME_TAKEN, younger.id)}
    assert steps(older, younger, of=younger.id, there=there) == {}
    gone = replace(older, deleting=True)
    assert steps(gone, younger, of=younger.id) == {A: CreatePool(younger.id, A)}


def test_a_pool_that_is_being_deleted_is_waited_for_and_then_made_anew() -> None:
    there = {A: replace(pools(A)[A], deleting=True, max_nodes=99)}
    assert isinstance(steps(a_set(A), there=there)[A], Wait)


def test_nothing_is_done_for_a_set_that_is_being_deleted() -> None:
    assert steps(replace(a_set(A), deleting=True), there=pools(B)) == {}


def test_a_pool_that_cannot_be_read_is_left_alone() -> None:
    problem = Problem("GPUPool", "", A, "spec", "InvalidSpec", "unknown")
    assert steps(a_set(A, B), problems=(problem,)) == {
        A: Obstacle(ObstacleKind.UNREADABLE),
        B: CreatePool(SET, B),
    }


def test_pools_whose_set_cannot_be_read_or_is_gone_are_left_alone() -> None:
    assert next_steps(seen(there=pools(A, B)))[0] == {}


def test_all_pools_of_all_sets_have_their_steps_at_once_and_an_obstacle_is_no_step() -> None:
    other = a_set(PoolId("x-a"), name=PoolSetId("x"), created=5)
    found, _ = next_steps(seen(a_set(A, B), other, there=pools(A, set_uid="")))
    assert found == {
        StepKey(StepKind.POOL_OF_SET, B): CreatePool(SET, B),
        StepKey(StepKind.POOL_OF_SET, "x-a"): CreatePool(other.id, PoolId("x-a")),
    }


def test_a_set_that_makes_the_search_fail_does_not_stop_the_others() -> None:
    broken = replace(a_set(A), pools={A: None})  # type: ignore[dict-item]
    other = a_set(PoolId("x-a"), name=PoolSetId("x"))
    found, waits = next_steps(seen(broken, other, there=pools(A)))
    assert list(found.values()) == [CreatePool(other.id, PoolId("x-a"))]
    assert "please report it" in waits[StepKey(StepKind.POOL_OF_SET, SET)].reason
