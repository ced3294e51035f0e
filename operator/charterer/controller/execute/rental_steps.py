"""Budgets, pools and rentals: everything that costs money or records it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from charterer.api import manifests, names
from charterer.cluster import kinds
from charterer.cluster.paths import GPU_BUDGETS, GPU_POOLS, GPU_RENTALS
from charterer.controller.execute.context import ExecutionContext, Handler, Stale
from charterer.controller.outcome import ActionOutcome
from charterer.domain.budget import Balance
from charterer.domain.ids import PoolId
from charterer.domain.money import ZERO
from charterer.domain.plan import Release, Rent
from charterer.domain.pool import Instance
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.steps import (
    Adopt,
    CancelUnfulfilled,
    CloseUnfulfilled,
    Cool,
    CountJobs,
    Fold,
    Forget,
    MarkEnded,
    MarkReady,
    OpenPeriod,
    PruneFolded,
    RaiseTarget,
    RecordOrphan,
    Refresh,
    SetFinalizer,
)
from charterer.ledger import balance, class_history

# --- intents ----------------------------------------------------------------------------------------------------------


async def rent(tools: ExecutionContext, do: Rent) -> ActionOutcome:
    """Write the GPURental, its reserve with it; the cloud is asked by a later step."""
    body = manifests.rental(do, token=f"{do.rental}")
    return await tools.create(kinds.GPU_RENTALS, body)


async def release(tools: ExecutionContext, do: Release) -> ActionOutcome:
    """Mark it Draining."""
    rental = tools.rental(do.rental)
    why = do.reason.why.value
    await tools.record_rental(replace(rental, phase=RentalPhase.DRAINING, released_because=why))
    return ActionOutcome.DONE


# --- pools ------------------------------------------------------------------------------------------------------------


async def raise_target(tools: ExecutionContext, do: RaiseTarget) -> ActionOutcome:
    """Ask the cloud for at least so many nodes."""
    pool = tools.pool(do.pool)
    await tools.on_cloud(pool, tools.accounts.account_of(pool).raise_target(pool, do.at_least, do.token))
    return ActionOutcome.DONE


async def cancel_unfulfilled(tools: ExecutionContext, do: CancelUnfulfilled) -> ActionOutcome:
    """Stop asking for what did not come."""
    pool = tools.pool(do.pool)
    await tools.on_cloud(pool, tools.accounts.account_of(pool).cancel_unfulfilled(pool, do.keep))
    return ActionOutcome.DONE


async def cool(tools: ExecutionContext, do: Cool) -> ActionOutcome:
    """Leave the pool alone for a while."""
    pool = tools.pool(do.pool)
    cooled = replace(pool, cooled_until=do.until, cooled_because=do.because, cooled_message=do.message)
    await tools.record_pool(cooled)
    return ActionOutcome.DONE


async def adopt(tools: ExecutionContext, do: Adopt) -> ActionOutcome:
    """The instance is this rental's."""
    rental = tools.rental(do.rental)
    phase = RentalPhase.STARTING if rental.phase is RentalPhase.REQUESTED else rental.phase
    await tools.record_rental(_as_listed(replace(rental, phase=phase), do.instance))
    return ActionOutcome.DONE


async def record_orphan(tools: ExecutionContext, do: RecordOrphan) -> ActionOutcome:
    """A rental for an instance that nobody had asked for."""
    body = manifests.orphan_rental(do, reserved=ZERO)
    return await tools.create(kinds.GPU_RENTALS, body)


async def close_unfulfilled(tools: ExecutionContext, do: CloseUnfulfilled) -> ActionOutcome:
    """No instance came."""
    rental = tools.rental(do.rental)
    because = rental.released_because or do.because
    await tools.record_rental(replace(rental, phase=RentalPhase.ENDED, cost=ZERO, released_because=because))
    return ActionOutcome.DONE


# --- rentals ----------------------------------------------------------------------------------------------------------


async def refresh(tools: ExecutionContext, do: Refresh) -> ActionOutcome:
    """Record what the cloud tells anew."""
    await tools.record_rental(_as_listed(tools.rental(do.rental), do.instance))
    return ActionOutcome.DONE


async def mark_ready(tools: ExecutionContext, do: MarkReady) -> ActionOutcome:
    """The node takes pods."""
    rental = tools.rental(do.rental)
    await tools.record_rental(replace(rental, phase=RentalPhase.READY, node=do.node, ready=do.at))
    return ActionOutcome.DONE


async def mark_ended(tools: ExecutionContext, do: MarkEnded) -> ActionOutcome:
    """The end and the final cost."""
    rental = tools.rental(do.rental)
    because = rental.released_because or ("Vanished" if do.estimated else "InstanceEnded")
    ended = replace(rental, phase=RentalPhase.ENDED, ended=do.ended, cost=do.cost, released_because=because)
    await tools.record_rental(ended)
    return ActionOutcome.DONE


async def forget(tools: ExecutionContext, do: Forget) -> ActionOutcome:
    """First delete the object, then (named again) take its finalizer off: one mutation each."""
    rental = tools.rental(do.rental)
    path = GPU_RENTALS.one(rental.id)
    if not rental.deleting:
        await tools.delete(kinds.GPU_RENTALS, path, rental.uid)
    else:
        await _finalizer(tools, path, rental.uid, names.FINALIZER_LEDGER, present=False, kind=kinds.GPU_RENTALS)
    return ActionOutcome.DONE


def _as_listed(rental: Rental, instance: Instance) -> Rental:
    return replace(
        rental,
        instance=instance.id,
        provider_id=instance.provider_id,
        node=instance.node or rental.node,
        launched=instance.launched,
        segments=instance.segments,
        billing_minimum_seconds=instance.billing_minimum_seconds,
    )


# --- the ledger -------------------------------------------------------------------------------------------------------


async def fold(tools: ExecutionContext, do: Fold) -> ActionOutcome:
    """Amount and uid in one conditional write."""
    async with tools.ledger:
        budget = tools.budget(do.budget)
        await tools.record_budget(replace(budget, balance=balance.apply_fold(_opened(budget.balance), do)))
    return ActionOutcome.DONE


async def open_period(tools: ExecutionContext, do: OpenPeriod) -> ActionOutcome:
    """The first period, or the next."""
    async with tools.ledger:
        budget = tools.budget(do.budget)
        await tools.record_budget(replace(budget, balance=balance.apply_open_period(budget.balance, do)))
    return ActionOutcome.DONE


async def count_jobs(tools: ExecutionContext, do: CountJobs) -> ActionOutcome:
    """What finished jobs have cost, in one conditional write."""
    async with tools.ledger:
        budget = tools.budget(do.budget)
        await tools.record_budget(replace(budget, balance=class_history.apply_count(_opened(budget.balance), do)))
    return ActionOutcome.DONE


async def unlist(tools: ExecutionContext, do: PruneFolded) -> ActionOutcome:
    """Uids of rentals that are gone."""
    async with tools.ledger:
        budget = tools.budget(do.budget)
        await tools.record_budget(replace(budget, balance=balance.apply_prune_folded(_opened(budget.balance), do)))
    return ActionOutcome.DONE


def _opened(known: Balance | None) -> Balance:
    if known is None:
        raise Stale
    return known


# --- finalizers -------------------------------------------------------------------------------------------------------


async def set_finalizer(tools: ExecutionContext, do: SetFinalizer) -> ActionOutcome:
    """Keep a budget or a pool in sight while rentals name it."""
    if do.kind == kinds.GPU_BUDGETS.name:
        path, kind = GPU_BUDGETS.one(do.name), kinds.GPU_BUDGETS
        await _finalizer(tools, path, do.uid, names.FINALIZER_IN_USE, present=do.present, kind=kind)
    else:
        tools.pool(PoolId(do.name))
        path = GPU_POOLS.one(do.name)
        await _finalizer(tools, path, do.uid, names.FINALIZER_IN_USE, present=do.present, kind=kinds.GPU_POOLS)
    return ActionOutcome.DONE


async def _finalizer(
    tools: ExecutionContext, path: str, uid: str, finalizer: str, *, present: bool, kind: kinds.AnyKind
) -> None:
    """Set or remove one finalizer of that very object, whoever else has some on it."""
    metadata = (await tools.client.get(path))["metadata"]
    if metadata["uid"] != uid:
        raise Stale
    now: list[str] = metadata.get("finalizers") or []
    wanted = [*(one for one in now if one != finalizer), *([finalizer] if present else [])]
    body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": wanted}}
    answer = await tools.client.merge_patch(path, body)
    if "deletionTimestamp" in answer["metadata"] and not wanted:
        tools.store.remove(kind, answer)
    else:
        tools.store.put(kind, answer)


MONEY: Mapping[type, Handler] = {
    Rent: rent,
    Release: release,
    RaiseTarget: raise_target,
    CancelUnfulfilled: cancel_unfulfilled,
    Cool: cool,
    Adopt: adopt,
    RecordOrphan: record_orphan,
    CloseUnfulfilled: close_unfulfilled,
    Refresh: refresh,
    MarkReady: mark_ready,
    MarkEnded: mark_ended,
    Fold: fold,
    Forget: forget,
    OpenPeriod: open_period,
    CountJobs: count_jobs,
    PruneFolded: unlist,
    SetFinalizer: set_finalizer,
}
