"""What a budget's jobs in sight will still cost: its nodes, until they can be given back.

Jobs that run are where they are, or where the plan takes them. Those that wait have the nodes that they wait for, or
the option that the plan looks for (``nodes.run_down``). Those that wait for money come when the others are gone, as far
as there is money then (``actions.admission.commitments``). Moves that will pay later are not in it, nor what is lost
with nodes that the cloud takes back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.money import Money
from charterer.domain.option import Option
from charterer.domain.plan import Allocate, ReasonCode, Verdict
from charterer.domain.rental import Rental
from charterer.domain.time import after, seconds_between
from charterer.policy.budgets.solution import BudgetSolution, InSight
from charterer.policy.nodes.holdings import by_rental
from charterer.policy.nodes.run_down import NodeOffer, RunDown, StandingNode, WaitingJob
from charterer.policy.outlook.placer import Placer


@dataclass(frozen=True, slots=True)
class PlannedUse:
    """How a plan leaves jobs and nodes. ``places``: of jobs that begin or move now. ``awaited``: the nodes that will be
    given to a job when all of them are ready. ``verdicts``: the option that each job has or waits for. ``ended``: nodes
    that are given back now.
    """

    places: Mapping[JobId, Allocate]
    awaited: Mapping[JobId, tuple[RentalId, ...]]
    verdicts: Mapping[JobId, Verdict]
    ended: Container[RentalId]


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
        held, waiting = (
            defaultdict[RentalId, list[tuple[int, float]]](list),
            defaultdict[PoolId, list[tuple[WaitingJob, bool]]](list),
        )
        ready = self._booting()
        for job in self._jobs():
            self._add(job, held, waiting, ready)
        nodes = self._run_downs(held, ready)
        running = _dollars(nodes)
        for pool, jobs in waiting.items():
            for there, follows in jobs if pool in nodes else ():
                (nodes[pool].follow if follows else nodes[pool].add)(there)
        return InSight(Money.of(_dollars(nodes) + self._later(_dollars(nodes))), Money.of(running))

    def running(self, jobs: Iterable[Job]) -> Mapping[PoolId, RunDown]:
        """The nodes of each pool with these jobs, which run on."""
        held = defaultdict[RentalId, list[tuple[int, float]]](list)
        for job in jobs:
            self._add(job, held, {}, {})
        return self._run_downs(held, self._booting())

    def waiting_job(self, job: Job, option: Option) -> WaitingJob:
        """The job on an option that it does not have yet."""
        count = self._placer.nodes(option)
        return WaitingJob(option.takes // count, count, self._restart(option) + self._left(job, option))

    def _run_downs(
        self, held: Mapping[RentalId, list[tuple[int, float]]], ready: Mapping[RentalId, float]
    ) -> dict[PoolId, RunDown]:
        return {
            name: RunDown([*self._standing(name, held, ready)], self._offer(name, more), self._seconds)
            for name, pool in self._snapshot.pools.items()
            for more in (self._placer.more_nodes(name, pool.max_nodes),)
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
            empty = RunDown((), self._offer(pool, self._snapshot.pools[pool].max_nodes), self._seconds)
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

    def _jobs(self) -> Iterable[Job]:
        for group in self._solution.groups.values():
            yield from (facts.job for facts in group.runners.values())
            yield from group.waiting

    def _add(
        self,
        job: Job,
        held: Mapping[RentalId, list[tuple[int, float]]],
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
        for pool in self._solution.nodes:
            found |= self._placer.free_nodes(pool).booting.seconds
        starts = {rent.rental: self._snapshot.pools[rent.pool].likely_start_seconds for rent in self._placer.rented}
        return found | starts

    def _standing(
        self, pool: PoolId, held: Mapping[RentalId, list[tuple[int, float]]], ready: Mapping[RentalId, float]
    ) -> Iterable[StandingNode]:
        """The nodes of a pool that stay, and those that this plan rents."""
        here = self._solution.nodes.get(pool)
        rentals: Sequence[Rental] = () if here is None else [*here.rentals.staying.values()]
        for rental in rentals:
            if rental.id not in self._plan.ended:
                price = rental.price.dollars_per_second
                yield StandingNode(price, ready.get(rental.id, 0.0), self._least(rental), held[rental.id])
        for rent in self._placer.rented:
            if rent.pool == pool:
                yield StandingNode(self._price(pool), ready[rent.rental], 0.0, held[rent.rental])

    def _price(self, pool: PoolId) -> float:
        """Dollars a second of a new node; 0 where that is not known."""
        quote = self._snapshot.pools[pool].quote
        return 0.0 if quote is None else quote.price.dollars_per_second

    def _least(self, rental: Rental) -> float:
        """Seconds for which the node is paid for in any case."""
        if rental.launched is None:
            return 0.0
        return max(seconds_between(self._solution.now, after(rental.launched, rental.billing_minimum_seconds)), 0.0)

    def _restart(self, option: Option) -> float:
        """Seconds from ready nodes to the first step."""
        return max(option.entry_seconds - self._placer.start_up(option), 0.0)

    def _left(self, job: Job, option: Option) -> float:
        """Seconds that the job trains on the option; without end where nothing is known of it."""
        assignment = self._solution.assignment(job)
        if assignment is None:
            return inf if job.remaining is None else job.remaining / option.speed
        position = assignment.position(job)
        return position.left / assignment.values.speed(option, position)


def _dollars(nodes: Mapping[PoolId, RunDown]) -> float:
    return sum([each.dollars for each in nodes.values()])
