"""Commands and steps on pools, rentals and budgets: all that costs money or records costs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from charterer.api import manifests, names
from charterer.cluster import kinds
from charterer.cluster.errors import AlreadyExists, Conflict, NotFound
from charterer.cluster.paths import GPU_RENTALS
from charterer.cluster.store import ObjectKey
from charterer.controller.execute.context import ExecutionContext, Handler, Stale
from charterer.controller.outcome import ActionOutcome
from charterer.domain.ids import PoolId
from charterer.domain.money import ZERO
from charterer.domain.order import LACKS, with_cool_down, without_cool_downs
from charterer.domain.plan import Release, Rent
from charterer.domain.rental import RentalPhase, by_gang
from charterer.domain.steps import (
    Adopt,
    AskCloud,
    CloseUnfulfilled,
    Cool,
    CountLifetimes,
    Forget,
    KeepBooks,
    MarkDraining,
    MarkEnded,
    MarkMissing,
    MarkReady,
    OpenPeriod,
    RecordCosts,
    RecordedPart,
    RecordOffer,
    RecordOrphan,
    RecordUses,
    Refresh,
    RentalRecord,
    Reopen,
    SetFinalizer,
    Withdraw,
)
from charterer.estimate.hazard import with_ended, without_rentals
from charterer.estimate.waits import with_refusal, with_start
from charterer.ledger import balance

# --- intents ----------------------------------------------------------------------------------------------------------


async def rent(context: ExecutionContext, command: Rent) -> ActionOutcome:
    """Create the GPURental with its reserve. A later step asks the cloud for the node."""
    body = manifests.rental(command, context.decided.pool(command.pool))
    return await context.objects.create(kinds.GPU_RENTALS, body)


async def release(context: ExecutionContext, command: Release) -> ActionOutcome:
    """Mark the rental Draining."""
    rental = context.decided.rental(command.rental)
    why = command.reason.code.value
    released = replace(rental, phase=RentalPhase.DRAINING, released_because=why, released=context.now())
    await context.objects.record_rental(released)
    return ActionOutcome.DONE


# --- pools ------------------------------------------------------------------------------------------------------------


async def ask_cloud(context: ExecutionContext, step: AskCloud) -> ActionOutcome:
    """Ask the cloud for nodes, and record the instances in its reply at once, so that no node is requested twice.

    A gang is not requested if any of its rentals has changed, since one may be missing.

    If an instance in the reply already has a rental, the cloud's list had shown the instance without its order for too
    long. The rental of the order is then closed, so that nothing is paid for twice.

    Another pool of the group may meanwhile have sent the same order, and recorded the instance or closed the rental.
    The rental then stays as it is. An instance that got no rental is found later in the cloud's list.
    """
    asked = [context.decided.rental(order.rental) for order in step.ask.orders]
    for gang in by_gang(asked) if step.ask.together else ():
        context.decided.gang(gang)
    reply = await context.clouds.ask(context.decided.pool(step.pool), step.ask)
    for order in step.ask.orders:
        if (instance := reply.launched.get(order.token)) is None:
            continue
        async with context.matching:
            rental = context.decided.rental(order.rental)
            if rental.instance is not None or rental.phase is RentalPhase.ENDED:
                continue
            if (other := context.decided.rental_of(instance, rental.pool)) is None:
                await context.objects.record_rental(replace(rental, instance=instance, named=context.now()))
            else:
                because = f"instance {instance} has GPURental {other.id} already"
                closed = replace(rental, phase=RentalPhase.ENDED, cost=ZERO, released_because=because)
                await context.objects.record_rental(closed)
    return ActionOutcome.DONE


async def withdraw(context: ExecutionContext, step: Withdraw) -> ActionOutcome:
    """Withdraw the orders that got no node."""
    await context.clouds.withdraw(context.decided.pool(step.pool), step.orders, step.keep)
    return ActionOutcome.DONE


async def cool(context: ExecutionContext, step: Cool) -> ActionOutcome:
    """Record the end of the pool's cool-down. A refusal for lack of nodes is also counted in the statistics of this
    hour of the week.
    """
    pool, new = context.decided.pool(step.pool), step.cool_down
    launches = with_refusal(pool.launches, new.since) if new.kind in LACKS else pool.launches
    await context.objects.record_pool(replace(pool, cooled=with_cool_down(pool.cooled, new), launches=launches))
    return ActionOutcome.DONE


async def reopen(context: ExecutionContext, step: Reopen) -> ActionOutcome:
    """Drop a refusal if the cloud has launched a node since."""
    pool = context.decided.pool(step.pool)
    await context.objects.record_pool(replace(pool, cooled=without_cool_downs(pool.cooled, step.since)))
    return ActionOutcome.DONE


async def record_offer(context: ExecutionContext, step: RecordOffer) -> ActionOutcome:
    """Record the cloud's offering and quote, which are used while the cloud does not answer, and the start times of the
    pool's nodes.
    """
    pool = context.decided.pool(step.pool)
    launches = reduce(with_start, step.starts, pool.launches)
    await context.objects.record_pool(replace(pool, offering=step.offering, quote=step.quote, launches=launches))
    return ActionOutcome.DONE


async def count_lifetimes(context: ExecutionContext, step: CountLifetimes) -> ActionOutcome:
    """Count the lifetimes of ended nodes, each once."""
    pool = context.decided.pool(step.pool)
    lifetimes = without_rentals(reduce(with_ended, step.nodes, pool.lifetimes), step.there)
    await context.objects.record_pool(replace(pool, lifetimes=lifetimes))
    return ActionOutcome.DONE


async def adopt(context: ExecutionContext, step: Adopt) -> ActionOutcome:
    """Record the rental's instance. Raises Stale if another rental has named the instance since the decision."""
    rental = context.decided.rental(step.rental)
    phase = RentalPhase.STARTING if rental.phase is RentalPhase.REQUESTED else rental.phase
    async with context.matching:
        other = context.decided.rental_of(step.instance.id, rental.pool)
        if other is not None and other.id != rental.id:
            raise Stale
        await context.objects.record_rental(replace(rental, phase=phase, missing_since=None).as_listed(step.instance))
    return ActionOutcome.DONE


async def record_orphan(context: ExecutionContext, step: RecordOrphan) -> ActionOutcome:
    """Create a rental for an instance that no rental asked for. Raises Stale if a rental names the instance by now.

    Another pool of the same group may already have created the rental under the same name, although the store does not
    have it yet.
    """
    body = manifests.orphan_rental(step, context.decided.pool(step.pool))
    async with context.matching:
        if context.decided.rental_of(step.instance.id, step.pool) is not None:
            raise Stale
        try:
            return await context.objects.create(kinds.GPU_RENTALS, body)
        except AlreadyExists:
            raise Stale from None


# --- rentals ----------------------------------------------------------------------------------------------------------


async def record_rental(context: ExecutionContext, step: RentalRecord) -> ActionOutcome:
    """Write the record. The API server refuses it if the rental has changed since the record was made."""
    context.decided.rental(step.rental)
    await context.objects.record_rental(step.after)
    return ActionOutcome.DONE


async def mark_draining(context: ExecutionContext, step: MarkDraining) -> ActionOutcome:
    """Record that a rental is to be ended because of a person's action, such as deleting its object."""
    rental = context.decided.rental(step.rental)
    because = rental.released_because or step.because
    draining = replace(rental, phase=RentalPhase.DRAINING, released_because=because, released=context.now())
    await context.objects.record_rental(draining)
    return ActionOutcome.DONE


async def forget(context: ExecutionContext, step: Forget) -> ActionOutcome:
    """Delete the object. Once the object is in deletion, the step is repeated and removes the finalizer."""
    rental = context.decided.rental(step.rental)
    if not rental.deleting:
        await context.objects.delete(kinds.GPU_RENTALS, ObjectKey("", rental.id), rental.uid)
    else:
        path = GPU_RENTALS.one(rental.id)
        await context.objects.set_finalizer(kinds.GPU_RENTALS, path, rental.uid, names.FINALIZER_LEDGER, present=False)
    return ActionOutcome.DONE


# --- the ledger -------------------------------------------------------------------------------------------------------


async def keep_books(context: ExecutionContext, step: KeepBooks) -> ActionOutcome:
    """Write the balance with all entries."""
    before = context.decided.budget(step.budget)
    if before.balance is None:
        raise Stale
    entered = balance.apply_entries(before.balance, step.entries)
    await context.objects.record_budget(replace(before, balance=entered))
    return ActionOutcome.DONE


async def open_period(context: ExecutionContext, step: OpenPeriod) -> ActionOutcome:
    """Open the first or the next period."""
    before = context.decided.budget(step.budget)
    opened = balance.apply_open_period(before.balance, step)
    await context.objects.record_budget(replace(before, balance=opened))
    return ActionOutcome.DONE


async def record_costs(context: ExecutionContext, step: RecordCosts) -> ActionOutcome:
    """Write the file, and then record on each rental which part of its costs is on record. Returns STALE if a rental
    has changed.
    """
    await context.costs.write([row for part in step.parts for row in part.rows])
    marked = await asyncio.gather(*(_mark_recorded(context, part) for part in step.parts), return_exceptions=True)
    for failed in marked:
        if isinstance(failed, BaseException):
            raise failed
    return ActionOutcome.DONE if all(marked) else ActionOutcome.STALE


async def _mark_recorded(context: ExecutionContext, part: RecordedPart) -> bool:
    """Record the part on its rental. Returns False if the rental has changed since the part was made."""
    try:
        rental = context.decided.rental(part.rental)
        if rental.resource_version != part.version:
            return False
        await context.objects.record_rental(replace(rental, recorded=part.after))
    except (Stale, Conflict, NotFound):
        return False
    return True


# --- finalizers -------------------------------------------------------------------------------------------------------


async def set_finalizer(context: ExecutionContext, step: SetFinalizer) -> ActionOutcome:
    """Add or remove the finalizer that keeps a budget or a pool while rentals name it."""
    kind: kinds.AnyKind = kinds.GPU_BUDGETS
    if step.kind == kinds.GPU_POOLS.name:
        kind = kinds.GPU_POOLS
        context.decided.pool(PoolId(step.name))
    path = kind.resource.one(step.name)
    await context.objects.set_finalizer(kind, path, step.uid, names.FINALIZER_IN_USE, present=step.present)
    return ActionOutcome.DONE


RENTAL_HANDLERS: Mapping[type, Handler] = {
    Rent: rent,
    Release: release,
    AskCloud: ask_cloud,
    Withdraw: withdraw,
    Cool: cool,
    Reopen: reopen,
    Adopt: adopt,
    RecordOffer: record_offer,
    CountLifetimes: count_lifetimes,
    RecordOrphan: record_orphan,
    **dict.fromkeys((CloseUnfulfilled, Refresh, MarkReady, MarkMissing, MarkEnded, RecordUses), record_rental),
    MarkDraining: mark_draining,
    Forget: forget,
    OpenPeriod: open_period,
    KeepBooks: keep_books,
    RecordCosts: record_costs,
    SetFinalizer: set_finalizer,
}
