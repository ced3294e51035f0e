"""Pools: the group's target follows the rentals that want a node, and every instance the cloud has gets a rental.

Targets are counts and adoption is a matching, so both belong to the pool and only one step of a pool is in flight.
First everything the cloud bills is matched with a rental; only then is the target looked at.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId, PoolId, RentalId
from charterer.domain.money import Price
from charterer.domain.pool import Instance, InstanceState, LaunchFailure, Pool, Survey
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.steps import (
    Adopt,
    CancelUnfulfilled,
    CloseUnfulfilled,
    Cool,
    PoolStep,
    RaiseTarget,
    RecordOffer,
    RecordOrphan,
    Wait,
)
from charterer.domain.time import after, format_instant
from charterer.lifecycle.rental import may_terminate
from charterer.lifecycle.view import HELD, LifecycleView, count, draining, names, vanished

_NAME_LIMIT = 253


def pool_step(pool_id: PoolId, view: LifecycleView) -> PoolStep | Wait | None:
    """The pool's next step, what it waits for, or None when the group is as it should be."""
    pool = view.snapshot.pools[pool_id]
    survey = view.snapshot.surveys.get(pool_id)
    if survey is None:
        return Wait(f"the cloud has not yet been asked about GPUPool {pool_id}")
    books = _Books.of(pool, survey, view)
    step = _match(books, view) or _fill(books, view)
    if (step is None or isinstance(step, Wait)) and not pool.offer_recorded and not pool.deleting:
        return RecordOffer(pool_id, pool.offering, pool.quote)
    return step


@dataclass(frozen=True, slots=True)
class _Books:
    """Rentals and instances of one pool, sorted by what they want of each other.

    ``waiting``: Requested rentals without an instance. ``leaving``: released ones that never got one. ``unnamed``:
    instances that no rental names, the ones still alive first. ``held``: how many instances count towards the target.
    """

    pool: Pool
    survey: Survey
    rentals: Sequence[Rental]
    waiting: Sequence[Rental]
    leaving: Sequence[Rental]
    unnamed: Sequence[Instance]
    held: int

    @classmethod
    def of(cls, pool: Pool, survey: Survey, view: LifecycleView) -> _Books:
        rentals = view.rentals_of_pool.get(pool.id, ())
        without = [rental for rental in rentals if rental.instance is None and rental.phase is not RentalPhase.ENDED]
        return cls(
            pool=pool,
            survey=survey,
            rentals=rentals,
            waiting=[rental for rental in without if not draining(rental)],
            leaving=[rental for rental in without if draining(rental)],
            unnamed=sorted(view.unnamed(pool.id), key=lambda instance: instance.state not in HELD),
            held=sum(instance.state in HELD for instance in survey.instances),
        )


# --- matching: whatever the cloud bills has a rental -----------------------------------------------------------------


def _match(books: _Books, view: LifecycleView) -> PoolStep | Wait | None:
    for rental in books.rentals:
        if (
            rental.phase is RentalPhase.REQUESTED and rental.instance is not None
        ):  # an orphan's, fresh from its creation
            instance = view.instance(rental)
            if instance is not None:
                return Adopt(rental.id, instance)
            if vanished(rental, instance, books.survey):
                return CloseUnfulfilled(
                    rental.id, f"instance {rental.instance} left the cloud's list before it was read"
                )
    if not books.unnamed:
        return None
    instance = books.unnamed[0]
    alive = instance.state in HELD
    takers = [*books.waiting, *books.leaving] if alive else [*books.leaving, *books.waiting]
    if takers:
        return Adopt(takers[0].id, instance)
    budget = _payer(books.rentals, view)
    if budget is None:
        return Wait(
            f"instance {instance.id} of GPUPool {books.pool.id} runs for nobody: "
            "create a GPUBudget in mode Enforce to pay for it until it is ended"
        )
    return RecordOrphan(
        orphan_name(books.pool.id, instance), books.pool.id, budget, instance, _worst(books.pool, instance)
    )


def _payer(rentals: Sequence[Rental], view: LifecycleView) -> BudgetId | None:
    """Who pays for an instance nobody asked for: whoever rented last in its pool, else the first that enforces."""
    for rental in reversed(rentals):
        if rental.budget in view.snapshot.budgets:
            return rental.budget
    budgets = view.snapshot.budgets.values()
    return min((budget.id for budget in budgets if budget.mode is Mode.ENFORCE and not budget.deleting), default=None)


def _worst(pool: Pool, instance: Instance) -> Price:
    """The dearest the instance can be an hour, as far as is known: quoted or already charged."""
    quoted = [] if pool.quote is None else [pool.quote.worst]
    return max([*quoted, *(segment.price for segment in instance.segments)], default=Price(0))


def orphan_name(pool: PoolId, instance: Instance) -> RentalId:
    """``<pool>-o-<instance>``, the same whenever asked; a hash tells apart what an object's name cannot spell."""
    plain = re.sub(r"[^a-z0-9-]+", "-", instance.id.lower()).strip("-")
    room = _NAME_LIMIT - len(pool) - len("-o-")
    if plain != instance.id or len(plain) > room:
        digest = hashlib.sha256(instance.id.encode()).hexdigest()[:10]
        plain = f"{plain[: max(room - 11, 0)]}-{digest}".strip("-")
    return RentalId(f"{pool}-o-{plain}")


# --- the target: as many as there are rentals that want a node -------------------------------------------------------


def _fill(books: _Books, view: LifecycleView) -> PoolStep | Wait | None:
    failure = _failure(books)
    cooling = books.pool.cooled_until is not None and books.pool.cooled_until > view.snapshot.now
    if failure is not None and not cooling:
        until = after(view.snapshot.now, books.pool.cooldown_seconds)
        return Cool(books.pool.id, until, failure.kind, failure.message)
    closing = cooling or books.pool.deleting
    staying = [rental for rental in books.rentals if _holds(rental, books.survey, view)]
    wanted = len(staying) + (0 if closing else len(books.waiting))
    keep = max(books.held, wanted)
    if books.survey.target > keep:
        return CancelUnfulfilled(books.pool.id, keep)
    for rental in [*books.leaving, *(books.waiting if closing else ())]:
        return CloseUnfulfilled(rental.id, _unfulfilled(rental, books.pool, cooling=cooling))
    return _raise(books, staying, view)


def _failure(books: _Books) -> LaunchFailure | None:
    """The latest failed launch of what is still missing.

    A failure is the waiting rentals' when it is newer than the oldest of them. Those are two clocks, the cloud's and
    the API server's. A cloud behind hides its first failures, but a group tries again and fails again, later; a cloud
    ahead makes a rental created just after a cooldown meet the last failure before it, and the pool cools once more.
    """
    if not books.waiting or books.survey.target <= books.held:
        return None
    oldest = min(rental.created for rental in books.waiting)
    return max((item for item in books.survey.failures if item.at > oldest), key=lambda item: item.at, default=None)


def _holds(rental: Rental, survey: Survey, view: LifecycleView) -> bool:
    """Whether the rental's instance counts towards the target (one not listed yet does)."""
    if rental.instance is None or rental.phase is RentalPhase.ENDED:
        return False
    instance = view.instance(rental)
    return not vanished(rental, instance, survey) if instance is None else instance.state in HELD


def _raise(books: _Books, staying: Sequence[Rental], view: LifecycleView) -> PoolStep | Wait | None:
    """Ask for the nodes that are missing, once nobody can delete the pool, or the budget that pays, from under them.

    A rental whose instance is about to be ended is left out: ending lowers the target too, and a target raised on the
    strength of an instance that goes would buy a node too many. Counting it out can only ask for too few, for now.
    """
    asking = [rental for rental in books.waiting if not view.observes(rental.budget)]
    if not asking:
        return None
    if not books.pool.guarded:
        return Wait(f"the finalizer of GPUPool {books.pool.id}")
    unguarded = {rental.budget for rental in asking if not view.guarded(rental.budget)}
    asking = [rental for rental in asking if rental.budget not in unguarded]
    if not asking:
        return Wait(f"the finalizer of GPUBudget {min(unguarded)}")
    at_least = len(asking) + sum(not may_terminate(rental, view) for rental in staying)
    if books.survey.target < at_least:
        return RaiseTarget(books.pool.id, at_least, _token(books, at_least))
    return Wait(f"{count(len(books.waiting), 'node')} of GPUPool {books.pool.id} asked for, not launched yet")


def _token(books: _Books, at_least: int) -> str:
    """The same for the same wish on the same sight of the cloud: a call repeated before looking again is one call.

    A later look that finds the target still too low makes a new token, or a target that somebody lowered would stay.
    """
    wish = [books.pool.uid, str(at_least), format_instant(books.survey.asked), *(item.uid for item in books.waiting)]
    return hashlib.sha256("/".join(wish).encode()).hexdigest()[:32]


def _unfulfilled(rental: Rental, pool: Pool, *, cooling: bool) -> str:
    if draining(rental):
        return rental.released_because or "it was released before an instance came"
    if cooling:
        return f"GPUPool {pool.id} could not give a node: {pool.cooled_because}"
    return f"GPUPool {pool.id} is being deleted"


def left_behind(pool: Pool, view: LifecycleView) -> str:
    """What must still be ended or paid for before the pool's object may go; empty when nothing."""
    survey = view.snapshot.surveys.get(pool.id)
    rentals = view.rentals_of_pool.get(pool.id, ())
    if rentals:
        return f"{count(len(rentals), 'rental')} ({names(rental.id for rental in rentals)})"
    if survey is None:
        return ""
    books = _Books.of(pool, survey, view)
    running = [instance.id for instance in books.unnamed if instance.state is not InstanceState.ENDED]
    if running:
        return f"{count(len(running), 'instance')} ({names(running)})"
    return f"a target of {survey.target}" if survey.target > 0 else ""
