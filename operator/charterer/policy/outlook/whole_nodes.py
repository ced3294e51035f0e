"""The cost of whole nodes: the cost of options if the unused GPUs of their nodes are counted until the nodes are
given back.

A job is charged for its GPUs, but the bill is for whole nodes. If there are few jobs, the rest of a node stays empty,
and a job on one GPU of eight costs as much as eight GPUs. So the jobs in sight choose their options together, such
that

    Σ dollars of all nodes, until they can be given back (``nodes.pool_room``)  +  Σ w·θ·(seconds to the job's end)

is small. A job may become wider on a node that is paid for anyway, join other jobs on a node, go to another pool, or
be moved at the cost of a restart. The search has several starting points: each job on the option that is best if it
pays for its own GPUs alone, and, for each pool, all waiting jobs in that pool. From each starting point, the search
repeatedly makes the change of one job that lowers the sum most, until no change lowers it. The best result is used.

Jobs that come later use empty GPUs. If they arrive often, a job costs its part of a node in the long run (ADR 11),
and this module chooses nothing. It chooses nothing either if many jobs are in sight, because little of their nodes is
empty then. These jobs do not take part: jobs with a target or a maxCost, interactive jobs, jobs whose best option
changes as they advance, and jobs on parts of GPUs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, pairwise
from math import inf
from typing import Final, NamedTuple

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
from charterer.policy.nodes.pool_room import NodeOffer, RunDown, StandingNode, StandingNodes, WaitingJob
from charterer.policy.nodes.rentals import HeldGpus, PoolRentals, by_rental
from charterer.policy.options.menu import Menu
from charterer.policy.options.option_value import Projection
from charterer.policy.outlook.move_gate import Hold, MoveGate
from charterer.policy.outlook.outlook import Outlook
from charterer.policy.outlook.placer import Placer
from charterer.policy.solve.phase_dp import OptionKey, key_of

# The remaining cost of a budget's jobs in sight: the cost of its nodes until they can be given back.
#
# Running jobs count on their present nodes, or on the nodes to which the plan moves them. Waiting jobs count on the
# nodes for which they wait, or on new nodes for the option that the plan chose for them (``nodes.pool_room``). Jobs
# that wait for money begin after the other jobs have ended, if there is money then (``actions.admission.queue``).
# Moves that will pay later are not included, and neither are losses with nodes that the cloud takes back.


Uses = Mapping[RentalId, Sequence[tuple[int, float]]]
"""For each node, the GPUs that each job holds there and the seconds until the job leaves them."""
PoolUses = Mapping[PoolId, Uses]
Runners = Mapping[JobId, JobFacts]
_Held = defaultdict[RentalId, list[tuple[int, float]]]


@dataclass(frozen=True, slots=True)
class PlannedUse:
    """The state of jobs and nodes after a plan.

    ``places``: the new allocations of jobs that begin or move now.
    ``awaited``: for each waiting job, the nodes that it will get when all of them are ready.
    ``verdicts``: the option that each job has or waits for.
    ``ended``: nodes that are given back now.
    """

    places: Mapping[JobId, Allocate]
    awaited: Mapping[JobId, tuple[RentalId, ...]]
    verdicts: Mapping[JobId, Verdict]
    ended: Set[RentalId]


class CostInSight:
    """The cost of one budget's nodes until they can be given back."""

    def __init__(self, solution: BudgetSolution, placer: Placer, plan: PlannedUse) -> None:
        self._solution = solution
        self._snapshot = solution.inputs.snapshot
        self._placer = placer
        self._plan = plan
        self._seconds = max(seconds_between(solution.now, solution.period_end), 0.0)

    def cost(self) -> InSight:
        """Dollars until the period's end. Committed nodes do not count, because they are paid for in any case."""
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
        """The nodes of each pool with the jobs that go on running. ``runs``: for each group, its jobs that go on
        running."""
        held, staying = _Held(list), list[PoolUses]()
        for group, runners in runs:
            moved = frozenset(runners.keys() & self._plan.places.keys())
            staying.append(self._uses(group, runners, moved))
            for name in moved:
                self._add(runners[name].job, held, {}, {})
        return self._run_downs(staying, held, self._booting())

    def waiting_job(self, job: Job, option: Option) -> WaitingJob:
        """The job as one that waits for an option that it does not have yet."""
        count = self._placer.nodes(option)
        return WaitingJob(option.takes // count, count, self._restart(option) + self._left(job, option))

    def _uses(self, group: JobGroup, runners: Runners, moved: frozenset[JobId]) -> PoolUses:
        """The GPUs that jobs of the group keep: the GPUs of all ``runners`` except the ``moved`` jobs."""
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
        return NodeOffer(pool.gpus_per_node or 1, pool.dollars_per_second, pool.likely_start_seconds, most)

    def _later(self, dollars: float) -> float:
        """Dollars of the jobs that wait for money, after ``dollars`` of all other jobs in sight.

        The first such job begins when no other job runs any more, if any money is left then. Further jobs begin at
        the same time if their cost fits into the money that may be committed.
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
        """Remaining dollars of the period's aim."""
        solution = self._solution
        return (solution.budget.aim - solution.spent).dollars - solution.pacing.still_committed

    def _add(
        self,
        job: Job,
        held: _Held,
        waiting: Mapping[PoolId, list[tuple[WaitingJob, bool]]],
        ready: Mapping[RentalId, float],
    ) -> None:
        """Add the job to ``held`` if it has nodes or waits for nodes that the plan names; otherwise to ``waiting``.

        Each job in ``waiting`` has a flag that says whether it waits for GPUs that other jobs leave.
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
        """Seconds until each booting node is ready, including the nodes that this plan rents."""
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
        nodes += [
            StandingNode(self._snapshot.pools[pool].dollars_per_second, ready[rent.rental], 0.0, held[rent.rental])
            for rent in rents
        ]
        return StandingNodes(nodes)

    def _restart(self, option: Option) -> float:
        """Seconds from the moment when its nodes are ready to the job's first step."""
        return max(option.entry_seconds - self._placer.start_up(option), 0.0)

    def _left(self, job: Job, option: Option) -> float:
        """Seconds for which the job trains on the option; infinite if that is unknown."""
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
    """For each pool and node, the GPUs of running jobs that are not ``moved``, with the seconds until they leave.

    ``menu``, ``work``: menu and mean work of the jobs' group; None and 0 if the group has no assignment.
    """
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
    """The nodes that stay, if all of them are ready and past their billing minimum."""
    uses = _merged(several)
    return StandingNodes(
        [
            StandingNode(rental.price.dollars_per_second, jobs=uses.get(name, []))
            for name, rental in rentals.staying.items()
        ]
    )


def paid_until(rentals: PoolRentals) -> Instant:
    """The last instant at which the billing minimum of a staying rental ends."""
    return max([_paid_until(rental) for rental in rentals.staying.values()], default=Instant(0))


def _paid_until(rental: Rental) -> Instant:
    return Instant(0) if rental.launched is None else after(rental.launched, rental.billing_minimum_seconds)


def _dollars(nodes: Mapping[PoolId, RunDown]) -> float:
    return sum([each.dollars for each in nodes.values()])


# The dollars of all nodes plus the worth of the jobs' time, for given choices of the jobs in sight.


Choices = Sequence[int | None]
"""For each job, the index of the way that it chooses; None leaves the job out."""
PoolChoices = tuple[tuple[int, int], ...]
"""The jobs that choose a way in one pool: number of the job and index of the way, in ascending order."""
FIRST_CHOICE: Final = 0
"""Index of the way at which the search begins: the way that is best if a job pays for its own GPUs only.

This way does not depend on the existing nodes, because nodes that were rented for a choice must not change the
choice.
"""


@dataclass(frozen=True, slots=True)
class NodeWay:
    """One way for a job to go on: an option, and the nodes that it needs.

    ``gpus``: GPUs on each node.
    ``nodes``: number of nodes.
    ``seconds``: seconds for which it needs them once they are ready.
    ``stays``: whether the job stays where it runs.
    """

    option: Option
    gpus: int
    nodes: int
    seconds: float
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Chooser:
    """A job that takes part in the choice.

    ``worth``: dollars that a second of the job is worth.
    ``ways``: the ways from which the job may choose.
    ``first``: index of the way that the job takes if nothing is chosen.
    ``gpus``: the GPUs that it holds, if it runs.
    ``holds``: by index, why the job may not choose some ways now.
    """

    job: Job
    worth: float
    ways: Sequence[NodeWay]
    first: int
    gpus: HeldGpus
    holds: Mapping[int, Hold]


@dataclass(frozen=True, slots=True)
class Bill:
    """The cost of a set of choices. ``dollars``: the cost of all nodes. ``time``: the worth of the jobs' time in
    dollars."""

    dollars: float
    time: float

    @property
    def total(self) -> float:
        """Nodes and time together, in dollars."""
        return self.dollars + self.time


class Change(NamedTuple):
    """A change of one job's choice.

    ``least``: dollars below which the sum cannot be after the change.
    ``number``: number of the job.
    ``choice``: index of its new way.
    ``total``: computes the sum after the change.
    """

    least: float
    number: int
    choice: int
    total: Callable[[], float]


class RunDowns:
    """The cost of all nodes, for any choices of the jobs.

    The cost of a pool is computed once for each combination of the choices that concern the pool.
    """

    def __init__(
        self,
        nodes: Mapping[PoolId, Mapping[RentalId, StandingNode]],
        offers: Mapping[PoolId, NodeOffer],
        choosers: Sequence[Chooser],
    ) -> None:
        self.worked_out = 0
        self._nodes = nodes
        self._offers = offers
        self._choosers = choosers
        self._known: dict[tuple[PoolId, PoolChoices], Bill] = {}
        self._cheapest = {
            pool: min([offers[pool].price, *[node.price for node in there.values()]]) for pool, there in nodes.items()
        }
        self._parts = [[self._part(chooser, way) for way in chooser.ways] for chooser in choosers]

    def bill(self, choices: Choices) -> Bill:
        """The bill of all pools for these choices."""
        return _sum([self._of_pool(pool, those) for pool, those in self._by_pool(choices).items()])

    def changes(self, choices: Choices) -> Sequence[Change]:
        """The changes of one job's choice that are allowed now, in ascending order of ``least``.

        Only the bills of the pool that the job leaves and of the pool that it goes to change. Neither is below the
        sum of its jobs' parts (``_part``).
        """
        by_pool = self._by_pool(choices)
        bills = {pool: self._of_pool(pool, those) for pool, those in by_pool.items()}
        parts = {pool: sum([self._parts[at][choice] for at, choice in those]) for pool, those in by_pool.items()}

        def total(number: int, left: PoolId | None, pool: PoolId, choice: int) -> float:
            changed = {} if left is None else {left: tuple([each for each in by_pool[left] if each[0] != number])}
            changed[pool] = tuple(sorted((*changed.get(pool, by_pool[pool]), (number, choice))))
            new = bills | {name: self._of_pool(name, those) for name, those in changed.items()}
            return _sum([*new.values()]).total

        found: list[Change] = []
        for number, (chooser, before) in enumerate(zip(self._choosers, choices, strict=True)):
            left = None if before is None else chooser.ways[before].option.pool
            gone = 0.0 if before is None else self._parts[number][before]
            for choice, way in enumerate(chooser.ways):
                if choice != before and choice not in chooser.holds:
                    pool = way.option.pool
                    least = sum([parts[name] if name in (left, pool) else bill.total for name, bill in bills.items()])
                    least += self._parts[number][choice] - gone
                    found.append(Change(least, number, choice, partial(total, number, left, pool, choice)))
        return sorted(found)

    def _by_pool(self, choices: Choices) -> dict[PoolId, PoolChoices]:
        found: dict[PoolId, list[tuple[int, int]]] = {pool: [] for pool in self._nodes}
        for at, choice in enumerate(choices):
            if choice is not None:
                found[self._choosers[at].ways[choice].option.pool].append((at, choice))
        return {pool: tuple(those) for pool, those in found.items()}

    def seconds(self, at: int, choices: Choices) -> float:
        """Seconds until the end of job number ``at``, with these choices."""
        chooser, choice, without = self._choosers[at], choices[at], chosen_with(at, None, choices)
        if choice is None or not chooser.worth:
            return 0.0 if choice is None else chooser.ways[choice].seconds
        return (self.bill(choices).time - self.bill(without).time) / chooser.worth

    def _part(self, chooser: Chooser, way: NodeWay) -> float:
        """Dollars of the job's time, and of its GPUs on nodes without empty GPUs that are ready at once."""
        pool = way.option.pool
        gpu_seconds = way.gpus * way.nodes * way.seconds
        return chooser.worth * way.seconds + self._cheapest[pool] * gpu_seconds / self._offers[pool].size

    def _of_pool(self, pool: PoolId, choices: PoolChoices) -> Bill:
        known = self._known.get((pool, choices))
        if known is None:
            self.worked_out += 1
            known = self._known[pool, choices] = self._run_down(pool, choices)
        return known

    def _run_down(self, pool: PoolId, choices: PoolChoices) -> Bill:
        nodes = {name: node.copy() for name, node in self._nodes[pool].items()}
        time, placed = 0.0, list[tuple[float, float, WaitingJob]]()
        for chooser, way in [(self._choosers[at], self._choosers[at].ways[choice]) for at, choice in choices]:
            if way.stays:
                time += chooser.worth * way.seconds
                for rental, gpus in chooser.gpus.items():
                    if rental in nodes:
                        nodes[rental].add(gpus, way.seconds)
            else:
                runs = bool(chooser.gpus)  # while nodes for it start
                waits = 0.0 if runs else chooser.worth
                placed.append((chooser.worth, waits, WaitingJob(way.gpus, way.nodes, way.seconds, runs)))
        placed.sort(key=lambda each: not each[2].runs)  # a running job comes first to the GPUs that it leaves
        found = RunDown(StandingNodes(nodes.values()), self._offers[pool], inf)
        for worth, waits, job in placed:
            ready = found.add(job)
            if ready is None:
                return Bill(inf, inf)
            time += worth * job.seconds + waits * ready
        return Bill(found.dollars, time)


def _sum(bills: Sequence[Bill]) -> Bill:
    return Bill(sum([bill.dollars for bill in bills]), sum([bill.time for bill in bills]))


def chosen_with(number: int, choice: int | None, choices: Choices) -> list[int | None]:
    """The choices, in which job ``number`` chooses ``choice`` instead."""
    return [choice if at == number else each for at, each in enumerate(choices)]


_MOST = 12
"""The largest number of jobs in sight that choose together. With more jobs, little of their nodes is empty."""
_SOON = 2400.0
"""Seconds until the next expected job, below which nothing is chosen, because the next job takes the empty GPUs
before a move would have paid for itself. The number is ten times the duration of a start and a restart, as the time
between moves is ten times the duration of a move."""
_APART, _FEWEST = 60.0, 3
"""The rate of arrivals is estimated from the jobs in sight only if at least ``_FEWEST`` of these arrived more than
``_APART`` seconds after the previous job. Jobs of a budget's first hour are in no other count
(``budgets.demand``)."""
_WORK = 2000
"""The largest number of run-downs of pools that are computed for one plan. The limit is a number and not a time, so
that the same snapshot gives the same plan on a busy machine."""
_ROUNDING = 1e-7
"""A change must lower the sum by at least this fraction."""


@dataclass(frozen=True, slots=True)
class Preference:
    """An option that a job prefers to the option ``instead``, once whole nodes are counted.

    ``saved``: dollars by which all nodes cost less; negative if they cost more.
    ``sooner``: seconds by which the job ends sooner; negative if it ends later.
    """

    option: Option
    instead: Option
    saved: float
    sooner: float


class WholeNodes:
    """The options that the jobs in sight of one budget choose together, with the nodes as a plan finds them.

    ``waiting``: jobs without GPUs, in their order.
    ``running``: jobs that go on running, of which the ``movable`` jobs may be moved.
    ``in_force``: whether anything is chosen.
    """

    def __init__(
        self,
        solution: BudgetSolution,
        placer: Placer,
        gate: MoveGate,
        waiting: Sequence[Job],
        running: Mapping[JobId, JobFacts],
        movable: frozenset[JobId],
    ) -> None:
        self._solution = solution
        self._snapshot = solution.inputs.snapshot
        self._placer = placer
        self._gate = gate
        self._outlook = Outlook(solution, placer)
        jobs = [*waiting, *(facts.job for facts in running.values())]
        self.in_force = len(jobs) <= _MOST and any(self._may_choose(job) for job in jobs) and not self._come_soon()
        self._choosers: Sequence[Chooser] = ()
        self._choices: Choices = ()
        self._numbers: Mapping[JobId, int] = {}
        if self.in_force:
            self._choose(waiting, running, movable)

    @classmethod
    def in_sight(cls, solution: BudgetSolution, placer: Placer, gate: MoveGate) -> WholeNodes:
        """The choice of all jobs of the budget."""
        groups, now = solution.groups.values(), solution.now
        resting = {
            facts.job.id
            for group in groups
            for facts in group.backing_off
            if facts.backs_off_until is not None and now < facts.backs_off_until
        }
        waiting = [job for group in groups for job in group.waiting if job.id not in resting]
        running = {name: facts for group in groups for name, facts in group.runners.items()}
        movable = frozenset(name for group in groups for name in group.movable)
        return cls(solution, placer, gate, sorted(waiting, key=lambda job: (job.created, job.id)), running, movable)

    def _choose(self, waiting: Sequence[Job], running: Mapping[JobId, JobFacts], movable: frozenset[JobId]) -> None:
        found = [
            *(self._queued(job) for job in waiting),
            *(self._runner(facts.job, may_move=name in movable) for name, facts in running.items()),
        ]
        self._choosers = [chooser for chooser in found if chooser is not None]
        self._numbers = {chooser.job.id: number for number, chooser in enumerate(self._choosers)}
        self._run_downs = self._all_run_downs()
        self._choices = [chooser.first for chooser in self._choosers]
        if self._run_downs.bill(self._choices).dollars == inf:  # too little room: other rules allot it
            self.in_force = False
        elif any(len(chooser.ways) > 1 for chooser in self._choosers):
            self._choices = self._best()

    @cached_property
    def preferred(self) -> Mapping[JobId, Preference]:
        """The jobs that choose another option together than each would choose for itself."""
        found: dict[JobId, Preference] = {}
        for number, (chooser, choice) in enumerate(zip(self._choosers, self._choices, strict=True)):
            if choice is None or key_of(chooser.ways[choice].option) == key_of(chooser.ways[chooser.first].option):
                continue
            before = chosen_with(number, chooser.first, self._choices)
            saved = self._run_downs.bill(before).dollars - self._run_downs.bill(self._choices).dollars
            sooner = self._run_downs.seconds(number, before) - self._run_downs.seconds(number, self._choices)
            ways = chooser.ways
            found[chooser.job.id] = Preference(ways[choice].option, ways[chooser.first].option, saved, sooner)
        return found

    @cached_property
    def held(self) -> Mapping[JobId, tuple[Option, Hold]]:
        """The running jobs that would choose another option if they were allowed to move, with that option and the
        hold."""
        found: dict[JobId, tuple[Option, Hold]] = {}
        least = self._run_downs.bill(self._choices).total if self._choosers else 0.0
        for number, chooser in enumerate(self._choosers):
            choices = [(self._run_downs.bill(chosen_with(number, at, self._choices)).total, at) for at in chooser.holds]
            total, at = min(choices, default=(inf, 0))
            if total < least - _ROUNDING * abs(least) and self._choices[number] == chooser.first:
                found[chooser.job.id] = chooser.ways[at].option, chooser.holds[at]
        return found

    def of_all_nodes(self, job: Job) -> Mapping[OptionKey, tuple[float, float]]:
        """For each option with room: seconds until the job's end, and the dollars by which the job increases the cost
        of all nodes.

        The result is empty if nothing is chosen for the job.
        """
        number = self._numbers.get(job.id) if self.in_force else None
        if number is None or len(self._choosers[number].ways) == 1:
            return {}
        found: dict[OptionKey, tuple[float, float]] = {}
        without = chosen_with(number, None, self._choices)
        for choice, way in enumerate(self._choosers[number].ways):
            choices = chosen_with(number, choice, self._choices)
            dollars = self._run_downs.bill(choices).dollars - self._run_downs.bill(without).dollars
            if dollars < inf and key_of(way.option) not in found:
                found[key_of(way.option)] = self._run_downs.seconds(number, choices), dollars
        return found

    def _come_soon(self) -> bool:
        """Whether the next job is expected soon, judged by the rate of arrivals and the last arrival."""
        groups, now = self._solution.groups.values(), self._solution.now
        ages = sorted([seconds_between(at, now) for group in groups for at in group.created])
        apart = sum([older - younger > _APART for younger, older in pairwise(ages)])
        in_sight = apart / ages[-1] if apart >= _FEWEST else 0.0
        foreseen = sum([assignment.group.foreseen for assignment in self._solution.assignments.values()])
        return max(self._solution.arrivals.seen, foreseen, in_sight) * _SOON > 1.0 and min(ages, default=0.0) < _SOON

    # --- the jobs -----------------------------------------------------------------------------------------------------

    def chooses(self, job: Job) -> bool:
        """Whether the job takes part in the choice with more than one way."""
        number = self._numbers.get(job.id)
        return self.in_force and number is not None and len(self._choosers[number].ways) > 1

    def _may_choose(self, job: Job) -> bool:
        assignment = self._solution.assignment(job)
        if assignment is None:
            return False
        phased = len(assignment.group.menu.stages) > 1  # its path to the end is on other options than the first
        parts = any(option.slice for option in assignment.group.menu.options)
        promised = job.id in self._solution.deadline_needs or job.cost_limit is not None
        return not (phased or parts or promised or job.interactive is not None)

    def _is_priced(self, option: Option) -> bool:
        pool = self._snapshot.pools.get(option.pool)
        return pool is not None and pool.quote is not None

    def _queued(self, job: Job) -> Chooser | None:
        """The chooser of a waiting job; None if its group has no assignment."""
        assignment = self._solution.assignment(job)
        if assignment is None:
            return None
        values = self._solution.own_values(job, assignment)
        projections = self._outlook.with_launch_delays(job, values.entering(assignment.position(job)))
        order = self._outlook.best_fit_first(job, self._outlook.in_order(job, projections, assignment))
        first = key_of(order[0])
        chooses = self._may_choose(job) and self._is_priced(order[0])
        those = [
            each for each in projections if key_of(each.option) == first or (chooses and self._is_priced(each.option))
        ]
        ways = [self._way(each, each.seconds - self._placer.start_up(each.option)) for each in those]
        number = next(at for at, way in enumerate(ways) if key_of(way.option) == first)
        return Chooser(job, self._solution.worth(job, assignment), ways, number, {}, {})

    def _runner(self, job: Job, *, may_move: bool) -> Chooser | None:
        """The chooser of a running job, which stays or moves; None if its pool is gone."""
        assignment, allocation = self._solution.assignment(job), job.allocation
        if allocation is None or allocation.option.pool not in self._snapshot.pools:
            return None
        here, held = allocation.option, by_rental(allocation.placements)
        if assignment is None:
            left = inf if job.remaining is None else job.remaining / here.speed
            return Chooser(job, 0.0, [NodeWay(here, 0, 0, left, stays=True)], 0, held, {})
        values, position = self._solution.own_values(job, assignment), assignment.position(job)
        ways = [NodeWay(here, 0, 0, values.staying(here, position).seconds, stays=True)]
        holds: dict[int, Hold] = {}
        if may_move and values.menu.known and self._may_choose(job) and self._is_priced(here):
            elsewhere = values.staying(here, position)  # as emptying its node would move it (``actions.consolidation``)
            if self._gate.held(job, values, position, elsewhere) is None:
                ways.append(self._way(elsewhere, elsewhere.seconds + values.change_seconds(here, here)))
            for option in values.menu.options:
                if key_of(option) == key_of(here) or not self._is_priced(option):
                    continue
                hold = self._gate.held(job, values, position, values.moving(here, option, position, rented=True))
                if hold is not None:
                    holds[len(ways)] = hold
                there = values.moving(here, option, position, rented=False)
                ways.append(self._way(there, there.seconds))
        return Chooser(job, self._solution.worth(job, assignment), ways, 0, held, holds)

    def _way(self, projection: Projection, seconds: float) -> NodeWay:
        nodes = self._placer.nodes(projection.option)
        return NodeWay(projection.option, projection.option.takes // nodes, nodes, seconds)

    # --- the nodes ----------------------------------------------------------------------------------------------------

    def _all_run_downs(self) -> RunDowns:
        choosers, pools = self._choosers, self._snapshot.pools
        wanted: dict[PoolId, int] = {}
        for chooser in choosers:
            for way in chooser.ways:
                wanted[way.option.pool] = max(wanted.get(way.option.pool, 0), way.nodes)
        offers: dict[PoolId, NodeOffer] = {}
        for name, nodes in wanted.items():
            pool = pools[name]
            price = 0.0 if pool.committed is not None else pool.dollars_per_second
            most = self._placer.more_nodes(name, nodes * len(choosers))
            offers[name] = NodeOffer(pool.gpus_per_node or 1, price, pool.likely_start_seconds, most)
        return RunDowns({name: self._standing(name, offer) for name, offer in offers.items()}, offers, choosers)

    def _standing(self, pool: PoolId, offer: NodeOffer) -> Mapping[RentalId, StandingNode]:
        """The nodes of a pool that stay, without the GPUs of jobs that take part in the choice."""
        here, now = self._solution.nodes.get(pool), self._solution.now
        if here is None:
            return {}
        free, found = self._placer.free_nodes(pool), dict[RentalId, StandingNode]()
        for name, rental in here.rentals.staying.items():
            least = 0.0
            if rental.launched is not None:
                least = max(seconds_between(now, after(rental.launched, rental.billing_minimum_seconds)), 0.0)
            price = 0.0 if self._snapshot.pools[pool].committed is not None else rental.price.dollars_per_second
            unused = free.ready.free.get(name, free.booting.free.get(name, 0))
            chosen = sum([chooser.gpus.get(name, 0) for chooser in self._choosers])
            ready = free.booting.seconds.get(name, 0.0) if name in free.booting.free else 0.0
            others = max(offer.size - unused - chosen, 0)  # GPUs of jobs that end, and of unknown pods
            found[name] = StandingNode(price, ready, least, [(others, 0.0)] if others else [])
        # of nodes with equally many free GPUs the first is taken: a ready one
        return dict(sorted(found.items(), key=lambda each: (each[1].ready, each[0])))

    # --- the choice ---------------------------------------------------------------------------------------------------

    def _best(self) -> Choices:
        """The choices with the smallest sum that is found."""
        first: Choices = [FIRST_CHOICE] * len(self._choosers)
        best, least = self._descend(first)
        pools = sorted({way.option.pool for way in chain.from_iterable(each.ways for each in self._choosers)})
        for pool in pools:
            begin = [self._first_in(pool, chooser) for chooser in self._choosers]
            if begin == first:
                continue
            found, total = self._descend(begin)
            if total < least - _ROUNDING * abs(least):
                best, least = found, total
        for number, chooser in enumerate(self._choosers):  # an equally good choice is left to the other rules
            as_before = chosen_with(number, chooser.first, best)
            if self._run_downs.bill(as_before).total <= least + _ROUNDING * abs(least):
                best = as_before
        return best

    def _first_in(self, pool: PoolId, chooser: Chooser) -> int:
        """The index of the job's best way in the pool if it waits and has a way there; otherwise the index of its
        first choice."""
        there = (number for number, way in enumerate(chooser.ways) if way.option.pool == pool)
        return FIRST_CHOICE if chooser.gpus else next(there, FIRST_CHOICE)

    def _descend(self, choices: Choices) -> tuple[Choices, float]:
        """Repeatedly make the change of one job's choice that lowers the sum most, until no change lowers it.

        Returns the choices and their sum.
        """
        now, least = choices, self._run_downs.bill(choices).total
        while True:
            best, total = now, least - _ROUNDING * abs(least)
            made = (-1, -1)
            for change in self._run_downs.changes(now):
                if change.least - _ROUNDING * abs(change.least) > total or self._run_downs.worked_out > _WORK:
                    break
                found, this = change.total(), (change.number, change.choice)
                if found < total or (found == total and this < made):  # of equal changes the first job's is made
                    best, total, made = chosen_with(*this, now), found, this
            if best is now:
                return now, least
            now, least = best, total
