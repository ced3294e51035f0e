"""Pools: the cloud is asked for the rentals that want a node, and every instance of the cloud gets a rental.

Asking concerns all orders of a pool and adoption is a matching, so both belong to the pool, and only one step of a pool
is in flight. Everything that the cloud bills is matched with a rental first; only then is more asked for, or less.
What differs between clouds is in ``Survey.traits``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId, OrderToken, PoolId
from charterer.domain.order import Ask, CoolDown, Order, Refusal, RefusalKind, Scope, cool_down
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import Instance, Pool, Survey
from charterer.domain.rental import Rental, RentalPhase, by_gang, gang_deadline, has_machine
from charterer.domain.steps import (
    Adopt,
    AskCloud,
    CloseUnfulfilled,
    Cool,
    CountLifetime,
    MarkEnded,
    MarkMissing,
    PoolStep,
    RecordOffer,
    RecordOrphan,
    Reopen,
    Wait,
    Withdraw,
)
from charterer.domain.time import Instant
from charterer.lifecycle.lifetimes import lifetime_to_count
from charterer.lifecycle.never_ready import never_ready
from charterer.lifecycle.offers import disproved, offer_returned
from charterer.lifecycle.orphans import orphan_name, worst_price
from charterer.lifecycle.rental import ended_unread, may_terminate, note_missing
from charterer.lifecycle.starts import new_starts
from charterer.lifecycle.view import COUNTED_STATES, LifecycleView, draining, missing, vanished
from charterer.sentences import count, names


def pool_step(pool_id: PoolId, view: LifecycleView) -> PoolStep | MarkMissing | MarkEnded | Wait | None:
    """The pool's next step, what it waits for, or None when all is well or the machines are another pool's."""
    pool = view.snapshot.pools[pool_id]
    if pool.taken_by is not None:
        return None
    survey = view.snapshot.surveys.get(pool_id)
    if survey is None:
        return Wait(f"the cloud has not yet been asked about GPUPool {pool_id}")
    inventory = _PoolInventory.of(pool, survey, view)
    step = _match_instances(inventory, view) or _adjust_orders(inventory, view)
    if step is not None and not isinstance(step, Wait):
        return step
    return _to_record(inventory, view) or step


def _to_record(inventory: _PoolInventory, view: LifecycleView) -> Reopen | CountLifetime | RecordOffer | None:
    """The step that records what nothing waits for: that the offer is back, a lifetime that ended, what the cloud
    offers, or how nodes started."""
    pool = inventory.pool
    if pool.gone:
        return None  # there is no object to record it in
    if over := disproved(pool, inventory.rentals, view.snapshot):
        return Reopen(pool.id, over)
    if (ended := lifetime_to_count(pool, inventory.rentals)) is not None:
        return ended
    if pool.deleting:
        return None
    starts = new_starts(pool, inventory.rentals)
    if starts or not pool.offer_recorded:
        return RecordOffer(pool.id, pool.offering, pool.quote, pool.quote_on_record, starts)
    return None


@dataclass(frozen=True, slots=True)
class _PoolInventory:
    """Rentals and instances of one pool, by what they need of each other.

    ``waiting``: Requested rentals without an instance. ``leaving``: released rentals that never got one. ``unclaimed``:
    instances that no rental names, those still alive first. ``counted``: the number of instances that live. ``gangs``:
    by name, the rentals of gangs that are to stay.
    """

    pool: Pool
    survey: Survey
    rentals: Sequence[Rental]
    waiting: Sequence[Rental]
    leaving: Sequence[Rental]
    unclaimed: Sequence[Instance]
    counted: int
    gangs: Mapping[str, Sequence[Rental]]

    @classmethod
    def of(cls, pool: Pool, survey: Survey, view: LifecycleView) -> _PoolInventory:
        rentals = view.rentals_of_pool.get(pool.id, ())
        without_instance = [
            rental for rental in rentals if rental.instance is None and rental.phase is not RentalPhase.ENDED
        ]
        return cls(
            pool=pool,
            survey=survey,
            rentals=rentals,
            waiting=_gang_by_gang([rental for rental in without_instance if not draining(rental)]),
            leaving=[rental for rental in without_instance if draining(rental)],
            unclaimed=sorted(view.unclaimed(pool.id), key=lambda instance: instance.state not in COUNTED_STATES),
            counted=sum(instance.state in COUNTED_STATES for instance in survey.instances),
            gangs=by_gang(rental for rental in rentals if rental.stays),
        )

    def lacks_others(self, rental: Rental) -> bool:
        """Whether rentals of its gang are not there (yet), so that the cloud is asked for none of them."""
        gang = rental.gang
        return gang is not None and len(self.gangs.get(gang.name, ())) < gang.nodes


def _gang_by_gang(rentals: Sequence[Rental]) -> Sequence[Rental]:
    """Rentals in order of creation, with all of a gang where its first one is."""
    first: dict[str, int] = {}
    for position, rental in enumerate(rentals):
        first.setdefault(rental.id if rental.gang is None else rental.gang.name, position)
    return sorted(rentals, key=lambda rental: first[rental.id if rental.gang is None else rental.gang.name])


# --- matching: everything that the cloud bills gets a rental ---------------------------------------------------------


def _match_instances(
    inventory: _PoolInventory, view: LifecycleView
) -> PoolStep | MarkMissing | MarkEnded | Wait | None:
    for rental in inventory.rentals:
        if (step := _match_named(rental, inventory.pool, inventory.survey, view)) is not None:
            return step
    if not inventory.unclaimed:
        return None
    unread = view.snapshot.unread_rental(inventory.pool.id)
    if unread is not None:
        return Wait(
            f"GPURental {unread.name} to be readable ({unread.field}: {unread.message}): one of "
            f"{count(len(inventory.unclaimed), 'instance')} may be its machine"
        )
    instance = inventory.unclaimed[0]
    taker = _taker(inventory, instance)
    if taker is not None:
        return Adopt(taker.id, instance)
    budget = _payer(inventory.rentals, view)
    if budget is None:
        return Wait(
            f"instance {instance.id} of GPUPool {inventory.pool.id} has no rental: "
            "create a GPUBudget in mode Enforce to pay for it until it is ended"
        )
    return RecordOrphan(
        orphan_name(inventory.pool.id, inventory.survey.offering.group_id, instance),
        inventory.pool.id,
        budget,
        instance,
        worst_price(inventory.pool, instance),
    )


def _match_named(
    rental: Rental, pool: Pool, survey: Survey, view: LifecycleView
) -> PoolStep | MarkMissing | MarkEnded | None:
    """The step of a rental that names an instance of which nothing is on record yet.

    The cloud's reply named it, or the rental was made for an orphan.
    """
    if rental.phase is not RentalPhase.REQUESTED or rental.instance is None:
        return None
    instance = view.instance(rental)
    if instance is not None:
        return Adopt(rental.id, instance)
    if (noted := note_missing(rental, instance, survey, view.snapshot.now)) is not None:
        return noted
    if vanished(rental, instance, survey):
        return ended_unread(rental, pool)
    return None


def _taker(inventory: _PoolInventory, instance: Instance) -> Rental | None:
    """The rental that the instance is for: the one that it was ordered for, or where the cloud only counts, any."""
    waiting, leaving = inventory.waiting, inventory.leaving
    candidates = [*waiting, *leaving] if instance.state in COUNTED_STATES else [*leaving, *waiting]
    if inventory.survey.traits.named:
        candidates = [rental for rental in candidates if order_token(rental.uid) == instance.order]
    return candidates[0] if candidates else None


def _payer(rentals: Sequence[Rental], view: LifecycleView) -> BudgetId | None:
    """The budget that pays for an orphan: the last one to rent in its pool, otherwise the first in mode Enforce."""
    for rental in reversed(rentals):
        if rental.budget in view.snapshot.budgets:
            return rental.budget
    budgets = view.snapshot.budgets.values()
    return min((budget.id for budget in budgets if budget.mode is Mode.ENFORCE and not budget.deleting), default=None)


# --- the orders: the rentals that want a node -------------------------------------------------------------------------


def _adjust_orders(inventory: _PoolInventory, view: LifecycleView) -> PoolStep | Wait | None:
    pool, now = inventory.pool, view.snapshot.now
    refusal = _refusal(inventory) or _given_up(inventory, now) or never_ready(pool, inventory.rentals, now)
    cooling = pool.cooling(now)
    if refusal is not None and cooling is None and not pool.deleting:
        returned = offer_returned(refusal.kind, inventory.rentals, view.snapshot.jobs)
        billed = bool(_waited_for(inventory))
        return Cool(pool.id, cool_down(pool.cool_downs, refusal, pool.cooldown_seconds, now, returned, billed=billed))
    closing = cooling is not None or pool.deleting or view.snapshot.stop is not None
    staying = [rental for rental in inventory.rentals if _holds(rental, inventory.survey, view)]
    surplus = inventory.waiting if closing else _surplus(inventory, pool.max_nodes - len(staying))
    wanted = [rental for rental in _askable(inventory) if rental not in surplus]
    if (withdrawal := _withdrawal(inventory, wanted, staying)) is not None:
        return withdrawal
    if given_up := [*inventory.leaving, *surplus]:
        return CloseUnfulfilled(given_up[0].id, _unfulfilled(given_up[0], pool, view, cooling))
    return _ask(inventory, wanted, staying, view)


def _surplus(inventory: _PoolInventory, room: int) -> Sequence[Rental]:
    """The rentals that wait and for which the pool has no room any more, as after its size was lowered.

    The oldest that fit are kept; of a gang all or none. A cloud that counts would refuse all of them for one too many.
    """
    surplus: list[Rental] = []
    parts = groupby(inventory.waiting, key=lambda rental: rental.id if rental.gang is None else rental.gang.name)
    for part in [list(rentals) for _, rentals in parts]:
        if len(part) <= room:
            room -= len(part)
        else:
            surplus += part
    return surplus


def _askable(inventory: _PoolInventory) -> Sequence[Rental]:
    """The rentals that wait, without gangs that cannot be asked for as a whole now.

    Those are gangs that lack rentals, and gangs of which a cloud that keeps trying has only some on record: it would
    launch those without the others, so they are withdrawn first.
    """
    traits, ordered = inventory.survey.traits, inventory.survey.ordered
    complete = [rental for rental in inventory.waiting if not inventory.lacks_others(rental)]
    if not (traits.together and traits.keeps_trying):
        return complete
    on_record: dict[str, set[bool]] = {}
    for rental in complete:
        if rental.gang is not None:
            on_record.setdefault(rental.gang.name, set()).add(order_token(rental.uid) in ordered)
    return [rental for rental in complete if rental.gang is None or len(on_record[rental.gang.name]) == 1]


def _given_up(inventory: _PoolInventory, now: Instant) -> Refusal | None:
    """A gang that has machines, which are billed, and that waits for the others for too long without a refusal."""
    pool = inventory.pool
    for members in _waited_for(inventory):
        gang = members[0].gang
        if gang is not None and now >= gang_deadline(members, pool.start_seconds):
            came = sum(has_machine(rental) for rental in members)
            message = f"{came} of the {gang.nodes} nodes that {gang.job_name} needs at once came in time"
            return Refusal(RefusalKind.LAUNCH_FAILED, Scope.POOL, pool.id, ReasonCode.INCOMPLETE_GANG, message, now)
    return None


def _waited_for(inventory: _PoolInventory) -> Sequence[Sequence[Rental]]:
    """The gangs of which some have machines and others wait for one."""
    return [members for members in inventory.gangs.values() if len({has_machine(rental) for rental in members}) == 2]


def _refusal(inventory: _PoolInventory) -> Refusal | None:
    """The latest refusal of an order that waits.

    Where the cloud only counts, a refusal without an order belongs to the waiting rentals when the cloud lacks a node
    that it wants, and the refusal is newer than the oldest of them. This compares two clocks, the cloud's and the API
    server's. If the cloud's is behind, its first failures are missed, but a group tries again and fails again later.
    If it is ahead, a rental created just after a cool-down meets the last failure before it, and the pool cools down
    once more.
    """
    survey, waiting = inventory.survey, inventory.waiting
    if not waiting:
        return None
    oldest, orders = min(rental.created for rental in waiting), {order_token(rental.uid) for rental in waiting}
    tries = survey.target is None or survey.target > inventory.counted
    ours = (
        item for item in survey.refusals if item.order in orders or (item.order is None and tries and item.at > oldest)
    )
    return max(ours, key=lambda item: item.at, default=None)


def _withdrawal(inventory: _PoolInventory, wanted: Sequence[Rental], staying: Sequence[Rental]) -> Withdraw | None:
    """Orders that the cloud still tries to launch and nobody wants any more."""
    survey = inventory.survey
    keep = max(inventory.counted, len(staying) + len(wanted))
    unwanted = survey.ordered - {order_token(rental.uid) for rental in wanted}
    if unwanted or (survey.target is not None and survey.target > keep):
        return Withdraw(inventory.pool.id, tuple(sorted(unwanted)), keep)
    return None


def _holds(rental: Rental, survey: Survey, view: LifecycleView) -> bool:
    """Whether the rental's instance counts towards the target; one that is not listed yet does."""
    if rental.instance is None or rental.phase is RentalPhase.ENDED:
        return False
    instance = view.instance(rental)
    return not vanished(rental, instance, survey) if instance is None else instance.state in COUNTED_STATES


def _ask(
    inventory: _PoolInventory, wanted: Sequence[Rental], staying: Sequence[Rental], view: LifecycleView
) -> PoolStep | Wait | None:
    """Ask for the missing nodes, once pool and paying budget have the finalizers that keep them.

    Where the cloud launches all nodes of a gang or none, each gang is asked for by itself.

    Where the cloud only counts, a rental whose instance is about to be ended is left out, and one whose instance two
    lists must show and lack: its end lowers the target too, so that a target which counts it would buy a node too many.
    Leaving it out can only ask for too few, until the next step.
    """
    asking = [rental for rental in wanted if not view.observes(rental.budget)]
    if not asking:
        return _others_awaited(inventory)
    if not inventory.pool.guarded:
        return Wait(f"the finalizer of GPUPool {inventory.pool.id}")
    unguarded = {rental.budget for rental in asking if not view.guarded(rental.budget)}
    asking = [rental for rental in asking if rental.budget not in unguarded]
    if not asking:
        return Wait(f"the finalizer of GPUBudget {min(unguarded)}")
    survey = inventory.survey
    target, ordered = survey.target, survey.ordered
    gone = [rental for rental in staying if missing(rental, view.instance(rental), survey)]
    if target is not None and any(rental.missing_since in (None, survey.asked) for rental in gone):
        return Wait(f"a second list that lacks {count(len(gone), 'instance')} of GPUPool {inventory.pool.id}")
    at_least = len(asking) + sum(rental not in gone and not may_terminate(rental, view) for rental in staying)
    for part, together in _asked_together(asking) if survey.traits.together else [(asking, False)]:
        orders = tuple([Order(order_token(rental.uid), rental.id) for rental in part])
        lacking = any(order.token not in ordered for order in orders) if target is None else target < at_least
        if lacking:
            return AskCloud(inventory.pool.id, Ask(orders, at_least, together))
    deadlines = [gang_deadline(members, inventory.pool.start_seconds) for members in _waited_for(inventory)]
    text = f"{count(len(inventory.waiting), 'node')} of GPUPool {inventory.pool.id} asked for, not launched yet"
    return Wait(text, until=min(deadlines, default=None))


def _asked_together(rentals: Sequence[Rental]) -> Sequence[tuple[Sequence[Rental], bool]]:
    """The orders of each call, and whether they are a gang: each gang, and the rest, by their first rentals."""
    parts: dict[str, list[Rental]] = {}
    for rental in rentals:
        parts.setdefault("" if rental.gang is None else rental.gang.name, []).append(rental)
    return [(part, bool(name)) for name, part in parts.items()]


def _others_awaited(inventory: _PoolInventory) -> Wait | None:
    """The wait of gangs that lack rentals: the plan makes the others, or releases these."""
    short = next((rental.gang for rental in inventory.waiting if inventory.lacks_others(rental)), None)
    return None if short is None else Wait(f"all rentals of the {short.nodes} that {short.job_name} needs at once")


def order_token(uid: str) -> OrderToken:
    """The token of the order of the rental with that uid: the same for every try, and no other rental's."""
    return OrderToken(f"c{hashlib.sha256(uid.encode()).hexdigest()[:31]}")


def _unfulfilled(rental: Rental, pool: Pool, view: LifecycleView, cooling: CoolDown | None) -> str:
    if draining(rental):
        return rental.released_because or "it was released before an instance came"
    if view.snapshot.stop is not None:
        return "a person has stopped the operator"
    if cooling is not None and cooling.by is not None:
        return f"GPUPool {pool.id} asks for the same as GPUPool {cooling.by}, which was refused: {cooling.kind}"
    if cooling is not None:
        return f"GPUPool {pool.id} could not give a node: {cooling.kind}"
    if pool.deleting:
        return f"GPUPool {pool.id} is being deleted"
    return f"GPUPool {pool.id} has or awaits {pool.most_nodes}"


def left_behind(pool: Pool, view: LifecycleView) -> str:
    """The rentals to be ended or paid for before the pool's object may go; empty when none are."""
    survey = view.snapshot.surveys.get(pool.id)
    rentals = view.rentals_of_pool.get(view.acting(pool.id), ())
    if pool.taken_by is not None:
        rentals = [rental for rental in rentals if rental.pool == pool.id]
    if rentals:
        return f"{count(len(rentals), 'rental')} ({names(rental.id for rental in rentals)})"
    if survey is None or pool.taken_by is not None:
        return ""
    inventory = _PoolInventory.of(pool, survey, view)
    if inventory.unclaimed:  # those that have ended are to be paid for, too
        unclaimed = [instance.id for instance in inventory.unclaimed]
        return f"{count(len(unclaimed), 'instance')} ({names(unclaimed)})"
    if survey.ordered:
        return f"{count(len(survey.ordered), 'order')} ({names(survey.ordered)})"
    return f"a target of {survey.target}" if survey.target else ""
