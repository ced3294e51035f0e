"""One budget's part of a plan while it is being made: what was decided so far and what that leaves."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Allocation, Job, Placement
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.plan import (
    Allocate,
    Command,
    PoolVerdict,
    Reason,
    ReasonCode,
    Release,
    Rent,
    TargetOutlook,
    Verdict,
)
from charterer.domain.rental import Gang, Rental, has_machine
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.policy.actions.gangs import GangMarks
from charterer.policy.budgets.reasons import name
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.predicates import reason
from charterer.policy.nodes.capacity import Capacity, FreeNodes
from charterer.policy.nodes.hard_limit import Purse, exposure, reserve
from charterer.policy.nodes.holdings import HeldGpus, by_rental
from charterer.policy.nodes.placement import GpuClaim, PoolAllocator
from charterer.policy.nodes.pool_quota import LaunchWait, PoolQuota, PoolRoom
from charterer.policy.solve.phase_dp import key_of


@dataclass(slots=True)
class Decisions:
    """Commands and verdicts of one budget, in the order in which they were decided."""

    stops: list[Command] = field(default_factory=list)
    releases: list[Command] = field(default_factory=list)
    places: dict[JobId, Allocate] = field(default_factory=dict)
    rents: list[Command] = field(default_factory=list)
    verdicts: dict[JobId, Verdict] = field(default_factory=dict)
    pools: dict[PoolId, PoolVerdict] = field(default_factory=dict)
    again_at: list[Instant] = field(default_factory=list)

    @property
    def commands(self) -> list[Command]:
        """All commands; those that free GPUs and money come first."""
        return [*self.stops, *self.releases, *self.places.values(), *self.rents]


@dataclass(frozen=True, slots=True)
class _Client:
    """For whom nodes are rented. ``grows``: beside those that the job keeps, without which it runs as well."""

    job: Job
    option: Option
    grows: bool = False


class PlanBuilder:
    """Claims GPUs for jobs of one budget, renting where that is allowed, and writes down what was decided."""

    def __init__(
        self, solution: BudgetSolution, capacity: Capacity, quota: PoolQuota, gangs: GangMarks, snapshot: Snapshot
    ) -> None:
        self.solution = solution
        self.snapshot = snapshot
        self.decided = Decisions()
        self.capacity = capacity
        self._quota = quota
        self._allocators: dict[PoolId, PoolAllocator] = {}
        self._blocked: dict[tuple[PoolId, int], ReasonCode] = {}
        self._grace = max([group.grace for group in solution.groups.values()], default=0)
        self._client: _Client | None = None
        self._gangs = gangs
        budget = solution.budget
        self._behind = budget.begins_after(snapshot.now)
        self.purse = Purse(budget.hard_limit, budget.max_hourly_rate, solution.spent)
        for nodes in solution.nodes.values():
            self.purse.hold_all(nodes.exposed)
            for rental in nodes.rentals.booting:
                self.purse.hold(rental.id, rental.dearest, self._exposure(rental, capacity.grace.get(rental.id, 0)))

    # --- leaving nodes -----------------------------------------------------------------------------------------------

    def release(self, rental: RentalId, why: Reason) -> None:
        """End a rental."""
        self.decided.releases.append(Release(rental, why))

    # --- jobs --------------------------------------------------------------------------------------------------------

    def claim(self, job: Job, option: Option, *, only_ready: bool = False, without: RentalId | None = None) -> GpuClaim:
        """GPUs for a job: at once, or promised. What is blocked once stays blocked: a plan only uses things up.

        ``without``: a node that it has and that is not to be one of them.
        """
        if self._behind:
            return GpuClaim(None, blocked=ReasonCode.CLOCK_BEHIND)
        own = self._own(job, without)
        place = (option.pool, option.gpus)
        if not own and place in self._blocked:
            return GpuClaim(None, blocked=self._blocked[place])
        self._client = _Client(job, option)
        claim = self._allocator(option.pool).claim(
            option, own, lambda rentals: self.hosts(dict.fromkeys(rentals, job.grace_seconds)), only_ready=only_ready
        )
        if claim.blocked is not None and claim.blocked is not ReasonCode.HARD_LIMIT and not only_ready and not own:
            self._blocked[place] = claim.blocked
        return claim

    def begins(self, job: Job) -> bool:
        """Whether the job was given a place in this plan, and holds no GPUs yet."""
        return job.id in self.decided.places and not self.capacity.held(job)

    def take_back(self, job: Job, kept: Sequence[Placement] = ()) -> None:
        """Free what a job that begins was given, but for what it has been given instead."""
        allocation, keeps = self.decided.places.pop(job.id).allocation, by_rental(kept)
        if allocation is not None:
            nodes = self.free_nodes(allocation.option.pool).ready
            for rental, gpus in by_rental(allocation.placements).items():
                nodes.take(rental, min(keeps.get(rental, 0) - gpus, 0))

    def claim_more(self, job: Job, option: Option) -> GpuClaim:
        """GPUs beside those that a job keeps, for a run that grows in place."""
        if self._behind:
            return GpuClaim(None, blocked=ReasonCode.CLOCK_BEHIND)
        self._client = _Client(job, option, grows=True)
        return self._allocator(option.pool).claim(
            option, {}, lambda rentals: self.hosts(dict.fromkeys(rentals, job.grace_seconds))
        )

    def must_rent(self, job: Job, option: Option) -> bool:
        """Whether nodes would have to be rented for it."""
        return self._allocator(option.pool).missing(option, self._own(job)) > 0

    def has_room_without(self, job: Job, option: Option, without: RentalId) -> bool:
        """Whether it could go on at once if it had that node no more."""
        _, booting, missing = self._allocator(option.pool).look(option, self._own(job, without))
        return not booting and not missing

    def refusal(self, job: Job, option: Option) -> ReasonCode | None:
        """Why the nodes that would have to be rented for it cannot be had now; None where they can, or none are."""
        allocator = self._allocator(option.pool)
        missing = allocator.missing(option, self._own(job))
        return allocator.refusal(missing) if missing else None

    def pool_room(self, pool: PoolId, gpus: int) -> PoolRoom:
        """The nodes there are, ready or booting, and those that the pool may still give, as many as ``gpus`` need."""
        return self._quota.pool_room(self.free_nodes(pool), self.snapshot.pools[pool], gpus)

    def may_rent(self, pool: PoolId) -> bool:
        """Whether one more node of the pool could be had now, within all limits."""
        return self._allocator(pool).refusal(1) is None

    def operator_limit(self, option: Option) -> str:
        """Which limit of the operator's forbids the nodes that the option needs at least, with its numbers."""
        pool = self.snapshot.pools[option.pool]
        return self._quota.room.why_not(pool) or self._quota.room.why_not(pool, self.pods(option))

    @property
    def waits_for_launches(self) -> bool:
        """Whether there is a pool with a ``launch_wait``."""
        return self._quota.waits

    def launch_wait(self, job: Job, option: Option) -> LaunchWait | None:
        """How late the cloud is expected to give those of its nodes that have no machine yet; None: at once."""
        wait = self._quota.wait(option.pool) if self._quota.waits else None
        return wait if wait is not None and self._lacks_machines(job, option) else None

    def _lacks_machines(self, job: Job, option: Option) -> bool:
        """Whether a claim would take nodes that have no machine yet."""
        if self.must_rent(job, option):
            return True
        _, booting, _ = self._allocator(option.pool).look(option, self._own(job))
        rentals = self.snapshot.rentals
        return any(name not in rentals or not has_machine(rentals[name]) for name in booting)

    def launch_delay(self, job: Job, option: Option) -> float:
        """The seconds of its ``launch_wait``."""
        wait = self.launch_wait(job, option)
        return 0.0 if wait is None else wait.seconds

    def wait_is_measured(self, job: Job, option: Option) -> bool:
        """Whether enough is known of the pool's hours for a job to wait for its nodes while others could be had."""
        wait = self.launch_wait(job, option)
        return wait is not None and wait.expected.measured

    def start_up(self, option: Option) -> float:
        """Seconds that a node of the option's pool takes to be ready."""
        return self.snapshot.pools[option.pool].likely_start_seconds

    def ready(self, job: Job, option: Option) -> bool:
        """Whether the job could begin there at once."""
        _, booting, missing = self._allocator(option.pool).look(option, self._own(job))
        return not booting and not missing

    def idle_beside(self, job: Job, option: Option) -> int:
        """GPUs of a node that the job would have to itself, though it is wider than the job; 0 where others use it."""
        ready, booting, missing = self._allocator(option.pool).look(option, self.capacity.held(job))
        nodes, free = [*ready, *booting], self.free_nodes(option.pool)
        size = self.snapshot.pools[option.pool].gpus_per_node
        left = [*(free.ready.free.get(name, free.booting.free.get(name, 0)) for name in nodes), *[size] * missing]
        return max(size - option.gpus, 0) if left == [size] else 0

    def start_up_over(self, job: Job, option: Option) -> tuple[float, float]:
        """Seconds and dollars of the option's start-up that are over already; none where a node must be rented.

        The seconds are those of the last node. What booting nodes have cost is not saved by leaving them: they would
        be ended. What ready ones have is, for whoever takes one lets another job rent one.
        """
        waits = self._allocator(option.pool).waits(option, self.capacity.held(job))
        if waits is None:
            return 0.0, 0.0
        start = self.start_up(option)
        over = [start - wait for wait in waits]
        return min(over, default=start), sum(over) * option.price.dollars_per_second / self.pods(option)

    def start_up_left(self, job: Job, option: Option) -> tuple[float, float]:
        """Seconds and dollars of the option's start-up that are still to come; none where all nodes are ready."""
        waits = self._allocator(option.pool).waits(option, self.capacity.held(job))
        left = [self.start_up(option)] * self.pods(option) if waits is None else waits
        return max(left, default=0.0), sum(left) * option.price.dollars_per_second / self.pods(option)

    def pods(self, option: Option) -> int:
        """How many pods the option has: one below a node, else one for each whole node."""
        return self.snapshot.pools[option.pool].pods(option.gpus)

    def _own(self, job: Job, without: RentalId | None = None) -> HeldGpus:
        """The GPUs that the job holds, or that it was given in this plan if it begins; not those of ``without``."""
        given = self.decided.places.get(job.id)
        if given is None or given.allocation is None or not self.begins(job):
            held = self.capacity.held(job)
        else:
            held = by_rental(given.allocation.placements)
        return held if without is None else {name: gpus for name, gpus in held.items() if name != without}

    def _fewest_pods(self, client: _Client) -> int:
        """How many pods the job must have in the option's pool, by its menu; none beside those that it keeps."""
        if client.grows:
            return 0
        share, option = self.solution.share(client.job), client.option
        others = () if share is None else share.group.menu.options
        return min([self.pods(each) for each in (option, *others) if each.pool == option.pool])

    def without_their_gang(self, ending: Container[RentalId]) -> Mapping[RentalId, Reason]:
        """The budget's rentals without a machine whose gang lacks others, and why they go: all are made anew."""
        text = "GPURentals of the nodes that {} needs at once are gone: all are rented anew"
        return {
            rental.id: reason(ReasonCode.NOT_NEEDED, text.format(gang.job_name))
            for gang, waiting in self._gangs.short()
            for rental in waiting
            if rental.budget == self.solution.budget.id and rental.id not in ending
        }

    def allocate(self, job: Job, option: Option, run: int, placements: tuple[Placement, ...], why: Reason) -> Allocate:
        """Give the job its place."""
        allocation = Allocation(run, option, placements, self.snapshot.now)
        given = Allocate(job.id, allocation, why, self._predicted(job, option))
        self.decided.places[job.id] = given
        return given

    def _predicted(self, job: Job, option: Option) -> Money | None:
        """Expected cost of a job that never had GPUs if it starts on this option; None where that is not on its menu.

        κ is not in it: κ is learned from it.
        """
        share = None if job.last_run else self.solution.share(job)
        if share is None:
            return None
        ways = share.values.entering(share.position(job))
        dollars = next((way.dollars for way in ways if key_of(way.option) == key_of(option)), None)
        return None if dollars is None else Money.of(dollars)

    def stop(self, job: Job, why: Reason) -> None:
        """Take the job's place away."""
        self.decided.stops.append(Allocate(job.id, None, why))

    def judge(self, job: Job, option: Option | None, why: Reason) -> None:
        """Keep the verdict on the job."""
        self.decided.verdicts[job.id] = verdict(job, option, why, self.solution.outlook(job))

    def free_nodes(self, pool: PoolId) -> FreeNodes:
        """The pool's nodes as this plan has left them so far."""
        return self.capacity.free_nodes(self.solution.budget.id, pool)

    def hosts(self, graces: Mapping[RentalId, int]) -> bool:
        """Whether all limits allow jobs that take so many seconds to end on these ready nodes; then they count."""
        if self._behind:
            return False
        rentals = self.snapshot.rentals
        return self.purse.host([(name, self._exposure(rentals[name], grace)) for name, grace in graces.items()])

    def _allocator(self, pool_id: PoolId) -> PoolAllocator:
        allocator = self._allocators.get(pool_id)
        if allocator is None:
            pool = self.snapshot.pools[pool_id]
            budget = self.solution.budget
            size = pool.gpus_per_node or 1
            reserved = reserve(pool, self._grace) if pool.quote is not None else Money(0)
            worst = pool.quote.worst if pool.quote is not None else Price(0)

            def refusal(nodes: int) -> ReasonCode | None:
                if budget.deleting:
                    return ReasonCode.BUDGET_DELETED
                if self._behind:
                    return ReasonCode.CLOCK_BEHIND
                return self._quota.refusal(pool, nodes) or self.purse.refusal(worst, reserved, nodes)

            def rent(nodes: int, there: int) -> list[RentalId]:
                gangs: Sequence[Gang | None] = [None] * nodes
                if self._client is not None:
                    needed = self._fewest_pods(self._client) - there
                    gangs = self._gangs.marks(self._client.job, pool_id, needed, nodes)
                return [self._rent(pool_id, reserved, worst, pool.start_seconds, gang) for gang in gangs]

            nodes = self.free_nodes(pool_id)
            allocator = self._allocators[pool_id] = PoolAllocator(nodes, size, refusal, rent)
        return allocator

    def _rent(self, pool: PoolId, reserved: Money, worst: Price, start_seconds: float, gang: Gang | None) -> RentalId:
        rental = self._quota.take(pool)
        self.purse.hold(rental, worst, reserved)
        text = "demand"
        if self._client is not None:
            job, option = self._client.job, self._client.option
            text = f"{job.namespace}/{job.name} waits for {name(option)}"
        why = Reason(ReasonCode.DEMAND, start_seconds, reserved, f"{text}; {reserved} are held back for the worst case")
        self.decided.rents.append(Rent(rental, pool, self.solution.budget.id, reserved, worst, why, gang))
        return rental

    def _exposure(self, rental: Rental, grace_seconds: int) -> Money:
        return exposure(rental, grace_seconds, self._lag(rental.pool), self.snapshot.now)

    def _lag(self, pool: PoolId) -> float:
        """Seconds by which the cloud's list may lag behind."""
        survey = self.snapshot.surveys.get(pool)
        return survey.traits.lag_seconds if survey is not None else 0.0


def verdict(job: Job, option: Option | None, why: Reason, target: TargetOutlook | None = None) -> Verdict:
    """The verdict on a job; its time left is known where its work is."""
    left = None if option is None or job.remaining is None else job.remaining / option.speed
    if left is not None and option is not None and job.allocation is None:
        left += option.entry_seconds
    return Verdict(option, why, left, target)
