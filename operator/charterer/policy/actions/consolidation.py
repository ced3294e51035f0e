"""Nodes that are left half empty: their jobs move together to free GPUs of other nodes, and the node is given back.

A job of fewer GPUs than a node is charged its share, but the bill is for whole nodes: whoever ends beside it leaves
GPUs that are paid for and unused. To move all jobs of a node into such holes ends its bill t seconds sooner, t being
what the longest of them has left; where that is longer than what the longest job of another node has left, the bill of
that one ends e seconds later. Each job j has a restart of r seconds. A node that must be had again costs a start-up of
T seconds. With P the price of a node a second, the jobs move if

    P·(t − T) − Σ P·e > 2·Σ_j (w_j·θ + c·k_j)·r

(k_j GPUs at c dollars a second each.) The factor is for what else a restart may cost. Every job keeps its width, so no
path changes. The emptiest nodes come first. A node that is more than half full is left alone unless it has a single
job: it is likely to be filled, or to be emptier soon, and fewer jobs then have to move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import PoolId, RentalId
from charterer.domain.job import Placement
from charterer.domain.money import Money
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.time import after, seconds_between
from charterer.policy.actions.admission import next_run
from charterer.policy.actions.plan_builder import PlanBuilder
from charterer.policy.actions.resize_limits import MoveGate
from charterer.policy.actions.triage import KeptRuns
from charterer.policy.budgets import reasons
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.budgets.deadline import MARGIN
from charterer.policy.jobs.job_facts import job_position
from charterer.policy.nodes.capacity import FreeNodes
from charterer.policy.nodes.guests import Guest, guests
from charterer.policy.nodes.max_cost import fits, left_of
from charterer.policy.solve.phase_dp import key_of

_FACTOR = 2.0
"""Multiple of what restarts cost that must be saved: a run that starts anew may also lose what came after its last
checkpoint, or fail to start."""


@dataclass(frozen=True, slots=True)
class _Tenant:
    """A job that may be moved off its node with the others there."""

    guest: Guest
    share: GroupAssignment
    movable: bool


@dataclass(frozen=True, slots=True)
class _Pool:
    """A pool's nodes. ``kin``: pools of nodes that are as good and in which a GPU costs no more."""

    id: PoolId
    size: int
    price: float
    start_seconds: float
    nodes: FreeNodes
    kin: Sequence[PoolId]


@dataclass(frozen=True, slots=True)
class _Relocation:
    """Where a tenant goes."""

    tenant: _Tenant
    option: Option
    to: RentalId


class Consolidation:
    """Empties one budget's nodes in its draft, after its jobs were resized and before idle nodes are released."""

    def __init__(self, draft: PlanBuilder, running: Sequence[KeptRuns]) -> None:
        self._draft = draft
        self._solution = draft.solution
        self._running = running
        self._gate = MoveGate(draft.solution.budget, draft.snapshot.now)
        self._pools = self._find_pools()
        self._tenants: Mapping[RentalId, Sequence[_Tenant]] | None = None

    def empty_nodes(self) -> None:
        """Move the jobs of each node for which that pays and for which all limits allow it."""
        for pool in self._pools.values():
            for rental in self._candidates(pool):
                self._consider(pool, rental)

    def _find_pools(self) -> Mapping[PoolId, _Pool]:
        """The pools that have nodes of the budget."""
        snapshot, offers = self._draft.snapshot, self._solution.inputs.market.offers
        selected = snapshot.pools_of(self._solution.budget)
        shares = {
            name: offer.price.share(1, offer.gpus_per_node)
            for name in self._solution.nodes
            if (offer := offers.get(name)) is not None and offer.price is not None and offer.gpus_per_node
        }
        found: dict[PoolId, _Pool] = {}
        for name, share in shares.items():
            offer = offers[name]
            kind = offer.gpu_type, offer.capacity_type, offer.resource
            kin = [
                other
                for other, price in shares.items()
                if price <= share
                and (offers[other].gpu_type, offers[other].capacity_type, offers[other].resource) == kind
                and other in selected
                and (other == name or other not in self._solution.scarce)
            ]
            price = share.dollars_per_second * offer.gpus_per_node
            nodes = self._draft.free_nodes(name)
            start = snapshot.pools[name].start_seconds
            found[name] = _Pool(name, offer.gpus_per_node, price, start, nodes, kin)
        return found

    def _candidates(self, pool: _Pool) -> Iterator[RentalId]:
        """Nodes in use whose jobs might fit into holes by their number, the emptiest first."""
        kin = [self._pools[name] for name in pool.kin]
        largest = max([each.nodes.ready.largest_hole(each.size) for each in kin], default=0)
        if not largest:
            return
        holes = sum(each.nodes.ready.holes(each.size) for each in kin)
        for free, rentals in pool.nodes.ready.in_use(pool.size):
            used = pool.size - free
            if used <= holes - free and (2 * used <= pool.size or used <= largest):
                yield from rentals

    def _consider(self, pool: _Pool, rental: RentalId) -> None:
        ready = pool.nodes.ready
        tenants = self._all_tenants().get(rental, ())
        used = sum(tenant.guest.gpus for tenant in tenants)
        if not tenants or rental in pool.nodes.touched or ready.free[rental] + used != pool.size:
            return
        if len(tenants) > 1 and 2 * used > pool.size:
            return
        restarts = sum(self._restart(tenant) for tenant in tenants)
        paid = self._paid_seconds(rental)
        saved = pool.price * (self._busy_seconds(rental) - max(pool.start_seconds, paid))
        if saved <= _FACTOR * restarts or not all(self._may_move(tenant) for tenant in tenants):
            return
        held = [hold for tenant in tenants if (hold := self._gate.held(tenant.guest.facts.job)) is not None]
        if held:
            self._draft.decided.again_at += [hold.until for hold in held if hold.until is not None]
            return
        relocations = self._relocate(pool, rental, tenants)
        saved -= self._prolonged(relocations)
        graces: dict[RentalId, int] = {}
        for relocation in relocations:
            grace = relocation.tenant.guest.facts.job.grace_seconds
            graces[relocation.to] = max(grace, graces.get(relocation.to, 0))
        if not relocations or saved <= _FACTOR * restarts or not self._draft.hosts(graces):
            self._take(relocations, -1)
            return
        ready.take(rental, ready.free[rental])  # nobody comes to a node that is to be given back
        for relocation in relocations:
            self._pools[relocation.option.pool].nodes.touched.add(relocation.to)
            self._go(relocation, rental, saved - restarts, relocation.tenant.guest.gpus / used)

    def _all_tenants(self) -> Mapping[RentalId, Sequence[_Tenant]]:
        """The jobs of each node, the widest first."""
        if self._tenants is None:
            found: dict[RentalId, list[_Tenant]] = {}
            for kept in self._running:
                share = self._solution.shares.get(kept.group.key)
                if share is None:
                    continue
                for rental, here in self._solution.inputs.memo(guests, kept.group, share.group.work).items():
                    for guest in here:
                        job = guest.facts.job.id
                        movable = job in kept.group.movable and job in kept.runners
                        found.setdefault(rental, []).append(_Tenant(guest, share, movable))
            self._tenants = found
        return self._tenants

    def _worth(self, tenant: _Tenant) -> float:
        """Dollars of a second of the job's life."""
        worth = tenant.share.group.worth(self._solution.rate)
        need = self._solution.deadline_needs.get(tenant.guest.facts.job.id)
        return worth if need is None else max(worth, need.worth)

    def _restart(self, tenant: _Tenant) -> float:
        """Dollars of the job's restart, its time included."""
        return (self._worth(tenant) + tenant.guest.facts.price) * tenant.share.group.menu.table.restart

    def _paid_seconds(self, rental: RentalId) -> float:
        """Seconds for which the node is paid whatever happens."""
        here = self._draft.snapshot.rentals[rental]
        if here.launched is None:
            return 0.0
        return seconds_between(self._draft.snapshot.now, after(here.launched, here.billing_minimum_seconds))

    def _may_move(self, tenant: _Tenant) -> bool:
        """Whether the job stays as it is in this plan so far, and its own limits allow a restart."""
        job, now = tenant.guest.facts.job, self._draft.snapshot.now
        allocation, verdict = job.allocation, self._draft.decided.verdicts.get(job.id)
        if not tenant.movable or allocation is None or verdict is None or verdict.option is None:
            return False
        if key_of(verdict.option) != key_of(allocation.option):
            return False
        restart = tenant.share.group.menu.table.restart
        target = job.target_completion
        if target is not None and now < target:
            ends = (tenant.guest.left + restart) * (1.0 + MARGIN)
            if ends > seconds_between(now, target):
                return False
        price = allocation.option.price.dollars_per_second
        left = left_of(job, self._draft.snapshot)
        return fits(job, allocation.option, price * (tenant.guest.left + restart), left)

    def _relocate(self, pool: _Pool, rental: RentalId, tenants: Sequence[_Tenant]) -> Sequence[_Relocation]:
        """A hole for each, the smallest that it fits into, the widest first; none if one finds no room."""
        ready = pool.nodes.ready
        own = ready.free[rental]
        ready.take(rental, own)
        found: list[_Relocation] = []
        for tenant in sorted(tenants, key=lambda tenant: (-tenant.guest.gpus, tenant.guest.facts.order)):
            relocation = self._hole(pool, tenant)
            if relocation is None:
                break
            self._take((relocation,))
            found.append(relocation)
        ready.take(rental, -own)
        if len(found) == len(tenants):
            return found
        self._take(found, -1)
        return ()

    def _take(self, relocations: Iterable[_Relocation], sign: int = 1) -> None:
        """Take the GPUs that jobs go to, or (-1) give them back."""
        for relocation in relocations:
            pool = self._pools[relocation.option.pool]
            pool.nodes.ready.take(relocation.to, sign * relocation.tenant.guest.gpus)

    def _prolonged(self, relocations: Iterable[_Relocation]) -> float:
        """Dollars for which nodes are kept longer than for the jobs that they have."""
        longest: dict[RentalId, float] = {}
        price: dict[RentalId, float] = {}
        for relocation in relocations:
            longest[relocation.to] = max(relocation.tenant.guest.left, longest.get(relocation.to, 0.0))
            price[relocation.to] = self._pools[relocation.option.pool].price
        return sum(price[rental] * max(left - self._busy_seconds(rental), 0.0) for rental, left in longest.items())

    def _busy_seconds(self, rental: RentalId) -> float:
        """Seconds that the longest job of a node has left."""
        return max([tenant.guest.left for tenant in self._all_tenants().get(rental, ())], default=0.0)

    def _hole(self, pool: _Pool, tenant: _Tenant) -> _Relocation | None:
        """Free GPUs of a node in use for one job."""
        best: tuple[int, _Relocation] | None = None
        for name in pool.kin:
            option = self._option(tenant, name)
            ready, size = self._pools[name].nodes.ready, self._pools[name].size
            to = None if option is None else ready.fullest(tenant.guest.gpus)
            if option is None or to is None or ready.free[to] >= size or to not in self._all_tenants():
                continue
            if best is None or ready.free[to] < best[0]:
                best = ready.free[to], _Relocation(tenant, option, to)
        return None if best is None else best[1]

    def _option(self, tenant: _Tenant, pool: PoolId) -> Option | None:
        """The option of the same width in a pool, where it is as fast as the job's own."""
        job, menu = tenant.guest.facts.job, tenant.share.group.menu
        assert job.allocation is not None
        here = job.allocation.option
        if pool == here.pool:
            return here
        stage = menu.stages[menu.phase(job_position(job, tenant.share.group.work).done)]
        options = {key_of(option): option for option in stage}
        there, now = options.get((pool, here.gpus, here.resource)), options.get(key_of(here))
        return there if there is not None and now is not None and there.speed >= now.speed else None

    def _go(self, relocation: _Relocation, rental: RentalId, saved: float, part: float) -> None:
        tenant, option = relocation.tenant, relocation.option
        job, restart = tenant.guest.facts.job, tenant.share.group.menu.table.restart
        assert job.allocation is not None
        text = f"{reasons.name(option)}: from {rental} to {relocation.to}, so that {rental} can be given back, which"
        text += f" saves {reasons.format_money(saved)}, restarts included"
        money, seconds = Money.of(-saved * part), -job.weight * restart
        why = Reason(ReasonCode.NODE_EMPTIED, seconds, money, text, job.allocation.option)
        why = self._solution.with_deadline_note(job, why)
        places = (Placement(relocation.to, tenant.guest.gpus),)
        self._draft.allocate(job, option, next_run(job), places, why)
        self._draft.judge(job, option, why)


def consolidate(draft: PlanBuilder, running: Iterable[KeptRuns]) -> None:
    """Empty the nodes whose jobs all find room on others, where that pays."""
    Consolidation(draft, list(running)).empty_nodes()
