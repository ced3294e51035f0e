"""Jobs that wait for GPUs of a full pool to become free, instead of taking the free GPUs that are left.

``shortage`` decides first which jobs get the present room. Each of the other jobs, in Smith's order, compares the free
GPUs with GPUs that will become free. On option o, the job reaches its end for C_o dollars: money, time, and the value
of its room to jobs that arrive (``room_prices``). The GPUs of o become free in t_o seconds, which are not billed. The
job chooses the option with the least C_o + w·θ·t_o, and waits for it if

    w·θ·(t_o + waited so far) < C_n − C_o          n: the best option that is free now

Estimates change, and other jobs may come first. So the whole time that a job has waited counts: waiting never costs
more than it was expected to save, and finally the job takes what is free. A job that may be moved loses less if it
starts now: only the part t_o/a_n of C_n − C_o until it moves, plus the cost of the move.

Each GPU is promised to one job, and after that job's end to the next job. Waits are not recorded, so each plan
decides again. A job with a target does not wait if it would be late.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.option import Option
from charterer.policy.actions.budget_plan import BudgetPlan, RoomWait
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.groups import seconds_left
from charterer.policy.jobs.job_facts import waited_seconds
from charterer.policy.nodes.pool_room import PoolRoom, pool_sizes
from charterer.policy.nodes.rentals import HeldGpus
from charterer.policy.options.option_value import JobPosition, Projection

# The value of a GPU-second of a pool to jobs that are expected to arrive.
#
# A job that waits for GPUs of a pool takes them from jobs that arrive later. Let the jobs i whose best option is in
# the pool arrive at λ_i per second, stay a_i seconds, use u_i GPU-seconds, and lose d_i dollars, including time, on
# the next best pool. If the pool has room for c such jobs, a place is in use for the fraction P of the time (Erlang's
# loss formula), and a GPU-second is worth
#
#     P·Σ λ_i·d_i / Σ λ_i·u_i
#     P = A·(1 − B)/c,  A = Σ λ_i·a_i,  B = (A^c/c!) / Σ_{k≤c} A^k/k!
#
# Without this price, all jobs would wait until waiting is as bad as the next best pool, and no job would gain from the
# good pool.


_NOBODY = 1e-9
"""A probability of finding no place that is small enough to be treated as zero."""


@dataclass(slots=True)
class _Coming:
    """The sums over the jobs that arrive in a pool: Σ λ·d, Σ λ·u and Σ λ·a."""

    lost: float = 0.0
    gpus: float = 0.0
    jobs: float = 0.0


def room_prices(solution: BudgetSolution) -> Mapping[PoolId, float]:
    """The value of a GPU-second in dollars, including time, of each pool to which jobs are expected to come."""
    coming: dict[PoolId, _Coming] = {}
    for assignment in solution.assignments.values():
        if assignment.group.foreseen:
            _add(assignment, coming)
    if not coming:
        return {}
    sizes = pool_sizes(solution.inputs.snapshot, solution.inputs.rentals)
    return {
        pool: used(sums.jobs, max(int(sizes[pool].gpus * sums.jobs / sums.gpus), 1)) * sums.lost / sums.gpus
        for pool, sums in coming.items()
        if pool in sizes and sums.gpus
    }


def used(offered: float, places: int) -> float:
    """The fraction of time for which a place is in use, if jobs without a place go elsewhere (Erlang's loss formula).

    ``offered``: the mean number of places in use if there were places for all jobs.
    """
    turned_away = 1.0
    for place in range(1, places + 1):
        turned_away = offered * turned_away / (place + offered * turned_away)
        if turned_away < _NOBODY:
            break
    return offered * (1.0 - turned_away) / places


def _add(assignment: GroupAssignment, coming: dict[PoolId, _Coming]) -> None:
    """Add the future jobs of a group to the pool that is best for them.

    The loss of a job is limited to the value of its time in that pool, because a job waits if no other pool is good
    enough.
    """
    rate, values = assignment.group.foreseen, assignment.values
    ends = values.entering(JobPosition(assignment.group.work))
    best = ends[0]
    other = min([end.total_cost for end in ends if end.option.pool != best.option.pool], default=inf)
    sums = coming.setdefault(best.option.pool, _Coming())
    sums.lost += rate * min(other - best.total_cost, values.worth * best.seconds)
    sums.gpus += rate * best.option.takes * best.seconds
    sums.jobs += rate * best.seconds


# When GPUs of full pools become free, and which of them no job waits for yet.


@dataclass(frozen=True, slots=True)
class HeldRoom:
    """GPUs of one node that a run holds, and the seconds until they become free."""

    pool: PoolId
    rental: RentalId
    gpus: int
    seconds: float


class RoomToCome:
    """For each GPU of each node, the seconds until it is free: 0 for a free GPU, infinite if no end of its use is
    expected."""

    def __init__(self, rooms: Mapping[PoolId, PoolRoom], held: Iterable[HeldRoom]) -> None:
        self._rooms = rooms
        self._held: dict[PoolId, list[HeldRoom]] = {}
        for run in held:
            self._held.setdefault(run.pool, []).append(run)
        self._pools: dict[PoolId, _PoolNodes] = {}
        self._known: dict[PoolId, dict[int, float]] = defaultdict(dict)

    def wait(self, option: Option) -> float:
        """Seconds until the option's GPUs are free together; infinite if that is not expected."""
        known = self._known[option.pool]
        seconds = known.get(option.takes)
        if seconds is None:
            part, count = self._shape(option)
            soonest = self._nodes(option.pool).soonest(part)
            seconds = known[option.takes] = soonest[count - 1].seconds if len(soonest) >= count else inf
        return seconds

    def take(self, option: Option, seconds: float) -> None:
        """Take the option's GPUs for ``seconds`` as soon as they are free."""
        (part, count), nodes, until = self._shape(option), self._nodes(option.pool), self.wait(option) + seconds
        for free in list(nodes.soonest(part)[:count]):
            nodes.take(free.rental, part, until)
        self._known[option.pool].clear()

    def _shape(self, option: Option) -> tuple[int, int]:
        """The number of GPUs on each node, and the number of nodes."""
        size = self._rooms[option.pool].size
        return min(option.takes, size), max(option.takes // size, 1)

    def _nodes(self, pool: PoolId) -> _PoolNodes:
        if pool not in self._pools:
            self._pools[pool] = _PoolNodes(self._rooms[pool].free, self._held.get(pool, ()))
        return self._pools[pool]


class _FreeNode(NamedTuple):
    """A node with the seconds until it has some GPUs free together.

    Among nodes with equal seconds, the node that is completely free last comes first. ``all_free``: the negative
    seconds until the node is completely free.
    """

    seconds: float
    all_free: float
    rental: RentalId


class _PoolNodes:
    """One pool's nodes. ``_free``: seconds until each GPU of a node is free. ``_soonest``: for each number of GPUs,
    nodes in order."""

    def __init__(self, free: Mapping[RentalId, int], held: Iterable[HeldRoom]) -> None:
        self._free = {name: [0.0] * gpus for name, gpus in free.items()}
        self._soonest: dict[int, list[_FreeNode]] = {}
        for run in held:
            self._free[run.rental] += [run.seconds] * run.gpus
        for node in self._free.values():
            node.sort()

    def soonest(self, part: int) -> Sequence[_FreeNode]:
        """The nodes in the order in which they have ``part`` GPUs free, without nodes that never do."""
        if part not in self._soonest:
            enough = [name for name, node in self._free.items() if len(node) >= part]
            self._soonest[part] = sorted([self._key(name, part) for name in enough])
        return self._soonest[part]

    def take(self, rental: RentalId, part: int, until: float) -> None:
        """Take the ``part`` GPUs of the node that become free first."""
        before = {gpus: self._key(rental, gpus) for gpus in self._soonest if len(self._free[rental]) >= gpus}
        self._free[rental] = sorted([*self._free[rental][part:], *[until] * part])
        for gpus, key in before.items():
            order = self._soonest[gpus]
            del order[bisect_left(order, key)]
            insort(order, self._key(rental, gpus))

    def _key(self, rental: RentalId, part: int) -> _FreeNode:
        node = self._free[rental]
        return _FreeNode(node[part - 1], -node[-1], rental)


# The values of options to jobs that share a full pool, in dollars per second (docs/theory/policy.md).
#
#     ρ_j = Σ_{i waits, w_i·θ/u_i < w_j·θ/u_j} w_i·θ / G      dollars per GPU-second; u: GPU-seconds needed, G: GPUs
#     R_jo = ρ_j·g_o·a_o                                      dollars of its room
#     C_jo = w·θ·a_o + m_o + R_jo                             remaining cost of the job on o
#     L_jo = C_jo − min_o C_jo                                additional cost compared with the best option
#     v_jo = w·θ + R_jo/a_o − min(L_jo, T_j/a_o·L_jo + M_jo)/T_j    dollars per second on o, compared with waiting
#
# T is the wait for the job's best option, or the job's life on that option if this is shorter. A job that begins on o
# either stays on o for life, or moves after T for M dollars. A job that is never resized stays. A running job loses
# L/a until other jobs have left.


LEAST = 1.0
"""Minimum remaining seconds of a job in these formulas. Otherwise a second of an almost finished job would be worth any
price."""


@dataclass(frozen=True, slots=True)
class RoomCandidate:
    """A job and its projections, the best first. For a running job, the first projection is staying on ``held``.

    ``restarts``: for a running job, seconds without training at the start of each option. ``moves``: for a waiting job,
    dollars (including time) of a move from each option to the best one; infinite if the job may not be moved. ``wait``:
    seconds until there is room for the best option.
    """

    job: Job
    worth: float
    projections: Sequence[Projection]
    held: HeldGpus | None = None
    restarts: Sequence[float] = ()
    moves: Sequence[float] = ()
    wait: float = inf

    @property
    def index(self) -> float:
        """Smith's index: the value of a second of the job per GPU-second that it still needs."""
        return self.worth / (self.projections[0].option.takes * max(self.projections[0].seconds, LEAST))


class Charges:
    """The price of a GPU-second for a job in a pool that other jobs wait for. The price decreases
    along Smith's order."""

    def __init__(self, waiting: Sequence[RoomCandidate], gpus: Mapping[PoolId, int]) -> None:
        self._gpus = gpus
        self._indices: dict[PoolId, list[float]] = {}
        self._worths: dict[PoolId, list[float]] = {}
        for candidate in sorted(waiting, key=lambda one: (one.index, one.job.id)):
            pool = candidate.projections[0].option.pool
            worths = self._worths.setdefault(pool, [0.0])
            worths.append(worths[-1] + candidate.worth)
            self._indices.setdefault(pool, []).append(candidate.index)

    def of(self, candidate: RoomCandidate) -> Mapping[PoolId, float]:
        """Dollars per GPU-second that the candidate takes from later jobs, by pool that any job waits for."""
        index = candidate.index
        return {
            pool: worths[bisect_left(self._indices[pool], index)] / max(self._gpus[pool], 1)
            for pool, worths in self._worths.items()
        }


def values_of_ways(
    candidate: RoomCandidate, charges: Charges, moves: Sequence[float], wanted_for: float
) -> Sequence[float]:
    """The values of the candidate's options, in their order.

    ``moves``: M by option. ``wanted_for``: mean seconds for which waiting jobs want room. A job that makes room will
    probably be widened again after that time. So it pays for two restarts, in which its time passes and its GPUs are
    billed without being available to other jobs.
    """
    projections = candidate.projections
    price = charges.of(candidate)
    room = [
        price.get(projection.option.pool, 0.0) * projection.option.takes * projection.seconds
        for projection in projections
    ]
    costs = [
        candidate.worth * projection.seconds + projection.dollars + dollars
        for projection, dollars in zip(projections, room, strict=True)
    ]
    least, seconds = min(costs), [max(projection.seconds, LEAST) for projection in projections]
    losses = [(cost - least) / took for cost, took in zip(costs, seconds, strict=True)]
    if candidate.held is None:
        wait = max(candidate.wait, LEAST)
        losses = [
            min(loss * took, loss * wait + move) / wait for loss, took, move in zip(losses, seconds, moves, strict=True)
        ]
    values = [
        candidate.worth + dollars / took - loss for dollars, took, loss in zip(room, seconds, losses, strict=True)
    ]
    if candidate.held is None:
        return values
    lost = [2.0 * restart / wanted_for * least / seconds[0] for restart in candidate.restarts]
    # An option that costs the job more than staying has at most the value of staying, even if its loss is spread over a
    # longer time.
    most = [inf if cost <= costs[0] else values[0] for cost in costs]
    return [min(value, bound) - less for value, bound, less in zip(values, most, lost, strict=True)]


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A job that gets no room now.

    ``worth``: dollars per second of the job. ``waited``: seconds so far. ``target``: seconds until its target;
    infinite without one. ``ends``: its options, including the value of their room to other jobs. ``on_nodes_left``:
    the options without a start-up. ``moves``: dollars, including time, of a move from each option; infinite if it may
    not be moved.
    """

    worth: float
    waited: float
    target: float
    ends: Sequence[Projection]
    on_nodes_left: Sequence[Projection]
    moves: Sequence[float]


def waits_for_room(
    plan: BudgetPlan,
    rooms: Mapping[PoolId, PoolRoom],
    starts: Iterable[Projection],
    others: Sequence[RoomCandidate],
) -> Mapping[JobId, RoomWait]:
    """The jobs that wait, and for what. ``starts``: the options that start now. ``others``: jobs without room, in
    Smith's order."""
    if not others:
        return {}
    room, jobs = RoomToCome(rooms, _held(plan, rooms)), _UnplacedJobs(plan)
    for start in starts:
        room.take(start.option, start.seconds)
    found: dict[JobId, RoomWait] = {}
    for candidate in others:
        wait = choose(jobs.unplaced(candidate), room)
        if wait is not None:
            found[candidate.job.id] = wait
    return found


def choose(job: Unplaced, room: RoomToCome) -> RoomWait | None:
    """The wait of the job; None if starting on free GPUs is better. The chosen GPUs are taken from ``room``."""
    seconds = [room.wait(end.option) for end in job.ends]
    wait = _best_wait(job, seconds)
    now = _best_now(job, seconds, wait)
    if wait is not None and now is not None:
        wait = _if_it_pays(job, wait, now)
    if wait is not None:
        room.take(wait.option, wait.end.seconds - wait.seconds)
    elif now is not None:
        room.take(now.end.option, now.end.seconds)
    return wait


@dataclass(frozen=True, slots=True)
class _Left:
    """Free GPUs. ``end``: the job's end on these GPUs. ``costs``: dollars of starting there, including a move to the
    option waited for."""

    end: Projection
    costs: float


def _best_wait(job: Unplaced, seconds: Sequence[float]) -> RoomWait | None:
    """The best option to wait for; None without one. ``seconds``: until the GPUs of each option are free."""
    in_sight = [
        (end.total_cost + job.worth * wait, wait, end)
        for end, wait in zip(job.on_nodes_left, seconds, strict=True)
        if 0.0 < wait < inf
    ]
    if not in_sight:
        return None
    _, wait, end = min(in_sight, key=lambda entry: entry[0])
    return RoomWait(wait, end.on_nodes_left(wait, 0.0, job.worth))


def _best_now(job: Unplaced, seconds: Sequence[float], wait: RoomWait | None) -> _Left | None:
    """The best option on free GPUs; None without one."""
    left = [
        _Left(end, _cost_of_beginning(job, end, move, wait))
        for end, move, free_in in zip(job.ends, job.moves, seconds, strict=True)
        if free_in <= 0.0
    ]
    return min(left, key=lambda one: one.costs, default=None)


def _cost_of_beginning(job: Unplaced, end: Projection, move: float, wait: RoomWait | None) -> float:
    """The cost of a start on these GPUs, either for life or until a move to the GPUs for which the job would wait."""
    if wait is None:
        return end.total_cost
    there = wait.end.total_cost - job.worth * wait.seconds
    lost = end.total_cost - there
    return there + min(lost, wait.seconds / max(end.seconds, LEAST) * lost + move)


def _if_it_pays(job: Unplaced, wait: RoomWait, now: _Left) -> RoomWait | None:
    if wait.end.seconds > job.target >= now.end.seconds:
        return None
    spare = now.costs - wait.end.total_cost - job.worth * job.waited
    if spare <= 0.0:
        return None
    # each second of delay counts twice: after it has passed, one more is expected
    until = wait.seconds + spare / job.worth / 2.0 if job.worth else inf
    return replace(wait, instead=now.end, until=until)


class _UnplacedJobs:
    """Compares options for one budget's jobs. Jobs with the same list of options share its results."""

    def __init__(self, plan: BudgetPlan) -> None:
        self._plan = plan
        self._prices = room_prices(plan.solution)
        self._known: dict[tuple[int, float], tuple[Sequence[Projection], Sequence[Projection]]] = {}

    def unplaced(self, one: RoomCandidate) -> Unplaced:
        """The job with the values that follow from its options."""
        need = self._plan.solution.deadline_needs.get(one.job.id)
        ends, on_nodes_left = self._ends(one.projections, one.worth)
        waited = waited_seconds(one.job, self._plan.snapshot.now)
        return Unplaced(one.worth, waited, inf if need is None else need.left, ends, on_nodes_left, one.moves)

    def _ends(self, options: Sequence[Projection], worth: float) -> tuple[Sequence[Projection], Sequence[Projection]]:
        key = id(options), worth
        if key not in self._known:
            ends = [self._charged(end) for end in options]
            start_up = self._plan.placer.start_up
            self._known[key] = ends, [end.on_nodes_left(0.0, start_up(end.option), worth) for end in ends]
        return self._known[key]

    def _charged(self, end: Projection) -> Projection:
        price = self._prices.get(end.option.pool, 0.0)
        return replace(end, total_cost=end.total_cost + price * end.option.takes * end.seconds) if price else end


def _held(plan: BudgetPlan, rooms: Mapping[PoolId, PoolRoom]) -> Iterable[HeldRoom]:
    """The room that runs hold. GPUs of other pods, and of runs that were told to stop, have no known end."""
    pool_of = {rental: pool for pool, room in rooms.items() for rental in room.free}
    for kept in plan.jobs.running:
        assignment = plan.solution.assignments.get(kept.group.key)
        for facts in () if assignment is None else kept.runners.values():
            allocation = facts.job.allocation
            if assignment is None or allocation is None:
                continue
            group = assignment.group
            seconds = seconds_left(facts.job, group.work, sized=group.sized, now=plan.snapshot.now)
            for place in allocation.placements:
                if place.rental in pool_of:
                    yield HeldRoom(pool_of[place.rental], place.rental, place.takes, seconds)
