"""Views of GPUPoolSets: whether all GPUPools are as the set declares them, and which are not and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, assert_never

from charterer.api.condition_types import ConditionType
from charterer.api.models.base import Condition
from charterer.api.models.clouds.choice import cloud_fields
from charterer.api.models.gpupool import PoolState
from charterer.api.models.gpupoolset import GPUPoolSetStatus, PoolSetState
from charterer.controller.outcome import ActionOutcome
from charterer.controller.status.conditions import condition
from charterer.domain.ids import PoolId
from charterer.domain.nodes.pool_set import PoolSet
from charterer.domain.plan import Command
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import CreatePool, DeletePool, EditPool, Step, Wait
from charterer.lifecycle.pool_set import Difference, Obstacle, ObstacleKind, pool_set_steps
from charterer.sentences import count, is_or_are

FAILING = "Failing"
"""The reason where a step on a pool fails: the word of the Event."""
_NAMED = 3
"""Pools that are named in a message; of more, the number is said."""
_READY = (PoolState.READY, PoolState.FULL)


class FailedPoolSteps:
    """Why the last step on a pool of a set failed or was held, by the pool, until one succeeds."""

    def __init__(self) -> None:
        self._messages: dict[PoolId, str] = {}

    def done(self, action: Command | Step, outcome: ActionOutcome, message: str) -> None:
        """A command or step came to an end."""
        if not isinstance(action, CreatePool | EditPool | DeletePool):
            return
        if outcome in (ActionOutcome.FAILED, ActionOutcome.HELD):
            self._messages[action.pool] = message
        elif outcome is ActionOutcome.DONE:
            self._messages.pop(action.pool, None)

    def among(self, pools: Collection[PoolId]) -> Mapping[PoolId, str]:
        """The messages of those pools."""
        return {pool: message for pool, message in self._messages.items() if pool in pools}

    def retain(self, snapshot: Snapshot) -> None:
        """Forget the pools that no set declares or has."""
        sets = snapshot.pool_sets.values()
        for pool in [each for each in self._messages if each not in snapshot.declared_pools]:
            if not any(pool in pool_set.pools for pool_set in sets):
                del self._messages[pool]


def pool_set_view(
    pool_set: PoolSet, failed: FailedPoolSteps, states: Mapping[PoolId, PoolState], snapshot: Snapshot
) -> GPUPoolSetStatus:
    """The view of a set as of now; the transition times of its conditions are still to be set (``dated``).

    ``states``: of the pools.
    """
    own = {name for name, pool in snapshot.declared_pools.items() if pool.set_uid == pool_set.uid}
    state, ready = _state(pool_set, failed, snapshot)
    return GPUPoolSetStatus(
        observed_generation=pool_set.generation,
        state=state,
        pools=len(pool_set.pools),
        ready_pools=sum(states.get(name) in _READY for name in own & pool_set.pools.keys()),
        nodes=sum(each.pool in own and each.phase is not RentalPhase.ENDED for each in snapshot.rentals.values()),
        conditions=(ready,),
    )


def _state(pool_set: PoolSet, failed: FailedPoolSteps, snapshot: Snapshot) -> tuple[PoolSetState, Condition]:
    def ready(holds: bool | None, reason: str, message: str) -> Condition:
        return condition(ConditionType.READY, holds, reason, message, snapshot.now, pool_set.generation)

    if pool_set.deleting:
        message = "being deleted, with its GPUPools: each stays until its rentals have ended"
        return PoolSetState.DELETING, ready(False, "Draining", message)
    differences = pool_set_steps(pool_set.id, snapshot)
    if not differences:
        pools = count(len(pool_set.pools), "GPUPool")
        return PoolSetState.READY, ready(True, "AsDeclared", f"{pools} {is_or_are(len(pool_set.pools))} as declared")
    obstacles = dict(sorted(_obstacles(pool_set, differences, failed, snapshot)))
    if not obstacles:
        pools = count(len(differences), "GPUPool")
        message = f"{pools} {is_or_are(len(differences))} being created, changed or deleted"
        return PoolSetState.CHANGING, ready(None, "Changing", message)
    reason = next(iter(obstacles.values()))[0]
    said = [f"GPUPool {name}: {message}" for name, (_, message) in obstacles.items()]
    more = f"; and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
    return PoolSetState.INCOMPLETE, ready(False, reason, "; ".join(said[:_NAMED]) + more)


def _obstacles(
    pool_set: PoolSet, differences: Mapping[PoolId, Difference], failed: FailedPoolSteps, snapshot: Snapshot
) -> Iterator[tuple[PoolId, tuple[str, str]]]:
    """The pools about which a person has to do something: reason and message of each."""
    messages = failed.among(differences.keys())
    for pool, difference in differences.items():
        if isinstance(difference, Obstacle):
            yield pool, (difference.kind.value, _in_words(pool, difference, pool_set, snapshot))
        elif not isinstance(difference, Wait) and pool in messages:
            yield pool, (FAILING, messages[pool])


def _in_words(pool: PoolId, obstacle: Obstacle, pool_set: PoolSet, snapshot: Snapshot) -> str:
    match obstacle.kind:
        case ObstacleKind.NAME_TAKEN:
            holder = "not this set's" if obstacle.holder is None else f"GPUPoolSet {obstacle.holder}'s"
            return f"is there and is {holder}, so it is left alone: delete it, or rename a value of this set"
        case ObstacleKind.UNREADABLE:
            return "cannot be read, so it is left alone: its own condition Ready says why"
        case ObstacleKind.CANNOT_CHANGE:
            return (
                f"{_changed(pool, pool_set, snapshot)}, which cannot be changed in a GPUPool. Give the value another "
                f"name, which makes another GPUPool and deletes this one; or kubectl delete gpupool {pool}, after "
                "which it is made anew; or take the change back"
            )
        case _ as never:
            assert_never(never)


def _changed(pool: PoolId, pool_set: PoolSet, snapshot: Snapshot) -> str:
    """The first field that cannot be changed and differs, with both values."""
    there, declared = snapshot.declared_pools[pool], pool_set.pools[pool]
    before = {**cloud_fields(there.cloud), "capacityType": there.capacity_type.value}
    after = {**cloud_fields(declared.cloud), "capacityType": declared.capacity_type.value}
    field, old, new = next(_unequal(before, after, "spec"))
    return f"{field} is {_value(old)} there and {_value(new)} here"


def _unequal(one: Mapping[str, Any], other: Mapping[str, Any], path: str) -> Iterator[tuple[str, object, object]]:
    for key in sorted({*one, *other}):
        old, new = one.get(key), other.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _unequal(old, new, f"{path}.{key}")
        elif old != new:
            yield f"{path}.{key}", old, new


def _value(value: object) -> str:
    return "absent" if value is None else repr(value)
