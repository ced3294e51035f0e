"""What a budget's jobs in sight will still cost: its nodes, until they can be given back.

Jobs that run are where they are, or where the plan takes them. Those that wait have the nodes that they wait for, or
the option that the plan looks for (``nodes.run_down``). Those that wait for money come when the others are gone, as far
as there is money then (``actions.admission.commitments``). Moves that will pay later are not in it, nor what is lost
with nodes that the cloud takes back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import inf

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.money import Money
from charterer.domain.option import Option
from charterer.domain.plan import Allocate, ReasonCode, Verdict
from charterer.domain.rental import Rental
from charterer.domain.time import Instant, after, seconds_between
from charterer.policy.budgets.solution import BudgetSolution, InSight
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.jobs.job_facts import JobFacts, job_position
from charterer.policy.nodes.holdings import by_rental
from charterer.policy.nodes.rental_index import PoolRentals
from charterer.policy.nodes.run_down import NodeOffer, RunDown, StandingNode, StandingNodes, WaitingJob
from charterer.policy.options.menu import Menu
from charterer.policy.outlook.placer import Placer

Uses = Mapping[RentalId, Sequence[tuple[int, float]]]
"""GPUs on each node, each with the seconds until a job leaves them."""
PoolUses = Mapping[PoolId, Uses]
Runners = Mapping[JobId, JobFacts]
_Held = defaultdict[RentalId, list[tuple[int, float]]]


@dataclass(frozen=True, slots=True)
class PlannedUse:
    """How a plan leaves jobs and nodes. ``places``: of jobs that begin or move now. ``awaited``: the nodes that will be
    given to a job when all of them are ready. ``verdicts``: the option that each job has or waits for. ``ended``: nodes
    that are given back now.
    """

    places: Mapping[JobId, Allocate]
    awaited: Mapping[JobId, tuple[RentalId, ...]]
    verdicts: Mapping[JobId, Verdict]
    ended: Set[RentalId]


class CostInSight:
    """One budget's nodes, until they can be given back."""

    def __init__(self, solution: BudgetSolution, placer: Placer, plan: PlannedUse) -> None:
        self._solution = solution
        self._snapshot = solution.inputs.snapshot
        self._placer = placer
        self._plan = plan
        self._seconds = max(seconds_between(solution.now, solution.period_end), 0.0)

    def cost(self) -> InSight:
        """Dollars until the period's end. Nodes that are paid for whether they are used or not are in none of it."""
        held, waiting = _Held(list), defaultdict[PoolId, list[tuple[WaitingJob, bool]]](list)
        ready, staying = self._booting(), list[PoolUses]()
        for group in self._solution.groups.values():
            moved = frozenset(group.runners.keys() & self._plan.places.keys())
            staying.append(self._uses(group, group.runners, moved))
            for job in (*[group.runners[name].job for name in moved], *group.waiting):
                self._add(job, held, waiting, ready)
        nodes = self._run_downs(staying, held, ready)
        running = _dollars(nodes)
        for pool, jobs in waiting.items():
            for there, follows in jobs if pool in nodes else ():
                (nodes[pool].follow if follows else nodes[pool].add)(there)
        return InSight(Money.of(_dollars(nodes) + self._later(_dollars(nodes))), Money.of(running))

    def running(self, runs: Iterable[tuple[JobGroup, Runners]]) -> Mapping[PoolId, RunDown]:
        """The nodes of each pool with these jobs of each group, which run on."""
        held, staying = _Held(list), list[PoolUses]()
        for group, runners in runs:
            moved = frozenset(runners.keys() & self._plan.places.keys())
            staying.append(self._uses(group, runners, moved))
            for name in moved:
                self._add(runners[name].job, held, {}, {})
        return self._run_downs(staying, held, self._booting())

    def waiting_job(self, job: Job, option: Option) -> WaitingJob:
        """The job on an option that it does not have yet."""
        count = self._placer.nodes(option)
        return WaitingJob(option.takes // count, count, self._restart(option) + self._left(job, option))

    def _uses(self, group: JobGroup, runners: Runners, moved: frozenset[JobId]) -> PoolUses:
        """What the group's jobs hold that stay where they are: all of these but those that are ``moved``."""
        assignment = self._solution.assignments.get(group.key)
        menu, work = (None, 0.0) if assignment is None else (assignment.group.menu, assignment.group.work)
        return self._solution.inputs.memo(uses_of_runners, runners, moved, menu, work)

    def _run_downs(
        self, staying: Sequence[PoolUses], held: _Held, ready: Mapping[RentalId, float]
    ) -> dict[PoolId, RunDown]:
        by_pool: dict[PoolId, list[Uses]] = {}
        for each in staying:
            for name, uses in each.items():
                by_pool.setdefault(name, []).append(uses)
        return {
            name: RunDown(self._standing(name, tuple(by_pool.get(name, ())), held, ready), offer, self._seconds)
            for name, pool in self._snapshot.pools.items()
            for offer in (self._offer(name, self._placer.more_nodes(name, pool.max_nodes)),)
            if pool.committed is None
        }

    def _offer(self, name: PoolId, most: int) -> NodeOffer:
        pool = self._snapshot.pools[name]
        return NodeOffer(pool.gpus_per_node or 1, self._price(name), pool.likely_start_seconds, most)

    def _later(self, dollars: float) -> float:
        """Dollars of the jobs that wait for money, beside ``dollars`` of all others in sight.

        The first begins when nothing runs any more, if there is any money left; others beside it that fit into what may
        be committed.
        """
        money, beside = self._money - dollars, self._solution.committable - dollars
        before, nodes = 0.0, dict[PoolId, RunDown]()
        for pool, job in self._unpaid() if money > 0.0 else ():
            empty = RunDown(StandingNodes(()), self._offer(pool, self._snapshot.pools[pool].max_nodes), self._seconds)
            more = nodes.get(pool, empty).adds(job)
            if nodes and more and before + _dollars(nodes) + more > beside:
                before += _dollars(nodes)
                if before >= money:
                    return before
                nodes = {}
            nodes.setdefault(pool, empty).add(job)
        return before + _dollars(nodes)

    def _unpaid(self) -> Iterable[tuple[PoolId, WaitingJob]]:
        """The jobs that wait for money, in their order."""
        pools = self._snapshot.pools
        for name, verdict in self._plan.verdicts.items():
            option, waits = verdict.option, verdict.reason.code is ReasonCode.WAITING_FOR_BUDGET
            if waits and option is not None and pools[option.pool].committed is None:
                yield option.pool, self.waiting_job(self._snapshot.jobs[name], option)

    @property
    def _money(self) -> float:
        """Dollars that are left of the period's aim."""
        solution = self._solution
        return (solution.budget.aim - solution.spent).dollars - solution.pacing.still_committed

    def _add(
        self,
        job: Job,
        held: _Held,
        waiting: Mapping[PoolId, list[tuple[WaitingJob, bool]]],
        ready: Mapping[RentalId, float],
    ) -> None:
        """Add the job to those on nodes, each with its GPUs there and the seconds until it leaves, or to the others,
        each with whether it waits for GPUs that others leave.
        """
        given, verdict = self._plan.places.get(job.id), self._plan.verdicts.get(job.id)
        allocation = job.allocation if given is None else given.allocation
        if allocation is not None:
            begins = 0.0 if given is None else self._restart(allocation.option)
            left = begins + self._left(job, allocation.option)
            for rental, gpus in by_rental(allocation.placements).items():
                held[rental].append((gpus, left))
            return
        if verdict is None or verdict.option is None or verdict.reason.code is ReasonCode.WAITING_FOR_BUDGET:
            return
        option, nodes = verdict.option, self._plan.awaited.get(job.id, ())
        there = self.waiting_job(job, option)
        if not nodes:
            waiting[option.pool].append((there, verdict.reason.code is ReasonCode.WAITING_FOR_FREE_GPUS))
        begins = max([ready.get(rental, 0.0) for rental in nodes], default=0.0)
        for rental in nodes:
            held[rental].append((there.gpus, begins + there.seconds))

    def _booting(self) -> Mapping[RentalId, float]:
        """Seconds until each node that boots is ready."""
        found: dict[RentalId, float] = {}
        for pool in [pool for pool, here in self._solution.nodes.items() if here.rentals.booting]:
            found |= self._placer.free_nodes(pool).booting.seconds
        starts = {rent.rental: self._snapshot.pools[rent.pool].likely_start_seconds for rent in self._placer.rented}
        return found | starts

    def _standing(
        self, pool: PoolId, uses: tuple[Uses, ...], held: _Held, ready: Mapping[RentalId, float]
    ) -> StandingNodes:
        """The nodes of a pool that stay, and those that this plan rents."""
        here, ended = self._solution.nodes.get(pool), self._plan.ended
        staying: Mapping[RentalId, Rental] = {} if here is None else here.rentals.staying
        rents = [rent for rent in self._placer.rented if rent.pool == pool]
        if here is not None and not rents and not (held.keys() | ready.keys() | ended) & staying.keys():
            remember = self._solution.inputs.memo
            if self._solution.now >= remember(paid_until, here.rentals):
                return remember(standing_nodes, here.rentals, uses)
        merged = _merged(uses)
        nodes = [
            StandingNode(
                rental.price.dollars_per_second,
                ready.get(name, 0.0),
                max(seconds_between(self._solution.now, _paid_until(rental)), 0.0),
                [*merged.get(name, ()), *held[name]],
            )
            for name, rental in staying.items()
            if name not in ended
        ]
        nodes += [StandingNode(self._price(pool), ready[rent.rental], 0.0, held[rent.rental]) for rent in rents]
        return StandingNodes(nodes)

    def _price(self, pool: PoolId) -> float:
        """Dollars a second of a new node; 0 where that is not known."""
        quote = self._snapshot.pools[pool].quote
        return 0.0 if quote is None else quote.price.dollars_per_second

    def _restart(self, option: Option) -> float:
        """Seconds from ready nodes to the first step."""
        return max(option.entry_seconds - self._placer.start_up(option), 0.0)

    def _left(self, job: Job, option: Option) -> float:
        """Seconds that the job trains on the option; without end where nothing is known of it."""
        assignment = self._solution.assignment(job)
        return _left(
            job, option, *((None, 0.0) if assignment is None else (assignment.group.menu, assignment.group.work))
        )


def _left(job: Job, option: Option, menu: Menu | None, work: float) -> float:
    if menu is None:
        return inf if job.remaining is None else job.remaining / option.speed
    position = job_position(job, work)
    return position.left / menu.speed(option, position.done)


def uses_of_runners(runners: Runners, moved: frozenset[JobId], menu: Menu | None, work: float) -> PoolUses:
    """What the jobs that run on hold on each node, by pool. ``menu`` and mean ``work``: of their group, if there are
    any."""
    found: dict[PoolId, dict[RentalId, list[tuple[int, float]]]] = {}
    for name, facts in runners.items():
        allocation = facts.job.allocation
        if allocation is not None and name not in moved:
            here, left = found.setdefault(allocation.option.pool, {}), _left(facts.job, allocation.option, menu, work)
            for rental, gpus in by_rental(allocation.placements).items():
                here.setdefault(rental, []).append((gpus, left))
    return found


def _merged(several: Iterable[Uses]) -> dict[RentalId, list[tuple[int, float]]]:
    merged: dict[RentalId, list[tuple[int, float]]] = {}
    for uses in several:
        for rental, jobs in uses.items():
            merged.setdefault(rental, []).extend(jobs)
    return merged


def standing_nodes(rentals: PoolRentals, several: tuple[Uses, ...]) -> StandingNodes:
    """The nodes that stay, ready and with nothing to be paid for that does not stand for a job."""
    uses = _merged(several)
    return StandingNodes(
        [
            StandingNode(rental.price.dollars_per_second, jobs=uses.get(name, []))
            for name, rental in rentals.staying.items()
        ]
    )


def paid_until(rentals: PoolRentals) -> Instant:
    """Until when any of those that stay is paid for in any case."""
    return max([_paid_until(rental) for rental in rentals.staying.values()], default=Instant(0))


def _paid_until(rental: Rental) -> Instant:
    return Instant(0) if rental.launched is None else after(rental.launched, rental.billing_minimum_seconds)


def _dollars(nodes: Mapping[PoolId, RunDown]) -> float:
    return sum([each.dollars for each in nodes.values()])
