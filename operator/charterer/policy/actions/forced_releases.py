"""Rentals that must end now, used or not: a stop, a budget or pool that is deleted, a lost node, a limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from charterer.domain.ids import RentalId
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Stop
from charterer.policy.actions.plan_builder import PlanBuilder
from charterer.policy.jobs.predicates import reason
from charterer.policy.nodes.lost_nodes import NodeDoubt, hanging, lost, never_ready


def forced_releases(draft: PlanBuilder) -> Mapping[RentalId, Reason]:
    """The budget's rentals that must end now, and why; those that drain too patiently for its hard limit among them."""
    return _draining_too_long(draft) | _of_staying(draft)


def _draining_too_long(draft: PlanBuilder) -> dict[RentalId, Reason]:
    """Where the hard limit is near: rentals released for another reason, which pods of others may keep for an hour."""
    if not draft.purse.must_release:
        return {}
    return {
        rental.id: _hard_limit(draft)
        for nodes in draft.solution.nodes.values()
        for rental in nodes.rentals.live
        if rental.phase is RentalPhase.DRAINING and rental.released_because != ReasonCode.HARD_LIMIT
    }


def _of_staying(draft: PlanBuilder) -> dict[RentalId, Reason]:
    staying = [rental for nodes in draft.solution.nodes.values() for rental in nodes.rentals.staying.values()]
    why_all = _why_all(draft)
    if why_all is not None:
        return {rental.id: why_all for rental in staying}
    ending = _by_pool(draft)
    late = [facts for group in draft.solution.groups.values() for facts in group.hanging]
    names = {rental.id for rental in staying}
    ending |= _given_up(draft, hanging(late, draft.solution.inputs.rentals.rental_of, names, draft.snapshot.now))
    ending |= _slow(draft, names.difference(ending))
    return ending | _over_hourly_limit(draft, staying, ending)


def _slow(draft: PlanBuilder, staying: Iterable[RentalId]) -> dict[RentalId, Reason]:
    """The nodes that held a run up and that nobody uses now: the next run would be held up as well."""
    used, why = draft.capacity.used, reason(ReasonCode.SLOW_NODE, "it held a run up, and nobody uses it now")
    slow = draft.snapshot.slow_nodes
    return {rental: why for rental in staying if rental in slow and not used.get(rental, 0)} if slow else {}


def _why_all(draft: PlanBuilder) -> Reason | None:
    """Why all of the budget's rentals end; None where they need not."""
    budget, purse = draft.solution.budget, draft.purse
    if draft.snapshot.stop is Stop.DRAIN:
        return reason(ReasonCode.STOPPED, "a person has the operator drained: all nodes are ended")
    if budget.deleting:
        return reason(ReasonCode.BUDGET_DELETED, f"GPUBudget {budget.id} is being deleted")
    return _hard_limit(draft) if purse.must_release else None


def _hard_limit(draft: PlanBuilder) -> Reason:
    budget, purse = draft.solution.budget, draft.purse
    text = f"{purse.spent} are spent and {purse.committed} committed of a hard limit of {budget.hard_limit}"
    return reason(ReasonCode.HARD_LIMIT, f"{text}: all nodes are ended before it is reached")


def _by_pool(draft: PlanBuilder) -> dict[RentalId, Reason]:
    """The rentals of pools that are deleted, and those whose Nodes are lost or never came."""
    snapshot, ending = draft.snapshot, dict[RentalId, Reason]()
    for pool_id, nodes in draft.solution.nodes.items():
        pool = snapshot.pools.get(pool_id)
        if pool is not None and pool.closed_because:
            ending |= dict.fromkeys(nodes.rentals.staying, reason(ReasonCode.POOL_DELETED, pool.closed_because))
        elif pool_id in snapshot.surveys:
            unwell = ((rental.id, lost(node, rental, snapshot.now)) for rental, node in nodes.unwell)
            booting = ((rental.id, never_ready(rental, pool, snapshot.now)) for rental in nodes.rentals.booting)
            ending |= _given_up(draft, unwell) | _given_up(draft, booting)
    return ending


def _given_up(draft: PlanBuilder, doubts: Iterable[tuple[RentalId, NodeDoubt]]) -> dict[RentalId, Reason]:
    """The rentals that are given up now, and why; the plan is made again when another one would be."""
    found: dict[RentalId, Reason] = {}
    for rental, doubt in doubts:
        if doubt.why is not None:
            found[rental] = doubt.why
        elif doubt.given_up_at is not None:
            draft.decided.again_at.append(doubt.given_up_at)
    return found


def _over_hourly_limit(
    draft: PlanBuilder, staying: Sequence[Rental], ending: Mapping[RentalId, Reason]
) -> dict[RentalId, Reason]:
    """The rentals by which the budget passes its hourly limit beside those that are ``ending``.

    Unused ones first, then the newest.
    """
    budget, purse = draft.solution.budget, draft.purse
    if budget.max_hourly_rate is None:
        return {}
    draining = [
        rental.id
        for nodes in draft.solution.nodes.values()
        for rental in nodes.rentals.live
        if rental.id not in nodes.rentals.staying
    ]
    found: dict[RentalId, Reason] = {}
    used = draft.capacity.used
    for rental in sorted(staying, key=lambda rental: (used.get(rental.id, 0) > 0, -rental.created, rental.id)):
        if not purse.over_hourly([*draining, *ending, *found]):
            break
        if rental.id not in ending:
            text = f"{purse.hourly} at worst prices exceed the hourly limit {budget.max_hourly_rate}"
            found[rental.id] = reason(ReasonCode.HOURLY_LIMIT, text)
    return found
