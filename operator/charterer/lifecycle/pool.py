"""Steps of pools. Nodes are requested for rentals, and every instance of the cloud gets a rental.

One request to the cloud covers all orders of a pool, and adoption matches its instances with its rentals. So both are
steps of the pool, and only one step of a pool is in flight. Everything that the cloud bills is matched with a rental
before more or fewer nodes are asked for. ``Survey.traits`` has the differences between clouds.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId, JobId, OrderToken, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.money import ZERO, Price
from charterer.domain.order import Ask, Order, Refusal, RefusalKind, Scope, cool_down
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import CapacityType, EndedNode, Instance, NodeStart, Pool, Survey
from charterer.domain.rental import ENDED_BY_ITSELF, Rental, RentalPhase, gang_deadline, has_machine, incomplete_gangs
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import (
    Adopt,
    AskCloud,
    CloseUnfulfilled,
    Cool,
    CountLifetimes,
    MarkEnded,
    MarkMissing,
    PoolStep,
    RecordOffer,
    RecordOrphan,
    Reopen,
    Wait,
    Withdraw,
)
from charterer.domain.time import Instant, seconds_between
from charterer.lifecycle.rental import Row, ended_unread, first_step, may_terminate, note_missing
from charterer.lifecycle.view import COUNTED_STATES, LifecycleView, draining, missing, vanished
from charterer.sentences import count, names

# Orphans are machines that no rental asked for. Each orphan gets a rental, so that it is paid for and ended.


_NAME_LIMIT = 253


def worst_price(pool: Pool, instance: Instance) -> Price:
    """The highest known hourly price of the instance, quoted or already charged."""
    quoted = [] if pool.quote is None else [pool.quote.worst]
    return max([*quoted, *(segment.price for segment in instance.segments)], default=Price(0))


def orphan_name(pool: PoolId, group: str, instance: Instance) -> RentalId:
    """``<group>-o-<instance>``, with a hash of the instance's id if an object's name cannot contain the id as it is.

    ``group``: the cloud's own identifier of the group, of which a hash is used. So two pools of one group give an
    instance the same name, and the second creation fails. If the cloud gives no identifier, the pool's name is used.
    """
    prefix = hashlib.sha256(group.encode()).hexdigest()[:10] if group else pool
    plain = re.sub(r"[^a-z0-9-]+", "-", instance.id.lower()).strip("-")
    room = _NAME_LIMIT - len(prefix) - len("-o-")
    if plain != instance.id or len(plain) > room:
        digest = hashlib.sha256(instance.id.encode()).hexdigest()[:10]
        plain = f"{plain[: max(room - 11, 0)]}-{digest}".strip("-")
    return RentalId(f"{prefix}-o-{plain}")


# The inventory of a pool has its rentals, orders and instances, sorted by what they still need.


@dataclass(frozen=True, slots=True)
class PoolInventory:
    """Rentals and instances of one pool, sorted by what they still need.

    ``waiting``: Requested rentals without an instance. ``leaving``: released rentals that never got an instance.
    ``held``: rentals whose instance counts towards the target. ``unclaimed``: instances that no rental names, living
    instances first. ``counted``: the number of living instances. ``gangs``: by name, the rentals of gangs that are to
    stay.
    ``surplus``: waiting rentals that are to be closed without a node. ``wanted``: waiting rentals that the cloud may be
    asked for now.
    """

    pool: Pool
    survey: Survey
    rentals: Sequence[Rental]
    waiting: Sequence[Rental]
    leaving: Sequence[Rental]
    held: Sequence[Rental]
    unclaimed: Sequence[Instance]
    counted: int
    gangs: Mapping[str, Sequence[Rental]]
    surplus: Sequence[Rental]
    wanted: Sequence[Rental]

    @classmethod
    def of(cls, pool: Pool, survey: Survey, view: LifecycleView) -> PoolInventory:
        """The pool's inventory in the snapshot, made in time linear in the pool's rentals and instances."""
        rentals = view.rentals_of_pool.get(pool.id, ())
        machines = view.machines[pool.id]
        without_instance, gangs = machines.waiting, machines.gangs
        waiting = _gang_by_gang([rental for rental in without_instance if not draining(rental)])
        held = [*machines.listed, *[rental for rental in machines.unlisted if not vanished(rental, None, survey)]]
        closing = pool.cooling(view.snapshot.now) is not None or pool.deleting or view.snapshot.stop is not None
        surplus = waiting if closing else _surplus(waiting, pool.max_nodes - len(held))
        kept = {rental.id for rental in waiting} - {rental.id for rental in surplus}
        return cls(
            pool=pool,
            survey=survey,
            rentals=rentals,
            waiting=waiting,
            leaving=[rental for rental in without_instance if draining(rental)],
            held=held,
            unclaimed=sorted(view.unclaimed(pool.id), key=lambda instance: instance.state not in COUNTED_STATES),
            counted=machines.counted,
            gangs=gangs,
            surplus=surplus,
            wanted=[rental for rental in _askable(waiting, gangs, survey) if rental.id in kept],
        )

    @property
    def split_gangs(self) -> Sequence[Sequence[Rental]]:
        """The gangs of which some rentals have machines and others wait for machines."""
        return [members for members in self.gangs.values() if len({has_machine(rental) for rental in members}) == 2]


def lacks_others(rental: Rental, gangs: Mapping[str, Sequence[Rental]]) -> bool:
    """Whether rentals of its gang do not exist (yet), so that none of the gang is requested."""
    return rental.gang is not None and len(gangs.get(rental.gang.name, ())) < rental.gang.nodes


def _gang_by_gang(rentals: Sequence[Rental]) -> Sequence[Rental]:
    """The rentals in order of creation, with all rentals of a gang at the place of its first rental."""
    first: dict[str, int] = {}
    for position, rental in enumerate(rentals):
        first.setdefault(rental.id if rental.gang is None else rental.gang.name, position)
    return sorted(rentals, key=lambda rental: first[rental.id if rental.gang is None else rental.gang.name])


def _surplus(waiting: Sequence[Rental], room: int) -> Sequence[Rental]:
    """The waiting rentals for which the pool has no room any more, for example after its size was lowered.

    The oldest rentals that fit stay. Of a gang, all rentals stay or none. A cloud that only counts would refuse all
    nodes if one too many were requested.
    """
    surplus: list[Rental] = []
    parts = groupby(waiting, key=lambda rental: rental.id if rental.gang is None else rental.gang.name)
    for part in [list(rentals) for _, rentals in parts]:
        if len(part) <= room:
            room -= len(part)
        else:
            surplus += part
    return surplus


def _askable(waiting: Sequence[Rental], gangs: Mapping[str, Sequence[Rental]], survey: Survey) -> Sequence[Rental]:
    """The waiting rentals without the gangs that cannot be requested as a whole now.

    Such a gang lacks rentals, or a cloud that keeps trying has only some of its orders on record. The cloud would
    launch nodes for these orders without the other nodes, so the orders are withdrawn first.
    """
    traits, ordered = survey.traits, survey.ordered
    complete = [rental for rental in waiting if not lacks_others(rental, gangs)]
    if not (traits.together and traits.keeps_trying):
        return complete
    on_record: dict[str, set[bool]] = {}
    for rental in complete:
        if rental.gang is not None:
            on_record.setdefault(rental.gang.name, set()).add(order_token(rental.uid) in ordered)
    return [rental for rental in complete if rental.gang is None or len(on_record[rental.gang.name]) == 1]


def order_token(uid: str) -> OrderToken:
    """The token of the order of the rental with that uid. The token is the same for every try, and differs from those
    of all other rentals.
    """
    return OrderToken(f"c{hashlib.sha256(uid.encode()).hexdigest()[:31]}")


# The lifetime of each node of a pool is counted once, before the node's rental is forgotten.


_WITH_NOTICE = ReasonCode.INTERRUPTION.value
TAKEN = ENDED_BY_ITSELF | {_WITH_NOTICE, ReasonCode.LOST_NODE.value}
"""Reasons of nodes that ended although nobody decided to release them. All other reasons are decisions."""


def lifetimes_to_count(pool: Pool, rentals: Sequence[Rental]) -> CountLifetimes | None:
    """The pool's ended rentals that are not counted yet, in the order of their ends, or None if all are counted."""
    ended = [
        (rental.ended, rental.launched, rental)
        for rental in rentals
        if rental.phase is RentalPhase.ENDED and rental.ended is not None and rental.launched is not None
    ]
    left = [row for row in ended if row[2].uid not in pool.lifetimes.counted]
    if not left:
        return None
    left.sort(key=lambda row: (row[0], row[2].id))
    nodes = [_ended_node(rental, launched, at, rentals) for at, launched, rental in left]
    return CountLifetimes(pool.id, tuple(nodes), tuple(sorted(other.uid for other in rentals)))


def _ended_node(rental: Rental, launched: Instant, at: Instant, rentals: Sequence[Rental]) -> EndedNode:
    others = [
        other
        for other in rentals
        if other is not rental
        and other.launched is not None
        and other.launched <= at
        and (other.ended is None or (other.ended, other.id) > (at, rental.id))
    ]
    return EndedNode(
        uid=rental.uid,
        hours=max(seconds_between(launched, at), 0.0) / 3600.0,
        at=at,
        taken=rental.released_because in TAKEN,
        others=len(others),
        announced=rental.released_because == _WITH_NOTICE,
        ordinal=rental.ordinal,
    )


# Machines that ended before their Nodes were ready. Their cost bought nothing, so the pool cools before the next
# request.
#
# A wrong image or network makes every machine of a pool fail in this way. Each machine is billed for a quarter of an
# hour until it is given up.


def never_ready(pool: Pool, rentals: Sequence[Rental], now: Instant) -> Refusal | None:
    """The pool's newest machine that was never ready, as a refusal.

    None if the pool has cooled since that machine was asked for, or if another machine has become ready since then.
    """
    failed = [rental for rental in rentals if _never_ready(rental)]
    if not failed:
        return None
    newest = max(failed, key=lambda rental: (rental.created, rental.id))
    cooled = any(each.kind is RefusalKind.NEVER_READY and each.since >= newest.created for each in pool.cooled)
    ready = last_ready(rentals)
    if cooled or (ready is not None and ready > newest.created):
        return None
    cut = pool.partition
    shows = "" if cut is None else f", and whether its Node shows {cut.resource}, as {cut.field} says"
    looks = f"look at its image, network and start-up{shows}"
    text = f"instance {newest.instance} ended, and its Node was never ready: {looks}"
    return Refusal(RefusalKind.NEVER_READY, Scope.POOL, pool.id, newest.released_because, text, now)


def last_ready(rentals: Sequence[Rental]) -> Instant | None:
    """When a Node of these rentals last became ready, which proves that the pool's machines can be ready."""
    return max((rental.ready for rental in rentals if rental.ready is not None), default=None)


def _never_ready(rental: Rental) -> bool:
    """Whether the machine was given up, ended or was taken back before its Node was ready.

    A spot machine counts only if it was given up, because the cloud takes back ready spot machines too.
    """
    if rental.launched is None or rental.ready is not None:
        return False
    if rental.capacity_type is CapacityType.SPOT:
        return rental.released_because == ReasonCode.LOST_NODE
    return rental.released_because in TAKEN


# The time when the cloud offered a pool's nodes again after a refusal.


def disproved(pool: Pool, rentals: Sequence[Rental], snapshot: Snapshot) -> frozenset[Instant]:
    """The beginnings of the pool's past cool-downs after which its offer has returned.

    The nodes that proved that the offer has returned may be released a minute later. Without a record, the pool would
    then be in doubt again.
    """
    over = [each for each in pool.cooled if each.until <= snapshot.now]
    returned = {kind: offer_returned(kind, rentals, snapshot.jobs) for kind in {each.kind for each in over}}
    return frozenset(each.since for each in over if (back := returned[each.kind]) is not None and back > each.since)


def offer_returned(kind: RefusalKind, rentals: Sequence[Rental], jobs: Mapping[JobId, Job]) -> Instant | None:
    """When a launch last proved that the offer is back, or for NEVER_READY, when a Node last became ready.

    Machines of incomplete gangs prove nothing.
    """
    if kind is RefusalKind.NEVER_READY:
        return last_ready(rentals)
    in_vain = incomplete_gangs(rentals, jobs)
    useful = (rental for rental in rentals if rental.gang is None or rental.gang.name not in in_vain)
    return max((rental.launched for rental in useful if rental.launched is not None), default=None)


# When a pool's nodes were asked for, launched and ready. Each start is counted once in the pool's status.


_CLOCKS_DIFFER_SECONDS: Final = 60.0
"""Seconds after a machine's launch. A rental that was created later than that belongs to an orphan."""


def new_starts(pool: Pool, rentals: Sequence[Rental]) -> tuple[NodeStart, ...]:
    """The starts of nodes that became ready since the last one counted, in the order of readiness.

    If a second node became ready in the same instant as the last counted node, but is seen later, its start is not
    counted. The loss of one start does no harm.
    """
    through = pool.launches.through
    found = [
        NodeStart(rental.created, rental.launched, rental.ready)
        for rental in rentals
        if rental.launched is not None
        and rental.ready is not None
        and (through is None or rental.ready > through)
        and seconds_between(rental.launched, rental.created) <= _CLOCKS_DIFFER_SECONDS
    ]
    return tuple(sorted(found, key=lambda start: (start.ready, start.launched, start.asked)))


_Step = PoolStep | MarkMissing | MarkEnded


def pool_step(pool_id: PoolId, view: LifecycleView) -> PoolStep | MarkMissing | MarkEnded | Wait | None:
    """The pool's next step or wait, or None if nothing is due, or if another pool acts for its machines."""
    pool = view.snapshot.pools[pool_id]
    if pool.taken_by is not None:
        return None
    survey = view.snapshot.surveys.get(pool_id)
    if survey is None:
        return Wait(f"the cloud has not yet been asked about GPUPool {pool_id}")
    return first_step(ROWS.values(), PoolInventory.of(pool, survey, view), view)


# --- matching: everything that the cloud bills gets a rental ---------------------------------------------------------


def _match_named(inventory: PoolInventory, view: LifecycleView) -> Adopt | MarkMissing | MarkEnded | None:
    """The step of a rental that names an instance of which nothing is on record yet.

    Either the cloud's reply named the instance, or the rental was created for an orphan.
    """
    for rental in inventory.rentals:
        if rental.phase is not RentalPhase.REQUESTED or rental.instance is None:
            continue
        instance = view.instance(rental)
        if instance is not None:
            return Adopt(rental.id, instance)
        if (noted := note_missing(rental, instance, inventory.survey, view.snapshot.now)) is not None:
            return noted
        if vanished(rental, instance, inventory.survey):
            return ended_unread(rental, inventory.pool)
    return None


def _unread_rental(inventory: PoolInventory, view: LifecycleView) -> Wait | None:
    unread = view.snapshot.unread_rental(inventory.pool.id)
    if not inventory.unclaimed or unread is None:
        return None
    return Wait(
        f"GPURental {unread.name} to be readable ({unread.field}: {unread.message}): one of "
        f"{count(len(inventory.unclaimed), 'instance')} may be its machine"
    )


def _adopt_ordered(inventory: PoolInventory, view: LifecycleView) -> Adopt | None:
    """Give an instance to the rental that ordered it, if the cloud names the order of each instance."""
    if not inventory.unclaimed or not inventory.survey.traits.named:
        return None
    instance = inventory.unclaimed[0]
    takers = [rental for rental in _takers(inventory) if order_token(rental.uid) == instance.order]
    return Adopt(takers[0].id, instance) if takers else None


def _adopt_counted(inventory: PoolInventory, view: LifecycleView) -> Adopt | None:
    """Give an instance to any rental, if the cloud only counts."""
    if not inventory.unclaimed or inventory.survey.traits.named:
        return None
    takers = _takers(inventory)
    return Adopt(takers[0].id, inventory.unclaimed[0]) if takers else None


def _takers(inventory: PoolInventory) -> Sequence[Rental]:
    """The rentals that may take the first unclaimed instance, in order of preference."""
    waiting, leaving = inventory.waiting, inventory.leaving
    return [*waiting, *leaving] if inventory.unclaimed[0].state in COUNTED_STATES else [*leaving, *waiting]


def _record_orphan(inventory: PoolInventory, view: LifecycleView) -> RecordOrphan | Wait | None:
    if not inventory.unclaimed:
        return None
    pool, instance, budget = inventory.pool, inventory.unclaimed[0], _payer(inventory.rentals, view)
    if budget is None:
        return Wait(
            f"instance {instance.id} of GPUPool {pool.id} has no rental: "
            "create a GPUBudget in mode Enforce to pay for it until it is ended"
        )
    name = orphan_name(pool.id, inventory.survey.offering.group_id, instance)
    return RecordOrphan(name, pool.id, budget, instance, worst_price(pool, instance))


def _payer(rentals: Sequence[Rental], view: LifecycleView) -> BudgetId | None:
    """The budget that pays for an orphan: the budget that last rented in its pool, or else the first budget in mode
    Enforce.
    """
    for rental in reversed(rentals):
        if rental.budget in view.snapshot.budgets:
            return rental.budget
    budgets = view.snapshot.budgets.values()
    return min((budget.id for budget in budgets if budget.mode is Mode.ENFORCE and not budget.deleting), default=None)


# --- the orders: the rentals that want a node -------------------------------------------------------------------------


def _cool_refused(inventory: PoolInventory, view: LifecycleView) -> Cool | None:
    return _cool(_refusal(inventory), inventory, view)


def _cool_incomplete_gang(inventory: PoolInventory, view: LifecycleView) -> Cool | None:
    return _cool(_incomplete_gang(inventory, view.snapshot.now), inventory, view)


def _cool_never_ready(inventory: PoolInventory, view: LifecycleView) -> Cool | None:
    return _cool(never_ready(inventory.pool, inventory.rentals, view.snapshot.now), inventory, view)


def _cool(refusal: Refusal | None, inventory: PoolInventory, view: LifecycleView) -> Cool | None:
    pool, now = inventory.pool, view.snapshot.now
    if refusal is None or pool.deleting or pool.cooling(now) is not None:
        return None
    returned = offer_returned(refusal.kind, inventory.rentals, view.snapshot.jobs)
    billed = bool(inventory.split_gangs)
    return Cool(pool.id, cool_down(pool.cool_downs, refusal, pool.cooldown_seconds, now, returned, billed=billed))


def _incomplete_gang(inventory: PoolInventory, now: Instant) -> Refusal | None:
    """A gang that has billed machines and has waited too long for its other machines, although the cloud refused
    none. The gang is returned as a refusal."""
    pool = inventory.pool
    for members in inventory.split_gangs:
        gang = members[0].gang
        if gang is not None and now >= gang_deadline(members, pool.start_seconds):
            came = sum(has_machine(rental) for rental in members)
            message = f"{came} of the {gang.nodes} nodes that {gang.job_name} needs at once came in time"
            return Refusal(RefusalKind.LAUNCH_FAILED, Scope.POOL, pool.id, ReasonCode.INCOMPLETE_GANG, message, now)
    return None


def _refusal(inventory: PoolInventory) -> Refusal | None:
    """The latest refusal of an order that waits.

    If the cloud only counts, a refusal names no order. Such a refusal belongs to the waiting rentals if the cloud has
    fewer nodes than its target and the refusal is newer than the oldest waiting rental. The comparison is between two
    clocks, the cloud's and the API server's. If the cloud's clock is behind, its first refusals are missed, but a
    group tries and fails again later. If the cloud's clock is ahead, a rental that was created just after a cool-down
    may be matched with the last refusal before the cool-down, and the pool cools down once more.
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


def _withdraw(inventory: PoolInventory, view: LifecycleView) -> Withdraw | None:
    """Withdraw orders that the cloud still tries to launch although no rental wants them any more."""
    survey, wanted = inventory.survey, inventory.wanted
    keep = max(inventory.counted, len(inventory.held) + len(wanted))
    unwanted = survey.ordered - {order_token(rental.uid) for rental in wanted}
    if unwanted or (survey.target is not None and survey.target > keep):
        return Withdraw(inventory.pool.id, tuple(sorted(unwanted)), keep)
    return None


def _close(inventory: PoolInventory, view: LifecycleView) -> CloseUnfulfilled | None:
    """Close a rental that is to get no node, once the cloud has no order for it."""
    rental = next(iter([*inventory.leaving, *inventory.surplus]), None)
    if rental is None:
        return None
    because = rental.released_because or _unfulfilled(rental, inventory.pool, view)
    return CloseUnfulfilled(replace(rental, phase=RentalPhase.ENDED, cost=ZERO, released_because=because))


def _ask(inventory: PoolInventory, view: LifecycleView) -> AskCloud | Wait | None:
    """Ask for the missing nodes, once the pool and the paying budget have their finalizers.

    If the cloud launches all nodes of a gang or none, each gang has a request of its own.

    If the cloud only counts, a rental is left out if its instance is about to be ended or is missing in two lists.
    The end of an instance lowers the target too, so a target that includes the instance would buy a node too many.
    Without such rentals, the target can only be too low until the next step.
    """
    asking = [rental for rental in inventory.wanted if not view.observes(rental.budget)]
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
    gone = [rental for rental in inventory.held if missing(rental, view.instance(rental), survey)]
    if target is not None and any(rental.missing_since in (None, survey.asked) for rental in gone):
        return Wait(f"a second list that lacks {count(len(gone), 'instance')} of GPUPool {inventory.pool.id}")
    at_least = len(asking) + sum(rental not in gone and not may_terminate(rental, view) for rental in inventory.held)
    for part, together in _asked_together(asking) if survey.traits.together else [(asking, False)]:
        orders = tuple([Order(order_token(rental.uid), rental.id) for rental in part])
        lacking = any(order.token not in ordered for order in orders) if target is None else target < at_least
        if lacking:
            return AskCloud(inventory.pool.id, Ask(orders, at_least, together))
    deadlines = [gang_deadline(members, inventory.pool.start_seconds) for members in inventory.split_gangs]
    text = f"{count(len(inventory.waiting), 'node')} of GPUPool {inventory.pool.id} asked for, not launched yet"
    return Wait(text, until=min(deadlines, default=None))


def _asked_together(rentals: Sequence[Rental]) -> Sequence[tuple[Sequence[Rental], bool]]:
    """The rentals of each call, and whether they are a gang. Each gang has its own call, and all other rentals share
    one call."""
    parts: dict[str, list[Rental]] = {}
    for rental in rentals:
        parts.setdefault("" if rental.gang is None else rental.gang.name, []).append(rental)
    return [(part, bool(name)) for name, part in parts.items()]


def _others_awaited(inventory: PoolInventory) -> Wait | None:
    """The wait of gangs that lack rentals, until the plan creates the missing rentals or releases the existing
    rentals."""
    short = next((rental.gang for rental in inventory.waiting if lacks_others(rental, inventory.gangs)), None)
    return None if short is None else Wait(f"all rentals of the {short.nodes} that {short.job_name} needs at once")


def _unfulfilled(rental: Rental, pool: Pool, view: LifecycleView) -> str:
    cooling = pool.cooling(view.snapshot.now)
    if draining(rental):
        return "it was released before an instance came"
    if view.snapshot.stop is not None:
        return "a person has stopped the operator"
    if cooling is not None and cooling.by is not None:
        return f"GPUPool {pool.id} asks for the same as GPUPool {cooling.by}, which was refused: {cooling.kind}"
    if cooling is not None:
        return f"GPUPool {pool.id} could not give a node: {cooling.kind}"
    if pool.deleting:
        return f"GPUPool {pool.id} is being deleted"
    return f"GPUPool {pool.id} has or awaits {pool.most_nodes}"


# --- the record: what nothing waits for -------------------------------------------------------------------------------


def _reopen(inventory: PoolInventory, view: LifecycleView) -> Reopen | None:
    pool = inventory.pool
    over = None if pool.gone else disproved(pool, inventory.rentals, view.snapshot)
    return Reopen(pool.id, over) if over else None


def _count_lifetimes(inventory: PoolInventory, view: LifecycleView) -> CountLifetimes | None:
    return None if inventory.pool.gone else lifetimes_to_count(inventory.pool, inventory.rentals)


def _record_offer(inventory: PoolInventory, view: LifecycleView) -> RecordOffer | None:
    pool = inventory.pool
    if pool.gone or pool.deleting:
        return None
    starts = new_starts(pool, inventory.rentals)
    if not starts and pool.offer_recorded:
        return None
    return RecordOffer(pool.id, pool.offering, pool.quote, pool.quote_on_record, starts)


ROWS: Mapping[str, Row[PoolInventory, _Step]] = {
    "Named": Row(_match_named),
    "Unreadable": Row(_unread_rental),
    "Ordered": Row(_adopt_ordered),
    "Counted": Row(_adopt_counted),
    "Orphan": Row(_record_orphan),
    "Refused": Row(_cool_refused),
    "Incomplete gang": Row(_cool_incomplete_gang),
    "Never ready": Row(_cool_never_ready),
    "Withdraw": Row(_withdraw),
    "Close": Row(_close),
    "Ask": Row(_ask),
    "Reopen": Row(_reopen, meanwhile=True),
    "Lifetime": Row(_count_lifetimes, meanwhile=True),
    "Offer": Row(_record_offer, meanwhile=True),
}
"""The rows in the order in which they are tried. docs/development/lifecycle.md lists them by these names."""


def left_behind(pool: Pool, view: LifecycleView) -> str:
    """The rentals, instances or orders to be ended or paid for before the pool's object may go, or "" if none."""
    survey = view.snapshot.surveys.get(pool.id)
    rentals = view.rentals_of_pool.get(view.acting(pool.id), ())
    if pool.taken_by is not None:
        rentals = [rental for rental in rentals if rental.pool == pool.id]
    if rentals:
        return f"{count(len(rentals), 'rental')} ({names(rental.id for rental in rentals)})"
    if survey is None or pool.taken_by is not None:
        return ""
    inventory = PoolInventory.of(pool, survey, view)
    if inventory.unclaimed:  # instances that have ended must be paid for, too
        unclaimed = [instance.id for instance in inventory.unclaimed]
        return f"{count(len(unclaimed), 'instance')} ({names(unclaimed)})"
    if survey.ordered:
        return f"{count(len(survey.ordered), 'order')} ({names(survey.ordered)})"
    return f"a target of {survey.target}" if survey.target else ""
