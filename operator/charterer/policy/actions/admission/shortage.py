"""Shortage: if a pool is too small for the jobs in sight, its GPUs are allotted to all these jobs together.

If there are enough nodes for all jobs, the jobs take their best options one after the other. If there are too few
nodes, a job that takes a node makes other jobs wait. ``room_waits`` computes the value of each option compared with
waiting, and ``linear_program`` allocates the nodes for the largest sum. A running job may be narrowed for this
allotment if it may be moved. Its projections include the restart. No job is stopped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from math import inf

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Job, ResizePolicy
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.plan import PoolVerdict
from charterer.policy.actions.admission.room_waits import LEAST, Charges, RoomCandidate, values_of_ways, waits_for_room
from charterer.policy.actions.budget_plan import BudgetPlan, RoomAllotment, RoomWait
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.jobs.job_facts import JobFacts, job_position, must_move
from charterer.policy.nodes.limits import reserve
from charterer.policy.nodes.pool_room import PoolRoom, pool_sizes
from charterer.policy.nodes.rentals import by_rental, held_by
from charterer.policy.options.market import Market
from charterer.policy.options.option_value import OptionValues, Projection
from charterer.policy.solve.linear_program import Allotment, Claimant, NodeRoom, SolverGaveUp, Way, allocate, fits
from charterer.policy.solve.phase_dp import OptionTable, key_of

_WORK = 8_000
"""Maximum number of columns of all linear programs for one answer: one or two programs of 500 jobs, or 30 of 60 jobs
(``tests.bench.exact``). The limit is a number and not a time, because the same snapshot must give the same plan on a
busy machine."""

_MOST = 250
"""Maximum number of waiting jobs, and of running jobs, that are considered together. So many jobs take a tenth of a
second."""


def allot_room(
    plan: BudgetPlan, queue: Sequence[Job], ranked: Mapping[JobId, Sequence[Projection]]
) -> RoomAllotment | None:
    """The allotment to the jobs; None if there is room for the best option of each job in the queue.

    ``queue``: the jobs that wait for no money, in their order; ``ranked``: their options, best first.
    """
    if not queue:
        return None
    rooms = _rooms(plan, [ranked[job.id] for job in queue])
    nodes = {pool: NodeRoom(room.size, tuple(room.free.values())) for pool, room in rooms.items()}
    best = [ranked[job.id][0].option for job in queue]
    if fits([Way(option.pool, option.takes, 0.0) for option in best], nodes):
        return None
    return _Shortage(plan, rooms).solve(queue, [ranked[job.id] for job in queue])


def _first(candidates: Sequence[RoomCandidate]) -> Sequence[RoomCandidate]:
    """The first ``_MOST`` waiting jobs in Smith's order, returned in the order of the queue."""
    if len(candidates) <= _MOST:
        return candidates
    kept = {one.job.id for one in sorted(candidates, key=lambda one: (-one.index, one.job.id))[:_MOST]}
    return [candidate for candidate in candidates if candidate.job.id in kept]


def _rooms(plan: BudgetPlan, ranked: Sequence[Sequence[Projection]]) -> Mapping[PoolId, PoolRoom]:
    """The nodes that exist or may be rented, as many as the jobs could use, by pool.

    A width that does not divide a node counts as a whole node, because no other job may share it.
    """
    alike = {
        id(projections): projections for projections in ranked
    }  # jobs of a class with the same progress share one list
    jobs, widest = Counter(map(id, ranked)), Counter[PoolId]()
    memo, market = plan.solution.inputs.memo, plan.solution.inputs.market
    for number, projections in alike.items():
        for pool, gpus in memo(_widest, projections, market).items():
            widest[pool] += gpus * jobs[number]
    return {pool: plan.placer.pool_room(pool, gpus) for pool, gpus in sorted(widest.items())}


def _widest(projections: Sequence[Projection], market: Market) -> Mapping[PoolId, int]:
    """By pool, the GPUs of nodes that the widest of the options makes unavailable to other jobs."""
    widths: dict[PoolId, set[int]] = {}
    for projection in projections:
        widths.setdefault(projection.option.pool, set()).add(projection.option.takes)
    sizes = {pool: market.offers[pool].gpus_per_node or 1 for pool in widths}
    return {
        pool: max([gpus if sizes[pool] % gpus == 0 else max(gpus, sizes[pool]) for gpus in found])
        for pool, found in widths.items()
    }


def _has_its_best(candidate: RoomCandidate, start: Option | None) -> bool:
    """Whether the job begins on an option that costs no more than its best one."""
    least = candidate.projections[0].total_cost
    as_good = takewhile(lambda projection: projection.total_cost <= least, candidate.projections)
    return start is not None and key_of(start) in [key_of(projection.option) for projection in as_good]


class _Shortage:
    """One budget's pools, with the nodes that its jobs hold there."""

    def __init__(self, plan: BudgetPlan, rooms: Mapping[PoolId, PoolRoom]) -> None:
        self._plan = plan
        self._rooms = rooms
        self._free = {pool: dict(room.free) for pool, room in rooms.items()}
        self._room_comes_free = self._give_back()

    def _give_back(self) -> bool:
        """Count GPUs as free that runs are about to leave. True if there are any."""
        pool_of = {rental: pool for pool, room in self._rooms.items() for rental in room.free}
        rental_of, found = self._plan.solution.inputs.holdings.rental_of, False
        for group in self._plan.solution.groups.values():
            for facts in group.members:
                job = facts.job
                if not job.replaced and (job.allocation is not None or not facts.nodes):
                    continue
                kept = {} if job.allocation is None else by_rental(job.allocation.placements)
                for rental, gpus in held_by(job, rental_of).items():
                    pool, more = pool_of.get(rental), gpus - kept.get(rental, 0)
                    if pool is not None and more > 0:
                        self._free[pool][rental] += more
                        found = True
        return found

    def solve(self, queue: Sequence[Job], ranked: Sequence[Sequence[Projection]]) -> RoomAllotment | None:
        """The allotment; None if each job gets an option as good as its best one, or if the solver gives up.

        Without an allotment, jobs are placed one after the other, which takes into account which nodes are ready.
        Results that do not depend on the time are cached.
        """
        memo, needs = self._plan.solution.inputs.memo, self._plan.solution.deadline_needs
        ends = self._ends({projections[0].option.pool for projections in ranked})
        terms = [self._terms(job) for job in queue]
        worths, tables = tuple([worth for worth, _ in terms]), tuple([table for _, table in terms])
        waiting = memo(_waiting, tuple(queue), worths, tuple(ranked), tables, ends)
        narrowable = tuple(self._narrowable()) if self._may_start(waiting) else ()
        rooms = [(pool, self._rooms[pool].size, tuple(free), tuple(free.values())) for pool, free in self._free.items()]
        try:
            allotted = memo(_allotted, waiting, narrowable, tuple(rooms))
        except SolverGaveUp:
            return None
        starts, narrowed = allotted.starts, allotted.narrowed
        making_room = bool(narrowed) or (self._room_comes_free and bool(starts))
        if not making_room and all(_has_its_best(candidate, starts.get(candidate.job.id)) for candidate in waiting):
            return None
        return RoomAllotment(
            starts=starts,
            narrowed=narrowed,
            waits={} if making_room else self._waits(allotted),
            pools=self._verdicts(allotted.answer, len(starts) < len(waiting)),
            waiting=len(waiting),
            making_room=making_room,
            gap=allotted.answer.gap,
            any_price=any(needs[job.id].at_any_price for job in queue if job.id in needs),
        )

    def _terms(self, job: Job) -> tuple[float, OptionTable | None]:
        """Dollars per second of a waiting job, and the options between which it may be moved; None if it may not be."""
        solution = self._plan.solution
        assignment = solution.assignment(job)
        assert assignment is not None, "it has options"
        moves = job.resize is not ResizePolicy.NEVER and solution.budget.moves.per_job_and_day != 0
        return solution.own_values(job, assignment).worth, assignment.group.menu.table if moves else None

    def _ends(self, pools: Collection[PoolId]) -> _Ends:
        """When GPUs of these pools become free."""
        assignments = self._plan.solution.assignments
        running = [
            (kept.runners, assignment.group.work)
            for kept in self._plan.jobs.running
            if (assignment := assignments.get(kept.group.key)) is not None
        ]
        free = tuple([(pool, sum([max(gpus, 0) for gpus in self._free[pool].values()])) for pool in sorted(pools)])
        runners, works = tuple([runners for runners, _ in running]), tuple([work for _, work in running])
        return self._plan.solution.inputs.memo(_ends, free, runners, works)

    def _waits(self, allotted: _Allotted) -> Mapping[JobId, RoomWait]:
        """The waits of the jobs that get no room."""
        given = [
            next(end for end in one.projections if end.option is start)
            for one in allotted.looked_at
            if (start := allotted.starts.get(one.job.id))
        ]
        others = [one for one in allotted.looked_at if one.job.id not in allotted.starts]
        return waits_for_room(self._plan, self._rooms, given, sorted(others, key=lambda one: (-one.index, one.job.id)))

    def _may_start(self, waiting: Sequence[RoomCandidate]) -> bool:
        """Whether the hard limit allows as many nodes as the waiting jobs want. Otherwise making room is useless."""
        plan, tightest = self._plan, self._plan.placer.purse.tightest
        if tightest is None or (slack := tightest.slack) is None:
            return True
        nodes = Counter[PoolId]()
        for option in (candidate.projections[0].option for candidate in waiting):
            nodes[option.pool] += plan.placer.nodes(option)
        grace, pools = max(candidate.job.grace_seconds for candidate in waiting), plan.snapshot.pools
        most = {pool: min(count, len(self._rooms[pool].free)) for pool, count in nodes.items()}
        return sum(reserve(pools[pool], grace).micros * count for pool, count in most.items()) <= slack.micros

    def _narrowable(self) -> Iterable[RoomCandidate]:
        """The running jobs that may go on with fewer GPUs. If there are many such jobs, the result has the last of
        them in Smith's order."""
        found: list[tuple[float, JobId, Job, GroupAssignment]] = []
        for kept in self._plan.jobs.running:
            assignment = self._plan.solution.assignments.get(kept.group.key)
            if assignment is None or not assignment.group.menu.known:
                continue
            for name, facts in kept.runners.items():
                if (
                    name in kept.group.movable
                    and self._may_move(facts.job, assignment)
                    and facts.job.allocation is not None
                ):
                    option = facts.job.allocation.option
                    needed = option.takes * max(assignment.position(facts.job).left / option.speed, LEAST)
                    found.append((assignment.values.worth / needed, name, facts.job, assignment))
        for _, _, job, assignment in sorted(found, key=lambda entry: entry[:2])[:_MOST]:
            candidate = self._running_on(job, assignment)
            if candidate is not None:
                yield candidate

    def _may_move(self, job: Job, assignment: GroupAssignment) -> bool:
        """Whether the job may get fewer GPUs of these pools. Jobs with a target are not narrowed for other jobs."""
        held, solution = job.allocation, self._plan.solution
        if held is None or not job.remaining or job.id in solution.deadline_needs:
            return False
        if held.option.gpus <= min([way.least for way in job.ways]):
            return False
        room = self._rooms.get(held.option.pool)
        if room is None or not all(place.rental in room.free for place in held.placements):
            return False
        return self._plan.gate.closed(job, assignment.values) is None and must_move(job, solution.inputs.market) is None

    def _running_on(self, job: Job, assignment: GroupAssignment) -> RoomCandidate | None:
        """The job with its narrower options; None without any."""
        memo, values, gate = self._plan.solution.inputs.memo, assignment.drawn_values(job), self._plan.gate
        candidate = memo(_narrower, job, values, assignment.group.work, frozenset(self._rooms))
        moves = candidate.projections[1:]
        if moves and gate.free(job) and gate.closed(job, values) is None:
            return candidate
        position = assignment.position(job)
        allowed = [at for at, there in enumerate(moves, 1) if gate.held(job, values, position, there) is None]
        if not allowed:
            return None
        return candidate if len(allowed) == len(moves) else memo(_some_ways, candidate, (0, *allowed))

    def _verdicts(self, answer: Allotment, short: bool) -> Mapping[PoolId, PoolVerdict]:
        plan, found = self._plan, dict[PoolId, PoolVerdict]()
        scarce = {pool: worth for pool, worth in answer.node_worth.items() if worth > 0.0}
        sizes = pool_sizes(plan.snapshot, plan.solution.inputs.rentals) if scarce else {}
        for pool, worth in scarce.items():
            if pool in sizes:
                size, node = sizes[pool], Price.per_second(worth)
                gpu = Price.per_second(worth / size.gpus_per_node)
                found[pool] = PoolVerdict(size.limit, size.nodes, gpu, node, short, plan.solution.payable)
                if size.until is not None:
                    plan.decided.again_at.append(size.until)
        return found


# Pure functions of jobs, options and rooms.


_Ends = Mapping[PoolId, tuple[Sequence[float], Sequence[int]]]
"""By pool, the seconds until runs end, ascending, and the number of GPUs that are free from then on."""


def _ends(
    free: tuple[tuple[PoolId, int], ...], running: tuple[Mapping[JobId, JobFacts], ...], works: tuple[float, ...]
) -> _Ends:
    """The expected ends of runs by pool. ``free``: free GPUs of each pool. ``works``: mean work of a job in each
    group of runners."""
    left: dict[PoolId, list[tuple[float, int]]] = {pool: [(0.0, gpus)] for pool, gpus in free}
    for runners, work in zip(running, works, strict=True):
        for facts in runners.values():
            held = facts.job.allocation
            if held is not None and held.option.pool in left:
                seconds = job_position(facts.job, work).left / held.option.speed
                left[held.option.pool].append((seconds, held.option.takes))
    ends = {pool: sorted(runs) for pool, runs in left.items()}
    return {
        pool: ([seconds for seconds, _ in runs], list(accumulate(gpus for _, gpus in runs)))
        for pool, runs in ends.items()
    }


def _waiting(
    jobs: tuple[Job, ...],
    worths: tuple[float, ...],
    ranked: tuple[Sequence[Projection], ...],
    tables: tuple[OptionTable | None, ...],
    ends: _Ends,
) -> Sequence[RoomCandidate]:
    """The jobs with their waits. The wait of a job is the time until running jobs leave enough room for it, if the
    jobs get their best options in Smith's order."""
    moves: dict[tuple[int, float, bool], Sequence[float]] = {}
    for worth, projections, table in zip(worths, ranked, tables, strict=True):
        alike = id(projections), worth, table is None
        if alike not in moves:
            moves[alike] = _moves(projections, worth, table)
    waiting = [
        RoomCandidate(job, worth, projections, moves=moves[id(projections), worth, table is None])
        for job, worth, projections, table in zip(jobs, worths, ranked, tables, strict=True)
    ]
    wanted, waits = Counter[PoolId](), dict[JobId, float]()
    for one in sorted(waiting, key=lambda one: (-one.index, one.job.id)):
        best = one.projections[0].option
        wanted[best.pool] += best.takes
        seconds, free = ends[best.pool]
        at = max(bisect_left(free, wanted[best.pool]), 1)
        waits[one.job.id] = seconds[at] if at < len(free) else inf
    return [replace(one, wait=min(waits[one.job.id], one.projections[0].seconds)) for one in waiting]


def _moves(projections: Sequence[Projection], worth: float, table: OptionTable | None) -> Sequence[float]:
    """Dollars, including time, of a waiting job's move from each option to its best one; infinite if it cannot move.

    ``table``: None for a job that may not be moved.
    """
    best = projections[0].option
    to = None if table is None else table.index.get(key_of(best))
    if table is None or to is None:  # Limits left the job only a width that no move leads to, because it has no curve.
        return [inf] * len(projections)
    second = worth + best.price.dollars_per_second
    if table.in_place is None:
        return [table.restart * second] * len(projections)
    return [table.change_seconds(table.resizable_pool(projection.option), to) * second for projection in projections]


def _narrower(job: Job, values: OptionValues, work: float, pools: frozenset[PoolId]) -> RoomCandidate:
    """A running job with its narrower options in these pools. ``work``: mean work of a job of its group."""
    assert job.allocation is not None
    here, position, table = job.allocation.option, job_position(job, work), values.menu.table
    projections, restarts = [values.staying(here, position)], [0.0]
    for to in (projection.option for projection in values.entering(position)):
        if to.pool in pools and to.gpus < here.gpus:
            projections.append(values.moving(here, to, position, rented=False))
            restarts.append(table.change_seconds(table.resizable_pool(here), table.index[key_of(to)]))
    return RoomCandidate(job, values.worth, projections, by_rental(job.allocation.placements), restarts)


def _some_ways(candidate: RoomCandidate, which: tuple[int, ...]) -> RoomCandidate:
    """The candidate with the options at these indexes."""
    projections, restarts = candidate.projections, candidate.restarts
    return replace(candidate, projections=[projections[at] for at in which], restarts=[restarts[at] for at in which])


@dataclass(frozen=True, slots=True, eq=False)
class _Allotted:
    """``looked_at``: the waiting jobs considered. ``starts``: options of jobs that get room. ``narrowed``: options of
    jobs that make room."""

    looked_at: Sequence[RoomCandidate]
    answer: Allotment
    starts: Mapping[JobId, Option]
    narrowed: Mapping[JobId, Option]


def _allotted(
    waiting: Sequence[RoomCandidate],
    narrowable: tuple[RoomCandidate, ...],
    rooms: tuple[tuple[PoolId, int, tuple[RentalId, ...], tuple[int, ...]], ...],
) -> _Allotted:
    """The allotment. ``rooms``: (pool, GPUs per node, nodes, GPUs of each node that no job holds)."""
    looked_at = _first(waiting)
    candidates = [*looked_at, *narrowable]
    charges = Charges(waiting, {pool: size * len(nodes) for pool, size, nodes, _ in rooms})
    number = {pool: {rental: at for at, rental in enumerate(nodes)} for pool, _, nodes, _ in rooms}
    free = {pool: [*gpus] for pool, _, _, gpus in rooms}
    for candidate in narrowable:
        pool = candidate.projections[0].option.pool
        for rental, gpus in (candidate.held or {}).items():
            free[pool][number[pool][rental]] += gpus
    wanted_for = sum(max(candidate.projections[0].seconds, LEAST) for candidate in waiting) / len(waiting)
    alike: dict[tuple[int, float, float, int], Claimant] = {}
    for one in looked_at:
        if _likeness(one) not in alike:
            alike[_likeness(one)] = _claimant(one, charges, wanted_for, number)
    run = [_claimant(candidate, charges, wanted_for, number) for candidate in narrowable]
    claimants = (*[alike[_likeness(one)] for one in looked_at], *run)
    answer = allocate(claimants, {pool: NodeRoom(size, tuple(free[pool])) for pool, size, _, _ in rooms}, _WORK)
    given = {
        candidate.job.id: candidate.projections[at].option
        for candidate, claimant, at in zip(candidates, claimants, answer.chosen, strict=True)
        if at is not None and at != claimant.stays
    }
    starts = {candidate.job.id: given[candidate.job.id] for candidate in waiting if candidate.job.id in given}
    narrowed = {name: option for name, option in given.items() if name not in starts} if starts else {}
    return _Allotted(looked_at, answer, starts, narrowed)


def _likeness(waiting: RoomCandidate) -> tuple[int, float, float, int]:
    """A key that is equal for waiting jobs with the same values of options."""
    return id(waiting.projections), waiting.worth, waiting.wait, id(waiting.moves)


def _claimant(
    candidate: RoomCandidate, charges: Charges, wanted_for: float, number: Mapping[PoolId, Mapping[RentalId, int]]
) -> Claimant:
    values = values_of_ways(candidate, charges, candidate.moves, wanted_for)
    rows = tuple(
        [
            Way(projection.option.pool, projection.option.takes, value)
            for projection, value in zip(candidate.projections, values, strict=True)
        ]
    )
    if candidate.held is None:
        return Claimant(rows)
    at = number[rows[0].pool]
    return Claimant(rows, 0, tuple([(at[rental], gpus) for rental, gpus in candidate.held.items()]))
