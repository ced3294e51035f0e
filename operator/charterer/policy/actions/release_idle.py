"""The release of idle nodes, which no job uses or waits for, after their billing minimum.

Some idle nodes are kept:
- nodes that a future job probably needs (``warm_nodes``), unless the pool may rent no more nodes or no job may begin
  there
- nodes that wait for the rest of a gang (``IncompleteGangs``)
- nodes that are paid for whether used or not (``planner``)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, log1p

from charterer.domain.ids import InstanceId, JobId, PoolId, RentalId
from charterer.domain.job import Job, RunOutcome
from charterer.domain.money import ZERO, Money
from charterer.domain.plan import Reason, ReasonCode, Verdict
from charterer.domain.pool import Pool
from charterer.domain.reasons import nodes as of
from charterer.domain.reasons.nodes import GangIncomplete
from charterer.domain.rental import Rental, RentalPhase, gang_deadline, has_machine, incomplete_gangs
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after, seconds_between
from charterer.policy.actions.budget_plan import BudgetPlan
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.nodes.rentals import KnownEnd, PoolRentals

# Machines of incomplete gangs, which are not kept for long.
#
# Other jobs may use these machines, like any idle machine. Unused machines are kept while the rest of the gang will
# soon be requested from the cloud, and are then given back (docs/development/adr/0013).


class IncompleteGangs:
    """The machines of one budget's incomplete gangs."""

    def __init__(self, pools: Iterable[PoolRentals], snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        rentals = (rental for pool in pools for members in pool.gangs.values() for rental in members)
        self._members = {
            rental.id: members
            for members in incomplete_gangs(rentals, snapshot.jobs).values()
            for rental in members
            if has_machine(rental)
        }

    def kept_until(self, rental: Rental, verdicts: Mapping[JobId, Verdict]) -> Instant | None:
        """The time until which the machine is kept for its gang; None if it is not kept.

        The machine is kept while the gang's job waits for exactly this pool, and the pool's cool-down ends before the
        deadline of the gang.
        """
        members = self._members.get(rental.id)
        pool = self._snapshot.pools.get(rental.pool)
        if members is None or rental.gang is None or pool is None:
            return None
        verdict, cooling = verdicts.get(rental.gang.job), pool.cooling(self._snapshot.now)
        if verdict is None or verdict.reason.code is not ReasonCode.POOL_COOLING or cooling is None:
            return None
        if verdict.option is None or verdict.option.pool != pool.id:
            return None
        until = gang_deadline((member for member in members if member.stays), pool.start_seconds)
        return until if cooling.until < until else None

    def reason(self, rental: Rental) -> Reason | None:
        """The reason to give the machine back because its gang is incomplete; None if that is not the reason."""
        members = self._members.get(rental.id)
        if members is None or rental.gang is None:
            return None
        came = sum(member.stays and has_machine(member) for member in members)
        facts = GangIncomplete(rental.gang.job_name, rental.gang.nodes, came)
        return Reason(ReasonCode.INCOMPLETE_GANG, 0.0, ZERO, facts)


# Idle nodes that are worth keeping, because a job that would have to wait for a new node is likely to come.
#
# A node that is ended and rented again needs a start-up time T. The start-up costs T times the node's price p. If a job
# waits for the new node, the wait also costs T times the value of a second of the job. Jobs arrive at a rate Λ; a
# fraction a_i of them need n_i nodes of the pool, and a second of such a job is worth w_i·θ dollars. Jobs end as often
# as they arrive, and free their nodes. So a job that finds no node waits for the shorter of T and the time to the next
# end: (1 − exp(−Λ·T)) / Λ on average. Each second of keeping a k-th idle node therefore saves
#
# P·V_k with P = 1 − exp(−Λ·T), V_k = Σ_i a_i·(p·[n_i ≥ k] + w_i·θ·[n_i = k]) dollars
#
# and costs p. Of the nodes that a job needs, only the last one saves the job's wait. Each other node saves only the
# bill of its start-up. Nodes are kept as long as P·V > p. They are kept in blocks of decreasing mean V, because one
# node does not help a job that needs two.
#
# Λ is the arrival rate for which the budget is solved, or the rate in the classes' history
# (``domain.budget.ClassHistory``). Jobs of classes without a job in sight are assumed to need one node, or the free
# GPUs of a node in use. Such a mean does not show changes of load within hours. So Λ is limited to 1 ÷ the time since a
# job last arrived or finished.


@dataclass(frozen=True, slots=True)
class ExpectedArrivals:
    """Future jobs. ``arrivals``: jobs per second. ``nodes``: nodes that each job needs. ``worth``: dollars that a
    second of a job is worth."""

    arrivals: float
    nodes: int
    worth: float


@dataclass(frozen=True, slots=True)
class WarmNodes:
    """A number of ``nodes`` worth keeping together for ``seconds`` after a job last arrived or finished."""

    nodes: int
    seconds: float


def warm_nodes(
    solution: BudgetSolution, pool: Pool, rented: Counter[PoolId], idle: int, fragment: int
) -> list[Instant]:
    """The instants until which a pool's ``idle`` nodes are kept, the latest first; empty if none is worth keeping now.

    ``rented``: the budget's nodes by pool; jobs of classes without a job in sight are assumed to be spread like them.
    ``fragment``: the most free GPUs of a node in use; a job that fits there needs no idle node.
    """
    last = _last_sign(solution)
    if not solution.feasible or last is None or pool.offering is None or pool.quote is None:
        return []
    found = streams(solution, pool.id, pool.offering.gpus_per_node, rented, fragment)
    kept: list[Instant] = []
    for group in _warm_groups(found, pool.quote.price.dollars_per_second, pool.likely_start_seconds):
        until = after(last, group.seconds)
        if solution.now >= until or len(kept) + group.nodes > idle:
            break
        kept += [until] * group.nodes
    return kept


def _warm_groups(found: Sequence[ExpectedArrivals], price: float, start_seconds: float) -> list[WarmNodes]:
    """The nodes worth keeping, the most valuable first. ``price``: dollars per second of a node."""
    arrivals = sum(expected.arrivals for expected in found)
    if arrivals <= 0.0 or start_seconds <= 0.0 or price <= 0.0:
        return []
    saved = [
        sum(
            expected.arrivals * (price + (expected.worth if expected.nodes == count else 0.0))
            for expected in found
            if expected.nodes >= count
        )
        for count in range(1, max(expected.nodes for expected in found) + 1)
    ]
    kept: list[WarmNodes] = []
    begin = 0
    while begin < len(saved):
        means = [total / count / arrivals for count, total in enumerate(accumulate(saved[begin:]), 1)]
        mean = max(means)
        if mean <= price:
            break
        needed = -log1p(-price / mean) / start_seconds
        if arrivals <= needed:
            break
        nodes = means.index(mean) + 1
        kept.append(WarmNodes(nodes, 1.0 / needed))
        begin += nodes
    return kept


def streams(
    solution: BudgetSolution, pool: PoolId, gpus_per_node: int, rented: Counter[PoolId], fragment: int = 0
) -> list[ExpectedArrivals]:
    """The jobs that may arrive in the pool and need idle nodes: from groups in sight and from remembered classes."""
    found: list[ExpectedArrivals] = []
    for key, assignment in solution.assignments.items():
        group, worth = assignment.group, assignment.group.worth(solution.share(key).rate)
        found += [
            ExpectedArrivals(group.foreseen * taken.fraction, ceil(taken.path[0].takes / gpus_per_node), worth)
            for taken in assignment.assigned_paths
            if taken.path[0].pool == pool and taken.path[0].takes > fragment
        ]
    nodes = rented.total()
    present = {key.class_id for key in solution.assignments}
    absent = sum(solution.arrivals.of(name) for name in solution.arrivals.parts if name not in present)
    if absent and nodes and not fragment:
        found.append(ExpectedArrivals(absent * rented[pool] / nodes, 1, solution.rate))
    return found


def _last_sign(solution: BudgetSolution) -> Instant | None:
    """When a job last arrived or finished; None without any."""
    balance = solution.budget.balance
    finished: Iterable[Instant] = () if balance is None else (history.at for history in balance.class_history.values())
    created = (group.created[-1] for group in solution.groups.values())
    return max([*created, *finished], default=None)


_CHECK_SECONDS = 60.0
"""Seconds after a job's creation for which its template check keeps idle nodes. Without this limit, an API server or
webhook that never answers would keep the nodes for ever."""


def release_idle(plan: BudgetPlan) -> None:
    """Release the budget's idle and unneeded rentals, except in pools whose cloud has not answered yet.

    While a new job's template is being checked, which takes milliseconds, nothing is released, because the job may need
    the nodes. Nodes with runs of unreadable TrainingJobs are not released either.
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
    """By pool, the number of nodes that ended under runs whose interruption is not recorded yet.

    The jobs of these runs will want a node in a moment. A cloud's group replaces a dead machine by itself, so releasing
    the replacement and renting another one would cost twice.
    """
    rentals, staying = plan.snapshot.rentals, plan.solution.inputs.rentals.staying
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
    """Nodes whose last job starts its next run sooner than a new node would start, so that keeping them is cheaper.

    A run that never started keeps no node, because the node may be the cause. Nodes outside ``pools``, in which the
    budget may rent, are not kept either.
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
    """The idle rentals of a pool that are not worth keeping. ``idle``: the most valuable first."""
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
    """Sort key of rentals by their value: ready nodes come before booting nodes, and older nodes before newer
    nodes."""
    return rental.phase is not RentalPhase.READY, rental.created, rental.id


def _seen(rental: Rental, listed: Mapping[PoolId, frozenset[InstanceId]]) -> bool:
    """Whether the cloud has answered and lists the rental's instance, if the instance is known. Other rules end lost
    instances."""
    instances = listed.get(rental.pool)
    return instances is not None and (rental.instance is None or rental.instance in instances)


def _reason(rental: Rental, end: KnownEnd | None, snapshot: Snapshot) -> Reason:
    saved = Money(-rental.worst.cost(3600).micros)
    survey = snapshot.surveys.get(rental.pool)
    notices = () if survey is None else [notice for notice in survey.notices if notice.instance == rental.instance]
    for notice in notices:
        if not rental.cloud.rents:
            return Reason(ReasonCode.IDLE, 0.0, saved, of.TakesNoPart(rental.id, notice.why))
        taken = of.TakenBack(rental.instance, rental.id, notice.certain, notice.why, notice.broken)
        return Reason(ReasonCode.INTERRUPTION, 0.0, saved, taken)
    if rental.phase is RentalPhase.READY and end is not None:
        return Reason(ReasonCode.IDLE, 0.0, saved, of.IdleUntilEnd(rental.id, end.at))
    if rental.phase is RentalPhase.READY:
        return Reason(ReasonCode.IDLE, 0.0, saved, of.Idle(rental.id))
    return Reason(ReasonCode.NOT_NEEDED, 0.0, saved, of.NotWaitedFor(rental.id))
