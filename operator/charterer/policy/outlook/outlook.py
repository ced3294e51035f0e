"""What each option means for one job now: its time and its cost with the existing nodes.

This module also says where these nodes come from, and in which order a waiting job tries its options.
``option_value`` counts a whole start-up for every option of a new run. This module subtracts the part of a start-up
that has passed, and adds the waits for nodes that a cloud gives late. The queue, full pools and ``explain`` use this
module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.money import Money
from charterer.domain.node_demands import preference
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.reasons.waits import WaitsForFragment, WaitsForOldNode
from charterer.domain.time import Instant, after
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.job_facts import least_worth, waited_seconds
from charterer.policy.nodes.limits import max_cost_left, within_max_cost
from charterer.policy.nodes.placement import best_fit_first
from charterer.policy.nodes.rentals import Occupant
from charterer.policy.options.option_value import Projection
from charterer.policy.outlook.placer import Placer
from charterer.policy.solve.phase_dp import OptionKey, key_of

# Where the nodes of an option come from.


class NodeSource(StrEnum):
    """Where the nodes of an option would come from, or why they are not available now."""

    HERE = "it has them"
    READY = "ready"
    BOOTING = "booting"
    RENT = "to be rented"
    LEFT = "left by others soon"
    FULL = "pool full"
    COOLING = "pool cooling"
    HARD_LIMIT = "hard limit"
    HOURLY_LIMIT = "hourly limit"
    OPERATOR_LIMIT = "operator limit"
    STOPPED = "operator stopped"
    UNKNOWN = "cloud not heard"
    CLOSED = "none rented now"
    MAX_COST = "above maxCost"


REFUSED = {
    None: NodeSource.RENT,
    ReasonCode.POOL_FULL: NodeSource.FULL,
    ReasonCode.POOL_COOLING: NodeSource.COOLING,
    ReasonCode.HARD_LIMIT: NodeSource.HARD_LIMIT,
    ReasonCode.HOURLY_LIMIT: NodeSource.HOURLY_LIMIT,
    ReasonCode.OPERATOR_LIMIT: NodeSource.OPERATOR_LIMIT,
    ReasonCode.STOPPED: NodeSource.STOPPED,
    ReasonCode.NOT_ASKED_YET: NodeSource.UNKNOWN,
}
"""The source of an option's nodes, by the reason why no node can be rented. The key None stands for a node that can
be rented."""


# Jobs that wait for GPUs that others are about to leave, instead of renting a node.
#
# A new node has S GPUs, of which the waiting jobs that need less than a node want K. The rest is unused while the
# node starts, or until the next such job arrives if that takes longer. This costs (S − K)·c·R dollars. c is the
# dollars a second of a GPU. R is the seconds until the next job arrives, at least the seconds T of a start, and at
# most five times T. No node is rented for these jobs before their waiting has cost as much. So a wait in vain costs
# at most twice as much as the best decision with knowledge of the future (ski rental, as in ``move_gate``). Let Θ = Σ
# w·θ and L = Σ w·θ·(waited so far), both over these jobs. The jobs wait if GPUs become free on a node in use within
#
#   ((S − K)·c·R − L) / Θ seconds.
#
# A job that waits alone waits longest, because with other jobs K and Θ are larger. So the latest instant that users
# are told remains true while θ stays the same and no fewer jobs arrive.
#
# A job that needs one whole node would pay P·T dollars for the node's start-up (P: dollars a second of the node), and
# wait for T seconds. So it waits for a node that all its jobs are about to leave, if they leave it within
#
#   T + P·T / (2·w·θ) − (waited so far) seconds.
#
# The factor 2 is there because other jobs might have used the node too. Each such job counts on a different node.
#
# No job waits for the end of a run whose length is unknown.


_FACTOR = 2.0
"""Least ratio of the savings of a wait for a whole node to its cost. Another job might have taken the same node, and
then the start-up is saved for only one of the two jobs."""
_LONGEST = 5.0
"""The longest time for which the GPUs of a new node are assumed to be idle, as a multiple of a node's start-up time.
The values of options do not include this wait, so it is limited to lengths that measured as good as shorter ones."""
_RENTED_AFTER = 0.001
"""Seconds between the end of a wait and the next plan, so that the wait is surely over by then."""


@dataclass(frozen=True, slots=True)
class _Waiter:
    """A job for which a node would be rented.

    ``worth``: dollars that a second of the job is worth. ``waited``: seconds for which it has waited.
    """

    job: Job
    option: Option
    worth: float
    waited: float


@dataclass(frozen=True, slots=True)
class _NodeWait:
    """A job's wait for a node that its present jobs leave in ``seconds``. The wait ends at ``until`` at the latest.

    ``start``, ``bill``: seconds and dollars of the start-up that the wait saves.
    """

    option: OptionKey
    seconds: float
    until: Instant
    start: float
    bill: float

    def reason(self, job: Job, option: Option) -> Reason:
        """Why no node is rented for the job."""
        bill = Money.of(self.bill)
        facts = WaitsForOldNode(option, self.seconds, bill, self.start, self.until)
        gained = job.weight * (self.start - self.seconds)
        return Reason(ReasonCode.WAITING_FOR_FREE_GPUS, gained, -bill, facts)


class FragmentWaits:
    """The waits of one budget's jobs for GPUs that other jobs leave, instead of for nodes that would be rented.

    ``_pool_waits``: for each pool in which no node is rented for jobs of less than a node, the seconds until GPUs
    become free on a node in use, and the number of these GPUs.
    ``_node_waits``: for each job that wants one whole node and waits, its wait for a node in use.
    ``_nodes_by_end``: for each pool, the nodes in use that no job of this plan counts on yet, the soonest last.
    ``again_at``: when waits end.
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
        """Find the waits of the jobs in the queue, each with the option that it would be given first.

        A job with a target does not wait. If the budget or the job's share has too little money, the job does not
        wait either.
        """
        narrow: dict[PoolId, list[_Waiter]] = {}
        whole: dict[PoolId, list[_Waiter]] = {}
        for job, option in queue:
            size = self._size(option.pool)
            if self._placer.partners.chosen(option):  # the other place of its node is for a partner, and not wasted
                continue
            if (
                option.takes > size
                or not self._solution.share(self._solution.key(job)).feasible
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
        """Find the jobs that wait for a whole node. In the order of the queue, each job counts on the next node that
        its jobs will leave."""
        start = self._snapshot.pools[pool].likely_start_seconds
        for waiter in waiters:
            wait = self._node_wait(waiter, start)
            if wait is not None:
                self._count_on(waiter.job, wait)

    def _node_wait(self, waiter: _Waiter, saved: float) -> _NodeWait | None:
        """The wait for the whole node that its jobs leave next; None if the job may not wait for this node.

        ``saved``: seconds of the start-up that the wait saves.
        """
        ends = self._node_ends(waiter.option.pool)
        bill = self._snapshot.pools[waiter.option.pool].dollars_per_second * saved
        most = saved + (bill / (_FACTOR * waiter.worth) if waiter.worth else 0.0) - waiter.waited
        if not ends or ends[-1][0] > most:
            return None
        return _NodeWait(key_of(waiter.option), ends[-1][0], after(self._now, most), saved, bill)

    def _count_on(self, job: Job, wait: _NodeWait) -> None:
        """Let the job wait for the node, so that no other job of this plan counts on it."""
        self._node_waits[job.id] = wait
        self._node_ends(wait.option[0]).pop()
        self.again_at.append(after(wait.until, _RENTED_AFTER))

    def reason(self, job: Job, option: Option) -> Reason | None:
        """Why no node is rented for the job's option now; None if a node may be rented."""
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
        """Seconds and dollars of the option's start-up that have passed, or that the job saves if it waits for a node
        in use.

        ``alone``: whether no other job waits.
        """
        whole = self._node_waits.get(job.id)
        if whole is None or whole.option != key_of(option):
            return self._placer.start_up_over(job, option, alone=alone)
        return whole.start - whole.seconds, whole.bill

    def _size(self, pool: PoolId) -> int:
        return self._snapshot.pools[pool].gpus_per_node or 1

    def _waiter(self, job: Job, option: Option) -> _Waiter:
        assignment = self._solution.assignment(job)
        worth = (
            0.0
            if assignment is None
            else max(assignment.group.worth(self._solution.share(self._solution.key(job)).rate), least_worth(job))
        )
        return _Waiter(job, option, worth, waited_seconds(job, self._now))

    def _idle_cost(self, pool: PoolId, wanted: int) -> float:
        """Dollars for the GPUs of a new node that no waiting job wants, until it is ready and the next job comes."""
        size, start = self._size(pool), self._snapshot.pools[pool].likely_start_seconds
        idle = min(max(self._seconds_to_next(pool), start), _LONGEST * start)
        return max(size - wanted, 0) / size * self._snapshot.pools[pool].dollars_per_second * idle

    def _seconds_to_next(self, pool: PoolId) -> float:
        """Mean seconds until a job of less than a node comes to the pool; infinite if none is expected."""
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
        """Seconds for which the jobs together may still wait."""
        rate = sum(waiter.worth for waiter in waiters)
        lost = sum(waiter.worth * waiter.waited for waiter in waiters)
        idle = self._idle_cost(pool, sum(waiter.option.takes for waiter in waiters))
        return (idle - lost) / rate if rate else 0.0

    def _latest(self, waiter: _Waiter) -> Instant:
        """The latest instant at which a node is rented for the job."""
        left = self._allowed(waiter.option.pool, [waiter])
        return after(self._now, left)

    def _next_fragment(self, pool: PoolId, gpus: int) -> float:
        """Seconds until a node in use of the pool has ``gpus`` free GPUs; infinite if none will have."""
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
        """Seconds until the job leaves its node; infinite if that is unknown, because no job waits for such a run."""
        return occupant.left if self._solution.sized(occupant.facts.job) else inf

    def _node_ends(self, pool: PoolId) -> list[tuple[float, RentalId]]:
        """Seconds until each node in use of the pool has been left by all its jobs, the soonest last.

        A node is left out if a job of this plan counts on it or begins on it.
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


class Outlook:
    """What options mean for one budget's jobs, with the nodes as the plan has left them so far.

    No method changes the plan.
    """

    def __init__(self, solution: BudgetSolution, placer: Placer) -> None:
        self.waits = FragmentWaits(solution, placer)
        self._solution = solution
        self._placer = placer
        self._snapshot = solution.inputs.snapshot
        self._alone = sum([len(group.waiting) for group in solution.groups.values()]) <= 1
        self._options: dict[int, tuple[Sequence[Projection], Sequence[Option]]] = {}
        self._start_up_costs: dict[tuple[int, float], tuple[Sequence[float], float]] = {}

    # --- one option ---------------------------------------------------------------------------------------------------

    def with_launch_delay(self, job: Job, projection: Projection, worth: float) -> Projection:
        """The projection with the wait for nodes that the cloud gives late.

        The wait adds time and no billed dollars.
        """
        wait = self._placer.launch_delay(job, projection.option)
        return (
            replace(projection, seconds=projection.seconds + wait, total_cost=projection.total_cost + worth * wait)
            if wait
            else projection
        )

    def without_start_up_over(self, job: Job, projection: Projection, worth: float) -> Projection:
        """The projection minus the part of the start-up that has passed, if all nodes of the option are ready or
        booting.

        So a job waits for the last of its nodes as long as that costs less than to begin elsewhere, and no machine is
        wasted. If the job waits for a whole node that another job is about to leave, the projection contains this
        wait instead of a start-up.
        """
        seconds, dollars = self.waits.start_up_over(job, projection.option, alone=self._alone)
        if not seconds and not dollars:
            return projection
        total = projection.total_cost - (worth * seconds + dollars)
        return replace(
            projection, seconds=projection.seconds - seconds, dollars=projection.dollars - dollars, total_cost=total
        )

    def entering(self, job: Job, projection: Projection, worth: float) -> Projection:
        """A new run's projection as the queue counts it. ``worth``: dollars that a second of the job is worth."""
        return self.without_start_up_over(job, self.with_launch_delay(job, projection, worth), worth)

    def node_source(self, job: Job, projection: Projection) -> NodeSource:
        """Where the projected option's nodes would come from, or why they are not available now."""
        option = projection.option
        left = max_cost_left(job, self._snapshot)
        if self._solution.sized(job) and not within_max_cost(job, option, projection.paid_dollars, left):
            return NodeSource.MAX_COST
        if option.pool not in self._snapshot.pools or option.pool not in self._snapshot.surveys:
            return NodeSource.UNKNOWN
        if self._placer.ready(job, option):
            return NodeSource.READY
        if not self._placer.must_rent(job, option):
            return NodeSource.BOOTING
        return REFUSED.get(self._placer.refusal(job, option), NodeSource.CLOSED)

    # --- the options of a job that waits ------------------------------------------------------------------------------

    def with_launch_delays(self, job: Job, projections: Sequence[Projection]) -> Sequence[Projection]:
        """The projections with the waits for nodes that the cloud gives late, best first."""
        assignment = self._solution.assignment(job)
        if assignment is None or not self._placer.waits_for_launches:
            return projections
        worth = self._solution.worth(job, assignment)
        return sorted(
            [self.with_launch_delay(job, projection, worth) for projection in projections],
            key=lambda projection: projection.total_cost,
        )

    def in_order(self, job: Job, projections: Sequence[Projection], assignment: GroupAssignment) -> Sequence[Option]:
        """The options, best first. The order takes into account that some options can begin at once, while others
        need nodes that must start up.

        A job of a group that mixes paths takes the path given to it, because otherwise the paths' fractions would not
        be met. The exception is a path that needs a node which the cloud is not expected to give soon.
        """
        worth, least = self._solution.worth(job, assignment), inf
        delayed = self.with_launch_delays(job, projections)
        options = self.options_of(delayed)
        dearest, most = self._start_ups(delayed, worth)
        if assignment.mixes or not most:
            return options
        ranked: list[tuple[float, int, Option]] = []
        for rank, projection in enumerate(delayed):
            if projection.total_cost - most >= least:
                break
            total = projection.total_cost
            if total - dearest[rank] < least:
                total = self.without_start_up_over(job, projection, worth).total_cost
            least = min(least, total)
            ranked.append((total, rank, projection.option))
        first = [option for _, _, option in sorted(ranked, key=lambda entry: entry[:2])]
        return [*first, *options[len(first) :]]

    def options_of(self, projections: Sequence[Projection]) -> Sequence[Option]:
        """The options of the projections. Jobs of a class with equal progress share one list, which is processed
        once."""
        known = self._options.get(id(projections))
        if known is None:
            known = self._options[id(projections)] = projections, [projection.option for projection in projections]
        return known[1]

    def _start_ups(self, projections: Sequence[Projection], worth: float) -> tuple[Sequence[float], float]:
        """Dollars of a whole start-up for each option, including the worth of its time, and the largest of these
        numbers."""
        options = self.options_of(projections)
        key = id(options), worth
        known = self._start_up_costs.get(key)
        if known is None:
            by_pool = {option.pool: option for option in options}
            start_ups = {pool: self._placer.start_up(option) for pool, option in by_pool.items()}
            costs = [(worth + option.price.dollars_per_second) * start_ups[option.pool] for option in options]
            known = self._start_up_costs[key] = costs, max(costs)
        return known

    def best_fit_first(self, job: Job, options: Sequence[Option]) -> Sequence[Option]:
        """The options, best first. If the best option would leave a part of its node idle, an equal option in the
        pool whose nodes fit best comes first.

        A node that fits better may come later, because it must start up or because its cloud gives no node soon. The
        job waits for such a node if the wait costs less than the idle part would cost until the job ends.
        """
        options = self._preferred_first(job, options)
        if best_fit_first(options, self._solution.inputs.market) is options:
            return options
        first, assignment = options[0], self._solution.assignment(job)
        if assignment is None:
            return options
        worth = self._solution.worth(job, assignment)
        unused = self._placer.idle_beside(job, first) * first.price.dollars_per_second / first.takes
        idle, least = unused * assignment.position(job).left / first.speed, self._to_come(job, first, worth)

        def in_time(option: Option) -> bool:
            later = self._to_come(job, option, worth) - least
            return later <= 0.0 or later < idle

        there = best_fit_first([first, *filter(in_time, options[1:])], self._solution.inputs.market)[0]
        return [there, *(option for option in options if option is not there)]

    def _preferred_first(self, job: Job, options: Sequence[Option]) -> Sequence[Option]:
        """The options.

        Among the options that equal the first one, the option that the template prefers (node affinity) comes first.
        """
        if not job.demands.preferred:
            return options
        first, nodes = options[0], self._solution.inputs.offers.nodes
        alike = [
            option
            for option in options
            if (option.gpus, option.price, option.speed) == (first.gpus, first.price, first.speed)
        ]
        best = max(alike, key=lambda option: preference(job.demands, nodes[option.pool]))
        return options if best is first else [best, *(option for option in options if option is not best)]

    def find_waits(self, queue: Iterable[tuple[Job, Sequence[Projection]]], preferred: Mapping[JobId, Option]) -> None:
        """Find the jobs of the queue that wait for GPUs which other jobs leave, each for the option that it would try
        first.

        ``preferred``: the options of jobs that first try another option than that of ``best_fit_first``.
        """
        self.waits.find_waits(
            [
                (
                    job,
                    preferred.get(job.id) or self.best_fit_first(job, self.options_of(projections))[0],
                )
                for job, projections in queue
            ]
        )

    def may_wait(self, job: Job, option: Option) -> bool:
        """Whether the job may wait for a pool that cools down, because the pool's waits were measured or because the
        job has time to lose."""
        need = self._solution.deadline_needs.get(job.id)
        return self._placer.wait_is_measured(job, option) or (need is not None and need.may_wait)

    def awaits_launch(self, job: Job, projections: Sequence[Projection]) -> bool:
        """Whether it is best for the job to wait for a pool whose cloud has just refused a node, if the pool's waits
        were measured.

        Such a job does not lack room, so it takes no part when room is allotted.
        """
        assignment = self._solution.assignment(job)
        if not self._placer.waits_for_launches or assignment is None:
            return False
        best = self.in_order(job, projections, assignment)[0]
        cooling = self._snapshot.pools[best.pool].cooling(self._snapshot.now)
        return cooling is not None and self._placer.wait_is_measured(job, best)

    def _to_come(self, job: Job, option: Option, worth: float) -> float:
        """Dollars until all nodes of the option are ready, including the worth of the time.

        ``worth``: dollars that a second of the job is worth.
        """
        seconds, dollars = self._placer.start_up_left(job, option)
        return worth * (self._placer.launch_delay(job, option) + seconds) + dollars
