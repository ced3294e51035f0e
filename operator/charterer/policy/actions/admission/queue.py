"""Admission of jobs without GPUs: the queue is offered ready GPUs in order, and only missing nodes are rented."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import TypeVar

from charterer.domain.budget import Mode
from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Job, Placement, ResizePolicy, RunOutcome, SpotPolicy, Widths
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.node_demands import NodeOffers, misfits
from charterer.domain.offered_node import taken
from charterer.domain.option import Option
from charterer.domain.plan import ArrivalsBasis, Reason, ReasonCode
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.reasons import options as of_options
from charterer.domain.reasons import waits as of
from charterer.domain.reasons.fact import Both, Fact, Wanted
from charterer.domain.reasons.options import HadNow, RestartedAtOnce, RunsMeanwhile, WholeNode
from charterer.domain.reasons.waits import (
    CostsTooMuch,
    OthersWaitForMoney,
    SpendsTooMuch,
    StartsAbout,
    WaitsForNodes,
    WouldBeRented,
)
from charterer.domain.time import after
from charterer.gpu_types import names_type, slice_profile, takes_part
from charterer.policy.actions.admission.shortage import allot_room
from charterer.policy.actions.budget_plan import BudgetPlan, RoomAllotment, RoomWait
from charterer.policy.budgets import solution
from charterer.policy.budgets.assignment import AssignedPath, GroupAssignment, draw_path
from charterer.policy.budgets.solution import BudgetSolution, ShareSolution
from charterer.policy.jobs.job_facts import GroupKey, last_option, next_run, reason
from charterer.policy.nodes.limits import affordable, reserve, too_dear
from charterer.policy.nodes.pool_room import RunDown
from charterer.policy.options.market import DEFAULT_CHECKPOINT_SECONDS, goes_on, left_out
from charterer.policy.options.option_value import OptionValues, Projection
from charterer.policy.outlook.whole_nodes import Preference
from charterer.policy.solve.phase_dp import OptionKey, key_of

# The dollars that a budget may still commit to waiting jobs while one plan is made.
#
# Nodes are billed as a whole. So the cost of a job is the amount that it adds to the cost of nodes until they can be
# given back (``nodes.pool_room``). A job adds nothing if its GPUs are on a node that is kept for other jobs anyway. A
# job that has a node to itself adds the cost of the whole node.


_Nodes = Mapping[PoolId, RunDown]
"""The nodes of each pool, with the jobs that use them."""


class ShareCommitments:
    """The money of one share in one plan, checked and counted job by job in the order of the queue.

    A budget without shares has the single share NO_SHARE. ``_rate``: dollars per second of the share's running jobs
    and of the jobs admitted so far. ``_expected``: whether any of these jobs is of a class with a known arrival rate.
    ``_refused``: whether a job of the queue was refused. ``_nodes``: the nodes with these jobs, without nodes that
    are paid for anyway.
    ``everybodys``: the same nodes with the jobs of all shares; None if the budget has no other share.
    """

    def __init__(
        self, plan: BudgetPlan, name: str, money: ShareSolution, everybodys: Callable[[], _Nodes] | None
    ) -> None:
        running = [kept for kept in plan.jobs.running if kept.group.key.share == name]
        self._plan = plan
        self._name = name
        self._money = money
        self._solution = plan.solution
        self._in_sight = plan.in_sight()
        self._running = running
        self._everybodys = everybodys
        self._rate = Price(sum([kept.micros for kept in running])).dollars_per_second
        self._expected = any(self._is_expected(kept.group.key) for kept in running)
        self._refused = False

    def affords(self, job: Job, option: Option) -> bool:
        """Whether the budget can pay for the job, and no earlier job in the queue was refused.

        If the budget is too small for all jobs, a job of a class without a known arrival rate starts if its cost may
        still be committed after the jobs that start before it. Any job starts if the rate of running jobs stays
        within the allowed rate. A first job always starts, because otherwise a job above the allowed rate would never
        run. For the last rule, jobs of classes without a known rate do not count, so the first job of a class with a
        known rate starts beside them. If the job's nodes exist already, only half of its price counts. Such nodes
        were rented when their price fitted, and rented nodes reduce the allowed rate by up to the other half
        (``PacingState``: at most h / 2 seconds of a node's price count, spread over the horizon h). A job that adds
        nothing to the cost of nodes always starts. A job on nodes that are paid for anyway always starts too.
        """
        if self._money.feasible or self._plan.snapshot.pools[option.pool].committed is not None:
            return True
        expected = self._is_expected(self._solution.key(job))
        if not expected and self._costs_nothing(job, option):
            return True
        if self._refused:
            return False
        if not expected and self._cost(job, option) <= self._left:
            return True
        first = self._rate == 0 or (expected and not self._expected)
        allowed = self._money.allowed
        price = option.price.dollars_per_second * (1.0 if self._plan.placer.must_rent(job, option) else 0.5)
        return allowed > 0 and (first or self._rate + price <= allowed)

    def use(self, job: Job, option: Option) -> None:
        """Count the cost of the nodes that the job gets now, or that are kept or rented for it."""
        self._rate += option.price.dollars_per_second
        self._expected |= self._is_expected(self._solution.key(job))
        if self._money.feasible:
            return
        for nodes in [self._nodes] if self._everybodys is None else [self._nodes, self._everybodys()]:
            if option.pool in nodes:
                nodes[option.pool].add(self._in_sight.waiting_job(job, option))

    def refuse(self, job: Job, option: Option) -> Fact:
        """Refuse a job of the queue, so that later jobs do not get the money that it lacks.

        Returns the dollars that the job needs and the budget has, or that an earlier job was refused too.
        """
        if self._refused:
            return OthersWaitForMoney()
        self._refused = True
        if not self._is_expected(self._solution.key(job)):
            return CostsTooMuch(Money.of(self._cost(job, option)), Money.of(max(self._left, 0.0)), self._name)
        used, allowed = Price.per_second(self._rate), Price.per_second(max(self._money.allowed, 0.0))
        return SpendsTooMuch(option.price, used, allowed, self._name)

    def _is_expected(self, group: GroupKey) -> bool:
        """Whether the arrival rate of the group's class is known and not assumed."""
        assignment = self._solution.assignments.get(group)
        return assignment is not None and assignment.group.basis is not ArrivalsBasis.ASSUMED

    @cached_property
    def _nodes(self) -> _Nodes:
        return self._in_sight.running([(kept.group, kept.runners) for kept in self._running])

    @property
    def _shared(self) -> _Nodes:
        """The nodes on which the job may find GPUs that other jobs leave free."""
        return self._nodes if self._everybodys is None else self._everybodys()

    @property
    def _left(self) -> float:
        """Dollars that may still be committed."""
        return self._money.committable - sum([nodes.dollars for nodes in self._nodes.values()])

    def _costs_nothing(self, job: Job, option: Option) -> bool:
        """Whether the job adds nothing to the cost of nodes, because it finds free GPUs on nodes that exist long
        enough."""
        nodes = self._shared.get(option.pool)
        if nodes is not None and option.takes // self._plan.placer.nodes(option) > nodes.most_free:
            return False
        return not self._cost(job, option)

    def _cost(self, job: Job, option: Option) -> float:
        """Dollars that the job adds to the cost of nodes with this option."""
        nodes = self._shared.get(option.pool)
        return 0.0 if nodes is None else nodes.adds(self._in_sight.waiting_job(job, option))


class Commitments:
    """The money of one plan, by share, so that no share waits for the money of another one."""

    def __init__(self, plan: BudgetPlan) -> None:
        self._plan = plan
        self._shares: dict[str, ShareCommitments] = {}

    def of(self, job: Job) -> ShareCommitments:
        """The money of the job's share."""
        key = self._plan.solution.key(job)
        if (name := key.share) not in self._shares:
            money, others = self._plan.solution.share(key), len(self._plan.solution.shares) > 1
            nodes = (lambda: self._nodes) if others else None
            self._shares[name] = ShareCommitments(self._plan, name, money, nodes)
        return self._shares[name]

    @cached_property
    def _nodes(self) -> _Nodes:
        return self._plan.in_sight().running([(kept.group, kept.runners) for kept in self._plan.jobs.running])


# The order in which waiting jobs are offered GPUs.
#
# If the budget is feasible, jobs wait only for booting nodes or a full pool. Ready GPUs then go to the jobs with the
# largest weight ÷ price, which ends the most weighted waiting per dollar per second (a greedy knapsack over the ready
# GPUs). If even the cheapest options exceed the budget, jobs queue for money. Then the order by weight ÷ remaining
# dollars minimises the mean weighted completion time (Smith's rule in dollars; ordering by work is 30 % slower).
# Shares of a budget do not queue for each other's money: jobs of shares that have enough money for all their jobs
# come first. Ties go to the older job, then to the smaller uid, so that equal snapshots give equal plans.


QueueItem = TypeVar("QueueItem", bound=Hashable)

QueueKey = tuple[float, int, str]


def by_value(job: Job, weight: float, wanted: Option) -> QueueKey:
    """Sort key (ascending) if the budget is feasible."""
    price = wanted.price.micros_per_hour
    return (-weight / price if price else float("-inf"), job.created, job.id)


def by_dollars(job: Job, weight: float, cost: float) -> QueueKey:
    """Sort key (ascending) if the budget is too small. ``cost``: the remaining cost of the job in dollars."""
    return (-weight / cost if cost else float("-inf"), job.created, job.id)


def next_in_queue(parts: Mapping[QueueItem, float], taken: Mapping[QueueItem, int]) -> QueueItem:
    """The path for the next job of a mixing class: the path whose number of jobs so far (``taken``) is most behind
    its fraction.

    The function is a credit counter: after any number of jobs, each of two paths is within half a job of its fraction.
    Ties go to the first path.
    """
    jobs = sum(taken.get(part, 0) for part in parts) + 1
    return max(parts, key=lambda part: parts[part] * jobs - taken.get(part, 0))


# The path of each waiting job of a mixing class, and the queue.


class PathMixer:
    """Assigns the paths of a mixing class to its jobs: by a credit counter, once per job.

    Each turn counts again from the jobs in sight: a job counts for the path whose first option it has or had. Paths
    with the same first option cannot be distinguished, so the job's uid decides between them.
    """

    def __init__(self, solution: BudgetSolution) -> None:
        self._solution = solution
        self._taken: dict[GroupKey, Counter[OptionKey]] = {}

    def values(self, job: Job, assignment: GroupAssignment) -> OptionValues:
        """The option values of a waiting job. The method must be called once for each new job, in order of creation."""
        if not assignment.mixes:
            return assignment.values
        by_first_option = _by_first_option(assignment)
        if len(by_first_option) == 1:
            return assignment.drawn_values(job)
        before = last_option(job)
        first_option = None if before is None else key_of(before)
        if first_option is None:
            counter = self._counter(job, assignment, by_first_option)
            first_option = next_in_queue(
                {first: sum(assigned.fraction for assigned in paths) for first, paths in by_first_option.items()},
                counter,
            )
            counter[first_option] += 1
        paths = by_first_option.get(first_option)
        return assignment.values if paths is None else draw_path(job, paths).values

    def _counter(
        self, job: Job, assignment: GroupAssignment, by_first_option: Container[OptionKey]
    ) -> Counter[OptionKey]:
        """The number of jobs of the job's group by the first option of their path. The number is counted once per
        group."""
        key = self._solution.key(job)
        if key not in self._taken:
            alike = [last_option(facts.job) for facts in self._solution.groups[key].members]
            had = [key_of(option) for option in alike if option is not None]
            self._taken[key] = Counter(first for first in had if first in by_first_option)
        return self._taken[key]


def _by_first_option(assignment: GroupAssignment) -> dict[OptionKey, list[AssignedPath]]:
    """The assigned paths, grouped by their first option."""
    by_first_option: dict[OptionKey, list[AssignedPath]] = {}
    for assigned in assignment.assigned_paths:
        by_first_option.setdefault(key_of(assigned.path[0]), []).append(assigned)
    return by_first_option


def ranked_options(jobs: Iterable[Job], solution: BudgetSolution) -> dict[JobId, Sequence[Projection]]:
    """The options of each waiting job, best first. Jobs with an empty menu are left out."""
    mixer = PathMixer(solution)
    found: dict[JobId, Sequence[Projection]] = {}
    for job in jobs:
        assignment = solution.assignment(job)
        if assignment is not None:
            own = solution.deadline_values(job)
            values = mixer.values(job, assignment) if own is None else own
            found[job.id] = values.entering(assignment.position(job))
    return found


def in_order(jobs: Sequence[Job], ranked: Mapping[JobId, Sequence[Projection]], solution: BudgetSolution) -> list[Job]:
    """The queue: jobs with an option, in the order in which they are offered GPUs."""

    def key(job: Job) -> tuple[bool, QueueKey]:
        best, weight = ranked[job.id][0], solution.queue_weight(job)
        if solution.share(solution.key(job)).feasible:
            return False, by_value(job, weight, best.option)
        return True, by_dollars(job, weight, best.dollars)

    return sorted((job for job in jobs if job.id in ranked), key=key)


# Why a job waits, or does not have its best option.


_BLOCKED: dict[ReasonCode, Fact] = {
    ReasonCode.STOPPED: of.RentsNothing(),
    ReasonCode.POOL_COOLING: of.PoolCools(),
    ReasonCode.RENTAL_UNREADABLE: of.RentalUnreadable(),
    ReasonCode.BUDGET_DELETED: of.BudgetEnds(),
    ReasonCode.CLOCK_BEHIND: of.ClockBehind(),
    ReasonCode.POOL_DELETED: of.PoolEnds(),
    ReasonCode.NOT_ASKED_YET: of.CloudSilent(),
}


class Refusals:
    """The refusals of one plan. ``allotment``: the allotment of room in full pools; None if no pool is too small."""

    def __init__(self, plan: BudgetPlan, allotment: RoomAllotment | None) -> None:
        self._plan = plan
        self._allotment = allotment

    def why_not(self, block: ReasonCode, job: Job, option: Option) -> Fact:
        """Why no node is available for the option, with the numbers of the limit."""
        limit = self._limit(block, job, option)
        if limit is not None:
            return limit
        if block is ReasonCode.POOL_COOLING and (wait := self._plan.placer.launch_wait(job, option)) is not None:
            return Both(_BLOCKED[block], solution.late(option.pool, wait))
        full = block is ReasonCode.POOL_FULL
        why = self._full(option) if full else _BLOCKED.get(block, of.NoNodeNow())
        if self._allotment is None or block not in (ReasonCode.POOL_FULL, ReasonCode.POOL_COOLING):
            return why
        return self._allotment.about(option.pool, why)

    def _limit(self, block: ReasonCode, job: Job, option: Option) -> Fact | None:
        """The limit that prevents a node; None if no limit does."""
        purse, pool = self._plan.placer.purse, self._plan.snapshot.pools[option.pool]
        worst = pool.quote.worst if pool.quote is not None else Price(0)
        if block is ReasonCode.HOURLY_LIMIT and (least := purse.tightest_hourly) is not None:
            limit = least.max_hourly
            assert limit is not None
            if worst > limit:
                return of.AboveHourlyLimit(worst, limit, least.parent)
            return of.HourlyLimitUsed(worst, least.hourly, limit, least.parent)
        if block is ReasonCode.HARD_LIMIT and (used := self._plan.placer.hours.refuses(job, option)) is not None:
            return used
        if block is ReasonCode.HARD_LIMIT and (soon := self._plan.placer.grant_ends(job, option)) is not None:
            return soon
        if block is ReasonCode.HARD_LIMIT and (tightest := purse.tightest) is not None:
            needed = reserve(pool, job.grace_seconds) if pool.quote is not None else ZERO
            left = max(tightest.slack or ZERO, ZERO)
            return of.HardLimitUsed(needed, left, tightest.hard_limit, tightest.parent)
        if block is ReasonCode.PARENT_UNKNOWN:
            return self._plan.solution.inputs.tree.faults.get(self._plan.solution.budget.id)
        return self._plan.placer.operator_limit(option) if block is ReasonCode.OPERATOR_LIMIT else None

    def room_is_made(self, job: Job, option: Option) -> Fact:
        """The jobs that make room for a job. Jobs of its namespace are named, because its owner reads this."""
        allotment, jobs = self._allotment, self._plan.snapshot.jobs
        narrowed = [jobs[name] for name in (() if allotment is None else allotment.narrowed)]
        near = [f"{each.namespace}/{each.name}" for each in narrowed if each.namespace == job.namespace]
        return of.RoomIsMade(self._full(option), tuple(near), len(narrowed) - len(near))

    def passed_over(self, job: Job, option: Option, wanted: Option) -> Fact | None:
        """The fact that a better pool gives its nodes too late for the job; None if the delay is not the reason."""
        if self._allotment is not None and option is not wanted:
            return self._allotment.about(wanted.pool, of.BetterAlone(wanted))
        wait = None if wanted.pool == option.pool else self._plan.placer.launch_wait(job, wanted)
        return None if wait is None else solution.late(wanted.pool, wait)

    def _full(self, option: Option) -> of.PoolFull:
        """The fact that the pool may have no more nodes, or that its free GPUs are spread over too many nodes."""
        pool = self._plan.snapshot.pools[option.pool]
        free = self._plan.placer.free_nodes(option.pool).ready.gpus
        return of.PoolFull(pool.id, pool.max_nodes, pool.max_because, free if free >= option.takes else None)


# Why no pool fits a job.


_TOLD = 3
"""Maximum number of pools in a reason that are listed with their error or payer. A cloud's messages may be long."""


def no_option(plan: BudgetPlan, job: Job) -> Reason:
    """Why no pool of the job's budget fits it. The code is ``NotAskedYet`` if a pool's cloud has not answered yet."""
    snapshot, budget = plan.snapshot, plan.solution.budget
    pools, others = snapshot.pools_of(budget), left_out(budget, snapshot.pools)
    paid = tuple(
        [
            (name, pool.committed.budget, pool.committed_in)
            for name, pool in snapshot.pools.items()
            if pool.committed is not None and name not in pools and budget.pool_selector.matches(pool.labels)
        ]
    )
    paid_by_others = of_options.PaidByOthers(paid[:_TOLD]) if paid else None
    told = paid_by_others or others
    if told is not None and not pools:
        return reason(ReasonCode.NO_OPTION, told)
    unknown = {name: pool for name, pool in pools.items() if not (_is_known(pool) or pool.closed_because)}
    asked = [name for name, pool in unknown.items() if name not in snapshot.surveys and not pool.trouble]
    if asked:
        return reason(ReasonCode.NOT_ASKED_YET, of.NotAskedYet(tuple(asked)))
    why = reason(ReasonCode.NO_OPTION, _why(job, pools, plan.solution.inputs.offers))
    for name, pool in sorted(unknown.items())[:_TOLD]:
        why = why.with_note(of_options.PoolTrouble(name, pool.trouble))
    return why.with_note(others).with_note(paid_by_others)


def _is_known(pool: Pool) -> bool:
    return pool.offering is not None and pool.quote is not None


def _why(job: Job, pools: Mapping[PoolId, Pool], nodes: NodeOffers) -> Fact:
    """The job's request, and why the pools that its budget may rent do not fulfil it."""
    asked = of_options.Request(job.widths.min, job.widths.max, tuple(job.gpu_types))
    offers = [
        (pool.offering.gpu_type, pool.offering.gpus_per_node * pool.max_nodes, pool)
        for pool in pools.values()
        if pool.offering is not None and pool.quote is not None and not pool.deleting
    ]
    of_type = [offer for offer in offers if names_type(job.gpu_types, offer[0])]
    fitting = [offer for offer in of_type if takes_part(offer[0], job.widths.slices, job.widths.shared_mib)]
    if not pools:
        return of_options.NoPool()
    if not offers:
        return of_options.NoKnownPool(asked)
    if of_type and not fitting:
        return of_options.OnlySlices(asked, tuple(sorted({slice_profile(gpu_type) for gpu_type, _, _ in of_type})))
    if not fitting:
        return of_options.OtherGpuTypes(asked, tuple(sorted({gpu_type for gpu_type, _, _ in offers})))
    if job.spot is not SpotPolicy.ALLOWED:
        fitting = [offer for offer in fitting if offer[2].capacity_type is not CapacityType.SPOT]
    if not fitting:
        return of_options.OnlySpot(asked)
    lacking = {pool.id: misfits(job.demands, nodes.nodes[pool.id]) for _, _, pool in fitting}
    fitting = [offer for offer in fitting if not lacking[offer[2].id]]
    if not fitting:
        nearest = min(sorted(lacking), key=lambda name: len(lacking[name]))
        return of_options.NodesDoNotFit(asked, nearest, lacking[nearest], len(lacking) - 1)
    gpu_type, most, pool = max(fitting, key=lambda offer: offer[1])
    if job.widths.each:
        limits = dict(nodes.limits(job.demands, job.widths.each))
        return _pods_do_not_fit(job.widths, [pool for _, _, pool in fitting], limits)
    if most < job.widths.min:
        return of_options.PoolsTooSmall(asked, pool.id, most, gpu_type)
    return of_options.NothingFits(asked)


def _pods_do_not_fit(widths: Widths, pools: Sequence[Pool], limits: Mapping[PoolId, int]) -> Fact:
    """The fact that an object's least number of pods needs more nodes than any pool may have, or larger nodes."""
    found = []
    for pool in pools:
        takes = taken(widths.min, pool.gpus_per_node, widths.each, limits.get(pool.id))
        needed = None if takes is None else pool.nodes(takes)
        pods = widths.min // widths.each
        found.append(of_options.PodsDoNotFit(pool.id, pods, widths.each, pool.gpus_per_node, needed, pool.max_nodes))
    return min(found, key=lambda one: (one.nodes is None, (one.nodes or 0) - one.most, -one.size, one.pool))


_LIMITS = (ReasonCode.HARD_LIMIT, ReasonCode.HOURLY_LIMIT, ReasonCode.OPERATOR_LIMIT)
_FULL = (ReasonCode.POOL_FULL, ReasonCode.POOL_COOLING)

RankedOptions = Mapping[JobId, Sequence[Projection]]
"""The options of waiting jobs, best first."""


class Admission:
    """Admits one budget's queue into its plan."""

    def __init__(self, plan: BudgetPlan) -> None:
        jobs = plan.jobs
        self._plan = plan
        self._solution = plan.solution
        self._displaced = {job.id: why for job, why in jobs.leaving}
        waiting = [*jobs.waiting, *(job for job, _ in jobs.leaving)]
        self._waiting = sorted(waiting, key=lambda job: (job.created, job.id))
        self._ranked = self._options()
        self._placed: set[JobId] = set()
        self._money = Commitments(plan)
        self._outlook = plan.outlook
        self._refusals = Refusals(plan, None)
        self._preferred: Mapping[JobId, Preference] = {}

    def admit(self) -> None:
        """Place displaced jobs first, then the queue. A displaced job that gets no place is stopped.

        If there is too little room, it is allotted first.
        """
        ranked = self._ranked
        closed = self._plan.placer.window.closed
        if closed is not None:
            self._refuse_all(closed)
            return
        for job in self._waiting:
            why = self._displaced.get(job.id)
            if why is not None and job.id in ranked and why.code not in _LIMITS and self._moves_later(job):
                self._restart_at_once(job, ranked[job.id], why)
        queue = in_order([job for job in self._waiting if job.id not in self._placed], ranked, self._solution)
        paid = [job for job in queue if self._solution.share(self._solution.key(job)).feasible]
        contend = [job for job in paid if not self._outlook.awaits_launch(job, ranked[job.id])]
        best = {job.id: self._outlook.with_launch_delays(job, ranked[job.id]) for job in contend}
        allotment = self._plan.allotment = allot_room(self._plan, contend, best)
        if allotment is not None:
            self._refusals = Refusals(self._plan, allotment)
            decided = self._allot(contend, best, allotment)
            queue = [job for job in queue if job.id not in decided]
        if allotment is None:
            self._plan.choose_together(queue)
            self._preferred = {} if self._plan.whole is None else self._plan.whole.preferred
        options = {name: preference.option for name, preference in self._preferred.items()}
        self._outlook.find_waits([(job, ranked[job.id]) for job in queue], options)
        for job in queue:
            assignment = self._solution.assignment(job)
            if assignment is not None:
                self._admit(job, ranked[job.id], assignment)
        self._stop_displaced()

    def _refuse_all(self, why: Fact) -> None:
        """Let all jobs wait, whatever they cost, because nothing may be spent now."""
        for job in self._waiting:
            if job.id in self._ranked:
                best = self._ranked[job.id][0].option
                self._plan.decided.judge(job, best, solution.waiting(ReasonCode.HARD_LIMIT, best, why))
        self._stop_displaced()

    def _stop_displaced(self) -> None:
        for job in self._waiting:
            if job.id in self._displaced and job.id not in self._placed:
                self._plan.decided.stop(job, self._displaced[job.id])

    def _moves_later(self, job: Job) -> bool:
        """Whether the job can move to a better place once it runs. Otherwise the job stays where it begins."""
        return job.resize is not ResizePolicy.NEVER and self._solution.budget.moves.per_job_and_day != 0

    def _options(self) -> RankedOptions:
        """The options of each waiting job within its maxCost. Jobs without such an option get a verdict."""
        ranked = ranked_options(self._waiting, self._solution)
        for job in self._waiting:
            projections = ranked.get(job.id)
            if projections is None:
                self._plan.decided.judge(job, None, no_option(self._plan, job))
                continue
            if job.cost_limit is None:
                continue
            sized, snapshot = self._solution.sized(job), self._plan.snapshot
            why = too_dear(job, projections, snapshot, sized=sized)
            if why is not None:
                del ranked[job.id]
                self._plan.decided.judge(job, None, why)
            else:
                ranked[job.id] = affordable(job, projections, snapshot, sized=sized)
        return ranked

    def _allot(self, queue: Sequence[Job], ranked: RankedOptions, allotment: RoomAllotment) -> set[JobId]:
        """Give jobs their allotted room, the widest first. Returns the decided jobs. The other jobs are offered the
        rest of the room.

        While an allotment waits for room that is being made, no room is left for other jobs.
        """
        self._plan.decided.pools |= allotment.pools
        decided: set[JobId] = set()
        for job in sorted(queue, key=lambda job: -allotment.starts[job.id].gpus if job.id in allotment.starts else 0):
            option, assignment, first = (
                allotment.starts.get(job.id),
                self._solution.assignment(job),
                ranked[job.id][0].option,
            )
            block = None if option is None or assignment is None else self._try(job, option, assignment, first)
            wait = allotment.waits.get(job.id)
            if option is not None and block is None:
                decided.add(job.id)
            elif wait is not None and wait.instead is not None:
                self._wait_for_room(job, wait, wait.instead)
                decided.add(job.id)
            elif allotment.making_room and block in (None, *_FULL):
                best = option or first
                cooling = self._plan.snapshot.pools[best.pool].cooling(self._plan.snapshot.now) is not None
                code = ReasonCode.POOL_COOLING if cooling else ReasonCode.POOL_FULL
                told = self._refusals
                refused = told.why_not(code, job, best) if option is None else told.room_is_made(job, best)
                self._plan.decided.judge(job, best, solution.waiting(code, best, refused))
                decided.add(job.id)
        return decided

    def _wait_for_room(self, job: Job, wait: RoomWait, instead: Projection) -> None:
        """Let the job wait for GPUs that other jobs will leave, instead of permanently taking an option that it could
        have now."""
        later, more = instead.seconds - wait.end.seconds, Money.of(instead.dollars - wait.end.dollars)
        facts = Wanted(wait.option, Both(self._starts_about(wait), HadNow(instead.option, later, more)))
        why = Reason(ReasonCode.WAITING_FOR_FREE_GPUS, job.weight * later, -more, facts, instead.option)
        self._plan.decided.wait(job, wait.option, why, wait.seconds)
        self._plan.decided.again_at.append(after(self._plan.snapshot.now, wait.until))

    def _starts_about(self, wait: RoomWait) -> StartsAbout:
        return StartsAbout(wait.option, after(self._plan.snapshot.now, wait.seconds))

    def _restart_at_once(self, job: Job, ranked: Sequence[Projection], why: Reason) -> None:
        """Restart the job on free nodes; the job may move later. If money is short, the job stays in the queue."""
        money = self._money.of(job)
        if not money.affords(job, ranked[0].option):
            return
        for option in (projection.option for projection in ranked):
            claim = self._plan.claim(job, option, only_ready=True)
            if claim.placements is not None:
                facts = Both(why.facts, RestartedAtOnce(option))
                moved = Reason(why.code, 0.0, ZERO, facts, last_option(job))
                money.use(job, option)
                self._place(job, option, claim.placements, moved)
                return

    def _admit(self, job: Job, projections: Sequence[Projection], assignment: GroupAssignment) -> None:
        """Offer the job its options in order, until it has one or the budget cannot pay."""
        wanted, money = projections[0].option, self._money.of(job)
        worth = self._solution.worth(job, assignment)
        cost_at_once: Mapping[OptionKey, float] = {}
        cost_of_waiting = inf  # while the best option's pool cools, only options that are better than waiting are tried
        blocks: dict[OptionKey, ReasonCode] = {}
        options = self._outlook.best_fit_first(job, self._outlook.in_order(job, projections, assignment))
        preferred = self._preferred.get(job.id)
        if preferred is not None and money.affords(job, preferred.option):
            wanted = preferred.option
            options = [wanted, *(option for option in options if key_of(option) != key_of(wanted))]
        for option in options:
            if cost_at_once and cost_at_once[key_of(option)] >= cost_of_waiting:
                continue
            if not money.affords(job, option):
                why = solution.waiting(ReasonCode.WAITING_FOR_BUDGET, option, money.refuse(job, option))
                self._plan.decided.judge(job, option, why)
                return
            block = self._try(job, option, assignment, wanted)
            if block is None:
                return
            blocks[key_of(option)] = block
            if cost_of_waiting == inf and block is ReasonCode.POOL_COOLING and self._outlook.may_wait(job, option):
                wanted = option
                cost_at_once = {key_of(projection.option): projection.total_cost for projection in projections}
                cost_of_waiting = cost_at_once[key_of(option)] + worth * self._plan.placer.launch_delay(job, option)
        if any(block in _LIMITS for block in blocks.values()):
            for option in sorted(assignment.group.menu.narrower, key=lambda option: (-option.gpus, option.pool)):
                if self._try(job, option, assignment, wanted) is None:
                    return
        allotment = self._plan.allotment
        wait = None if allotment is None else allotment.waits.get(job.id)
        if wait is not None and blocks.get(key_of(wait.option)) in _FULL:
            wanted = wait.option
        block = blocks[key_of(wanted)]
        why = solution.waiting(block, wanted, self._refusals.why_not(block, job, wanted))
        if wait is not None and wanted is wait.option:
            self._plan.decided.wait(job, wanted, why.with_note(self._starts_about(wait)), wait.seconds)
        else:
            self._plan.decided.judge(job, wanted, why)

    def _try(self, job: Job, option: Option, assignment: GroupAssignment, wanted: Option) -> ReasonCode | None:
        """Place the job or let it wait for nodes. Returns the reason if neither is possible, otherwise None.

        ``wanted``: the option that the job would have if all nodes came in time.
        """
        if self._plan.placer.hours.refuses(job, option) is not None:
            return ReasonCode.HARD_LIMIT
        waits = self._outlook.waits.reason(job, option)
        if waits is not None:
            self._plan.decided.judge(job, option, waits)
            return None
        claim = self._plan.claim(job, option)
        if claim.blocked is not None:
            return claim.blocked
        self._money.of(job).use(job, option)
        if claim.placements is not None:
            self._begin(job, option, claim.placements, assignment, wanted)
            return None
        if self._runs_meanwhile(job, option, claim.nodes, assignment):
            return None
        self._plan.decided.awaited[job.id] = claim.nodes
        why = solution.waiting(ReasonCode.WAITING_FOR_NODE, option, self._waits_for(claim.nodes))
        why = why.with_note(self._refusals.passed_over(job, option, wanted)).with_note(self._whole_node(job, option))
        self._plan.decided.judge(job, option, why)
        return None

    def _waits_for(self, nodes: Sequence[RentalId]) -> WaitsForNodes | WouldBeRented:
        """The nodes that a job waits for. Nodes that an observing budget would rent will never exist."""
        new = [name for name in nodes if name not in self._plan.snapshot.rentals]
        if new and self._solution.budget.mode is Mode.OBSERVE:
            return WouldBeRented(len(new))
        return WaitsForNodes(tuple(nodes))

    def _whole_node(self, job: Job, option: Option) -> WholeNode | None:
        """Why the job has an option that would not be best if the job paid only its part of a node; None for any
        other option."""
        preferred = self._preferred.get(job.id)
        if preferred is None or key_of(preferred.option) != key_of(option):
            return None
        return WholeNode(preferred.instead, Money.of(preferred.saved), preferred.sooner)

    def _runs_meanwhile(self, job: Job, option: Option, nodes: Sequence[RentalId], assignment: GroupAssignment) -> bool:
        """Let an interrupted job that may move later run on the ready nodes until all its nodes are ready, if that
        gains. Returns whether the job runs so."""
        interrupted = bool(job.records) and job.records[-1].outcome is RunOutcome.INTERRUPTED
        moves = job.resize is not ResizePolicy.NEVER and self._solution.budget.moves.unlimited
        if not interrupted or not moves or job.cost_limit is not None:
            return False
        size = self._plan.snapshot.pools[option.pool].gpus_per_node or 1
        free, start = self._plan.placer.free_nodes(option.pool), self._plan.placer.start_up(option)
        ready = [name for name in nodes if name in free.ready.free]
        alike = option.pool, option.variant
        menu = assignment.group.menu.options
        widths = [each for each in menu if (each.pool, each.variant) == alike and not each.trial]
        fewer = [each for each in widths if size <= each.takes <= size * len(ready)]
        if not fewer:
            return False
        rest, lost = max(fewer, key=lambda each: each.gpus), option.interruptions
        places = ready[: rest.takes // size]
        wait = max([free.booting.seconds.get(name, start) for name in nodes if name not in ready])
        write = DEFAULT_CHECKPOINT_SECONDS if lost is None else lost.checkpoint_seconds
        gains = goes_on(rest.speed / option.speed, wait, option.entry_seconds - start, write)
        gains = gains and self._plan.placer.hours.refuses(job, rest) is None
        if not gains or not self._plan.placer.hosts(dict.fromkeys(places, job.grace_seconds)):
            return False
        why = Reason(ReasonCode.INTERRUPTION, 0.0, ZERO, RunsMeanwhile(rest, option), job.records[-1].option)
        self._place(job, rest, tuple([Placement(name, size) for name in places]), why)
        return True

    def _begin(
        self, job: Job, option: Option, placements: Sequence[Placement], assignment: GroupAssignment, wanted: Option
    ) -> None:
        """Allocate GPUs to the job, with the reason for its option. ``wanted``: see ``_try``."""
        feasible = self._solution.share(self._solution.key(job)).feasible
        why = solution.choice(
            option, assignment.values, assignment.group.weight, assignment.position(job), feasible=feasible
        )
        why = self._solution.with_deadline_note(job, why).with_note(self._refusals.passed_over(job, option, wanted))
        self._place(job, option, placements, why.with_note(self._whole_node(job, option)))

    def _place(self, job: Job, option: Option, placements: Sequence[Placement], why: Reason) -> None:
        left = self._displaced.get(job.id, why)
        if left.code is not why.code:
            why = replace(why, code=left.code, facts=Both(left.facts, why.facts))
        self._placed.add(job.id)
        self._plan.decided.allocate(job, option, next_run(job), tuple(placements), why)
        self._plan.decided.judge(job, option, why)


def admit(plan: BudgetPlan) -> None:
    """Place the jobs without GPUs, or record what each waits for."""
    Admission(plan).admit()
