"""GPUPoolSets, with the steps that create, change or delete a set's GPUPools, and the obstacles to these steps.

A pool that the set does not control, or that cannot be read, is left alone. If a set is being deleted, there are no
steps, because the garbage collector deletes its pools.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from charterer.domain.ids import PoolId, PoolSetId
from charterer.domain.pool_set import DeclaredPool, PoolSet
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import CreatePool, DeletePool, EditPool, PoolSetStep, Wait


class ObstacleKind(StrEnum):
    """The reason why a GPUPool differs from its set's declaration until a person acts.

    NAME_TAKEN: another object has the name. CANNOT_CHANGE: an immutable field differs. UNREADABLE: the operator cannot
    read the pool.
    """

    NAME_TAKEN = "NameTaken"
    CANNOT_CHANGE = "CannotChange"
    UNREADABLE = "PoolUnreadable"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What prevents a GPUPool from being as its set declares. ``holder``: the set that has the name, if any."""

    kind: ObstacleKind
    holder: PoolSetId | None = None


Difference: TypeAlias = PoolSetStep | Wait | Obstacle
"""The step that makes a GPUPool as its set declares, the wait before that step, or the obstacle to that step."""


def pool_set_steps(name: PoolSetId, snapshot: Snapshot) -> Mapping[PoolId, Difference]:
    """The differences of existing GPUPools from those that the set declares."""
    pool_set = snapshot.pool_sets[name]
    if pool_set.deleting:
        return {}
    unread = {problem.name for problem in snapshot.problems if problem.kind == "GPUPool"}
    found: dict[PoolId, Difference] = {}
    for pool, declared in pool_set.pools.items():
        difference = Obstacle(ObstacleKind.UNREADABLE) if pool in unread else _declared(pool, declared, name, snapshot)
        if difference is not None:
            found[pool] = difference
    for pool, there in snapshot.declared_pools.items():
        if there.set_uid == pool_set.uid and pool not in pool_set.pools and not there.deleting:
            found[pool] = DeletePool(name, pool, there.uid)
    return found


def _declared(pool: PoolId, declared: DeclaredPool, name: PoolSetId, snapshot: Snapshot) -> Difference | None:
    """The difference between a pool that the set declares and the existing pool, or None if there is no
    difference."""
    there = snapshot.declared_pools.get(pool)
    if there is None:
        first = _first_to_declare(pool, snapshot.pool_sets)
        return CreatePool(name, pool) if first == name else Obstacle(ObstacleKind.NAME_TAKEN, first)
    if there.set_uid != snapshot.pool_sets[name].uid:
        holders = (each.id for each in snapshot.pool_sets.values() if each.uid == there.set_uid)
        return Obstacle(ObstacleKind.NAME_TAKEN, next(holders, None))
    if there.deleting:
        return Wait(f"GPUPool {pool}, which is being deleted, to be gone")
    said = DeclaredPool.of(there)
    if not said.sells_as(declared):
        return Obstacle(ObstacleKind.CANNOT_CHANGE)
    return None if said == declared else EditPool(name, pool)


def _first_to_declare(pool: PoolId, pool_sets: Mapping[PoolSetId, PoolSet]) -> PoolSetId:
    """The oldest of the sets that declare a pool of this name. Of several sets of the same age, the first by name."""
    declaring = (each for each in pool_sets.values() if pool in each.pools and not each.deleting)
    return min(declaring, key=lambda each: (each.created, each.id)).id
