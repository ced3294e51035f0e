"""GPUs for the jobs of one budget while a plan is made: free GPUs, GPUs of booting nodes, and GPUs of nodes that may
still be rented.

``claim``, ``claim_more`` and ``rent_committed`` take GPUs or rent missing nodes. Every limit is checked here: the
limits of the pool, of the operator, and of the budget's purse.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.money import ZERO, Money, Price, total
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode, Rent
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.nodes import GangGone, HardLimitNear, JobDemand, PaidForAnyway, ThereAnyway
from charterer.domain.reasons.waits import OperatorFact
from charterer.domain.rental import Gang, Rental, gang_pending, has_machine
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.policy.budgets.inputs import PlanInputs
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.job_facts import reason
from charterer.policy.nodes.gpu_hours import GpuHoursRoom, JobHours
from charterer.policy.nodes.limits import GrantWindow, Purse, exposure, reserve
from charterer.policy.nodes.placement import Capacity, FreeNodes, GpuClaim, PoolAllocator
from charterer.policy.nodes.pool_room import LaunchWait, PoolQuota, PoolRoom
from charterer.policy.nodes.rentals import HeldGpus, PoolNodes, PoolRentals, by_rental, spent
from charterer.policy.outlook.partners import Partners

# Gangs: nodes that a job needs at once. They are marked when they are rented (docs/development/adr/0013).


class GangMarks:
    """The gangs of all rentals, including rentals of this plan. ``ending``: rentals that are being released."""

    def __init__(self, pools: Iterable[PoolRentals], snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._members = {name: list(members) for pool in pools for name, members in pool.gangs.items()}
        self._added: dict[str, int] = {}
        self.ending: Container[RentalId] = ()

    def marks(self, job: Job, pool: PoolId, needed: int, rented: int) -> Sequence[Gang | None]:
        """The gangs of ``rented`` new nodes of the pool. The job cannot start without ``needed`` of these nodes.

        If the job has a pending gang, the new nodes first complete that gang. A gang is pending if a write failed, a
        person deleted a rental, the cloud refused one, or a machine died.
        """
        marks: list[Gang | None] = []
        for gang, members in self._of(job, pool):
            lacking = self._lacking(gang, members)
            if lacking < gang.nodes and lacking <= rented - len(marks):
                self._added[gang.name] = self._added.get(gang.name, 0) + lacking
                marks += [gang] * lacking
        still = needed - len(marks)
        if still > 1:
            gang = Gang(self._name(job), job.id, f"{job.namespace}/{job.name}", still)
            self._members[gang.name] = []
            marks += [gang] * still
        return [*marks, *[None] * (rented - len(marks))]

    def short(self) -> Sequence[tuple[Gang, Sequence[Rental]]]:
        """The gangs that lack rentals even after this plan, each with its rentals that have no machine.

        The rentals of such a gang are not requested from the cloud, so no job may wait for them.
        """
        found = []
        for members in self._members.values():
            gang = members[0].gang if members else None
            if gang is not None and self._lacking(gang, members):
                found.append((gang, [rental for rental in members if self._stays(rental) and not has_machine(rental)]))
        return found

    def _of(self, job: Job, pool: PoolId) -> Sequence[tuple[Gang, Sequence[Rental]]]:
        own = []
        for members in self._members.values():
            gang = members[0].gang if members and members[0].pool == pool else None
            if gang is not None and gang.job == job.id and gang_pending(gang, members, self._snapshot.jobs):
                own.append((gang, members))
        return own

    def _lacking(self, gang: Gang, members: Iterable[Rental]) -> int:
        there = sum(self._stays(rental) for rental in members) + self._added.get(gang.name, 0)
        return max(gang.nodes - there, 0)

    def _stays(self, rental: Rental) -> bool:
        return rental.stays and rental.id not in self.ending

    def _name(self, job: Job) -> str:
        """``<first 8 of the job's uid>-<ordinal>``, with the smallest ordinal that is free."""
        ordinal = 1
        while (name := f"{job.short_id}-{ordinal}") in self._members:
            ordinal += 1
        return name


# The limits of parent budgets. Each parent has one purse for all nodes that it and its descendants have rented.
#
# A parent and its descendants have the same kind of period (``budget_tree``). Each dollar counts in the period of the
# budget that paid it, in that budget's time zone. While a new period has begun for some of these budgets only, the
# period with the larger sum counts. The amount that all rentals can still cost counts in both periods. So no period
# exceeds the limit, by the time zones of the budgets that pay (docs/development/adr/0005).


def parent_purses(inputs: PlanInputs, capacity: Capacity) -> Mapping[BudgetId, Purse]:
    """The purse of each parent budget, with the present rentals."""
    tree, snapshot = inputs.tree, inputs.snapshot
    if not tree.below:
        return {}
    budgets, nodes = snapshot.known_budgets, dict[BudgetId, list[PoolNodes]]()
    for (payer, _), here in inputs.nodes.items():
        nodes.setdefault(payer, []).append(here)
    paid = {
        name: _paid(budgets[name], [here.rentals for here in nodes.get(name, ())], inputs)
        for name in {*tree.above, *tree.below}
    }
    purses = {}
    for name, below in tree.below.items():
        parent, family = budgets[name], (name, *below)
        spent_together = most_of_a_period([paid[each] for each in family])
        purse = purses[name] = Purse(parent.hard_limit, parent.max_hourly_rate, spent_together, name)
        for each in family:
            hold_rentals(purse, nodes.get(each, ()), capacity, snapshot)
    return purses


def hold_rentals(purse: Purse, nodes: Iterable[PoolNodes], capacity: Capacity, snapshot: Snapshot) -> None:
    """Count in the purse the amounts that the rentals of these pools can still cost."""
    for here in nodes:
        purse.hold_all(here.exposed)
        for rental in here.rentals.booting:
            purse.hold(rental.id, rental.dearest, rental_exposure(rental, capacity.grace.get(rental.id, 0), snapshot))


def rental_exposure(rental: Rental, grace_seconds: int, snapshot: Snapshot) -> Money:
    """The rental's ``exposure`` now, with the seconds by which the cloud's list may be late."""
    survey = snapshot.surveys.get(rental.pool)
    lag_seconds = survey.traits.lag_seconds if survey is not None else 0.0
    return exposure(rental, grace_seconds, lag_seconds, snapshot.now)


class PeriodPaid(NamedTuple):
    """The spending of a budget in its present period, with the period's number, and in the period ``before`` it."""

    number: int
    spent: Money
    before: Money


def most_of_a_period(paid: Sequence[PeriodPaid]) -> Money:
    """The largest total that the budgets spent in one period, over the periods that are the present period of any of
    them."""
    return max(
        total(
            budget.spent if budget.number == number else budget.before
            for budget in paid
            if budget.number in (number, number + 1)
        )
        for number in {budget.number for budget in paid}
    )


def _paid(budget: Budget, rentals: Sequence[PoolRentals], inputs: PlanInputs) -> PeriodPaid:
    now, memo, balance = inputs.snapshot.now, inputs.memo, budget.balance
    calendar = budget.calendar
    start = calendar.bounds(now)[0]
    number = calendar.number(start)
    over = balance is not None and calendar.end(balance.period_start) <= now
    in_period, _ = spent(replace(budget, balance=None) if over else budget, rentals, now, memo)
    before = ZERO
    if balance is not None and over:
        before, _ = spent(budget, rentals, start, memo)
    elif balance is not None and balance.history and calendar.number(balance.history[-1].start) == number - 1:
        before = balance.history[-1].spent
    return PeriodPaid(number, in_period, before)


def _grant_window(solution: BudgetSolution, capacity: Capacity) -> GrantWindow:
    """The remaining time of the budget's grant, for the jobs and the clouds of its present nodes."""
    surveys = solution.inputs.snapshot.surveys
    graces = [capacity.grace.get(rental.id, 0) for here in solution.nodes.values() for rental in here.rentals.live]
    lags = [survey.traits.lag_seconds for survey in surveys.values()]
    return GrantWindow(solution.budget, max(graces, default=0), max(lags, default=0.0), solution.now)


@dataclass(frozen=True, slots=True)
class SharedNodes:
    """What all budgets of a plan take from, one after the other: nodes, quotas, gangs, purses and GPU-hours."""

    capacity: Capacity
    quota: PoolQuota
    gangs: GangMarks
    purses: Mapping[BudgetId, Purse]
    hours: GpuHoursRoom

    @classmethod
    def of(cls, inputs: PlanInputs) -> SharedNodes:
        """The nodes, quotas, gangs and purses at the beginning of a plan. ``purses`` has those of parent budgets."""
        snapshot, rentals = inputs.snapshot, inputs.rentals
        capacity = Capacity(snapshot, inputs.holdings, inputs.nodes, inputs.ends, inputs.memo)
        gangs = GangMarks(rentals.by_pool.values(), snapshot)
        quota, purses = PoolQuota(snapshot, rentals), parent_purses(inputs, capacity)
        return cls(capacity, quota, gangs, purses, GpuHoursRoom(snapshot, inputs.tree, inputs.memo))


@dataclass(frozen=True, slots=True)
class _Client:
    """The job for which nodes are rented. ``fewest``: the least number of pods with which it can begin."""

    job: Job
    option: Option
    fewest: int


class Placer:
    """One budget's GPUs. ``rented``: the nodes that this plan rents. ``partners``: the jobs that share GPUs."""

    def __init__(self, solution: BudgetSolution, shared: SharedNodes) -> None:
        budget, snapshot = solution.budget, solution.inputs.snapshot
        self.capacity = shared.capacity
        self.partners = Partners(solution)
        self.rented: list[Rent] = []
        self._budget = budget
        self._snapshot = snapshot
        self._quota = shared.quota
        self._gangs = shared.gangs
        self._grace = max([group.grace for group in solution.groups.values()], default=0)
        self._allocators: dict[PoolId, PoolAllocator] = {}
        self._blocked: dict[tuple[PoolId, int], ReasonCode] = {}
        self._client: _Client | None = None
        self._behind = budget.begins_after(snapshot.now)
        tree = solution.inputs.tree
        self._parent_unknown = budget.id in tree.faults
        self.window = _grant_window(solution, self.capacity)
        self.purse = Purse(budget.in_period_of(snapshot.now).limit, budget.max_hourly_rate, solution.spent)
        hold_rentals(self.purse, solution.nodes.values(), self.capacity, snapshot)
        self.hours = JobHours(budget.id, shared.hours, snapshot)
        self.purse.draws_on([shared.purses[name] for name in tree.with_parents(budget.id) if name in shared.purses])

    # --- taking -------------------------------------------------------------------------------------------------------

    def claim(
        self, job: Job, option: Option, fewest: int, *, only_ready: bool = False, without: RentalId | None = None
    ) -> GpuClaim:
        """Claim GPUs for a job, at once or when nodes are ready. A claim that was blocked stays blocked, because a
        plan never gives anything back.

        ``fewest``: the least number of pods with which the job can begin in that pool.
        ``without``: a node of the job that it must leave.
        """
        if (blocked := self._nothing_begins) is not None:
            return GpuClaim(None, blocked=blocked)
        if self.hours.refuses(job, option) is not None:
            return GpuClaim(None, blocked=ReasonCode.HARD_LIMIT)
        own = self._own(job, without)
        place = (option.pool, option.takes)
        choice = self.partners.choice(job, option)
        if not own and choice is None and place in self._blocked:
            return GpuClaim(None, blocked=self._blocked[place])
        self._client = _Client(job, option, fewest)
        claim = self._allocator(option.pool).claim(
            option,
            own,
            lambda rentals: self.hosts(dict.fromkeys(rentals, job.grace_seconds)),
            only_ready=only_ready,
            choice=choice,
        )
        if choice is not None:
            for rental in (*by_rental(claim.placements or ()), *claim.nodes):
                self.partners.come(job, option, rental)
        elif claim.blocked is not None and claim.blocked is not ReasonCode.HARD_LIMIT and not only_ready and not own:
            self._blocked[place] = claim.blocked
        if claim.blocked is None:
            self.hours.hold(job, option)
        return claim

    def claim_more(self, job: Job, option: Option) -> GpuClaim:
        """GPUs in addition to those that a job keeps, for a run that grows in place and can also go on without
        them."""
        if (blocked := self._nothing_begins) is not None:
            return GpuClaim(None, blocked=blocked)
        kept = 0 if job.allocation is None else sum([place.takes for place in job.allocation.placements])
        if self.hours.refuses(job, option, kept) is not None:
            return GpuClaim(None, blocked=ReasonCode.HARD_LIMIT)
        self._client = _Client(job, option, 0)
        claim = self._allocator(option.pool).claim(
            option, {}, lambda rentals: self.hosts(dict.fromkeys(rentals, job.grace_seconds))
        )
        if claim.blocked is None:
            self.hours.hold(job, option)
        return claim

    def rent_committed(self, pool: PoolId) -> ReasonCode | None:
        """Rent all nodes of a committed pool that are not rented yet.

        Returns why no more nodes are rented; None if all nodes are rented.
        """
        allocator, self._client = self._allocator(pool), None
        for _ in range(self._quota.lacking(self._snapshot.pools[pool])):
            refused = allocator.refusal(1)
            if refused is not None:
                return refused
            allocator.add()
        return None

    def hosts(self, graces: Mapping[RentalId, int]) -> bool:
        """Whether all limits allow jobs with these grace seconds on these ready nodes. If they do, the jobs are
        counted."""
        if self._behind or self.window.refuses_job(max(graces.values(), default=0)) is not None:
            return False
        rentals = self._snapshot.rentals
        return self.purse.host(
            [(name, rental_exposure(rentals[name], grace, self._snapshot)) for name, grace in graces.items()]
        )

    @property
    def _nothing_begins(self) -> ReasonCode | None:
        """Why no job of the budget may begin: its period has not begun, or nothing may be spent in it. None if jobs
        may begin."""
        if self._behind:
            return ReasonCode.CLOCK_BEHIND
        return None if self.window.closed is None else ReasonCode.HARD_LIMIT

    def grant_ends(self, job: Job, option: Option) -> Fact | None:
        """The fact that the budget's grant ends too soon for the job, or for nodes that would be rented; None if it
        does not."""
        fact = self.window.refuses_job(job.grace_seconds)
        if fact is not None or not self.must_rent(job, option):
            return fact
        return self.window.refuses_node(self._snapshot.pools[option.pool], self._grace)

    @property
    def must_release(self) -> Fact | None:
        """Why all nodes must be released now: the end of the grant, or a hard limit. None if they need not be
        released."""
        if (ends := self.window.must_release) is not None:
            return ends
        purse = self.purse.must_release
        return None if purse is None else HardLimitNear(purse.spent, purse.committed, purse.hard_limit, purse.parent)

    def release_at(self, now: Instant) -> Instant | None:
        """The earliest instant at which ``must_release`` gives a reason, if nothing else changes; None if never."""
        return min([at for at in (self.purse.release_at(now), self.window.release_at) if at is not None], default=None)

    # --- what there is ------------------------------------------------------------------------------------------------

    def free_nodes(self, pool: PoolId) -> FreeNodes:
        """The pool's nodes as this plan has left them so far."""
        return self.capacity.free_nodes(self._budget.id, pool)

    def nodes(self, option: Option) -> int:
        """Number of nodes that the option uses."""
        return self._snapshot.pools[option.pool].nodes(option.takes)

    def ready(self, job: Job, option: Option) -> bool:
        """Whether the job could begin on the option at once."""
        _, booting, missing = self._look(job, option)
        return not booting and not missing

    def has_room_without(self, job: Job, option: Option, without: RentalId) -> bool:
        """Whether the job could go on with the option at once after leaving the node ``without``."""
        _, booting, missing = self._allocator(option.pool).look(
            option, self._own(job, without), self.partners.choice(job, option)
        )
        return not booting and not missing

    def must_rent(self, job: Job, option: Option) -> bool:
        """Whether nodes would have to be rented for the job's option."""
        return self._allocator(option.pool).missing(option, self._own(job), self.partners.choice(job, option)) > 0

    def idle_beside(self, job: Job, option: Option) -> int:
        """GPUs that would stay idle on the node that the job would have to itself; 0 if other jobs use its nodes."""
        ready, booting, missing = self._look(job, option)
        nodes, free = [*ready, *booting], self.free_nodes(option.pool)
        size = self._snapshot.pools[option.pool].gpus_per_node
        left = [*(free.ready.free.get(name, free.booting.free.get(name, 0)) for name in nodes), *[size] * missing]
        return max(size - option.takes, 0) if left == [size] else 0

    # --- start-ups ----------------------------------------------------------------------------------------------------

    def start_up(self, option: Option) -> float:
        """Seconds that a node of the option's pool takes to be ready."""
        return self._snapshot.pools[option.pool].likely_start_seconds

    def start_up_over(self, job: Job, option: Option, *, alone: bool) -> tuple[float, float]:
        """Seconds and dollars of the option's start-up that have passed; 0 if a node must be rented.

        The seconds are those of the node that becomes ready last. The dollars include the cost of booting nodes so
        far, because these nodes would be ended if the job left them. The dollars include the cost of ready nodes only
        if no other job waits (``alone``). Otherwise a job that takes a ready node makes another job rent a node.
        """
        waits = self._allocator(option.pool).waits(option, self._own(job), self.partners.choice(job, option))
        if waits is None:
            return 0.0, 0.0
        start = self.start_up(option)
        over = [start - wait for wait in waits]
        if alone:
            over += [start] * (self.nodes(option) - len(over))
        return min(over, default=start), sum(over) * option.price.dollars_per_second / self.nodes(option)

    def start_up_left(self, job: Job, option: Option) -> tuple[float, float]:
        """Seconds and dollars of the option's start-up that are still to come; 0 if all nodes are ready."""
        waits = self._allocator(option.pool).waits(option, self._own(job), self.partners.choice(job, option))
        left = [self.start_up(option)] * self.nodes(option) if waits is None else waits
        return max(left, default=0.0), sum(left) * option.price.dollars_per_second / self.nodes(option)

    # --- what the clouds and the limits give --------------------------------------------------------------------------

    def refusal(self, job: Job, option: Option) -> ReasonCode | None:
        """Why the option is not available now: its GPU-hours, or nodes that must be rented for it; None if it is."""
        if self.hours.refuses(job, option) is not None:
            return ReasonCode.HARD_LIMIT
        allocator = self._allocator(option.pool)
        missing = allocator.missing(option, self._own(job), self.partners.choice(job, option))
        return allocator.refusal(missing) if missing else None

    def may_rent(self, pool: PoolId) -> bool:
        """Whether one more node of the pool may be rented now, within all limits."""
        return self._allocator(pool).refusal(1) is None

    def pool_room(self, pool: PoolId, gpus: int) -> PoolRoom:
        """The pool's ready and booting nodes, and as many more as ``gpus`` GPUs need and the pool may still give."""
        return self._quota.pool_room(self.free_nodes(pool), self._snapshot.pools[pool], gpus)

    def more_nodes(self, pool: PoolId, most: int) -> int:
        """Number of nodes that the pool may still give, at most ``most``. Limits of the budget do not count."""
        return self._quota.more(self._snapshot.pools[pool], most)

    def operator_limit(self, option: Option) -> OperatorFact | None:
        """The operator's limit that forbids the nodes that the option needs; None if none does."""
        pool = self._snapshot.pools[option.pool]
        return self._quota.room.why_not(pool) or self._quota.room.why_not(pool, self.nodes(option))

    @property
    def waits_for_launches(self) -> bool:
        """Whether some pool has a ``launch_wait``."""
        return self._quota.waits

    def launch_wait(self, job: Job, option: Option) -> LaunchWait | None:
        """The expected wait until the cloud gives the option's nodes that have no machine yet; None if they come at
        once."""
        wait = self._quota.wait(option.pool) if self._quota.waits else None
        return wait if wait is not None and self._lacks_machines(job, option) else None

    def launch_delay(self, job: Job, option: Option) -> float:
        """The seconds of the option's ``launch_wait``; 0 if there is none."""
        wait = self.launch_wait(job, option)
        return 0.0 if wait is None else wait.seconds

    def wait_is_measured(self, job: Job, option: Option) -> bool:
        """Whether the pool's waits are known well enough that a job may wait for its nodes while other nodes are
        available."""
        wait = self.launch_wait(job, option)
        return wait is not None and wait.expected.measured

    def without_their_gang(self, ending: Container[RentalId]) -> Mapping[RentalId, Reason]:
        """The budget's rentals without a machine whose gang lacks other rentals, and why they are released: the gang
        is rented again."""
        return {
            rental.id: reason(ReasonCode.NOT_NEEDED, GangGone(gang.job_name))
            for gang, waiting in self._gangs.short()
            for rental in waiting
            if rental.budget == self._budget.id and rental.id not in ending
        }

    def _look(self, job: Job, option: Option) -> tuple[list[RentalId], list[RentalId], int]:
        """Ready nodes, booting nodes and the number of nodes to be rented that a claim would take."""
        return self._allocator(option.pool).look(option, self._own(job), self.partners.choice(job, option))

    def _lacks_machines(self, job: Job, option: Option) -> bool:
        """Whether a claim would take nodes that have no machine yet."""
        if self.must_rent(job, option):
            return True
        rentals = self._snapshot.rentals
        _, booting, _ = self._look(job, option)
        return any(name not in rentals or not has_machine(rentals[name]) for name in booting)

    def _own(self, job: Job, without: RentalId | None = None) -> HeldGpus:
        """The GPUs that the job holds, except on the node ``without``."""
        held = self.capacity.held(job)
        return held if without is None else {name: gpus for name, gpus in held.items() if name != without}

    def _allocator(self, pool_id: PoolId) -> PoolAllocator:
        allocator = self._allocators.get(pool_id)
        if allocator is None:
            pool = self._snapshot.pools[pool_id]
            size = pool.gpus_per_node or 1
            reserved = reserve(pool, self._grace) if pool.quote is not None else Money(0)
            worst = pool.quote.worst if pool.quote is not None else Price(0)

            def refusal(nodes: int) -> ReasonCode | None:
                if self._budget.deleting:
                    return ReasonCode.BUDGET_DELETED
                if self._behind:
                    return ReasonCode.CLOCK_BEHIND
                if self._parent_unknown:
                    return ReasonCode.PARENT_UNKNOWN
                if self.window.refuses_node(pool, self._grace) is not None:
                    return ReasonCode.HARD_LIMIT
                return self._quota.refusal(pool, nodes) or self.purse.refusal(worst, reserved, nodes)

            def rent(nodes: int, there: int) -> list[RentalId]:
                gangs: Sequence[Gang | None] = [None] * nodes
                if self._client is not None:
                    gangs = self._gangs.marks(self._client.job, pool_id, self._client.fewest - there, nodes)
                return [self._rent(pool_id, reserved, worst, pool.start_seconds, gang) for gang in gangs]

            allocator = self._allocators[pool_id] = PoolAllocator(self.free_nodes(pool_id), size, refusal, rent)
        return allocator

    def _rent(self, pool: PoolId, reserved: Money, worst: Price, start_seconds: float, gang: Gang | None) -> RentalId:
        rental = self._quota.take(pool)
        self.purse.hold(rental, worst, reserved)
        anyway = PaidForAnyway(reserved) if self._snapshot.pools[pool].cloud.rents else ThereAnyway()
        why = Reason(ReasonCode.COMMITTED, start_seconds, reserved, anyway)
        if self._client is not None:
            job, option = self._client.job, self._client.option
            facts = JobDemand(f"{job.namespace}/{job.name}", option, reserved)
            why = Reason(ReasonCode.DEMAND, start_seconds, reserved, facts)
        self.rented.append(Rent(rental, pool, self._budget.id, reserved, worst, why, gang))
        return rental
