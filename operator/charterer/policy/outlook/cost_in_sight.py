"""What a budget's jobs in sight will still cost: its nodes, until they can be given back.

Jobs that run are where they are, or where the plan takes them. Those that wait have the nodes that they wait for, or
the option that the plan looks for (``nodes.run_down``). Moves that will pay later are not in it, nor what is lost with
nodes that the cloud takes back.
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
from charterer.domain.plan import Allocate, Verdict
from charterer.domain.rental import Rental
from charterer.domain.time import after, seconds_between
from charterer.policy.budgets.solution import BudgetSolution, InSight
from charterer.policy.nodes.holdings import by_rental
from charterer.policy.nodes.run_down import NodeOffer, StandingNode, WaitingJob, run_down
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
        running = total = 0.0
        held, waiting = (
            defaultdict[RentalId, list[tuple[int, float]]](list),
            defaultdict[PoolId, list[WaitingJob]](list),
        )
        ready = self._booting()
        for job in self._jobs():
            self._add(job, held, waiting, ready)
        for name, pool in self._snapshot.pools.items():
            nodes = [*self._standing(name, held, ready)]
            if pool.committed is not None or not (nodes or waiting[name]):
                continue
            most = self._placer.more_nodes(name, sum([job.nodes for job in waiting[name]]))
            offer = NodeOffer(pool.gpus_per_node or 1, self._price(name), pool.likely_start_seconds, most)
            running += run_down(nodes, (), offer, self._seconds).dollars
            total += run_down(nodes, waiting[name], offer, self._seconds).dollars
        return InSight(Money.of(total), Money.of(running))

    def _jobs(self) -> Iterable[Job]:
        for group in self._solution.groups.values():
            yield from (facts.job for facts in group.runners.values())
            yield from group.waiting

    def _add(
        self,
        job: Job,
        held: Mapping[RentalId, list[tuple[int, float]]],
        waiting: Mapping[PoolId, list[WaitingJob]],
        ready: Mapping[RentalId, float],
    ) -> None:
        """Add the job to those on nodes, each with its GPUs there and the seconds until it leaves, or to the others."""
        given, verdict = self._plan.places.get(job.id), self._plan.verdicts.get(job.id)
        allocation = job.allocation if given is None else given.allocation
        if allocation is not None:
            begins = 0.0 if given is None else self._restart(allocation.option)
            left = begins + self._left(job, allocation.option)
            for rental, gpus in by_rental(allocation.placements).items():
                held[rental].append((gpus, left))
            return
        if verdict is None or verdict.option is None:
            return
        option, nodes = verdict.option, self._plan.awaited.get(job.id, ())
        count = self._placer.nodes(option)
        seconds = self._restart(option) + self._left(job, option)
        if not nodes:
            waiting[option.pool].append(WaitingJob(option.takes // count, count, seconds))
            return
        begins = max([ready.get(rental, 0.0) for rental in nodes])
        for rental in nodes:
            held[rental].append((option.takes // count, begins + seconds))

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
