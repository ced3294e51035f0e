"""Nodes that nobody uses and nobody waits for: they are ended, but not before their billing minimum has passed.

Nor are those that a job to come is likely to need (``warm_nodes``), unless they stand in the way of others or nothing
begins there any more, those that wait for the rest of a gang (``gangs``), and those that are paid for whether they are
used or not (``committed_nodes``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from charterer.domain.ids import InstanceId, PoolId, RentalId
from charterer.domain.job import Job, RunOutcome
from charterer.domain.money import Money
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.pool import Pool
from charterer.domain.reasons import facts_of_nodes as of
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after, seconds_between
from charterer.policy.actions.budget_plan import BudgetPlan
from charterer.policy.actions.incomplete_gangs import IncompleteGangs
from charterer.policy.actions.warm_nodes import warm_nodes
from charterer.policy.nodes.known_ends import KnownEnd

_CHECK_SECONDS = 60.0
"""Seconds after a job's creation for which its check keeps idle nodes. An API server, or a webhook behind it, that does
not answer would keep them for ever."""


def release_idle(plan: BudgetPlan) -> None:
    """Release the budget's idle and unneeded rentals; where the cloud has not been asked yet, none.

    Nothing is released while a new job's template is being checked, which takes milliseconds: it may need the node.
    Nor are nodes on which runs go on whose TrainingJobs cannot be read.
    """
    groups = plan.solution.groups.values()
    checked_until = [after(group.checking, _CHECK_SECONDS) for group in groups if group.checking is not None]
    if any(plan.snapshot.now < until for until in checked_until):
        plan.decided.again_at.append(max(checked_until))
        return
    ending = plan.ending
    lacking = plan.placer.without_their_gang(ending)
    for unasked, why in lacking.items():
        plan.decided.release(unasked, why)
    gangs = IncompleteGangs((nodes.rentals for nodes in plan.solution.nodes.values()), plan.snapshot)
    selected = plan.snapshot.pools_of(plan.solution.budget)
    kept = _kept_for(plan.jobs.backing_off, selected, plan.snapshot.now)
    unused = [
        rental
        for nodes in plan.solution.nodes.values()
        for rental in nodes.unused
        if not rental.deleting
        and rental.node not in plan.snapshot.unread_nodes
        and rental.id not in ending
        and rental.id not in kept
        and rental.id not in lacking
        and rental.id not in plan.placer.capacity.touched(rental)
    ]
    listed = {
        pool: frozenset(instance.id for instance in plan.snapshot.surveys[pool].instances)
        for pool in {rental.pool for rental in unused} & plan.snapshot.surveys.keys()
    }
    idle: dict[PoolId, list[Rental]] = defaultdict(list)
    for rental in unused:
        if not _seen(rental, listed):
            continue
        if rental.launched is not None:
            paid_until = after(rental.launched, rental.billing_minimum_seconds)
            keep_until = max(paid_until, gangs.kept_until(rental, plan.decided.verdicts) or paid_until)
            if plan.snapshot.now < keep_until:
                plan.decided.again_at.append(keep_until)
                continue
        idle[rental.pool].append(rental)
    replaced = _lost(plan)
    for name, rentals in idle.items():
        pool = selected.get(name)
        of_use = [rental for rental in sorted(rentals, key=_worth) if plan.placer.capacity.offers(rental)]
        surplus = of_use if pool is None else _surplus(plan, pool, of_use[replaced[name] :])
        for rental in (*(rental for rental in rentals if not plan.placer.capacity.offers(rental)), *surplus):
            end = plan.solution.inputs.ends.near.get(rental.id)
            plan.decided.release(rental.id, gangs.reason(rental) or _reason(rental, end, plan.snapshot))


def _lost(plan: BudgetPlan) -> Counter[PoolId]:
    """By pool, the nodes that have ended under runs which are not yet recorded as interrupted.

    Their jobs want a node in a moment. A group of the cloud replaces a machine that died by itself: to end that one and
    to rent another would be paid twice.
    """
    rentals = plan.snapshot.rentals
    staying = frozenset().union(*(nodes.rentals.staying for nodes in plan.solution.nodes.values()))
    lost = {
        (facts.job.allocation.option.pool, place)
        for group in plan.solution.groups.values()
        if not group.rentals <= staying
        for facts in group.runners.values()
        if facts.job.allocation is not None
        for place in facts.rentals - staying
        if (rental := rentals.get(place)) is None or rental.phase is RentalPhase.ENDED
    }
    return Counter(pool for pool, _ in lost)


def _kept_for(
    backing_off: Iterable[tuple[Job, Instant]], pools: Mapping[PoolId, Pool], now: Instant
) -> frozenset[RentalId]:
    """The nodes of a last run whose job has its next run sooner than another node would start: to keep them is cheaper.

    Not those of a run that never started: they may be at fault. Nor those outside ``pools``, which the budget may rent.
    """
    kept: set[RentalId] = set()
    for job, until in backing_off:
        last = job.records[-1]
        pool = pools.get(last.option.pool)
        if pool is None or last.outcome is not RunOutcome.FAILED:
            continue
        if seconds_between(now, until) < pool.likely_start_seconds:
            kept |= {placement.rental for placement in last.placements}
    return frozenset(kept)


def _surplus(plan: BudgetPlan, pool: Pool, idle: Sequence[Rental]) -> Sequence[Rental]:
    """Those of a pool's idle rentals, in the order of their worth, that are not worth keeping."""
    solution = plan.solution
    if pool.committed is not None:
        staying = len(solution.nodes[pool.id].rentals.staying)
        return idle[max(pool.max_nodes - (staying - len(idle)), 0) :]
    rented = Counter({pool_id: len(nodes.rentals.staying) for pool_id, nodes in solution.nodes.items()})
    fragment = plan.placer.free_nodes(pool.id).ready.largest_fragment(pool.gpus_per_node)
    until = warm_nodes(solution, pool, rented, len(idle), fragment)
    if not until or not plan.placer.may_rent(pool.id):
        return idle
    plan.decided.again_at += until
    return idle[len(until) :]


def _worth(rental: Rental) -> tuple[bool, Instant, RentalId]:
    """Orders rentals by how much they are worth keeping: ready nodes before booting ones."""
    return rental.phase is not RentalPhase.READY, rental.created, rental.id


def _seen(rental: Rental, listed: Mapping[PoolId, frozenset[InstanceId]]) -> bool:
    """Whether the cloud was asked and, once the rental names an instance, lists it; a lost one is not ours to end."""
    instances = listed.get(rental.pool)
    return instances is not None and (rental.instance is None or rental.instance in instances)


def _reason(rental: Rental, end: KnownEnd | None, snapshot: Snapshot) -> Reason:
    saved = Money(-rental.worst.cost(3600).micros)
    survey = snapshot.surveys.get(rental.pool)
    notices = () if survey is None else [notice for notice in survey.notices if notice.instance == rental.instance]
    for notice in notices:
        taken = of.TakenBack(rental.instance, rental.id, notice.certain, notice.why, notice.broken)
        return Reason(ReasonCode.INTERRUPTION, 0.0, saved, taken)
    if rental.phase is RentalPhase.READY and end is not None:
        return Reason(ReasonCode.IDLE, 0.0, saved, of.IdleUntilEnd(rental.id, end.at))
    if rental.phase is RentalPhase.READY:
        return Reason(ReasonCode.IDLE, 0.0, saved, of.Idle(rental.id))
    return Reason(ReasonCode.NOT_NEEDED, 0.0, saved, of.NotWaitedFor(rental.id))
