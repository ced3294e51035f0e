"""Consolidation: the jobs of a partly empty node move to free GPUs of other nodes, and the node is given back.

A job with fewer GPUs than a node is charged only for its GPUs, but the bill is for whole nodes. When a job ends, its
GPUs are still paid for and may stay unused. Moving all jobs of a node into free fragments of other nodes ends its
bill t seconds sooner, where t is the remaining time of its longest job. If the moved job lasts longer than the
longest job on its new node, the bill of the new node ends e seconds later. Each job j has a restart of r seconds. A
node that must be rented again needs a start-up of T seconds. With the price P of a node per second, the jobs move if

    P·(t − T) − Σ P·e > 2·Σ_j (w_j·θ + c·k_j)·r

where k_j is the number of the job's GPUs, at c dollars per second each. The factor covers further costs of a restart.
Every job keeps its width, so no path changes. The nodes with the cheapest restarts come first. A node that is more than
three quarters full moves only if it has a single job, because it will probably be filled, or soon have fewer jobs to
move. Nodes of one GPU that two jobs share are left alone, because a move would choose a partner (``outlook.partners``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Placement
from charterer.domain.money import Money
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.reasons.options import NodeEmptied
from charterer.domain.time import after, seconds_between
from charterer.policy.actions.budget_plan import BudgetPlan
from charterer.policy.actions.triage import KeptRuns
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.jobs.job_facts import job_position, next_run
from charterer.policy.nodes.placement import FreeNodes
from charterer.policy.nodes.rentals import Occupant
from charterer.policy.options.option_value import Projection
from charterer.policy.options.pair_speeds import chooses_partner
from charterer.policy.outlook.move_gate import Hold
from charterer.policy.solve.phase_dp import key_of

_FACTOR = 2.0
"""Ratio by which the savings must exceed the cost of restarts. A restarted run may also lose the work since its last
checkpoint, or fail to start."""
_FULL = 0.75
"""Fraction of a node's GPUs in use above which its jobs do not move together."""


@dataclass(frozen=True, slots=True)
class _Pool:
    """A pool's nodes. ``interchangeable``: pools whose nodes are as good and whose GPUs cost no more."""

    id: PoolId
    size: int
    price: float
    start_seconds: float
    nodes: FreeNodes
    interchangeable: Sequence[PoolId]


@dataclass(frozen=True, slots=True)
class _Relocation:
    """The node and the option that a job moves to."""

    occupant: Occupant
    option: Option
    to: RentalId


class Consolidation:
    """Empties nodes of one budget in its plan, after its jobs were resized and before idle nodes are released."""

    def __init__(self, plan: BudgetPlan) -> None:
        self._plan = plan
        self._solution = plan.solution
        self._occupants = plan.solution.occupants()
        self._displaced = _displaced(plan.solution.groups.values(), plan.jobs.running)
        self._pools = self._find_pools()

    def empty_nodes(self) -> None:
        """Move the jobs of each node for which this pays and all limits allow it."""
        for pool in self._pools.values():
            if chooses_partner(self._plan.snapshot.pools[pool.id]):
                continue
            for rental in sorted(self._candidates(pool), key=lambda rental: (self._restarts(rental), rental)):
                self._consider(pool, rental)

    def _find_pools(self) -> Mapping[PoolId, _Pool]:
        """The pools in which the budget has nodes."""
        snapshot, offers = self._plan.snapshot, self._solution.inputs.market.offers
        selected = snapshot.pools_of(self._solution.budget)
        per_gpu = {
            name: offer.price.for_gpus(1, offer.gpus_per_node)
            for name in self._solution.nodes
            if (offer := offers.get(name)) is not None and offer.price is not None and offer.gpus_per_node
        }
        found: dict[PoolId, _Pool] = {}
        for name, own in per_gpu.items():
            offer = offers[name]
            interchangeable = [
                other
                for other, price in per_gpu.items()
                if price <= own and offers[other].kind == offer.kind and other in selected
            ]
            price = own.dollars_per_second * offer.gpus_per_node
            nodes = self._plan.placer.free_nodes(name)
            start = snapshot.pools[name].likely_start_seconds
            found[name] = _Pool(name, offer.gpus_per_node, price, start, nodes, interchangeable)
        return found

    def _candidates(self, pool: _Pool) -> Iterator[RentalId]:
        """Nodes in use whose jobs, by their number of GPUs, may fit into fragments of other nodes."""
        interchangeable = [self._pools[name] for name in pool.interchangeable]
        largest = max([each.nodes.ready.largest_fragment(each.size) for each in interchangeable], default=0)
        if not largest:
            return
        fragments = sum(each.nodes.ready.fragments(each.size) for each in interchangeable)
        for free, rentals in pool.nodes.ready.in_use(pool.size):
            used = pool.size - free
            if used <= fragments - free and (used <= _FULL * pool.size or used <= largest):
                yield from rentals

    def _consider(self, pool: _Pool, rental: RentalId) -> None:
        ready = pool.nodes.ready
        occupants = self._occupants.get(rental, ())
        used = sum(occupant.gpus for occupant in occupants)
        if not occupants or rental in pool.nodes.touched or ready.free[rental] + used != pool.size:
            return
        if len(occupants) > 1 and used > _FULL * pool.size:
            return
        restarts = self._restarts(rental)
        paid = self._paid_seconds(rental)
        saved = pool.price * (self._busy_seconds(rental) - max(pool.start_seconds, paid))
        if saved <= _FACTOR * restarts or not all(self._may_move(occupant) for occupant in occupants):
            return
        gate = self._plan.gate
        if not gate.allows(
            [gate.closed(occupant.facts.job, self._assignment(occupant).values) for occupant in occupants]
        ):
            return
        relocations = self._relocate(pool, rental, occupants)
        partners = self._plan.placer.partners
        may = all(partners.may_be_on(relocation.occupant.facts.job, relocation.to) for relocation in relocations)
        if not may or not gate.allows([self._held(relocation) for relocation in relocations]):
            self._take(relocations, -1)
            return
        saved -= self._prolonged(relocations)
        graces: dict[RentalId, int] = {}
        for relocation in relocations:
            grace = relocation.occupant.facts.job.grace_seconds
            graces[relocation.to] = max(grace, graces.get(relocation.to, 0))
        if not relocations or saved <= _FACTOR * restarts or not self._plan.placer.hosts(graces):
            self._take(relocations, -1)
            return
        ready.take(rental, ready.free[rental])  # No job may come to a node that is being given back.
        for relocation in relocations:
            self._pools[relocation.option.pool].nodes.touched.add(relocation.to)
            self._go(relocation, rental, saved - restarts, relocation.occupant.gpus / used)

    def _held(self, relocation: _Relocation) -> Hold | None:
        """Why the job may not move to that node now; None if it may."""
        assignment, job, option = (
            self._assignment(relocation.occupant),
            relocation.occupant.facts.job,
            relocation.option,
        )
        seconds = relocation.occupant.left + assignment.group.menu.table.restart
        there = Projection.on(option, seconds, self._worth(relocation.occupant))
        return self._plan.gate.held(job, self._solution.own_values(job, assignment), assignment.position(job), there)

    def _assignment(self, occupant: Occupant) -> GroupAssignment:
        return self._solution.assignments[occupant.facts.key]

    def _worth(self, occupant: Occupant) -> float:
        """Dollars per second of the job's life."""
        return self._solution.worth(occupant.facts.job, self._assignment(occupant))

    def _restart(self, occupant: Occupant) -> float:
        """Dollars of the job's restart, including its time."""
        return (self._worth(occupant) + occupant.facts.price) * self._assignment(occupant).group.menu.table.restart

    def _restarts(self, rental: RentalId) -> float:
        """Dollars of the restarts of all jobs on the node."""
        return sum([self._restart(occupant) for occupant in self._occupants.get(rental, ())])

    def _paid_seconds(self, rental: RentalId) -> float:
        """Seconds for which the node is paid for in any case, by its billing minimum."""
        here = self._plan.snapshot.rentals[rental]
        if here.launched is None:
            return 0.0
        return seconds_between(self._plan.snapshot.now, after(here.launched, here.billing_minimum_seconds))

    def _may_move(self, occupant: Occupant) -> bool:
        """Whether the job can be moved and has no other decision in this plan so far."""
        job = occupant.facts.job
        movable = self._solution.groups[occupant.facts.key].movable
        return job.id in movable and job.id not in self._displaced and self._plan.decided.stays(job)

    def _relocate(self, pool: _Pool, rental: RentalId, occupants: Sequence[Occupant]) -> Sequence[_Relocation]:
        """For each job, the widest first, the smallest fragment that fits. The result is empty if any job does not
        fit."""
        ready = pool.nodes.ready
        own = ready.free[rental]
        ready.take(rental, own)
        found: list[_Relocation] = []
        for occupant in sorted(occupants, key=lambda occupant: (-occupant.gpus, occupant.facts.order)):
            relocation = self._fragment(pool, occupant)
            if relocation is None:
                break
            self._take((relocation,))
            found.append(relocation)
        ready.take(rental, -own)
        if len(found) == len(occupants):
            return found
        self._take(found, -1)
        return ()

    def _take(self, relocations: Iterable[_Relocation], sign: int = 1) -> None:
        """Take the GPUs that jobs move to, or give them back if ``sign`` is -1."""
        for relocation in relocations:
            pool = self._pools[relocation.option.pool]
            pool.nodes.ready.take(relocation.to, sign * relocation.occupant.gpus)

    def _prolonged(self, relocations: Iterable[_Relocation]) -> float:
        """Dollars by which the bills of other nodes grow, because moved jobs last longer than the jobs there."""
        longest: dict[RentalId, float] = {}
        price: dict[RentalId, float] = {}
        for relocation in relocations:
            longest[relocation.to] = max(relocation.occupant.left, longest.get(relocation.to, 0.0))
            price[relocation.to] = self._pools[relocation.option.pool].price
        return sum(price[rental] * max(left - self._busy_seconds(rental), 0.0) for rental, left in longest.items())

    def _busy_seconds(self, rental: RentalId) -> float:
        """Remaining seconds of a node's longest job."""
        return max([occupant.left for occupant in self._occupants.get(rental, ())], default=0.0)

    def _fragment(self, pool: _Pool, occupant: Occupant) -> _Relocation | None:
        """The smallest fragment of a node in use that fits the job; None without one."""
        best: tuple[int, _Relocation] | None = None
        for name in pool.interchangeable:
            option = self._option(occupant, name)
            ready, size = self._pools[name].nodes.ready, self._pools[name].size
            to = None if option is None else ready.fullest(occupant.gpus)
            if option is None or to is None or ready.free[to] >= size or to not in self._occupants:
                continue
            if best is None or ready.free[to] < best[0]:
                best = ready.free[to], _Relocation(occupant, option, to)
        return None if best is None else best[1]

    def _option(self, occupant: Occupant, pool: PoolId) -> Option | None:
        """The option with the job's width in ``pool`` if the option is at least as fast as the job's own; otherwise
        None."""
        job, menu = occupant.facts.job, self._assignment(occupant).group.menu
        assert job.allocation is not None
        here = job.allocation.option
        if pool == here.pool:
            return here
        stage = menu.stages[menu.phase(job_position(job, self._assignment(occupant).group.work).done)]
        options = {key_of(option): option for option in stage}
        there, now = options.get(key_of(replace(here, pool=pool))), options.get(key_of(here))
        return there if there is not None and now is not None and there.speed >= now.speed else None

    def _go(self, relocation: _Relocation, rental: RentalId, saved: float, part: float) -> None:
        occupant, option = relocation.occupant, relocation.option
        job, restart = occupant.facts.job, self._assignment(occupant).group.menu.table.restart
        assert job.allocation is not None
        facts = NodeEmptied(option, rental, relocation.to, Money.of(saved))
        money, seconds = Money.of(-saved * part), -job.weight * restart
        why = Reason(ReasonCode.NODE_EMPTIED, seconds, money, facts, job.allocation.option)
        why = self._solution.with_deadline_note(job, why)
        places = (Placement(relocation.to, occupant.gpus),)
        self._plan.decided.allocate(job, option, next_run(job), places, why)
        self._plan.decided.judge(job, option, why)


def _displaced(groups: Iterable[JobGroup], running: Iterable[KeptRuns]) -> frozenset[JobId]:
    """Jobs with GPUs that may not stay where they are."""
    kept = {each.group.key: each for each in running}
    found: set[JobId] = set()
    for group in groups:
        stays = kept.get(group.key)
        if stays is None:
            found |= group.runners.keys()
        elif not stays.all:
            found |= group.runners.keys() - stays.runners.keys()
    return frozenset(found)


def consolidate(plan: BudgetPlan) -> None:
    """Empty the nodes whose jobs all fit on other nodes, if it pays."""
    Consolidation(plan).empty_nodes()
