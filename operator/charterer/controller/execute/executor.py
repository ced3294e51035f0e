"""The executor finds the handler of a command or step by its type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from charterer.api import decode, manifests
from charterer.api.metadata import ObjectMeta
from charterer.api.models.gpupoolset import GPUPoolSetSpec, PoolManifest
from charterer.cluster import kinds
from charterer.cluster.client import RawObject
from charterer.cluster.errors import Conflict, NamespaceTerminating, NotFound, Withheld
from charterer.cluster.kinds import uid_test
from charterer.cluster.store import ObjectKey
from charterer.controller.execute.context import ExecutionContext, Handler, Stale
from charterer.controller.execute.node_steps import NODE_HANDLERS
from charterer.controller.execute.rental_steps import RENTAL_HANDLERS
from charterer.controller.execute.run_steps import RUN_HANDLERS
from charterer.controller.outcome import ActionOutcome, Held
from charterer.domain.errors import InvalidObject
from charterer.domain.ids import PoolId, PoolSetId
from charterer.domain.plan import Command
from charterer.domain.pool_set import DeclaredPool
from charterer.domain.steps import CreatePool, DeletePool, EditPool, Step
from charterer.ledger.balance import StalePeriod
from charterer.providers.errors import CloudCallWithheld

# Handlers of the steps on the GPUPools of a GPUPoolSet.
#
# Each first reads the set and, if there is one, the pool from the API server. A pool is created or changed only if its
# set still declares the pool, and deleted only if its set exists without declaring the pool.


_POOLS = kinds.GPU_POOLS.resource


class _FreshSet(NamedTuple):
    """A set as the API server has it now."""

    meta: ObjectMeta
    manifests: Mapping[PoolId, PoolManifest]
    pools: Mapping[PoolId, DeclaredPool]


async def create_pool(context: ExecutionContext, step: CreatePool) -> ActionOutcome:
    """Create the pool, controlled by its set. Raises AlreadyExists if another object has the name."""
    fresh = await _fresh(context, step.pool_set)
    if step.pool not in fresh.manifests:
        raise Stale
    body = manifests.pool_of_set(step.pool, fresh.manifests[step.pool], fresh.meta)
    return await context.objects.create(kinds.GPU_POOLS, body, strict=True)


async def edit_pool(context: ExecutionContext, step: EditPool) -> ActionOutcome:
    """Replace the pool's spec and labels with those that its set declares.

    Raises Held if something in the cluster changes the written pool, because repeated writes would never end.
    """
    fresh = await _fresh(context, step.pool_set)
    pool = await _own_pool(context, step.pool, fresh)
    if step.pool not in fresh.manifests:
        raise Stale
    manifest, metadata = fresh.manifests[step.pool], pool["metadata"]
    operations = [
        uid_test(metadata["uid"]),
        {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "add", "path": "/metadata/labels", "value": dict(manifest.labels)},
        {"op": "add", "path": "/spec", "value": manifest.spec},
    ]
    answer = await context.objects.json_patch(kinds.GPU_POOLS, _POOLS.one(step.pool), operations)
    if DeclaredPool.of(decode.pool(answer)) != fresh.pools[step.pool]:
        raise Held(
            f"GPUPool {step.pool} is not as GPUPoolSet {step.pool_set} declares it, although it was written so: "
            "something else, such as an admission policy or a webhook, changes its labels or its spec"
        )
    return ActionOutcome.DONE


async def delete_pool(context: ExecutionContext, step: DeletePool) -> ActionOutcome:
    """Delete the pool."""
    fresh = await _fresh(context, step.pool_set)
    pool = await _own_pool(context, step.pool, fresh)
    if step.pool in fresh.manifests or pool["metadata"]["uid"] != step.uid:
        raise Stale
    await context.objects.delete(kinds.GPU_POOLS, ObjectKey("", step.pool), step.uid)
    return ActionOutcome.DONE


async def _fresh(context: ExecutionContext, name: PoolSetId) -> _FreshSet:
    """The set of the decision. Raises Stale if the set has changed since, and NotFound if it does not exist."""
    decided = context.decided.snapshot().pool_sets.get(name)
    raw = await context.client.get(kinds.GPU_POOL_SETS.resource.one(name))
    meta = ObjectMeta.of(kinds.GPU_POOL_SETS.name, raw)
    if decided is None or meta.deleting or (meta.uid, meta.generation) != (decided.uid, decided.generation):
        raise Stale
    try:
        spec = meta.read(GPUPoolSetSpec, "spec", raw)
        return _FreshSet(meta, spec.manifests(name), spec.to_domain(meta).pools)
    except InvalidObject as error:
        raise Stale from error


async def _own_pool(context: ExecutionContext, name: PoolId, pool_set: _FreshSet) -> RawObject:
    """The pool, if the set controls it. Raises Stale if the set does not control it, and NotFound if the pool does not
    exist.
    """
    raw = await context.client.get(_POOLS.one(name))
    owner = ObjectMeta.of(kinds.GPU_POOLS.name, raw).controller
    if owner is None or owner.uid != pool_set.meta.uid:
        raise Stale
    return raw


POOL_SET_HANDLERS: Mapping[type, Handler] = {
    CreatePool: create_pool,
    EditPool: edit_pool,
    DeletePool: delete_pool,
}


HANDLERS: Mapping[type, Handler] = {**POOL_SET_HANDLERS, **RENTAL_HANDLERS, **NODE_HANDLERS, **RUN_HANDLERS}


class ClusterExecutor:
    """The ``Executor`` that acts on the cluster and the clouds."""

    def __init__(self, context: ExecutionContext) -> None:
        self._context = context

    async def execute(self, action: Command | Step) -> ActionOutcome:
        """Carry out one command or step. Returns STALE if its inputs have changed, and WITHHELD in a dry run.

        Raises ApiError, ProviderError and Held.
        """
        try:
            return await HANDLERS[type(action)](self._context, action)
        except (Stale, StalePeriod, Conflict, NotFound, NamespaceTerminating):
            return ActionOutcome.STALE
        except (Withheld, CloudCallWithheld):
            return ActionOutcome.WITHHELD
