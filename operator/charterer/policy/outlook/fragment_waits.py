"""Jobs that wait for GPUs that others are about to leave, instead of renting a node.

A new node of S GPUs, of which the narrow jobs that wait want K, bills the rest for nobody while it starts, and until
the next narrow job comes where that takes longer: (S − K)·c·R dollars (c: dollars a second of a GPU; R: the seconds to
the next job, at least those to start, T, and at most five times as many). No node is rented for them before their
waiting has cost as much. So waiting in vain costs at most twice what knowing the future would have (ski rental, as in
``move_gate``). With Θ = Σ w·θ and L = Σ w·θ·(waited so far), both over these jobs, they wait if GPUs come free on
a node in use within

    ((S − K)·c·R − L) / Θ    seconds.

A job that is alone has the longest wait: with others K and Θ are larger. So the latest instant that it is told holds
while θ does, and no fewer jobs come.

A job of one whole node would pay for its start-up, P·T dollars (P: dollars a second of the node), and wait for T
seconds. So it waits for a node that all jobs are about to leave, if that is left within

    T + P·T / (2·w·θ) − (waited so far)    seconds.

The 2 is for a node that would have been of use to others too. Such jobs count on different nodes.

Nobody waits for a run of which nothing says how long it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.money import Money
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.reasons.facts_of_waits import WaitsForFragment, WaitsForOldNode
from charterer.domain.time import Instant, after
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.job_facts import least_worth, waited_seconds
from charterer.policy.nodes.occupants import Occupant
from charterer.policy.outlook.placer import Placer
from charterer.policy.solve.phase_dp import OptionKey, key_of

_FACTOR = 2.0
"""Multiple of what the wait for a whole node costs that it must save: another job might take that node as well, and
then its start-up is only saved for one of them."""
_LONGEST = 5.0
"""Starts of a node for which the GPUs of a new one are taken to be idle at most: options do not count this wait, so it
is kept to lengths for which that was measured to be as good."""
_RENTED_AFTER = 0.001
"""Seconds after the end of a wait at which the plan is made again: then nothing of it is left."""


@dataclass(frozen=True, slots=True)
class _Waiter:
    """A job for which a node would be rented. ``worth``: dollars of a second; ``waited``: seconds so far."""

    job: Job
    option: Option
    worth: float
    waited: float


@dataclass(frozen=True, slots=True)
class _NodeWait:
    """A job's wait for a node that is left in ``seconds``, until ``until`` at most. It saves a start-up of ``start``
    seconds and ``bill`` dollars.
    """

    option: OptionKey
    seconds: float
    until: Instant
    start: float
    bill: float

    def reason(self, job: Job, option: Option) -> Reason:
        """Why no node is rented."""
        bill = Money.of(self.bill)
        facts = WaitsForOldNode(option, self.seconds, bill, self.start, self.until)
        gained = job.weight * (self.start - self.seconds)
        return Reason(ReasonCode.WAITING_FOR_FREE_GPUS, gained, -bill, facts)


class FragmentWaits:
    """The waits of one budget's jobs for GPUs that others leave, instead of for nodes that would be rented.

    ``_pool_waits``: of pools in which no node is rented for narrow jobs, the seconds until a fragment and its GPUs.
    ``_node_waits``: by job that wants one whole node, the node in use that it waits for. ``_nodes_by_end``: by pool,
    the nodes in use that no job of this plan counts on yet, the soonest last. ``again_at``: when waits end.
    """

    def __init__(self, solution: BudgetSolution, placer: Placer) -> None:
        self.again_at: list[Instant] = []
        self._placer = placer
        self._solution = solution
        self._snapshot = solution.inputs.snapshot
        self._now = solution.now
        self._pool_waits: dict[PoolId, tuple[float, int]] = {}
        self._node_waits: dict[JobId, _NodeWait] = {}
        self._to_next: dict[PoolId, float] = {}
        self._nodes_by_end: dict[PoolId, list[tuple[float, RentalId]]] = {}

    def find_waits(self, queue: Iterable[tuple[Job, Option]]) -> None:
        """Find the pools, given who waits, each with the option that it would be given first.

        A job that has a target waits for nothing.
        """
        if not self._solution.feasible:
            return
        narrow: dict[PoolId, list[_Waiter]] = {}
        whole: dict[PoolId, list[_Waiter]] = {}
        for job, option in queue:
            size = self._size(option.pool)
            if self._placer.partners.chosen(option):  # the other place of its node is for a partner, and not wasted
                continue
            if (
                option.takes > size
                or job.id in self._solution.deadline_needs
                or not self._placer.must_rent(job, option)
            ):
                continue
            (narrow if option.takes < size else whole).setdefault(option.pool, []).append(self._waiter(job, option))
        for pool, waiters in whole.items():
            if self._placer.may_rent(pool):
                self._look_for_nodes(pool, waiters)
        for pool, waiters in narrow.items():
            allowed = self._allowed(pool, waiters)
            if allowed <= 0.0 or not self._placer.may_rent(pool):
                continue
            gpus = min(waiter.option.takes for waiter in waiters)
            soonest = self._next_fragment(pool, gpus)
            if soonest <= allowed:
                self._pool_waits[pool] = soonest, gpus
                self.again_at.append(after(self._now, allowed + _RENTED_AFTER))

    def _look_for_nodes(self, pool: PoolId, waiters: Iterable[_Waiter]) -> None:
        """Find who waits for a whole node. Each job, the first in the queue first, counts on the next to be left."""
        start = self._snapshot.pools[pool].likely_start_seconds
        for waiter in waiters:
            wait = self._node_wait(waiter, start)
            if wait is not None:
                self._count_on(waiter.job, wait)

    def _node_wait(self, waiter: _Waiter, saved: float) -> _NodeWait | None:
        """The wait for the whole node that is left next, if the job may wait for it. ``saved``: seconds of a start."""
        ends, bill = self._node_ends(waiter.option.pool), self._price(waiter.option.pool) * saved
        most = saved + (bill / (_FACTOR * waiter.worth) if waiter.worth else 0.0) - waiter.waited
        if not ends or ends[-1][0] > most:
            return None
        return _NodeWait(key_of(waiter.option), ends[-1][0], after(self._now, most), saved, bill)

    def _count_on(self, job: Job, wait: _NodeWait) -> None:
        """Keep the node for the job, as far as others of this plan would count on it."""
        self._node_waits[job.id] = wait
        self._node_ends(wait.option[0]).pop()
        self.again_at.append(after(wait.until, _RENTED_AFTER))

    def reason(self, job: Job, option: Option) -> Reason | None:
        """Why no node is rented for the job's option now; None where one may be."""
        whole = self._node_waits.get(job.id)
        if whole is not None and whole.option == key_of(option) and self._placer.must_rent(job, option):
            return whole.reason(job, option)
        found = self._pool_waits.get(option.pool)
        narrow = option.takes < self._size(option.pool)
        if found is None or not narrow or job.id in self._solution.deadline_needs:
            return None
        if not self._placer.must_rent(job, option):
            return None
        waiter = self._waiter(job, option)
        idle = self._idle_cost(option.pool, option.takes)
        soonest, gpus = found
        others = None if option.takes <= gpus else gpus
        facts = WaitsForFragment(option, others, soonest, Money.of(idle), self._latest(waiter))
        return Reason(ReasonCode.WAITING_FOR_FREE_GPUS, -job.weight * soonest, Money.of(-idle), facts)

    def start_up_over(self, job: Job, option: Option, *, alone: bool) -> tuple[float, float]:
        """Seconds and dollars of the option's start-up that are over, or that the job saves by waiting for a node that
        is left. ``alone``: whether no other job waits.
        """
        whole = self._node_waits.get(job.id)
        if whole is None or whole.option != key_of(option):
            return self._placer.start_up_over(job, option, alone=alone)
        return whole.start - whole.seconds, whole.bill

    def _size(self, pool: PoolId) -> int:
        return self._snapshot.pools[pool].gpus_per_node or 1

    def _waiter(self, job: Job, option: Option) -> _Waiter:
        assignment = self._solution.assignment(job)
        worth = 0.0 if assignment is None else max(assignment.group.worth(self._solution.rate), least_worth(job))
        return _Waiter(job, option, worth, waited_seconds(job, self._now))

    def _idle_cost(self, pool: PoolId, wanted: int) -> float:
        """Dollars for the GPUs of a new node that nobody wants, while it starts and until the next job comes."""
        size, start = self._size(pool), self._snapshot.pools[pool].likely_start_seconds
        idle = min(max(self._seconds_to_next(pool), start), _LONGEST * start)
        return max(size - wanted, 0) / size * self._price(pool) * idle

    def _price(self, pool: PoolId) -> float:
        """Dollars a second of one of its nodes; 0 where that is not known."""
        quote = self._snapshot.pools[pool].quote
        return 0.0 if quote is None else quote.price.dollars_per_second

    def _seconds_to_next(self, pool: PoolId) -> float:
        """Mean seconds until a job of less than a node comes to the pool; infinite where none is expected."""
        known = self._to_next.get(pool)
        if known is not None:
            return known
        size = self._size(pool)
        rate = sum(
            assignment.group.foreseen * taken.fraction
            for assignment in self._solution.assignments.values()
            for taken in assignment.assigned_paths
            if taken.path[0].pool == pool and taken.path[0].takes < size
        )
        self._to_next[pool] = 1.0 / rate if rate else inf
        return self._to_next[pool]

    def _allowed(self, pool: PoolId, waiters: Sequence[_Waiter]) -> float:
        """Seconds for which all of them may still wait."""
        rate = sum(waiter.worth for waiter in waiters)
        lost = sum(waiter.worth * waiter.waited for waiter in waiters)
        idle = self._idle_cost(pool, sum(waiter.option.takes for waiter in waiters))
        return (idle - lost) / rate if rate else 0.0

    def _latest(self, waiter: _Waiter) -> Instant:
        """When a node is rented for the job at the latest."""
        left = self._allowed(waiter.option.pool, [waiter])
        return after(self._now, left)

    def _next_fragment(self, pool: PoolId, gpus: int) -> float:
        """Seconds until a node of the pool that is in use has so many GPUs free; infinite if none ever has."""
        free = self._placer.free_nodes(pool).ready.free
        soonest = inf
        for rental, occupants in self._solution.occupants().items():
            left = free.get(rental)
            if left is None:
                continue
            for seconds, more in sorted([(self._left(occupant), occupant.gpus) for occupant in occupants]):
                left += more
                if left >= gpus:
                    soonest = min(soonest, seconds)
                    break
        return soonest

    def _left(self, occupant: Occupant) -> float:
        """Seconds until it leaves its node; infinite where nothing says how long it is: nobody waits for such a run."""
        return occupant.left if self._solution.sized(occupant.facts.job) else inf

    def _node_ends(self, pool: PoolId) -> list[tuple[float, RentalId]]:
        """Seconds until each node of the pool that is in use has been left by all its jobs, the soonest last: those
        that no job of this plan counts on, or begins on.
        """
        free, size, occupants = self._placer.free_nodes(pool).ready.free, self._size(pool), self._solution.occupants()
        if pool not in self._nodes_by_end:
            self._nodes_by_end[pool] = sorted(
                [
                    (max(self._left(occupant) for occupant in here), rental)
                    for rental, here in occupants.items()
                    if rental in free
                ],
                reverse=True,
            )
        ends = self._nodes_by_end[pool]
        while ends and free[ends[-1][1]] + sum(occupant.gpus for occupant in occupants[ends[-1][1]]) != size:
            ends.pop()
        return ends
